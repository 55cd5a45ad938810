"""Small tables, and classifiers that are quickly fitted to them."""

from __future__ import annotations

import numpy as np
import pandas as pd
from sklearn.datasets import make_classification

from eastward.estimators.boosting import EASTBoostingClassifier

BACKENDS = ["lightgbm", "xgboost"]


def quick(backend="lightgbm", **changes):
    options = {"n_estimators": 15, "aligned_rounds": 8, "cv": 3, "n_bags": 2, "random_state": 0}
    return EASTBoostingClassifier("f1_macro", backend, **{**options, **changes})


def table(classes=3, rows=400):
    X, y = make_classification(
        rows,
        8,
        n_informative=5,
        n_classes=classes,
        weights=[0.8, 0.2] if classes == 2 else [0.7, 0.2, 0.1],
        class_sep=0.6,
        flip_y=0.1,
        random_state=1,
    )
    return X, y


def frame(rows=300, seed=0):
    """A table with categories, text and holes, in which all of them matter."""
    rng = np.random.default_rng(seed)
    colour = rng.choice(["red", "green", "blue"], rows)
    size = rng.choice([1, 2, 3], rows)
    weight = np.where(rng.random(rows) < 0.2, np.nan, rng.normal(size=rows))
    risky = (colour == "red") ^ (size == 3) ^ np.isnan(weight)
    y = np.where(risky ^ (rng.random(rows) < 0.05), "bad", "good")
    X = pd.DataFrame(
        {"colour": colour, "size": pd.Categorical(size), "weight": weight, "flag": risky * 0}
    )
    return X, y
