# mypy: ignore-errors
"""Compiled kernels for many classes and the dynamic threshold, or for whole matrices: row by row.

Vectors run along classes. The formulas are those of :mod:`eastward.kernels.eager`. A row stays in the fastest cache
while it is passed over. The exponentials are computed again in the backward pass, which is cheaper than writing them
to memory and reading them back; a few numbers of each row are kept.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from eastward.kernels.compiled_arithmetic import (
    BAD_LABEL,
    FAST,
    FINE,
    HALF,
    NOT_FINITE,
    ONE,
    TWO,
    ZERO,
    bits_of,
    exp_of_negative,
    float_of,
    largest,
    place_of,
    prefetch,
)

__all__ = ["KEPT", "wide_gradient", "wide_sums"]

# Numbers kept of a row: largest logit, its u, sum of u, 1 / sum of h, second largest power, classes that tie.
KEPT = 6

_SMALL = np.float32(1e-12)
_NONE, _ONE_MORE, _BITS_OF_ONE = np.int32(0), np.int32(1), np.int32(0x3F800000)
# So many rows are added in float32 before they join the float64 sums.
_FLUSH = 64


@njit(**FAST)
def _powers(row: Any, top: Any, powers: Any) -> Any:
    """Fill ``powers`` with exp(z - top); their sum, the largest below 1, how many are 1.

    Positive floats have the order of their bits, and the maximum of integers becomes vectors.
    """
    total, second, ties = ZERO, _NONE, _NONE
    for c in range(row.shape[0]):
        power = exp_of_negative(row[c] - top)
        powers[c] = power
        total += power
        bits = bits_of(power)
        is_first = bits >= _BITS_OF_ONE
        second = max(second, _NONE if is_first else bits)
        ties += _ONE_MORE if is_first else _NONE
    return total, float_of(second), ties


@njit(**FAST)
def _steps(powers: Any, first: Any, constants: Any, last: Any, steps: Any) -> Any:
    """Fill ``steps`` with h, and return their sum."""
    low, high, slope, middle, temperature = constants
    total = ZERO
    for c in range(powers.shape[0]):
        u = powers[c] * first
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
    ignored: Any,
    constants: Any,
    begin: Any,
    end: Any,
    sums: Any,
    matrix: Any,
    kept: Any,
) -> Any:
    """Add the sums ``(3, C)`` or ``(C, C)`` of rows ``begin`` to ``end``, fill ``kept``; what was wrong."""
    size = logits.shape[1]
    high, temperature = constants[1], constants[4]
    powers, steps = np.empty(size, np.float32), np.empty(size, np.float32)
    waiting = np.zeros(size, np.float32)
    for n in range(begin, end):
        given = weights[n] if weights.size else ONE
        label, weight, known = place_of(labels[n], given, ignored, size)
        prefetch(logits, n + 1)
        top, finite = largest(logits[n])
        if not (known and finite):
            return NOT_FINITE if known else BAD_LABEL
        total, second, ties = _powers(logits[n], top, powers)
        first = ONE if ties > 1 else TWO / (ONE + second)
        total *= first
        last = temperature / max(total - high, _SMALL)
        inverse = ONE / _steps(powers, first, constants, last, steps)
        share = weight * inverse
        of_row = kept[n]
        of_row[0], of_row[1], of_row[2] = top, first, total
        of_row[3], of_row[4], of_row[5] = inverse, second, np.float32(ties)
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
            for c in range(size):
                sums[1, c] += waiting[c]
                waiting[c] = ZERO
    return FINE


@njit(**FAST)
def wide_gradient(
    logits: Any,
    labels: Any,
    weights: Any,
    ignored: Any,
    constants: Any,
    begin: Any,
    end: Any,
    slopes: Any,
    detached: Any,
    gradient: Any,
    matrix: Any,
    kept: Any,
) -> None:
    """Write the gradient of rows ``begin`` to ``end``, given slopes ``(2, C)`` or ``(C, C)``."""
    size = logits.shape[1]
    high, temperature = constants[1], constants[4]
    powers = np.empty(size, np.float32)
    for n in range(begin, end):
        given = weights[n] if weights.size else ONE
        label, weight, _ = place_of(labels[n], given, ignored, size)
        prefetch(logits, n + 1)
        prefetch(gradient, n + 1)
        of_row, out = kept[n], gradient[n]
        top, first, total = of_row[0], of_row[1], of_row[2]
        inverse, second, ties = of_row[3], of_row[4], of_row[5]
        last = temperature / max(total - high, _SMALL)
        pull = slopes[label] if matrix else slopes[1]
        extra = ZERO if matrix else slopes[0, label]
        mean = _mean(logits[n], top, first, last, constants, pull, extra, label, powers)
        pulls = (mean * inverse, weight * inverse, extra, label, last)
        spread, beyond, seconds = _pull(powers, first, second, pull, pulls, constants, out)
        if detached:
            through = spread / total * first
            for c in range(size):
                out[c] -= through * powers[c]
            continue
        through = beyond * max(first - high, ZERO) * last / (first * temperature)
        theta = spread - through * total
        # With ties for the first place nothing goes to a second.
        alone = ties < TWO
        to_first = HALF * first * theta if alone else theta / ties
        to_second = HALF * (TWO - first) * theta / max(seconds, ONE) if alone else ZERO
        through *= first
        for c in range(size):
            power = powers[c]
            sent = to_second if power == second else ZERO
            out[c] -= through * power + (to_first if power >= ONE else sent)


@njit(**FAST)
def _mean(
    row: Any,
    top: Any,
    first: Any,
    last: Any,
    constants: Any,
    pull: Any,
    extra: Any,
    label: Any,
    powers: Any,
) -> Any:
    """Fill ``powers``; the sum of what the loss gains by each step, times the step."""
    low, high, slope, middle, temperature = constants
    mean, edge = ZERO, ONE - temperature
    for c in range(row.shape[0]):
        power = exp_of_negative(row[c] - top)
        powers[c] = power
        u = power * first
        h = slope * u if u < low else HALF + middle * (u - ONE)
        h = edge + (u - high) * last if u > high else h
        mean += pull[c] * h
    u = powers[label] * first
    h = slope * u if u < low else HALF + middle * (u - ONE)
    return mean + extra * (edge + (u - high) * last if u > high else h)


@njit(**FAST)
def _pull(
    powers: Any, first: Any, second: Any, pull: Any, pulls: Any, constants: Any, out: Any
) -> Any:
    """Write the derivative by u, times u, as if threshold and total were constant; its sums; number of seconds."""
    mean, share, extra, label, last = pulls
    low, high, slope, middle, _ = constants
    spread, beyond, seconds = ZERO, ZERO, ZERO
    for c in range(powers.shape[0]):
        u = powers[c] * first
        steep = slope if u < low else middle
        steep = last if u > high else steep
        t = (pull[c] - mean) * share * steep * u
        out[c] = t
        spread += t
        beyond += t if u > high else ZERO
        seconds += ONE if powers[c] == second else ZERO
    u = powers[label] * first
    steep = slope if u < low else middle
    steep = last if u > high else steep
    own = extra * share * steep * u
    out[label] += own
    return spread + own, beyond + (own if u > high else ZERO), seconds
