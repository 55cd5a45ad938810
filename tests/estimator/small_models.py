"""Small data and quick classifiers for the tests of EASTClassifier."""

from __future__ import annotations

import numpy as np

from eastward.estimators.network import EASTClassifier


def clusters(counts=(90, 45, 15), features=4, seed=0, spread=0.8):
    """A table with one cloud of rows for each class, and the classes."""
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(len(counts)), counts)
    centres = rng.normal(size=(len(counts), features))
    X = centres[y] + spread * rng.normal(size=(len(y), features))
    order = rng.permutation(len(y))
    return X[order], y[order]


def quick(metric="f1_macro", **changes) -> EASTClassifier:
    """A classifier that fits in a moment."""
    settings = {
        "hidden": (16,),
        "n_folds": 2,
        "max_epochs": 6,
        "learning_rate": 1e-2,
        "random_state": 0,
    }
    if "module" in changes:
        settings["n_folds"] = 1
    return EASTClassifier(metric, **{**settings, **changes})


def weights_of(model):
    return {name: value.numpy() for name, value in model.members_.state_dict().items()}


def same_model(first, second) -> bool:
    """Whether two fitted classifiers hold the same bits."""
    ours, theirs = weights_of(first), weights_of(second)
    return (
        ours.keys() == theirs.keys()
        and all(np.array_equal(ours[name], theirs[name]) for name in ours)
        and np.array_equal(decided(first), decided(second))
    )


def decided(model):
    """What decides: the matrix, or the offsets of labels that do not exclude each other."""
    return model.offsets_ if model.multilabel_ else model.decision_.matrix
