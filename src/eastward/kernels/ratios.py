"""The commonest metrics at one table, without a compiler: as few calls of NumPy as the formula allows.

The same as :mod:`eastward.kernels.slopes`, which takes all metrics and many tables, and the unusual cases of these.
"""

from __future__ import annotations

import numpy as np

from eastward.kernels.closed_form import (
    MARGINS,
    ONE_PAIR,
    counts_of_sums,
    loss_and_slope_of_sums,
    sum_slopes,
)
from eastward.kernels.rules import ABSENT, AVERAGES, NO_VIRTUAL, RATIOS, Rule

__all__ = ["loss_and_slope_of_table"]

_TINY = 1.0842021724855044e-19
_MACRO, _WEIGHTED = AVERAGES.index("macro"), AVERAGES.index("weighted")
_SKIP, _OBSERVED, _ZERO = ABSENT.index("skip"), ABSENT.index("observed"), ABSENT.index("zero")


def loss_and_slope_of_table(
    sums: np.ndarray, layout: int, rule: Rule
) -> tuple[float, np.ndarray, bool]:
    """Loss, slopes ``(2, C)`` by the differentiable sums, and whether the table is empty."""
    mass = float(sums[2:].sum())
    if mass <= 0 or rule.code != RATIOS or not _is_usual(sums, layout, rule):
        losses, slopes = loss_and_slope_of_sums(sums[None], layout, rule)
        return float(losses[0]), slopes[0], mass <= 0
    counts = counts_of_sums(sums[None], layout)[0]
    counts *= 1 / mass
    value, slope = _averaged(counts, rule)
    slope *= (-1 if rule.higher_is_better else 1) / mass
    slopes = sum_slopes(slope[None], layout)[0]
    return (1 - value if rule.higher_is_better else value), slopes, False


def _is_usual(sums: np.ndarray, layout: int, rule: Rule) -> bool:
    """Whether no virtual class is needed, and the average is over classes."""
    if rule.average not in (_MACRO, _WEIGHTED) or rule.absent not in (_SKIP, _OBSERVED, _ZERO):
        return False
    if rule.virtual == NO_VIRTUAL:
        return True
    present = sums[2] if layout == MARGINS else sums[2:, 0]
    return layout in (MARGINS, ONE_PAIR) and bool(np.count_nonzero(present) > 1)


def _averaged(counts: np.ndarray, rule: Rule) -> tuple[float, np.ndarray]:
    weights = _class_weights(counts, rule)
    slope = np.zeros_like(counts)
    values = rule.offset
    for upper, lower in zip(rule.numerators, rule.denominators, strict=True):
        below = (lower * counts).sum(0)
        usable = np.abs(below) > _TINY
        inverse = usable / np.where(usable, below, 1.0) * rule.factor
        ratio = (upper * counts).sum(0) * inverse
        values = values + ratio
        slope += (upper - lower * (ratio / rule.factor)) * inverse
    slope *= weights
    return float((values * weights).sum()), slope


def _class_weights(counts: np.ndarray, rule: Rule) -> np.ndarray:
    """Of the classes in the average; they sum to one."""
    true = counts[0] + counts[2]
    if rule.average == _WEIGHTED:
        weights = true
    elif rule.absent == _SKIP:
        weights = (true > 0).astype(np.float64)
    elif rule.absent == _OBSERVED:
        weights = (true + counts[1] > 0).astype(np.float64)
    else:
        weights = np.ones_like(true)
    total = weights.sum()
    return weights / total if total > _TINY else np.zeros_like(true)
