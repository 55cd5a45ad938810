"""`EASTClassifier(prior=)`: the class frequencies that a model is judged by."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.datasets import make_classification
from sklearn.metrics import balanced_accuracy_score, f1_score
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from eastward import EASTClassifier

QUICK = {"hidden": (16,), "max_epochs": 30, "patience": 8, "random_state": 0}


def long_tailed(size=900, seed=0):
    return make_classification(
        size,
        8,
        n_informative=5,
        n_classes=3,
        n_clusters_per_class=1,
        class_sep=0.8,
        weights=[0.85, 0.1, 0.05],
        random_state=seed,
    )


def balanced_rows(X, y):
    rows = [np.flatnonzero(y == label)[: np.bincount(y).min()] for label in np.unique(y)]
    return np.concatenate(rows)


@pytest.mark.parametrize("prior", ["balanced", [1 / 3] * 3, {0: 1 / 3, 1: 1 / 3, 2: 1 / 3}])
def test_three_ways_to_say_balanced_are_one(prior):
    X, y = long_tailed(300)
    said = EASTClassifier(prior=prior, n_folds=2, **QUICK).fit(X, y)
    plain = EASTClassifier(prior="balanced", n_folds=2, **QUICK).fit(X, y)
    np.testing.assert_array_equal(said.predict_proba(X), plain.predict_proba(X))
    np.testing.assert_allclose(said.decision_.prior, 1 / 3, atol=1e-6)
    assert "equal class frequencies" in said.summary()


@pytest.mark.slow
def test_a_balanced_test_is_decided_better_with_its_prior():
    X, y = long_tailed(2400)
    train, test = slice(0, 900), slice(900, None)
    rows = balanced_rows(X[test], y[test])
    scores = {}
    for prior in (None, "balanced"):
        model = EASTClassifier("f1_macro", prior=prior, **QUICK).fit(X[train], y[train])
        found = model.predict(X[test][rows])
        scores[prior] = f1_score(y[test][rows], found, average="macro")
    assert scores["balanced"] > scores[None] + 0.01


def test_the_frequencies_of_training_change_nothing_but_weights():
    X, y = long_tailed(300)
    prior = np.bincount(y) / len(y)
    said = EASTClassifier(prior=prior, recipe="cross_entropy", n_folds=2, **QUICK).fit(X, y)
    plain = EASTClassifier(recipe="cross_entropy", n_folds=2, **QUICK).fit(X, y)
    # Members train on nearly, not exactly, these frequencies.
    np.testing.assert_allclose(
        said.raw_predict_proba(X), plain.raw_predict_proba(X), rtol=0.05, atol=0.01
    )


def test_cross_entropy_is_shifted_by_the_ratio_of_frequencies():
    X, y = long_tailed(300)
    options = {"recipe": "cross_entropy", "n_folds": 1, **QUICK}
    shifted = EASTClassifier(prior="balanced", **options).fit(X, y).raw_predict_proba(X)
    plain = EASTClassifier(**options).fit(X, y).raw_predict_proba(X)
    moved = np.log(shifted) - np.log(plain)
    between = moved - moved[:, :1]
    np.testing.assert_allclose(between, np.broadcast_to(between[0], between.shape), atol=1e-4)
    expected = -np.log(np.bincount(y) / len(y))
    np.testing.assert_allclose(between[0], expected - expected[0], atol=0.1)


@pytest.mark.parametrize("outputs", [2, 1])
def test_a_module_and_a_loader_know_the_prior(outputs):
    X, y = long_tailed(400)
    X, y = torch.from_numpy(X).float(), torch.from_numpy((y > 0).astype(int))
    network = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, outputs))
    options = {"module": network, "max_epochs": 10, "random_state": 0, "prior": "balanced"}
    in_memory = EASTClassifier("balanced_accuracy", **options).fit(X, y.numpy())
    loader = DataLoader(TensorDataset(X[:300], y[:300]), 64)
    loaded = EASTClassifier("balanced_accuracy", **options).fit(
        loader, validation_data=(X[300:], y[300:].numpy())
    )
    for model in (in_memory, loaded):
        np.testing.assert_allclose(model.decision_.prior, 0.5, atol=1e-6)
        assert balanced_accuracy_score(y, model.predict(X)) > 0.7


def test_all_rows_and_a_prior_go_together():
    X, y = long_tailed(300)
    model = EASTClassifier(prior="balanced", refit=True, n_folds=1, **QUICK).fit(X, y)
    assert set(model.predict(X)) == {0, 1, 2}


def test_the_prior_is_saved(tmp_path):
    X, y = long_tailed(300)
    model = EASTClassifier(prior=[0.2, 0.4, 0.4], n_folds=2, **QUICK).fit(X, y)
    model.save(tmp_path / "model")
    again = EASTClassifier.load(tmp_path / "model")
    assert list(again.prior) == [0.2, 0.4, 0.4]
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


@pytest.mark.parametrize(
    ("prior", "message"),
    [
        ("even", "prior of EASTClassifier.fit must be one of .balanced."),
        ([0.5, 0.5], "of length 3"),
        ([0.5, 0.5, 0.5], "sums to 1"),
        ({0: 0.5, 1: 0.5}, "given for the classes"),
    ],
)
def test_a_prior_that_makes_no_sense_is_refused(prior, message):
    X, y = long_tailed(120)
    with pytest.raises(ValueError, match=message):
        EASTClassifier(prior=prior, **QUICK).fit(X, y)


def test_a_prior_needs_classes_and_a_bias():
    X, y = long_tailed(120)
    with pytest.raises(ValueError, match="do not exclude each other"):
        EASTClassifier(prior="balanced", **QUICK).fit(X, np.eye(3, dtype=int)[y])
    bare = nn.Linear(8, 3, bias=False)
    with pytest.raises(ValueError, match="bias"):
        EASTClassifier(prior="balanced", module=bare, max_epochs=2).fit(X.astype("f4"), y)
