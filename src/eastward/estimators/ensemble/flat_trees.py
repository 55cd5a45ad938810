"""Trees as arrays, evaluated for many rows at once.

LightGBM and scikit-learn follow one row down one tree at a time. Each step waits for the one before, and the processor
guesses half of the branches wrong. Here a block of rows goes down a tree level by level, without a branch in the code,
so the steps of different rows overlap. For a million rows that takes a quarter of the time. For a single row it saves
calls, because one call evaluates all trees.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier

__all__ = ["FlatTrees", "Nodes", "forest_nodes", "lightgbm_nodes"]

Array = NDArray[Any]
# Bits of LightGBM's decision_type: a category, missing values go left, and which values count as missing.
CATEGORY, LEFT_IF_MISSING, ZERO_IS_MISSING, NAN_IS_MISSING = 1, 2, 4, 8


@dataclass(frozen=True)
class Nodes:
    """One tree, in which rows with ``x[feature] <= threshold`` go left.

    Attributes
    ----------
    feature, threshold, left, right : ndarray
        For each node; ``left`` is negative for a leaf.
    missing_left : ndarray of bool
        Whether NaN goes left.
    values : ndarray
        ``(nodes, outputs)``: the values that a leaf adds.
    """

    feature: Array
    threshold: Array
    left: Array
    right: Array
    missing_left: Array
    values: Array


class FlatTrees:
    """A sum over trees, evaluated for many rows at once.

    Parameters
    ----------
    trees : iterable of Nodes
        At least one, with equally many outputs each.
    num_features : int
        Columns of the tables.

    Examples
    --------
    >>> stump = Nodes(
    ...     *(np.array(part) for part in ([1, 0, 0], [0.5, 0, 0], [1, -1, -1], [2, -1, -1])),
    ...     np.zeros(3, bool),
    ...     np.array([[0.0], [1.0], [2.0]]),
    ... )
    >>> FlatTrees([stump], 2).sums(np.array([[9.0, 0.5], [9.0, 0.6]], dtype=np.float32))
    array([[1.],
           [2.]])
    """

    def __init__(self, trees: Iterable[Nodes], num_features: int) -> None:
        ordered = [_ordered(tree, num_features) for tree in trees]
        sizes = [len(tree.feature) for tree, _ in ordered]
        self.starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.uint32)
        self.depths = np.array([depth for _, depth in ordered], dtype=np.uint32)
        parts = [tree for tree, _ in ordered]
        self.feature = np.concatenate([tree.feature for tree in parts]).astype(np.uint32)
        self.threshold = np.concatenate([_rounded_down(tree.threshold) for tree in parts])
        shifted = [tree.left + start for tree, start in zip(parts, self.starts, strict=False)]
        self.left = np.concatenate(shifted).astype(np.uint32)
        self.missing_right = np.concatenate([~tree.missing_left for tree in parts]).astype(
            np.uint32
        )
        self.values = np.concatenate([tree.values for tree in parts]).astype(np.float64)
        self.num_features = num_features

    def sums(self, table: Array) -> Array:
        """Compute float64 sums ``(rows, outputs)`` for a float32 table ``(rows, features)``, which may contain NaN."""
        rows = np.ascontiguousarray(table, dtype=np.float32)
        if rows.ndim != 2 or rows.shape[1] != self.num_features:
            raise ValueError(f"trees for {self.num_features} features got a table of {rows.shape}")
        found = np.zeros((len(rows), self.values.shape[1]))
        nodes = self.feature, self.threshold, self.left, self.missing_right
        # Loaded on the first prediction, so that an import does not load numba.
        from eastward.kernels.trees import add_leaves  # noqa: PLC0415

        add_leaves(rows, *nodes, self.starts, self.depths, self.values, found)
        return found


def _ordered(tree: Nodes, num_features: int) -> tuple[Nodes, int]:
    """Reorder a tree level by level with children side by side, and return its depth; a leaf leads to itself.

    A file may contain anything, so indices out of range and cycles are refused.
    """
    size = len(tree.feature)
    levels, count = [np.zeros(1, dtype=np.int64)], 1
    while len(inner := levels[-1][tree.left[levels[-1]] >= 0]):
        children = np.stack([tree.left[inner], tree.right[inner]], axis=1).ravel()
        levels.append(children.astype(np.int64))
        # A cycle would visit more nodes than there are.
        count += len(children)
        if children.min() < 1 or children.max() >= size or count > size:
            raise ValueError("a tree whose branches lead nowhere")
    kept = np.concatenate(levels)
    if len(np.unique(kept)) < len(kept):
        raise ValueError("a tree whose branches meet")
    place = np.zeros(size, dtype=np.int64)
    place[kept] = np.arange(len(kept))
    leaf = tree.left[kept] < 0
    feature = np.where(leaf, 0, tree.feature[kept])
    if feature.min() < 0 or feature.max() >= num_features:
        raise ValueError("a tree that uses a feature outside the table")
    left = np.where(leaf, np.arange(len(kept)), place[np.maximum(tree.left[kept], 0)])
    threshold = np.where(leaf, np.inf, tree.threshold[kept])
    missing_left = leaf | tree.missing_left[kept]
    return Nodes(feature, threshold, left, left, missing_left, tree.values[kept]), len(levels) - 1


def _rounded_down(threshold: Array) -> Array:
    """Round thresholds down to float32, which changes no comparison with a float32."""
    with np.errstate(over="ignore"):
        near = threshold.astype(np.float32)
    return np.where(near > threshold, np.nextafter(near, np.float32(-np.inf)), near)


def forest_nodes(model: ExtraTreesClassifier | RandomForestClassifier) -> list[Nodes]:
    """Convert a forest of scikit-learn; the sum divided by the number of trees is ``predict_proba``."""
    return [
        Nodes(
            tree.feature,
            tree.threshold,
            tree.children_left,
            tree.children_right,
            tree.missing_go_to_left.astype(bool),
            tree.value[:, 0, :],
        )
        for tree in (one.tree_ for one in model.estimators_)
    ]


def lightgbm_nodes(text: str, num_outputs: int) -> list[Nodes]:
    """Read trees from LightGBM's text; their sum is the raw score of each class, or of one if there are two."""
    blocks = text.partition("\nTree=")[2].partition("\nend of trees")[0].split("\nTree=")
    return [
        _lightgbm_tree(block, number % num_outputs, num_outputs)
        for number, block in enumerate(blocks)
    ]


