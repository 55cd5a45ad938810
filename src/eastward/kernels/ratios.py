"""The commonest metrics at one table, without a compiler: as few calls of NumPy as the formula allows.

The same as :mod:`eastward.kernels.slopes`, which takes all metrics and many tables, and the unusual cases of these.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from eastward.kernels.closed_form import MARGINS, loss_and_slope_of_sums
from eastward.kernels.rules import ABSENT, AVERAGES, NO_VIRTUAL, RATIOS, Rule

__all__ = [
    "Forms",
    "Quotients",
    "forms_of",
    "loss_and_slope_of_pair",
    "loss_and_slope_of_table",
    "quotients_of",
]

# Of every class, numerators and denominators as plain numbers.
Quotients = list[list[tuple[list[float], list[float]]]]

_TINY = 1.0842021724855044e-19
# Up to so many classes plain numbers are quicker than calls of NumPy.
_FEW = 16
_MACRO, _WEIGHTED = AVERAGES.index("macro"), AVERAGES.index("weighted")
_SKIP, _OBSERVED, _ZERO = ABSENT.index("skip"), ABSENT.index("observed"), ABSENT.index("zero")


class Forms(NamedTuple):
    """Numerators and denominators of the P quotients as linear forms of the sums.

    Attributes
    ----------
    table : ndarray
        ``(P, 2, 3, C)``: coefficients of right, predicted and true.
    mass : ndarray or None
        ``(P, 2, C)``: those of the mass of all samples; None where all are zero.
    numbers : list or None
        For few classes, of each class and quotient the eight coefficients (right, predicted, true and mass above, the
        same below) as plain numbers.
    """

    table: np.ndarray
    mass: np.ndarray | None
    numbers: list[list[list[float]]] | None


def forms_of(rule: Rule) -> Forms | None:
    """The linear forms of a metric that is an average of quotients over classes; None for others.

    Examples
    --------
    F1 is twice what is right over the sum of what is predicted and what is true.

    >>> from eastward import metrics
    >>> from eastward.kernels.rules import rule_of
    >>> rule = rule_of(metrics.get("f1_macro"), 3, exclusive=True, virtual=False)
    >>> forms_of(rule).table[0, :, :, 0]
    array([[2., 0., 0.],
           [0., 1., 1.]])
    """
    if rule.code != RATIOS or rule.average not in (_MACRO, _WEIGHTED):
        return None
    if rule.absent not in (_SKIP, _OBSERVED, _ZERO):
        return None
    tp, fp, fn, tn = np.moveaxis(np.stack([rule.numerators, rule.denominators], 1), 2, 0)
    table = np.stack([tp - fp - fn + tn, fp - tn, fn - tn], 2)
    numbers = None
    if table.shape[3] <= _FEW:
        eight = np.concatenate([table, tn[:, :, None]], 2).reshape(len(table), 8, -1)
        numbers = eight.transpose(2, 0, 1).tolist()
    return Forms(table, tn if tn.any() else None, numbers)


def loss_and_slope_of_table(
    sums: np.ndarray, rule: Rule, forms: Forms | None
) -> tuple[float, np.ndarray, bool]:
    """Loss, slopes ``(2, C)`` by right and predicted of sums ``(3, C)``, and whether the table is empty."""
    mass = float(np.add.reduce(sums[2]))
    found = None
    if forms is not None and mass > 0:
        average = _averaged if forms.numbers is None else _averaged_in_numbers
        found = average(sums, mass, rule, forms)
    if found is None:
        losses, slopes = loss_and_slope_of_sums(sums[None], MARGINS, rule)
        return float(losses[0]), slopes[0], mass <= 0
    value, slope = found
    if rule.higher_is_better:
        return 1 - value, np.negative(slope, out=slope), False
    return value, slope, False


def _averaged(
    sums: np.ndarray, mass: float, rule: Rule, forms: Forms
) -> tuple[float, np.ndarray] | None:
    """Value and slopes; None where a class is missing that the metric needs, or has no quotient."""
    right, predicted, true = sums
    present = int(np.count_nonzero(true))
    if rule.virtual != NO_VIRTUAL and present < 2:
        return None
    # Sums that should be equal differ by rounding; a count below zero would leave the metric's range.
    np.minimum(right, true, out=right)
    np.maximum(predicted, right, out=predicted)
    if forms.mass is not None:
        np.minimum(predicted, mass - true + right, out=predicted)
    weights = _class_weights(sums, present, mass, rule)
    value, slope = rule.offset, np.zeros(())
    for number, table in enumerate(forms.table):
        upper, lower = np.add.reduce(table * sums, 1)
        if forms.mass is not None:
            upper = upper + mass * forms.mass[number, 0]
            lower = lower + mass * forms.mass[number, 1]
        if not float(np.minimum.reduce(lower)) > _TINY * mass:
            return None
        ratio = upper / lower
        value += float(np.add.reduce(ratio * weights))
        part = (table[0, :2] - ratio * table[1, :2]) * (weights / lower)
        slope = part if number == 0 else slope + part
    return value, slope


def _averaged_in_numbers(
    sums: np.ndarray, mass: float, rule: Rule, forms: Forms
) -> tuple[float, np.ndarray] | None:
    """The same for few classes, whose numbers one after the other take less time than calls on their arrays."""
    right, predicted, true = sums.tolist()
    present = len(true) - true.count(0.0)
    if rule.virtual != NO_VIRTUAL and present < 2:
        return None
    shares = _class_weights(sums, present, mass, rule)
    weights = [shares] * len(true) if isinstance(shares, float) else shares.tolist()
    value, by_right, by_predicted, least = rule.offset, [], [], _TINY * mass
    each = zip(right, predicted, true, weights, forms.numbers or (), strict=True)
    for found, named, there, weight, quotients in each:
        # Sums that should be equal differ by rounding, as above.
        tp = min(found, there)
        column = min(max(named, tp), mass - there + tp)
        of_right, of_predicted = 0.0, 0.0
        for a, b, c, d, e, f, g, h in quotients:
            lower = e * tp + f * column + g * there + h * mass
            if not lower > least:
                return None
            ratio, scale = (a * tp + b * column + c * there + d * mass) / lower, weight / lower
            value += ratio * weight
            of_right += (a - ratio * e) * scale
            of_predicted += (b - ratio * f) * scale
        by_right.append(of_right)
        by_predicted.append(of_predicted)
    return value, np.array((by_right, by_predicted))


def _class_weights(sums: np.ndarray, present: int, mass: float, rule: Rule) -> Any:
    """Of the classes in the average, one number if they are alike; they sum to the metric's factor."""
    right, predicted, true = sums
    if rule.average == _WEIGHTED:
        return true * (rule.factor / mass)
    if rule.absent == _ZERO or present == len(true):
        return float(rule.factor / len(true))
    if rule.absent == _SKIP:
        return (true > 0) * (rule.factor / present)
    seen = true + predicted > right
    return seen * (rule.factor / np.count_nonzero(seen))


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
