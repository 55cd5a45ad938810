"""Quick ensembles for the tests."""

from __future__ import annotations

import numpy as np
import pytest

from eastward.estimators.ensemble import EASTEnsembleClassifier, trees


@pytest.fixture(autouse=True)
def few_trees(monkeypatch):
    """Forests of forty trees: enough that every row is missed by some."""
    monkeypatch.setattr(trees, "NUM_TREES", 40)


@pytest.fixture
def clusters():
    """An imbalanced table of three clouds."""

    def make(counts=(90, 45, 15), features=4, seed=0):
        rng = np.random.default_rng(seed)
        y = np.repeat(np.arange(len(counts)), counts)
        centres = rng.normal(size=(len(counts), features))
        X = centres[y] + 0.8 * rng.normal(size=(len(y), features))
        order = rng.permutation(len(y))
        return X[order].astype(np.float32), y[order]

    return make


@pytest.fixture
def quick():
    """An ensemble that fits in a moment."""

    def make(metric="f1_macro", **changes):
        network = {"hidden": (16,), "max_epochs": 6, "learning_rate": 1e-2}
        parts = ("networks", "lightgbm", "extra_trees", "random_forest")
        settings = {"n_folds": 3, "n_bags": 3, "network_options": network, "random_state": 0}
        settings["parts"] = parts
        return EASTEnsembleClassifier(metric, **{**settings, **changes})

    return make
