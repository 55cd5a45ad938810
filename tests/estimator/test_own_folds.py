"""Cross-fitted networks of one's own: ``EASTClassifier(module=..., n_folds=k)``."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from sklearn import metrics as reference
from sklearn.utils import check_random_state
from small_models import clusters, quick, same_model
from torch import nn

from eastward.estimators.network import EASTClassifier
from eastward.training import Callback, SeparateMembers, SoloMember, assign_folds


@pytest.fixture(scope="module")
def table():
    return clusters()


def network(n_features, n_classes):
    return nn.Sequential(nn.Linear(n_features, 8), nn.ReLU(), nn.Linear(8, n_classes))


def normalised(n_features, n_classes):
    layers = [nn.Linear(n_features, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.2)]
    return nn.Sequential(*layers, nn.Linear(8, n_classes))


def one_logit(n_features, _n_classes):
    return nn.Linear(n_features, 1)


def convolution(n_channels, n_classes):
    layers = [nn.Conv2d(n_channels, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten()]
    return nn.Sequential(*layers, nn.Linear(4 * 16, n_classes))


class TwoInputs(nn.Module):
    def __init__(self, _n_features, n_classes):
        super().__init__()
        self.output = nn.Linear(4, n_classes)

    def forward(self, inputs):
        return self.output(torch.cat([inputs["left"], inputs["right"]], dim=1))


def images(y):
    X = 0.3 * np.random.default_rng(0).normal(size=(len(y), 1, 6, 6))
    X[np.arange(len(y)), 0, 2 * y, 2 * y] += 3
    return X


def halves(X):
    return {"left": torch.from_numpy(X[:, :2]), "right": torch.from_numpy(X[:, 2:])}


PROBLEMS = {
    "layers": (network, lambda X, y: (X, y)),
    "batch norm and dropout": (normalised, lambda X, y: (X, y)),
    "one logit": (one_logit, lambda X, y: (X, y > 0)),
    "several labels": (network, lambda X, y: (X, np.eye(3, dtype=int)[y])),
    "images": (convolution, lambda _, y: (images(y), y)),
    "a dictionary": (TwoInputs, lambda X, y: (halves(X), y)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PROBLEMS)
def test_every_kind_of_module_is_cross_fitted_saved_and_loaded(name, table, tmp_path):
    module, problem = PROBLEMS[name]
    X, y = problem(*table)
    settings = {"module": module, "n_folds": 3, "max_epochs": 25}
    model = quick(**settings).fit(X, y)
    assert (model.n_folds_, model.members_.size) == (3, 3)
    assert model.report_["held_out_rows"] == len(y)
    probabilities = model.predict_proba(X)
    assert probabilities.shape == (len(y), len(model.classes_))
    assert model.score(X, y) > 0.5
    assert same_model(model, quick(**settings).fit(X, y))
    assert not same_model(model, quick(**{**settings, "random_state": 1}).fit(X, y))

    model.save(tmp_path / "model")
    loaded = EASTClassifier.load(tmp_path / "model", module=module)
    assert same_model(model, loaded)
    assert np.array_equal(loaded.predict_proba(X), probabilities)


def members_logits(model, X):
    inputs = torch.from_numpy(X.astype(np.float32))
    solos = model.members_.networks
    return [solo.module(inputs).detach().double() for solo in solos]


def test_the_mean_of_the_networks_decides(table):
    X, y = table
    model = quick(module=normalised, n_folds=3, tune_decision=True).fit(X, y)
    each = torch.stack([logits.softmax(1) for logits in members_logits(model, X)])
    assert not torch.allclose(each[0], each[1], atol=1e-3), (
        "each has its own start and its own rows"
    )
    np.testing.assert_allclose(model.raw_predict_proba(X), each.mean(0), atol=1e-6)
    calibrated = model.calibration_.apply(each.mean(0).numpy())
    np.testing.assert_allclose(model.predict_proba(X), calibrated, atol=1e-6)
    assert np.array_equal(model.predict(X), model.decision_.decide(model.predict_proba(X)))


def test_held_out_rows_are_judged_by_the_network_that_did_not_see_them(table):
    X, y = table
    model = quick(module=normalised, n_folds=3, max_epochs=15).fit(X, y)
    seed = int(check_random_state(model.random_state).randint(2**31 - 1))
    folds = assign_folds(torch.from_numpy(y), 3, torch.Generator().manual_seed(seed))
    right = torch.empty(len(y), dtype=torch.long)
    wrong = right.clone()
    for k, logits in enumerate(members_logits(model, X)):
        right[folds == k] = logits[folds == k].argmax(1)
        wrong[folds == (k + 1) % 3] = logits[folds == (k + 1) % 3].argmax(1)
    honest, flattering = (reference.f1_score(y, p, average="macro") for p in (right, wrong))
    shipped = {stage["name"]: stage for stage in model.report_["stages"]}[model.report_["shipped"]]
    assert shipped["argmax"] == pytest.approx(honest)
    assert honest != pytest.approx(flattering)


class Seen(Callback):
    """Rows that each member was trained on."""

    def __init__(self):
        self.rows = None

    def stage_start(self, run):
        plain = run.source.epoch

        def recorded(*arguments):
            for chosen in plain(*arguments):
                self.rows = self.rows or [set() for _ in chosen]
                for own, batch in zip(self.rows, chosen.tolist(), strict=True):
                    own.update(batch)
                yield chosen

        run.source.epoch = recorded
        self.valid = [set(part.tolist()) for part in run.rows.valid]


def test_no_network_is_trained_on_its_own_held_out_rows(table):
    seen = Seen()
    quick(module=network, n_folds=3, callbacks=[seen]).fit(*table)
    assert all(not own & held for own, held in zip(seen.rows, seen.valid, strict=True))
    assert set.union(*seen.valid) == set(range(len(table[1])))


@pytest.mark.slow
def test_class_weights_are_sample_weights(table):
    X, y = table
    settings = {"module": network, "n_folds": 2}
    weighted = quick(class_weight={2: 9.0}, **settings).fit(X, y)
    by_row = quick(**settings).fit(X, y, sample_weight=np.where(y == 2, 9.0, 1.0))
    assert same_model(weighted, by_row)
    assert not same_model(weighted, quick(**settings).fit(X, y))


def test_a_module_given_as_such_is_the_start_of_every_network(table):
    X, y = table
    module = network(4, 3)
    before = copy.deepcopy(module.state_dict())
    still = {"max_epochs": 1, "learning_rate": 1e-9, "recipe": "cross_entropy"}
    model = quick(module=module, n_folds=2, **still).fit(X, y)
    for solo in model.members_.networks:
        for name, value in solo.module.state_dict().items():
            torch.testing.assert_close(value, before[name], atol=1e-6, rtol=0)
    trained = quick(module=module, n_folds=2).fit(X, y)
    first, second = (solo.module[0].weight for solo in trained.members_.networks)
    assert not torch.allclose(first, second)
    assert all(module.state_dict()[name].equal(before[name]) for name in before)


def test_networks_that_share_parameters_are_refused(table):
    shared = nn.Linear(4, 3)
    message = "module of EASTClassifier must be a factory that builds a new network at each call"
    with pytest.raises(ValueError, match=message):
        quick(module=lambda *_: nn.Sequential(shared), n_folds=2).fit(*table)


@pytest.mark.slow
def test_one_network_needs_no_list_of_them(table):
    X, y = table
    assert isinstance(quick(module=network, n_folds=1).fit(X, y).members_, SoloMember)
    assert quick(module=network, n_folds="auto").fit(X, y).n_folds_ == 1
    held = quick(module=network, n_folds=3).fit(X[:99], y[:99], validation_data=(X[99:], y[99:]))
    assert held.n_folds_ == 1
    assert isinstance(quick(module=network, n_folds=2).fit(X, y).members_, SeparateMembers)


class StopInAlignedStage(Callback):
    def epoch_end(self, run):
        if (run.stage.name, run.epoch) == ("aligned", 3):
            raise MemoryError


@pytest.mark.slow
def test_a_run_that_was_stopped_goes_on_to_the_same_bits(table, tmp_path, monkeypatch):
    monkeypatch.setenv("EASTWARD_CHECKPOINT_SECONDS", "0")
    settings = {"module": normalised, "n_folds": 2, "patience": 1}
    stopped = quick(checkpoint=tmp_path, callbacks=[StopInAlignedStage()], **settings)
    with pytest.raises(MemoryError):
        stopped.fit(*table)
    resumed = quick(checkpoint=tmp_path, callbacks=[Callback()], **settings).fit(*table)
    assert same_model(resumed, quick(**settings).fit(*table))
