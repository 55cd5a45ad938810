# mypy: ignore-errors
"""Compiled closed forms of the metrics that are sums of quotients, the commonest: F-beta and its relatives.

The same as :mod:`eastward.kernels.slopes`, in loops over single numbers: whole-array formulas take numba a minute to
compile, and NumPy's calls cost more than the arithmetic when there are few classes. Other metrics go through NumPy.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from eastward.kernels.closed_form import MARGINS, ONE_PAIR, loss_and_slope_of_sums
from eastward.kernels.rules import (
    NO_VIRTUAL,
    RATIOS,
    VIRTUAL_CLASSES,
    VIRTUAL_POOLED,
    Rule,
)

__all__ = ["loss_and_slope", "tables_of_sums"]

_TINY = 1.0842021724855044e-19
_VIRTUAL_SHARE = 0.01
_BINARY, _MACRO, _WEIGHTED, _MICRO = range(4)
_SKIP, _OBSERVED, _ZERO, _ONE = range(4)
_OPTIONS = {"cache": True, "nogil": True, "error_model": "numpy"}


def loss_and_slope(sums: np.ndarray, layout: int, rule: Rule) -> tuple[np.ndarray, np.ndarray]:
    """Losses ``(R,)`` and slopes ``(R, 2, C)`` of R tables of sums."""
    if rule.code != RATIOS:
        return loss_and_slope_of_sums(sums, layout, rule)
    width = 2 if layout == ONE_PAIR else sums.shape[2]
    losses, counts = np.zeros(len(sums)), np.empty((4, width))
    slope, result = np.empty((4, width)), np.zeros((len(sums), 2, sums.shape[2]))
    tables_of_sums(sums, layout, rule[1:], counts, slope, losses, result)
    return losses, result


@njit(**_OPTIONS)
def tables_of_sums(
    sums: Any, layout: Any, rule: Any, counts: Any, slope: Any, losses: Any, result: Any
) -> None:
    """Fill losses ``(R,)`` and slopes ``(R, 2, C)`` of R tables; ``counts`` and ``slope`` are for work."""
    average, absent, _, virtual, higher, numerators, denominators, factor, offset = rule
    for r in range(sums.shape[0]):
        _fill(sums[r], layout, counts)
        if counts.sum() <= 0.0:
            continue
        if virtual != NO_VIRTUAL:
            _add_virtual(counts, virtual)
        unit = counts.sum() / counts.shape[1]
        for kind in range(4):
            for c in range(counts.shape[1]):
                counts[kind, c] /= unit
        if average == _MICRO:
            value = _pooled(counts, slope, numerators, denominators, factor, offset)
        else:
            value = _over_classes(
                counts, slope, average, absent, numerators, denominators, factor, offset
            )
        losses[r] = 1.0 - value if higher else value
        _turn(slope, layout, (-1.0 if higher else 1.0) / unit, result[r])


@njit(**_OPTIONS)
def _fill(sums: Any, layout: Any, counts: Any) -> None:
    """Counts ``(4, C)`` of one table of sums."""
    if layout == MARGINS:
        total = sums[2].sum()
        for c in range(sums.shape[1]):
            counts[0, c] = sums[0, c]
            counts[1, c] = max(sums[1, c] - sums[0, c], 0.0)
            counts[2, c] = max(sums[2, c] - sums[0, c], 0.0)
            counts[3, c] = max(total - sums[2, c] - counts[1, c], 0.0)
        return
    for c in range(sums.shape[1]):
        at = 1 if layout == ONE_PAIR else c
        counts[0, at] = sums[0, c]
        counts[1, at] = sums[1, c]
        counts[2, at] = max(sums[2, c] - sums[0, c], 0.0)
        counts[3, at] = max(sums[3, c] - sums[1, c], 0.0)
    if layout == ONE_PAIR:
        for kind in range(4):
            counts[kind, 0] = counts[3 - kind, 1]


@njit(**_OPTIONS)
def _add_virtual(counts: Any, virtual: Any) -> None:
    size = counts.shape[1]
    missing, one_sided = 0, 0
    for c in range(size):
        missing += counts[0, c] + counts[2, c] <= 0.0
        one_sided += counts[1, c] + counts[3, c] <= 0.0
    if virtual == VIRTUAL_CLASSES and missing < size - 1:
        return
    pooled = virtual == VIRTUAL_POOLED
    added = 0.0
    for c in range(size):
        positives, negatives = counts[0, c] + counts[2, c], counts[1, c] + counts[3, c]
        share = _VIRTUAL_SHARE * (positives + negatives)
        extra = share if positives <= 0.0 and (not pooled or missing == size) else 0.0
        if virtual == VIRTUAL_CLASSES:
            counts[0, c] += extra
            counts[3, c] -= extra
            added += extra
        else:
            opposite = share if negatives <= 0.0 and (not pooled or one_sided == size) else 0.0
            counts[0, c] += extra
            counts[3, c] += opposite
    for c in range(size):
        counts[3, c] += added


@njit(**_OPTIONS)
def _quotients(
    tp: Any, fp: Any, fn: Any, tn: Any, c: Any, n: Any, d: Any, factor: Any, offset: Any
) -> Any:
    """Value of one class and its four derivatives."""
    value, by_tp, by_fp, by_fn, by_tn = offset, 0.0, 0.0, 0.0, 0.0
    for p in range(n.shape[0]):
        below = d[p, 0, c] * tp + d[p, 1, c] * fp + d[p, 2, c] * fn + d[p, 3, c] * tn
        inverse = 1.0 / below if abs(below) > _TINY else 0.0
        above = n[p, 0, c] * tp + n[p, 1, c] * fp + n[p, 2, c] * fn + n[p, 3, c] * tn
        ratio = above * inverse
        value += factor * ratio
        by_tp += factor * inverse * (n[p, 0, c] - ratio * d[p, 0, c])
        by_fp += factor * inverse * (n[p, 1, c] - ratio * d[p, 1, c])
        by_fn += factor * inverse * (n[p, 2, c] - ratio * d[p, 2, c])
        by_tn += factor * inverse * (n[p, 3, c] - ratio * d[p, 3, c])
    return value, by_tp, by_fp, by_fn, by_tn


@njit(**_OPTIONS)
def _pooled(counts: Any, slope: Any, n: Any, d: Any, factor: Any, offset: Any) -> Any:
    found = _quotients(
        counts[0].sum(), counts[1].sum(), counts[2].sum(), counts[3].sum(), 0, n, d, factor, offset
    )
    slope[0] = found[1]
    slope[1] = found[2]
    slope[2] = found[3]
    slope[3] = found[4]
    return found[0]


@njit(**_OPTIONS)
def _over_classes(
    counts: Any, slope: Any, average: Any, absent: Any, n: Any, d: Any, factor: Any, offset: Any
) -> Any:
    total, weight_sum = 0.0, 0.0
    for c in range(counts.shape[1]):
        tp, fp, fn, tn = counts[0, c], counts[1, c], counts[2, c], counts[3, c]
        weight = 1.0
        if average == _WEIGHTED:
            weight = tp + fn
        elif average == _BINARY:
            weight = 0.0 if c == 0 else 1.0
        elif absent == _SKIP:
            weight = 1.0 if tp + fn > 0.0 else 0.0
        elif absent == _OBSERVED:
            weight = 1.0 if tp + fn + fp > 0.0 else 0.0
        found = _quotients(tp, fp, fn, tn, c, n, d, factor, offset)
        fixed = absent == _ONE and average != _BINARY and tp + fn <= 0.0
        total += weight * (1.0 if fixed else found[0])
        weight_sum += weight
        steep = 0.0 if fixed else weight
        slope[0, c] = steep * found[1]
        slope[1, c] = steep * found[2]
        slope[2, c] = steep * found[3]
        slope[3, c] = steep * found[4]
    inverse = 1.0 / weight_sum if weight_sum > _TINY else 0.0
    for kind in range(4):
        for c in range(counts.shape[1]):
            slope[kind, c] *= inverse
    return total * inverse


@njit(**_OPTIONS)
def _turn(slope: Any, layout: Any, scale: Any, result: Any) -> None:
    """Derivatives by the counts to those by the sums."""
    if layout == ONE_PAIR:
        result[0, 0] = scale * (slope[0, 1] - slope[2, 1] - slope[1, 0] + slope[3, 0])
        result[1, 0] = scale * (slope[1, 1] - slope[3, 1] - slope[0, 0] + slope[2, 0])
        return
    for c in range(result.shape[1]):
        by_positive, by_negative = slope[0, c] - slope[2, c], slope[1, c] - slope[3, c]
        result[0, c] = scale * (by_positive - by_negative if layout == MARGINS else by_positive)
        result[1, c] = scale * by_negative
