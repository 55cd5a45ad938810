"""Check trees of scikit-learn that come from a file of unknown origin.

scikit-learn follows the indices of nodes without a check, so a forged file could make it read foreign memory. skops
leaves it to the reader whether to trust these tables. Here their indices are checked before they are used.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from eastward import _checks

__all__ = ["NODES", "NODE_TYPES", "are_sound", "check_types", "load_parts", "skops_io"]

NODES = "sklearn.tree._tree.Tree"
# Where an estimator keeps its trees.
TREES = ("estimators_", "_predictors", "tree_")
NODE_TYPES = (NODES, "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor")


def are_sound(model: Any, num_classes: int) -> bool:
    """Whether every branch of a forest or of histogram boosting leads down to a node that exists.

    Parameters
    ----------
    model : estimator
        An estimator of scikit-learn that was loaded from a file; one without trees is sound.
    num_classes : int
        How many classes each leaf of a forest must count.

    Returns
    -------
    bool
        True if all indices are valid.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> forest = RandomForestClassifier(3).fit(*load_iris(return_X_y=True))
    >>> are_sound(forest, 3), are_sound(forest, 4)
    (True, False)
    """
    features = model.n_features_in_
    forest = [tree.tree_ for tree in getattr(model, "estimators_", [])]
    forest += [model.tree_] if hasattr(model, "tree_") else []
    boosted = [tree for trees in getattr(model, "_predictors", []) for tree in trees]
    return all(_is_sound(tree, features, num_classes) for tree in forest) and all(
        _is_sound_histogram(tree, features) for tree in boosted
    )


def _is_sound(nodes: Any, num_features: int, num_classes: int) -> bool:
    inner = np.flatnonzero(nodes.children_left != -1)
    children = np.concatenate([nodes.children_left[inner], nodes.children_right[inner]])
    return (
        _lead_down(inner, children, nodes.node_count)
        and _exist(nodes.feature[inner], num_features)
        and nodes.value.shape == (nodes.node_count, 1, num_classes)
    )


def _is_sound_histogram(tree: Any, num_features: int) -> bool:
    nodes = tree.nodes
    inner = np.flatnonzero(nodes["is_leaf"] == 0)
    children = np.concatenate([nodes["left"][inner], nodes["right"][inner]]).astype(np.int64)
    sets = nodes["bitset_idx"][inner][nodes["is_categorical"][inner] != 0]
    return (
        _lead_down(inner, children, len(nodes))
        and _exist(nodes["feature_idx"][inner], num_features)
        and _exist(sets.astype(np.int64), len(tree.raw_left_cat_bitsets))
    )


def _lead_down(inner: Any, children: Any, count: int) -> bool:
    return bool(((children > np.tile(inner, 2)) & (children < count)).all())


def _exist(positions: Any, count: int) -> bool:
    return bool(((positions >= 0) & (positions < count)).all())


def skops_io() -> Any:
    """Load skops only when it is needed, because it imports all of scikit-learn, which takes half a second."""
    return importlib.import_module("skops.io")


def check_types(path: Path, estimator: Any, caller: str, trusted: Sequence[str] = ()) -> None:
    """Refuse a skops file with types other than those of scikit-learn, trees and the trusted list."""
    known = {*NODE_TYPES, *trusted}
    foreign = sorted(set(skops_io().get_untrusted_types(file=path)) - known)
    if foreign:
        expected = "made of parts of eastward and scikit-learn"
        got = f"a {type(estimator).__name__} with {', '.join(foreign[:3])}"
        advice = "A folder must open without running anybody's code; save this model with your own tools."
        _checks.fail(caller, "classifier", expected, got, advice)


def load_parts(path: Path, trusted: Sequence[str] = ()) -> Any:
    """Load the estimator in a skops file, and check its trees before they are used."""
    has_trees = set(skops_io().get_untrusted_types(file=path)) & set(NODE_TYPES)
    estimator = skops_io().load(path, trusted=[*NODE_TYPES, *trusted])
    if has_trees and not any(hasattr(estimator, name) for name in TREES):
        raise ValueError("its trees are in an unexpected attribute")
    if not are_sound(estimator, len(estimator.classes_)):
        raise ValueError("its trees have branches that lead nowhere")
    return estimator
