"""An average of quotients and its slope at small tables: in loops where numba compiles them, in arrays elsewhere.

The formula of one class is written once, in :func:`of_class`, which takes numbers as well as arrays of classes. Loops
over plain numbers compile in two seconds. Array expressions, which :func:`in_arrays` would be for numba, take half a
minute.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
from typing import Any, TypeAlias

import numpy as np

from eastward._numerics import VANISHED

__all__ = ["AVERAGES", "POLICIES", "SMALLEST_FACTOR", "fastest", "in_arrays", "in_loops"]

AVERAGES = ("binary", "macro", "micro", "weighted", "geometric")
POLICIES = ("skip", "observed", "zero", "one")
_BINARY, _MACRO, _MICRO, _WEIGHTED, _GEOMETRIC = range(5)
_SKIP, _OBSERVED, _ZERO, _ONE = range(4)
# Below this factor the slope of a geometric mean, G / (K r), is taken as zero: at r = 0 it is infinite.
SMALLEST_FACTOR = 1e-12

# Numbers in loops, arrays of classes elsewhere.
_Value: TypeAlias = Any


def of_class(
    tp: _Value,
    fp: _Value,
    fn: _Value,
    tn: _Value,
    upper: np.ndarray,
    lower: np.ndarray,
    factor: float,
    offset: float,
    average: int,
    absent: int,
    floor: _Value,
) -> tuple[_Value, _Value, _Value, _Value, _Value, _Value]:
    """Compute the value of a class, its derivative by each of the four counts, and its weight in the average."""
    value = offset + 0.0 * tp
    by_tp = by_fp = by_fn = by_tn = 0.0 * tp
    power = 1.0 / lower.shape[1]
    for term in range(len(upper)):
        above, inverse = upper[term], factor + 0.0 * tp
        pull_tp = pull_fp = pull_fn = pull_tn = 0.0 * tp
        for j in range(lower.shape[1]):
            form = lower[term, j]
            below = form[0] * tp + form[1] * fp + form[2] * fn + form[3] * tn
            gone = below <= floor
            # 0/0 is 0: the sum below becomes harmless, the quotient zero.
            below = below + 1.0 * gone
            root = below if lower.shape[1] == 1 else below**power
            inverse = inverse * (1.0 - gone) / root
            share = power / below
            pull_tp = pull_tp + form[0] * share
            pull_fp = pull_fp + form[1] * share
            pull_fn = pull_fn + form[2] * share
            pull_tn = pull_tn + form[3] * share
        ratio = (above[0] * tp + above[1] * fp + above[2] * fn + above[3] * tn) * inverse
        value = value + ratio
        by_tp = by_tp + above[0] * inverse - ratio * pull_tp
        by_fp = by_fp + above[1] * inverse - ratio * pull_fp
        by_fn = by_fn + above[2] * inverse - ratio * pull_fn
        by_tn = by_tn + above[3] * inverse - ratio * pull_tn
    present, unpredicted = 1.0 - (tp + fn <= floor), 1.0 * (tp + fp <= floor)
    weight = 1.0 + 0.0 * tp
    if average == _WEIGHTED:
        weight = tp + fn
    elif average in (_MACRO, _GEOMETRIC) and absent == _SKIP:
        weight = present
    elif average in (_MACRO, _GEOMETRIC) and absent == _OBSERVED:
        weight = 1.0 - (1.0 - present) * unpredicted
    if absent == _ONE and average not in (_BINARY, _MICRO):
        value = value * present + (1.0 - present)
        by_tp, by_fp, by_fn, by_tn = (
            by_tp * present,
            by_fp * present,
            by_fn * present,
            by_tn * present,
        )
    return value, by_tp, by_fp, by_fn, by_tn, weight


def in_loops(
    tables: np.ndarray,
    upper: np.ndarray,
    lower: np.ndarray,
    factor: float,
    offset: float,
    average: int,
    absent: int,
    scale: float,
    value: np.ndarray,
    derivative: np.ndarray,
) -> tuple[float, bool]:
    """Compute what :func:`in_arrays` does, one class after the other, for numba."""
    number, size = tables.shape[0], tables.shape[2]
    classes = 1 if average == _MICRO else size
    values, weights = np.empty(classes), np.empty(classes)
    mean, empty = 0.0, False
    for r in range(number):
        slope, given = derivative[r], (upper, lower, factor, offset, average, absent)
        mass = fill_classes(tables[r], given, values, weights, slope)
        value[r] = average_of(values, weights, average, mass * (VANISHED / size))
        # Backwards, because pooled classes share the first column.
        for c in range(size - 1, -1, -1):
            column = min(c, classes - 1)
            for k in range(4):
                slope[k, c] = slope[k, column] * weights[column] * scale
        mean += value[r] / number
        empty = empty or mass == 0.0
    return mean, empty


def fill_classes(
    table: np.ndarray,
    given: tuple[Any, ...],
    values: np.ndarray,
    weights: np.ndarray,
    slope: np.ndarray,
) -> float:
    """Write values, weights and derivatives of all classes, separate or pooled; return the mass of the table."""
    upper, lower, factor, offset, average, absent = given
    pooled, size = np.zeros(4), table.shape[1]
    for k in range(4):
        for c in range(size):
            pooled[k] += table[k, c]
    mass: float = pooled[0] + pooled[1] + pooled[2] + pooled[3]
    floor = mass * (VANISHED / size)
    for c in range(len(values)):
        tp, fp, fn, tn = pooled if average == _MICRO else table[:, c]
        # Coefficients are the same for all classes, or one for each.
        column = min(c, upper.shape[2] - 1)
        above, below = upper[:, :, column], lower[:, :, :, column]
        found = of_class(tp, fp, fn, tn, above, below, factor, offset, average, absent, floor)
        values[c], slope[0, c], slope[1, c], slope[2, c], slope[3, c], weights[c] = found
    if average == _BINARY:
        weights[0] = 0.0
    return mass


def average_of(values: np.ndarray, weights: np.ndarray, average: int, floor: float) -> float:
    """Average the values of classes; their weights are overwritten by the derivatives of the average."""
    total = weights.sum()
    none = total <= (floor if average == _WEIGHTED else VANISHED)
    merit, logs, lost = 0.0, 0.0, none
    for c in range(len(values)):
        weights[c] = 0.0 if none else weights[c] / total
        merit += values[c] * weights[c]
        logs += np.log(max(values[c], SMALLEST_FACTOR)) * weights[c]
        lost = lost or (values[c] <= VANISHED and weights[c] > 0.0)
    if average == _GEOMETRIC:
        # A class of value zero makes the mean zero; so does the lack of any class.
        merit = 0.0 if lost else np.exp(logs)
        for c in range(len(values)):
            steep = values[c] >= SMALLEST_FACTOR
            weights[c] *= merit / max(values[c], SMALLEST_FACTOR) * steep
    return merit


def in_arrays(
    tables: np.ndarray,
    upper: np.ndarray,
    lower: np.ndarray,
    factor: float,
    offset: float,
    average: int,
    absent: int,
    scale: float,
    value: np.ndarray,
    derivative: np.ndarray,
) -> tuple[float, bool]:
    """Write values ``(R,)`` and derivatives ``(R, 4, C)`` times ``scale``; return the mean and if a table is empty."""
    masses = tables.sum(axis=(1, 2))
    counts = tables.sum(axis=2, keepdims=True) if average == _MICRO else tables
    # Relative to the mass of one class's table, as in :func:`~eastward.metrics._averaging.normalised_counts`.
    floor = masses[:, None] * (VANISHED / tables.shape[2])
    tp, fp, fn, tn = counts.transpose(1, 0, 2)
    values, *slope, weights = of_class(
        tp, fp, fn, tn, upper, lower, factor, offset, average, absent, floor
    )
    if average == _BINARY:
        weights[:, 0] = 0.0
    total = weights.sum(axis=1, keepdims=True)
    none = total <= (floor if average == _WEIGHTED else VANISHED)
    weights = np.where(none, 0.0, weights / np.where(none, 1.0, total))
    value[:] = (values * weights).sum(axis=1)
    if average == _GEOMETRIC:
        lost = ((values <= VANISHED) & (weights > 0.0)).any(axis=1) | none[:, 0]
        steep, factors = values >= SMALLEST_FACTOR, np.maximum(values, SMALLEST_FACTOR)
        value[:] = np.where(lost, 0.0, np.exp((np.log(factors) * weights).sum(axis=1)))
        weights = weights * value[:, None] / factors * steep
    derivative[:] = np.stack(slope, axis=1) * (weights * scale)[:, None]
    return float(value.mean()), bool((masses == 0.0).any())


@functools.cache
def fastest() -> Any:
    """Return the compiled loops if numba is installed: they take a tenth of the time for a table of a few classes."""
    if importlib.util.find_spec("numba") is None:
        return in_arrays
    numba = importlib.import_module("numba")
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
    register = importlib.import_module("numba.extending").register_jitable
    for part in (of_class, fill_classes, average_of):
        register(**options)(part)
    return numba.njit(cache=True, **options)(in_loops)
