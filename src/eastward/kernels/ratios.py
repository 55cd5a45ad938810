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

__all__ = ["Quotients", "loss_and_slope_of_pair", "loss_and_slope_of_table", "quotients_of"]

# Of every class, numerators and denominators as plain numbers.
Quotients = list[list[tuple[list[float], list[float]]]]

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


def quotients_of(rule: Rule) -> Quotients:
    """The coefficients of a metric, class by class."""
    pairs = zip(rule.numerators, rule.denominators, strict=True)
    tables = [(upper.T.tolist(), lower.T.tolist()) for upper, lower in pairs]
    return [
        list(of_class) for of_class in zip(*(zip(*t, strict=True) for t in tables), strict=True)
    ]


def loss_and_slope_of_pair(
    sums: tuple[float, float, float, float], rule: Rule, quotients: Quotients
) -> tuple[float, tuple[float, float]] | None:
    """Loss of two classes and its slopes by the two memberships, in plain numbers; None in the unusual cases.

    On arrays of two entries a call of NumPy takes as long as ten multiplications in Python.
    """
    found, false, positives, negatives = sums
    usual = rule.average == _MACRO and rule.absent in (_SKIP, _OBSERVED, _ZERO)
    if rule.code != RATIOS or not usual or positives <= 0 or negatives <= 0:
        return None
    mass = positives + negatives
    found, false = found / mass, false / mass
    missed, rest = max(positives / mass - found, 0.0), max(negatives / mass - false, 0.0)
    # What is right and wrong for class 1 is, seen from class 0, the same turned round.
    sides = ((rest, missed, false, found), (found, false, missed, rest))
    value, by_class = rule.offset, []
    for counts, terms in zip(sides, quotients, strict=True):
        of_class, by_positive, by_negative = _class_terms(counts, terms)
        value += 0.5 * rule.factor * of_class
        by_class.append((by_positive, by_negative))
    (right_0, wrong_0), (right_1, wrong_1) = by_class
    scale = (-0.5 if rule.higher_is_better else 0.5) * rule.factor / mass
    slopes = (scale * (right_1 - wrong_0), scale * (wrong_1 - right_0))
    return (1 - value if rule.higher_is_better else value), slopes


def _class_terms(
    counts: tuple[float, ...], terms: list[tuple[list[float], list[float]]]
) -> tuple[float, float, float]:
    """Sum of the quotients of a class; its derivatives by a true and by a false positive, of a fixed total."""
    tp, fp, fn, tn = counts
    value, by_positive, by_negative = 0.0, 0.0, 0.0
    for (a, b, c, d), (e, f, g, h) in terms:
        below = e * tp + f * fp + g * fn + h * tn
        if abs(below) > _TINY:
            ratio = (a * tp + b * fp + c * fn + d * tn) / below
            value += ratio
            by_positive += (a - c - ratio * (e - g)) / below
            by_negative += (b - d - ratio * (f - h)) / below
    return value, by_positive, by_negative
