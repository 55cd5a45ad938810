# mypy: ignore-errors
"""A compiled walk of many rows down many trees.

A block of rows goes down a tree level by level. There is no branch to predict, and the steps of different rows do not
wait for each other.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from eastward.kernels.arithmetic import EXACT

__all__ = ["add_leaves"]

# This many rows go down a tree together, so that their features and places stay in the fastest cache.
BLOCK = 64


@njit(**EXACT)
def add_leaves(
    rows: Any,
    feature: Any,
    threshold: Any,
    left: Any,
    missing_right: Any,
    starts: Any,
    depths: Any,
    values: Any,
    found: Any,
) -> None:
    """Add to ``found`` the values of the leaf that each row reaches in each tree.

    Indices are not checked here; whoever builds the trees must check them. They are unsigned, because numba tests
    whether a signed index counts from the end.
    """
    place = np.empty(BLOCK, np.uint32)
    block = np.empty((rows.shape[1], BLOCK), np.float32)
    for first in range(0, len(rows), BLOCK):
        count = min(BLOCK, len(rows) - first)
        gaps = _fill(block, rows, first, count)
        for tree in range(len(depths)):
            place[:count] = starts[tree]
            for _ in range(depths[tree]):
                if gaps:
                    _step_with_gaps(block, place, count, feature, threshold, left, missing_right)
                else:
                    _step(block, place, count, feature, threshold, left)
            for row in range(count):
                for output in range(values.shape[1]):
                    found[first + row, output] += values[place[row], output]


@njit(**EXACT)
def _fill(block: Any, rows: Any, first: Any, count: Any) -> bool:
    """Copy the features of some rows side by side; return whether there are gaps among them."""
    gaps = False
    for row in range(count):
        for column in range(rows.shape[1]):
            value = rows[first + row, column]
            block[column, row] = value
            gaps |= np.isnan(value)
    return gaps


@njit(**EXACT)
def _step(block: Any, place: Any, count: Any, feature: Any, threshold: Any, left: Any) -> None:
    for row in range(count):
        node = place[row]
        right = np.uint32(block[feature[node], row] > threshold[node])
        place[row] = left[node] + right


@njit(**EXACT)
def _step_with_gaps(
    block: Any, place: Any, count: Any, feature: Any, threshold: Any, left: Any, missing_right: Any
) -> None:
    for row in range(count):
        node = place[row]
        value = block[feature[node], row]
        right = np.uint32(value > threshold[node])
        if np.isnan(value):
            right = missing_right[node]
        place[row] = left[node] + right
