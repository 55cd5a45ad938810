# mypy: ignore-errors
"""Compiled sums for many classes and the dynamic threshold, or for whole matrices: row by row.

Vectors run along classes. The formulas are those of :mod:`eastward.kernels.eager`, in units of the powers
:math:`e^{z_k - z_1} = u_k / u_1`, which wait in the array that becomes the gradient, if there is one. The largest class
is punched out of them: a zero adds nothing to any sum, and loops need not ask for it. Where several are largest none is
above the threshold, and all stay. Every loop does one thing: doing two makes vectors narrower, and looking for a place
makes none at all.
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
    INLINE,
    NOT_FINITE,
    ONE,
    TWO,
    ZERO,
    ask_for,
    bits_of,
    exp_of_negative,
    float_of,
    largest,
    place_of,
)

__all__ = ["KEPT", "SMALL", "fill", "of_first", "wide_sums"]

# Numbers kept of a row: largest logit, its u, sum of u, 1 / sum of h, second largest power, how many classes tie for
# the first place, bits of the place of the largest.
KEPT = 7

SMALL = np.float32(1e-12)
_NONE, _ONE_MORE, _BITS_OF_ONE = np.int32(0), np.int32(1), np.int32(0x3F800000)
# So many rows are added in float32 before they join the float64 sums, and so many at once.
_FLUSH, _ROWS_AT_ONCE = 64, 2
# Places are unsigned: those that might count from the end make no vectors. So many powers are looked through while they
# are in the nearest cache, and so many at once for a place.
_START, _NEXT, _NEAR, _SEARCHED = (np.uint64(value) for value in (0, 1, 2048, 64))


@njit(**INLINE)
def fill(logits: Any, n: Any, top: Any, powers: Any, at: Any, begin: Any, end: Any) -> Any:
    """Fill row ``at`` of ``powers`` from ``begin`` to ``end`` with exp(z - top), and return their sum."""
    total = ZERO
    for c in range(begin, end):
        power = exp_of_negative(logits[n, c] - top)
        powers[at, c] = power
        total += power
    return total


@njit(**INLINE)
def _second(powers: Any, at: Any, begin: Any, end: Any) -> Any:
    """The largest power below 1, and how many are 1.

    Positive floats have the order of their bits, and the maximum of integers becomes vectors.
    """
    second, ties = _NONE, _NONE
    for c in range(begin, end):
        bits = bits_of(powers[at, c])
        is_first = bits >= _BITS_OF_ONE
        second = max(second, _NONE if is_first else bits)
        # Numba widens sums of integers; narrow ones make wider vectors.
        ties = np.int32(ties + (_ONE_MORE if is_first else _NONE))
    return float_of(second), ties


@njit(**INLINE)
def _place_of_first(powers: Any, at: Any, begin: Any) -> Any:
    """Where a power is 1, from ``begin`` on: by blocks, since only a loop without a way out becomes vectors."""
    size = np.uint64(powers.shape[1])
    while begin + _SEARCHED < size:
        here = _NONE
        for c in range(begin, begin + _SEARCHED):
            here = np.int32(here + (_ONE_MORE if powers[at, c] >= ONE else _NONE))
        if here > _NONE:
            break
        begin += _SEARCHED
    while powers[at, begin] < ONE:
        begin += _NEXT
    return begin


@njit(**INLINE)
def of_first(constants: Any, first: Any, total: Any) -> Any:
    """The slope of the largest class times its u, and its h."""
    low, high, slope, middle, temperature = constants
    if first > high:
        last = temperature / max(total - high, SMALL)
        return last * first, ONE - temperature + (first - high) * last
    if first < low:
        return slope * first, slope * first
    return middle * first, HALF + middle * (first - ONE)


@njit(**INLINE)
def _steps(powers: Any, at: Any, first: Any, constants: Any, steps: Any, turn: Any) -> Any:
    """Fill row ``turn`` of ``steps`` with h, and return their sum."""
    low, _, slope, middle, _ = constants
    total = ZERO
    for c in range(powers.shape[1]):
        u = powers[at, c] * first
        h = slope * u if u < low else HALF + middle * (u - ONE)
        steps[turn, c] = h
        total += h
    return total


@njit(**INLINE)
def _add_rows(steps: Any, shares: Any, waiting: Any) -> None:
    """Add two rows of h, each times its share."""
    of_one, of_two = shares[0], shares[1]
    for c in range(waiting.shape[0]):
        waiting[c] += steps[0, c] * of_one + steps[1, c] * of_two
    shares[0], shares[1] = ZERO, ZERO


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
    has_room = waiting_room.shape[0] > 0
    powers = waiting_room if has_room else np.empty((1, size), np.float32)
    steps, shares = np.zeros((_ROWS_AT_ONCE, size), np.float32), np.zeros(_ROWS_AT_ONCE, np.float32)
    waiting = np.zeros(size, np.float32)
    for n in range(begin, end):
        given = weights[n] if weights.size else ONE
        label, weight, known = place_of(labels[n], given, ignored, size)
        top, finite = largest(logits, n)
        if not (known and finite):
            return NOT_FINITE if known else BAD_LABEL
        at, turn = n if has_room else 0, (n - begin) % _ROWS_AT_ONCE
        following = min(n + 1, end - 1)
        share = weight * _row(logits, n, following, top, powers, at, constants, steps, turn, kept)
        if matrix:
            for c in range(size):
                sums[label, c] += steps[turn, c] * share
            continue
        shares[turn] = share
        sums[0, label] += steps[turn, label] * share
        sums[2, label] += weight
        if turn == _ROWS_AT_ONCE - 1 or n == end - 1:
            _add_rows(steps, shares, waiting)
        if (n - begin) % _FLUSH == _FLUSH - 1 or n == end - 1:
            for c in range(size):
                sums[1, c] += waiting[c]
                waiting[c] = ZERO
    return FINE


@njit(**INLINE)
def _row(
    logits: Any,
    n: Any,
    following: Any,
    top: Any,
    powers: Any,
    at: Any,
    constants: Any,
    steps: Any,
    turn: Any,
    kept: Any,
) -> Any:
    """Fill powers, h and what is kept of row ``n``; 1 / sum of h. The following row is fetched meanwhile."""
    total, second, ties, near = ZERO, ZERO, _NONE, _START
    size, begin, part = np.uint64(logits.shape[1]), _START, 0
    while begin < size:
        end = min(begin + _NEAR, size)
        ask_for(logits, following, part)
        total += fill(logits, n, top, powers, at, begin, end)
        ask_for(logits, following, part + 1)
        least, more = _second(powers, at, begin, end)
        second, ties = max(second, least), np.int32(ties + more)
        near = begin if more > _NONE else near
        begin, part = end, part + 2
    single, place = ties == _ONE_MORE, _START
    first = TWO / (ONE + second) if single else ONE
    total *= first
    if single:
        place = _place_of_first(powers, at, near)
        powers[at, place] = ZERO
    ask_for(logits, following, part)
    whole = _steps(powers, at, first, constants, steps, turn)
    ask_for(logits, following, part + 1)
    if single:
        own = of_first(constants, first, total)[1]
        # At zero the step may have jumped already (T = 0.4).
        whole += own - steps[turn, place]
        steps[turn, place] = own
    inverse = ONE / whole
    kept[n, 0], kept[n, 1], kept[n, 2], kept[n, 3] = top, first, total, inverse
    kept[n, 4], kept[n, 5], kept[n, 6] = second, np.float32(ties), float_of(np.int32(place))
    return inverse
