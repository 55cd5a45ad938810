"""One network that continues with the held-out rows: which rows each stage trains on, and what the report says."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch
from small_models import clusters, quick, same_model
from torch.utils.data import DataLoader, TensorDataset

from eastward.training import Callback


@pytest.fixture(scope="module")
def table():
    return clusters()


class Watch(Callback):
    """Rows of each stage, and the last bias at its start and at the end of the one before."""

    def __init__(self):
        self.rows, self.starts, self.ends = {}, {}, {}

    def stage_start(self, run):
        self.rows[run.stage.name] = sorted(run.rows.train[0].tolist())
        self.starts[run.stage.name] = run.members.member_state(0)

    def stage_end(self, run):
        self.ends[run.stage.name] = run.members.member_state(0)


def last_bias(state):
    return list(state.values())[-1].flatten()


@pytest.mark.slow
def test_the_last_stages_train_on_every_row_and_as_long_as_the_first(table):
    watch = Watch()
    model = quick(n_folds=1, refit=True, callbacks=[watch]).fit(*table)
    assert list(watch.rows) == ["cross-entropy", "all rows", "aligned"]
    everything = list(range(len(table[1])))
    assert len(watch.rows["cross-entropy"]) == pytest.approx(0.8 * len(everything), abs=3)
    assert watch.rows["all rows"] == watch.rows["aligned"] == everything
    epochs = [sum(r["stage"] == name for r in model.history_) for name in watch.rows]
    assert epochs[1] == epochs[2] >= epochs[0]


def test_the_decision_comes_from_rows_that_had_not_been_seen(table):
    """What is folded into the bias is what a run without the last stages would fold in."""
    with_refit, without = Watch(), Watch()
    quick(n_folds=1, refit=True, callbacks=[with_refit]).fit(*table)
    quick(n_folds=1, callbacks=[without]).fit(*table)
    moved = [
        last_bias(watch.starts["aligned"]) - last_bias(watch.ends[before])
        for watch, before in ((with_refit, "all rows"), (without, "cross-entropy"))
    ]
    assert torch.allclose(*moved, atol=1e-5)
    assert moved[0].abs().max() > 1e-3


def test_the_report_is_of_what_was_held_out(table):
    model = quick(n_folds=1, refit=True).fit(*table)
    assert [stage["name"] for stage in model.report_["stages"]] == ["cross-entropy"]
    assert "went on with all rows" in model.report_["sentences"][-1]
    assert not model.offsets_.any()
    assert model.score(*table) > 0.6


def test_a_run_that_broke_off_among_all_rows_ends_in_the_same_bits(tmp_path, table, monkeypatch):
    monkeypatch.setenv("EASTWARD_CHECKPOINT_SECONDS", "0")

    class Break(Callback):
        def epoch_end(self, run):
            if (run.stage.name, run.epoch) == ("aligned", 3):
                raise MemoryError

    options = {"n_folds": 1, "refit": True, "checkpoint": tmp_path}
    with pytest.raises(MemoryError):
        quick(callbacks=[Break()], **options).fit(*table)
    resumed = quick(callbacks=[Callback()], **options).fit(*table)
    assert same_model(resumed, quick(n_folds=1, refit=True).fit(*table))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_folds": 5}, "refit of EASTClassifier must be False for .*n_folds=5"),
        ({"n_folds": "auto"}, "refit of EASTClassifier must be False for .*Set n_folds=1"),
        ({"n_folds": 1, "recipe": "paper"}, "refit of EASTClassifier must be False without"),
        ({"n_folds": 1, "aligned": False}, "refit of EASTClassifier must be False without"),
        ({"n_folds": 1, "tune_decision": True}, "tune_decision of EASTClassifier must be 'auto'"),
        ({"n_folds": 1, "refit": "yes"}, "refit of EASTClassifier must be one of True, False"),
    ],
)
def test_options_that_exclude_each_other_are_refused(table, changes, message):
    with pytest.raises(ValueError, match=re.compile(message, re.DOTALL)):
        quick(**{"refit": True, **changes}).fit(*table)


def test_rows_of_ones_own_to_judge_by_are_not_trained_on(table):
    X, y = (np.asarray(part) for part in table)
    with pytest.raises(ValueError, match=r"refit of EASTClassifier .* got validation_data"):
        quick(n_folds=1, refit=True).fit(X, y, validation_data=(X[:20], y[:20]))
    codes = np.unique(y, return_inverse=True)[1]
    tensors = TensorDataset(torch.from_numpy(X).float(), torch.from_numpy(codes))
    loader = DataLoader(tensors, batch_size=32)
    network = {"module": lambda *_: torch.nn.Linear(X.shape[1], codes.max() + 1)}
    with pytest.raises(ValueError, match=r"refit of EASTClassifier .* got a DataLoader"):
        quick(refit=True, n_folds=1, **network).fit(loader, validation_data=loader)
