# mypy: ignore-errors
"""Compiled kernels for many classes and the dynamic threshold, or for whole matrices: row by row.

Vectors run along classes. The formulas are those of :mod:`eastward.kernels.eager`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from eastward.kernels.compiled_arithmetic import (
    FAST,
    HALF,
    ONE,
    TWO,
    ZERO,
    bits_of,
    exp_of_negative,
    not_finite,
)

__all__ = ["wide_gradient", "wide_sums"]

_SMALL = np.float32(1e-12)
_LOWEST = np.float32(-np.inf)
_LANES = 32
# So many rows are added in float32 before they join the float64 sums.
_FLUSH = 64


@njit(**FAST)
def _is_finite(row: Any) -> Any:
    strange = 0
    for c in range(row.shape[0]):
        strange += not_finite(bits_of(row[c]))
    return strange == 0


@njit(**FAST)
def _largest_two(row: Any, lanes: Any) -> Any:
    """The two largest entries, which may be equal; in lanes, because LLVM makes no vector of the largest of a row."""
    first, second = lanes[0], lanes[1]
    first[:] = _LOWEST
    second[:] = _LOWEST
    whole = row.shape[0] - row.shape[0] % _LANES
    for start in range(0, whole, _LANES):
        part = row[start : start + _LANES]
        for j in range(_LANES):
            x, top = part[j], first[j]
            second[j] = max(second[j], min(top, x))
            first[j] = max(top, x)
    best, runner_up = _LOWEST, _LOWEST
    for j in range(_LANES):
        runner_up = max(runner_up, second[j], min(best, first[j]))
        best = max(best, first[j])
    for c in range(whole, row.shape[0]):
        runner_up = max(runner_up, min(best, row[c]))
        best = max(best, row[c])
    return best, runner_up


@njit(**FAST)
def _number_from(row: Any, limit: Any) -> Any:
    """How many entries reach ``limit``."""
    number = ZERO
    for c in range(row.shape[0]):
        number += ONE if row[c] >= limit else ZERO
    return number


@njit(**FAST)
def _relative(row: Any, relative: Any, lanes: Any) -> Any:
    """Fill ``relative`` with u of a row of logits; the largest u, and the sum of u."""
    top, runner_up = _largest_two(row, lanes)
    first = TWO / (ONE + exp_of_negative(runner_up - top))
    total = ZERO
    for c in range(row.shape[0]):
        u = exp_of_negative(row[c] - top) * first
        relative[c] = u
        total += u
    return first, total


@njit(**FAST)
def _steps(relative: Any, constants: Any, last: Any, steps: Any) -> Any:
    """Fill ``steps`` with h, and return their sum."""
    low, high, slope, middle, temperature = constants
    total = ZERO
    for c in range(relative.shape[0]):
        u = relative[c]
        h = slope * u if u < low else HALF + middle * (u - ONE)
        h = ONE - temperature + (u - high) * last if u > high else h
        steps[c] = h
        total += h
    return total


@njit(**FAST)
def wide_sums(
    logits: Any,
    labels: Any,
    weights: Any,
    constants: Any,
    begin: Any,
    end: Any,
    sums: Any,
    matrix: Any,
) -> Any:
    """Add the sums ``(3, C)`` or ``(C, C)`` of rows ``begin`` to ``end``; whether all logits are finite."""
    size = logits.shape[1]
    high, temperature = constants[1], constants[4]
    relative, steps = np.empty(size, np.float32), np.empty(size, np.float32)
    waiting, lanes = np.zeros(size, np.float32), np.empty((2, _LANES), np.float32)
    for n in range(begin, end):
        if not _is_finite(logits[n]):
            return False
        _, total = _relative(logits[n], relative, lanes)
        last = temperature / max(total - high, _SMALL)
        weight = weights[n] if weights.size else ONE
        share = weight / _steps(relative, constants, last, steps)
        label = labels[n]
        if matrix:
            cells = sums[label]
            for c in range(size):
                cells[c] += steps[c] * share
            continue
        for c in range(size):
            waiting[c] += steps[c] * share
        sums[0, label] += steps[label] * share
        sums[2, label] += weight
        if (n - begin) % _FLUSH == _FLUSH - 1 or n == end - 1:
            sums[1] += waiting
            waiting[:] = ZERO
    return True


@njit(**FAST)
def wide_gradient(
    logits: Any,
    labels: Any,
    weights: Any,
    constants: Any,
    begin: Any,
    end: Any,
    slopes: Any,
    detached: Any,
    gradient: Any,
    matrix: Any,
) -> None:
    """Write the gradient of rows ``begin`` to ``end``, given slopes ``(2, C)`` or ``(C, C)``."""
    size = logits.shape[1]
    low, high, slope, middle, temperature = constants
    relative, steps = np.empty(size, np.float32), np.empty(size, np.float32)
    lanes = np.empty((2, _LANES), np.float32)
    for n in range(begin, end):
        label, out = labels[n], gradient[n]
        first, total = _relative(logits[n], relative, lanes)
        last = temperature / max(total - high, _SMALL)
        inverse = ONE / _steps(relative, constants, last, steps)
        share = inverse * weights[n] if weights.size else inverse
        pull = slopes[label] if matrix else slopes[1]
        extra = ZERO if matrix else slopes[0, label]
        mean = extra * steps[label]
        for c in range(size):
            mean += pull[c] * steps[c]
        mean *= inverse
        spread, beyond = ZERO, ZERO
        for c in range(size):
            u = relative[c]
            steep = slope if u < low else middle
            steep = last if u > high else steep
            t = (pull[c] - mean) * share * steep * u
            out[c] = t
            spread += t
            beyond += t if u > high else ZERO
        u = relative[label]
        steep = slope if u < low else middle
        steep = last if u > high else steep
        own = extra * share * steep * u
        out[label] += own
        beyond += own if u > high else ZERO
        _send(out, relative, first, total, spread + own, beyond, last, constants, detached, lanes)


@njit(**FAST)
def _send(
    out: Any,
    relative: Any,
    first: Any,
    total: Any,
    spread: Any,
    beyond: Any,
    last: Any,
    constants: Any,
    detached: Any,
    lanes: Any,
) -> None:
    """Add what threshold and total, common to the classes of a row, send to each of them."""
    high, temperature = constants[1], constants[4]
    if detached:
        through = spread / total
        for c in range(out.shape[0]):
            out[c] -= through * relative[c]
        return
    through = beyond * max(first - high, ZERO) * last / (first * temperature)
    theta = spread - through * total
    ties = _number_from(relative, first)
    # With ties for the first place it is the first once more, and nothing goes to a second.
    _, second = _largest_two(relative, lanes)
    seconds = _number_from(relative, second) - ties
    to_first = HALF * first * theta if ties < TWO else theta / ties
    to_second = HALF * (TWO - first) * theta / max(seconds, ONE)
    to_second = to_second if ties < TWO else ZERO
    for c in range(out.shape[0]):
        u = relative[c]
        sent = to_second if u == second else ZERO
        out[c] -= through * u + (to_first if u >= first else sent)
