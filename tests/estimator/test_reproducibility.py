"""One seed gives one model; the user's random state is untouched; Ctrl-C keeps the best model so far."""

from __future__ import annotations

import logging
import random

import numpy as np
import pytest
import torch
from small_models import clusters, quick, same_model

from eastward.training import Callback


@pytest.fixture(scope="module")
def table():
    return clusters()


@pytest.mark.parametrize("recipe", ["auto", "paper", "cross_entropy"])
def test_the_same_random_state_gives_the_same_bits(table, recipe):
    torch.manual_seed(1)
    first = quick(recipe=recipe).fit(*table)
    torch.manual_seed(2)
    np.random.seed(3)  # noqa: NPY002 - the generator that must not matter
    second = quick(recipe=recipe).fit(*table)
    assert same_model(first, second)
    assert first.report_ == second.report_


def test_another_random_state_gives_another_model(table):
    assert not same_model(quick(random_state=0).fit(*table), quick(random_state=1).fit(*table))


@pytest.mark.slow
def test_a_generator_moves_on(table):
    state = np.random.RandomState(0)
    first, second = quick(random_state=state).fit(*table), quick(random_state=state).fit(*table)
    assert not same_model(first, second)


def test_global_random_states_are_left_alone(table):
    before = torch.get_rng_state(), np.random.get_state()[1].copy(), random.getstate()  # noqa: NPY002
    model = quick().fit(*table)
    model.predict(table[0])
    assert torch.get_rng_state().equal(before[0])
    assert np.array_equal(np.random.get_state()[1], before[1])  # noqa: NPY002
    assert random.getstate() == before[2]


@pytest.mark.slow
def test_without_a_random_state_models_differ(table):
    first, second = quick(random_state=None).fit(*table), quick(random_state=None).fit(*table)
    assert not same_model(first, second)


def test_the_data_are_not_changed(table):
    X, y = table[0].copy(), table[1].copy()
    frozen = X.astype(np.float32)
    frozen.setflags(write=False)
    quick(max_epochs=1).fit(frozen, y).predict(frozen)
    assert np.array_equal(frozen, table[0].astype(np.float32))


class CtrlC(Callback):
    """What a keyboard interrupt in the middle of an epoch does, at a chosen one."""

    def __init__(self, stage, epoch):
        self.stage, self.epoch = stage, epoch
        self.losses, self.states = [], []

    def epoch_start(self, run):
        if (run.stage.name, run.epoch + 1) == (self.stage, self.epoch):
            raise KeyboardInterrupt

    def epoch_end(self, run):
        self.losses.append(run.valid_losses.tolist())
        self.states.append([run.members.member_state(k) for k in range(run.members.size)])


def test_ctrl_c_ends_training_and_keeps_the_best_model(table, caplog):
    X, y = table
    stopper = CtrlC("cross-entropy", 4)
    with caplog.at_level(logging.WARNING):
        model = quick(callbacks=[stopper], max_epochs=50).fit(X, y)
    (note,) = model.report_["notes"]
    expected = "stopped by hand in stage 'cross-entropy', epoch 3; the best weights so far are kept"
    assert note == expected
    assert expected in caplog.text
    assert model.report_["interrupted"] is True
    assert [stage["name"] for stage in model.report_["stages"]] == ["cross-entropy"]
    assert model.n_iter_ == 3
    best = np.argmin(stopper.losses, axis=0)
    for k, epoch in enumerate(best):
        for name, value in model.members_.member_state(k).items():
            assert value.equal(stopper.states[epoch][k][name])
    assert model.predict(X).shape == y.shape
    assert 0 < model.score(X, y) <= 1


def test_ctrl_c_in_the_aligned_stage_keeps_a_model_no_worse_than_its_start(table):
    X, y = table

    class Spoil(Callback):
        """Ruins the networks, and then comes Ctrl-C."""

        def epoch_start(self, run):
            if run.stage.name == "aligned" and run.epoch == 2:
                with torch.no_grad():
                    for parameter in run.members.parameters():
                        parameter.zero_()
                raise KeyboardInterrupt

    model = quick(callbacks=[Spoil()], max_epochs=10).fit(X, y)
    assert "stopped by hand in stage 'aligned', epoch 2" in model.report_["notes"][-1]
    first, second = model.report_["stages"]
    assert second["argmax"] > first["argmax"] - 0.05
    assert len(np.unique(model.predict(X))) > 1
