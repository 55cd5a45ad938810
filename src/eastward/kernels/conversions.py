# mypy: ignore-errors
"""Between tables and what the compiled passes count: a few numbers for each class, converted in one call."""

from __future__ import annotations

from typing import Any

from numba import njit

from eastward.kernels.arithmetic import EXACT, bits_of, is_nan

__all__ = ["by_memberships", "two_class_tables"]


@njit(**EXACT)
def two_class_tables(columns: Any, matrix: Any, tables: Any) -> None:
    """Fill tables ``(G, 4, 2)`` or ``(G, 2, 2)`` of two classes, given the counts ``(G, 4, 1)`` of the second."""
    for g in range(columns.shape[0]):
        tp, fp, fn, tn = columns[g, 0, 0], columns[g, 1, 0], columns[g, 2, 0], columns[g, 3, 0]
        if matrix:
            tables[g, 0, 0], tables[g, 0, 1] = tn, fp
            tables[g, 1, 0], tables[g, 1, 1] = fn, tp
            continue
        for kind in range(4):
            # What is right and wrong for class 1 is, seen from class 0, the same turned round.
            tables[g, kind, 0], tables[g, kind, 1] = columns[g, 3 - kind, 0], columns[g, kind, 0]


@njit(**EXACT)
def by_memberships(slopes: Any, matrix: Any, pair: Any, by: Any) -> Any:
    """Fill ``by`` ``(G, 2, C)`` with derivatives by a membership of the true class and of another; whether one is NaN.

    What a sample gives to tp it takes from fn, and what it gives to fp it takes from tn. Two classes have one column,
    the membership of the second: ``(G, 2, 1)``. A matrix of more classes stays as it is, ``(G, C, C)``.
    """
    for g in range(slopes.shape[0]):
        for kind in range(by.shape[1]):
            if matrix and not pair:
                by[g, kind] = slopes[g, kind]
            elif matrix:
                # Rows are true classes.
                by[g, kind, 0] = slopes[g, 1 - kind, 1] - slopes[g, 1 - kind, 0]
            elif pair:
                second = slopes[g, kind, 1] - slopes[g, 2 + kind, 1]
                by[g, kind, 0] = second - (slopes[g, 1 - kind, 0] - slopes[g, 3 - kind, 0])
            else:
                by[g, kind] = slopes[g, kind] - slopes[g, 2 + kind]
    nan = False
    for number in by.flat:
        nan = nan or is_nan(bits_of(number))
    return nan
