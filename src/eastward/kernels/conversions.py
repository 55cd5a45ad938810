# mypy: ignore-errors
"""Convert between tables and the counts of the compiled passes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from eastward.kernels.arithmetic import EXACT, bits_of, is_nan

__all__ = ["add_two_class_tables", "by_memberships"]


@njit(**EXACT)
def add_two_class_tables(columns: Any, matrix: Any, tables: Any) -> None:
    """Add to tables ``(G, 4, 2)`` or ``(G, 2, 2)`` of two classes, given counts ``(G, 4, 1)`` of the second."""
    for g in range(columns.shape[0]):
        tp, fp, fn, tn = columns[g, 0, 0], columns[g, 1, 0], columns[g, 2, 0], columns[g, 3, 0]
        if matrix:
            tables[g, 0, 0] += tn
            tables[g, 0, 1] += fp
            tables[g, 1, 0] += fn
            tables[g, 1, 1] += tp
            continue
        for kind in range(4):
            # Class 0 has the counts of class 1 with positives and negatives swapped.
            tables[g, kind, 0] += columns[g, 3 - kind, 0]
            tables[g, kind, 1] += columns[g, kind, 0]


@njit(**EXACT)
def by_memberships(slopes: Any, factor: Any, matrix: Any, pair: Any) -> Any:
    """Compute ``factor`` times the derivatives ``(G, 2, C)`` by memberships; return whether one is NaN.

    The first row is for the true class, the second for any other class: what a sample adds to tp it takes from fn, and
    what it adds to fp it takes from tn. Two classes have one column, the membership of the second: ``(G, 2, 1)``. A
    matrix of more classes stays as it is, ``(G, C, C)``.
    """
    grid, kinds, size = slopes.shape
    by = np.empty((grid, kinds if matrix else 2, 1 if pair else size), np.float32)
    for g in range(grid):
        for kind in range(by.shape[1]):
            for c in range(by.shape[2]):
                if pair and matrix:
                    # Rows are true classes.
                    slope = slopes[g, 1 - kind, 1] - slopes[g, 1 - kind, 0]
                elif pair:
                    slope = slopes[g, kind, 1] - slopes[g, 2 + kind, 1]
                    slope -= slopes[g, 1 - kind, 0] - slopes[g, 3 - kind, 0]
                else:
                    slope = slopes[g, kind, c] - (0.0 if matrix else slopes[g, 2 + kind, c])
                by[g, kind, c] = factor * slope
    nan = False
    for number in by.flat:
        nan = nan or is_nan(bits_of(number))
    return by, nan
