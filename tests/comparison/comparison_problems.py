"""Small tables and estimators for the tests of compare."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin

SMALL = {"hidden": (16,), "max_epochs": 12, "learning_rate": 0.02, "dropout": 0.0}


def blobs(rows=120, classes=3, distance=3.0, seed=0):
    """Classes of equal size around centres that are ``distance`` apart."""
    rng = np.random.default_rng(seed)
    y = np.arange(rows) % classes
    centres = distance * np.eye(classes)
    return rng.normal(size=(rows, classes)) + centres[y], y


def overlapping(rows=700, seed=0):
    """Two classes, one of them rare, that a threshold of one half rarely calls rare."""
    rng = np.random.default_rng(seed)
    y = (np.arange(rows) % 8 == 0).astype(int)
    return rng.normal(size=(rows, 3)) + 0.7 * y[:, None], y


class Majority(ClassifierMixin, BaseEstimator):
    """Predicts the most frequent class; remembers in ``fits`` how often any copy was fitted."""

    fits = 0

    def fit(self, X, y):
        type(self).fits += 1
        self.classes_, counts = np.unique(y, return_counts=True)
        self.winner_ = self.classes_[counts.argmax()]
        return self

    def predict(self, X):
        return np.full(len(X), self.winner_)


class Random(ClassifierMixin, BaseEstimator):
    """Predicts at random, from NumPy's global generator."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return np.random.choice(self.classes_, len(X))  # noqa: NPY002  # as some estimators do


class FailsSometimes(Majority):
    """Fails where the first training row has a negative first feature (or everywhere)."""

    def __init__(self, always=False):
        self.always = always

    def fit(self, X, y):
        if self.always or X[0, 0] < np.median(X[:, 0]):
            raise RuntimeError("out of\nluck")
        return super().fit(X, y)


class RecordsRows(TransformerMixin, BaseEstimator):
    """Passes features on; keeps in ``seen`` the row numbers (first column) it was fitted on."""

    seen: list = []  # noqa: RUF012  # shared by copies on purpose

    def fit(self, X, y=None):
        self.seen.append(X[:, 0].astype(int).tolist())
        return self

    def transform(self, X):
        return X[:, 1:]


class KillsItsProcess(Majority):
    """Ends its process as the operating system does when memory is short: the first time, or every time."""

    def __init__(self, marker, always=False):
        self.marker = marker
        self.always = always

    def fit(self, X, y):
        if self.always or not Path(self.marker).exists():
            Path(self.marker).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().fit(X, y)