def _lightgbm_tree(block: str, output: int, num_outputs: int) -> Nodes:
    """Read one tree: inner nodes first, then the leaves, which LightGBM counts from -1 down."""
    found = dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
    leaves = _numbers(found["leaf_value"])
    if len(leaves) == 1:
        inner = 0
        split = [np.zeros(0)] * 5
    else:
        names = ("split_feature", "threshold", "left_child", "right_child", "decision_type")
        split = [_numbers(found[name]) for name in names]
        inner = len(leaves) - 1
    feature, threshold, left, right = (_padded(part, inner, len(leaves)) for part in split[:4])
    kinds = split[4].astype(int)
    if any(len(part) != inner for part in split) or (kinds & (CATEGORY | ZERO_IS_MISSING)).any():
        raise ValueError("a tree of LightGBM with categories or missing zeros")
    # Leaf number l is at inner + l, and LightGBM calls it -1 - l.
    left, right = (np.where(p < 0, inner - 1 - p, p).astype(int) for p in (left, right))
    left[inner:] = -1
    values = np.zeros((inner + len(leaves), num_outputs))
    values[inner:, output] = leaves
    missing_left = np.ones(inner + len(leaves), dtype=bool)
    # If nothing was missing in training, LightGBM treats missing values as zero.
    by_rule, as_zero = (kinds & LEFT_IF_MISSING) > 0, threshold[:inner] >= 0
    missing_left[:inner] = np.where(kinds & NAN_IS_MISSING, by_rule, as_zero)
    return Nodes(feature.astype(int), threshold, left, right, missing_left, values)


def _padded(part: Array, inner: int, leaves: int) -> Array:
    return np.concatenate([part[:inner], np.zeros(leaves)])


def _numbers(text: str) -> Array:
    return np.array(text.split(), dtype=np.float64)
