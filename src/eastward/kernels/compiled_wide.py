# mypy: ignore-errors
"""Compiled kernels for many classes and the dynamic threshold, or for whole matrices: row by row.

Vectors run along classes. The formulas are those of :mod:`eastward.kernels.eager`; where the step is a line of slope s
in :math:`u`, :math:`h = s u + b`, so that one pass over a row finds the sums of :math:`a h`, :math:`a s u` and
:math:`s u` that the gradient needs, and a second one writes it. The exponentials wait in the array that becomes the
gradient, if there is one; else they are computed again. A few numbers of each row are kept.
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
)

__all__ = ["KEPT", "wide_gradient", "wide_sums"]

# Numbers kept of a row: largest logit, its u, sum of u, 1 / sum of h, second largest power, classes that tie.
KEPT = 6

_SMALL = np.float32(1e-12)
_NONE, _ONE_MORE, _BITS_OF_ONE = np.int32(0), np.int32(1), np.int32(0x3F800000)
# So many rows are added in float32 before they join the float64 sums.
_FLUSH = 64


@njit(**FAST)
def _fill(row: Any, top: Any, powers: Any) -> Any:
    """Fill ``powers`` with exp(z - top), and return their sum."""
    total = ZERO
    for c in range(row.shape[0]):
        power = exp_of_negative(row[c] - top)
        powers[c] = power
        total += power
    return total


@njit(**FAST)
def _second(powers: Any) -> Any:
    """The largest power below 1, and how many are 1; in a loop of its own, wider vectors are made of both.

    Positive floats have the order of their bits, and the maximum of integers becomes vectors.
    """
    second, ties = _NONE, _NONE
    for c in range(powers.shape[0]):
        bits = bits_of(powers[c])
        is_first = bits >= _BITS_OF_ONE
        second = max(second, _NONE if is_first else bits)
        ties += _ONE_MORE if is_first else _NONE
    return float_of(second), ties


@njit(**FAST)
def _of_first(constants: Any, first: Any, total: Any) -> Any:
    """The slope of the largest class times its u, and its h."""
    low, high, slope, middle, temperature = constants
    if first > high:
        last = temperature / max(total - high, _SMALL)
        return last * first, ONE - temperature + (first - high) * last
    if first < low:
        return slope * first, slope * first
    return middle * first, HALF + middle * (first - ONE)


@njit(**FAST)
def _steps(powers: Any, first: Any, constants: Any, of_first: Any, steps: Any) -> Any:
    """Fill ``steps`` with h, and return their sum."""
    low, _, slope, middle, _ = constants
    total = ZERO
    for c in range(powers.shape[0]):
        power = powers[c]
        u = power * first
        h = slope * u if u < low else HALF + middle * (u - ONE)
        h = of_first if power >= ONE else h
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
    waiting_room: Any,
) -> Any:
    """Add the sums ``(3, C)`` or ``(C, C)`` of rows ``begin`` to ``end``, fill ``kept``; what was wrong.

    Powers are left in ``waiting_room`` if it has rows.
    """
    size = logits.shape[1]
    scratch, steps = np.empty(size, np.float32), np.empty(size, np.float32)
    waiting = np.zeros(size, np.float32)
    for n in range(begin, end):
        given = weights[n] if weights.size else ONE
        label, weight, known = place_of(labels[n], given, ignored, size)
        top, finite = largest(logits[n])
        if not (known and finite):
            return NOT_FINITE if known else BAD_LABEL
        powers = waiting_room[n] if waiting_room.shape[0] else scratch
        total = _fill(logits[n], top, powers)
        second, ties = _second(powers)
        first = ONE if ties > 1 else TWO / (ONE + second)
        total *= first
        _, of_first = _of_first(constants, first, total)
        inverse = ONE / _steps(powers, first, constants, of_first, steps)
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
    has_powers: Any,
) -> None:
    """Write the gradient of rows ``begin`` to ``end``, given slopes ``(2, C)`` or ``(C, C)``.

    ``has_powers`` says that ``gradient`` was the waiting room of the forward pass.
    """
    size = logits.shape[1]
    high, temperature = constants[1], constants[4]
    pulls = slopes[0] if matrix else _centred(slopes[1])
    for n in range(begin, end):
        given = weights[n] if weights.size else ONE
        label, weight, _ = place_of(labels[n], given, ignored, size)
        of_row, out = kept[n], gradient[n]
        top, first, total = of_row[0], of_row[1], of_row[2]
        inverse, second, ties = of_row[3], of_row[4], of_row[5]
        if not has_powers:
            _fill(logits[n], top, out)
        pull = slopes[label] if matrix else pulls
        extra = ZERO if matrix else slopes[0, label]
        at_first = _of_first(constants, first, total)
        sloped, alone, gained, pulled, seconds = _gains(out, first, second, constants, pull)
        sloped += pulled * at_first[0]
        alone += ties * at_first[0]
        own_slope, own_step = _at(out[label], first, constants, at_first)
        mean = (gained + pulled * at_first[1] + extra * own_step) * inverse
        share = weight * inverse
        own = extra * share * own_slope
        spread = share * (sloped - mean * alone) + own
        if detached:
            sent = (spread / total * first, ZERO, ZERO)
        else:
            through = ZERO
            if first > high:
                by_first = (pulled - mean) * share * at_first[0]
                by_first += own if out[label] >= ONE else ZERO
                last = temperature / max(total - high, _SMALL)
                through = by_first * (first - high) * last / (first * temperature)
            theta = spread - through * total
            # With ties for the first place nothing goes to a second.
            single = ties < TWO
            to_first = HALF * first * theta if single else theta / ties
            to_second = HALF * (TWO - first) * theta / max(seconds, ONE) if single else ZERO
            sent = (through * first, to_first, to_second)
        _write(out, first, second, constants, at_first[0], pull, mean, share, sent)
        out[label] += own


@njit(**FAST)
def _centred(pull: Any) -> Any:
    """Memberships of a row sum to one, so a constant in all pulls has no effect; without it less cancels."""
    return (pull - pull.mean()).astype(np.float32)


@njit(**FAST)
def _at(power: Any, first: Any, constants: Any, at_first: Any) -> Any:
    """Slope times u, and h, of one class."""
    low, _, slope, middle, _ = constants
    u = power * first
    if power >= ONE:
        return at_first
    if u < low:
        return slope * u, slope * u
    return middle * u, HALF + middle * (u - ONE)


@njit(**FAST)
def _gains(powers: Any, first: Any, second: Any, constants: Any, pull: Any) -> Any:
    """Sums over classes but the largest: pull times slope times u, the same without pull, pull times h.

    The pull of the largest, and how many classes are second.
    """
    low, _, slope, middle, _ = constants
    sloped, alone, gained, pulled, seconds = ZERO, ZERO, ZERO, ZERO, ZERO
    for c in range(powers.shape[0]):
        power = powers[c]
        is_first = power >= ONE
        u = ZERO if is_first else power * first
        a = ZERO if is_first else pull[c]
        is_low = u < low
        s = (slope if is_low else middle) * u
        sloped += a * s
        alone += s
        gained += a * (s if is_low else HALF + middle * (u - ONE))
        pulled += pull[c] if is_first else ZERO
        seconds += ONE if power == second else ZERO
    return sloped, alone, gained, pulled, seconds


@njit(**FAST)
def _write(
    out: Any,
    first: Any,
    second: Any,
    constants: Any,
    of_first: Any,
    pull: Any,
    mean: Any,
    share: Any,
    sent: Any,
) -> None:
    """From powers to the gradient, but for what the true class has of its own."""
    low, _, slope, middle, _ = constants
    through, to_first, to_second = sent
    gentle, steep = slope * first, middle * first
    for c in range(out.shape[0]):
        power = out[c]
        is_first = power >= ONE
        s = gentle if power * first < low else steep
        s = of_first if is_first else s
        elsewhere = to_second if power == second else ZERO
        elsewhere = to_first if is_first else elsewhere
        out[c] = ((pull[c] - mean) * share * s - through) * power - elsewhere
