"""Trees as arrays give the numbers of LightGBM and scikit-learn, and forged ones are refused."""

from __future__ import annotations

import lightgbm
import numpy as np
import pytest
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier

from eastward.estimators.ensemble.flat_trees import (
    FlatTrees,
    Nodes,
    forest_nodes,
    lightgbm_nodes,
)

FEATURES = 5


def table(rows: int, gaps: float, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    # Few distinct values: many rows lie exactly on a threshold.
    values = rng.integers(-4, 5, (rows, FEATURES)).astype(np.float32) / 3
    return np.where(rng.random(values.shape) < gaps, np.float32(np.nan), values)


def labels(X: np.ndarray, classes: int) -> np.ndarray:
    return np.digitize(np.nan_to_num(X).sum(1), np.linspace(-1, 1, classes - 1))


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize("rounds", [1, 30])
def test_lightgbms_scores_to_the_last_bit(classes, missing, rounds):
    X = table(400, missing)
    kind = {"objective": "binary"}
    if classes > 2:
        kind = {"objective": "multiclass", "num_class": classes}
    parameters = {
        **kind,
        "verbosity": -1,
        "num_leaves": 15,
        "min_data_in_leaf": 5,
        "num_threads": 1,
    }
    booster = lightgbm.train(parameters, lightgbm.Dataset(X, labels(X, classes)), rounds)
    outputs = 1 if classes == 2 else classes
    trees = FlatTrees(lightgbm_nodes(booster.model_to_string(), outputs), FEATURES)
    # Gaps may come later where training had none, and the other way round.
    for later in (table(333, 0.0, seed=1), table(333, 0.3, seed=2), table(1, 0.0, seed=3)):
        expected = booster.predict(later, raw_score=True, num_threads=1).reshape(-1, outputs)
        assert np.array_equal(trees.sums(later), expected)


def test_a_model_of_lightgbm_that_never_split():
    X = table(40, 0.0)
    parameters = {"objective": "binary", "verbosity": -1, "min_data_in_leaf": 100}
    booster = lightgbm.train(parameters, lightgbm.Dataset(X, labels(X, 2)), 3)
    trees = FlatTrees(lightgbm_nodes(booster.model_to_string(), 1), FEATURES)
    assert np.array_equal(trees.sums(X)[:, 0], booster.predict(X, raw_score=True))


@pytest.mark.parametrize("kind", [RandomForestClassifier, ExtraTreesClassifier])
@pytest.mark.parametrize("classes", [2, 4])
def test_scikit_learns_probabilities_to_the_last_bit(kind, classes):
    X = table(300, 0.0)
    forest = kind(30, bootstrap=True, random_state=0).fit(X, labels(X, classes))
    trees = FlatTrees(forest_nodes(forest), FEATURES)
    for later in (table(200, 0.0, seed=1), table(1, 0.0, seed=2)):
        expected = np.mean([tree.predict_proba(later) for tree in forest.estimators_], axis=0)
        np.testing.assert_allclose(trees.sums(later) / 30, expected, rtol=1e-15)


def stump(**forged):
    parts = {
        "feature": [1, 0, 0],
        "threshold": [0.5, 0.0, 0.0],
        "left": [1, -1, -1],
        "right": [2, -1, -1],
        "missing_left": [True, True, True],
        "values": [[0.0], [1.0], [2.0]],
    }
    return Nodes(**{name: np.array(part) for name, part in {**parts, **forged}.items()})


def test_a_threshold_between_two_floats_divides_them():
    below, above = np.float32(0.1), np.nextafter(np.float32(0.1), np.float32(1))
    trees = FlatTrees([stump(threshold=[(float(below) + float(above)) / 2, 0, 0])], 2)
    X = np.array([[0, below], [0, above]], dtype=np.float32)
    assert trees.sums(X)[:, 0].tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    "forged",
    [
        {"left": [5, -1, -1]},
        {"right": [0, -1, -1]},
        {"right": [1, -1, -1]},
        {"left": [1, 2, -1], "right": [2, 1, -1]},
        {"left": [1, 1, 2], "right": [2, 1, 2]},
        {"feature": [2, 0, 0]},
        {"feature": [-1, 0, 0]},
    ],
)
def test_forged_nodes_are_refused(forged):
    with pytest.raises(ValueError, match="a tree"):
        FlatTrees([stump(**forged)], 2)


def test_a_table_of_another_width_is_refused():
    with pytest.raises(ValueError, match="trees for 2 features got a table"):
        FlatTrees([stump()], 2).sums(np.zeros((3, 4), dtype=np.float32))
