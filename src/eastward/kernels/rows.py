# mypy: ignore-errors
r"""Compiled passes for three or more classes and the dynamic threshold.

Only :math:`u_k = p_k / \tau = 2 e^{z_k} / (e^{z_1} + e^{z_2})` enters the step, with the two largest logits
:math:`z_1 \ge z_2`: the softmax denominator cancels. In these units the step bends at :math:`1 \mp 2.5 T`, and only the
largest class can pass the second bend. It is treated apart from the others, whose powers :math:`e^{z_k - z_1}` are all
below one. If several classes are the largest, none is above the threshold and all count as "others".

Rows are processed in blocks of about a thousand numbers, so that the exponentials of short rows fill vectors, too.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from eastward.kernels.arithmetic import (
    BAD_LABEL,
    FAST,
    FINE,
    HALF,
    INLINE,
    ONE,
    TWO,
    ZERO,
    bits_of,
    exp_of_negative,
    float_of,
    floats_at,
    labels_at,
    largest,
    place_of,
)
from eastward.kernels.conversions import by_memberships

__all__ = ["SUMS", "add_row", "counts_of_sums", "row_pullback", "row_tables"]

# How many numbers are processed at a time.
BLOCK = 1024

# Sums for each class: found; wrongly predicted where another class is first, and where the class itself is first;
# missed; correctly rejected although first; mass of other classes' samples where it is first; true mass.
SUMS = 7
(_FOUND, _WRONG, _WRONG_FIRST, _MISSED, _LEFT_FIRST, _OTHERS_FIRST, _TRUE) = range(SUMS)
_NONE, _ONE_MORE, _BITS_OF_ONE = np.int32(0), np.int32(1), np.int32(0x3F800000)
# A difference of sums of weights below this share of their total is rounding.
_ROUNDING = 1e-14


@njit(**INLINE)
def _fill(logits: Any, start: Any, stop: Any, powers: Any) -> Any:
    """Fill rows of ``powers`` with exp(z - largest z); return what is wrong."""
    size, wrong = logits.shape[1], FINE
    for n in range(start, stop):
        row = logits[n]
        top, found = largest(row)
        wrong = max(wrong, found)
        shifted = powers[(n - start) * size : (n - start + 1) * size]
        for c in range(size):
            shifted[c] = row[c] - top
    for i in range((stop - start) * size):
        powers[i] = exp_of_negative(powers[i])
    return wrong


@njit(**INLINE)
def _below(powers: Any) -> Any:
    """Return the sum of the powers below 1, the largest of them, how many are 1, and where the first 1 is.

    Positive floats are ordered like their bits, and the maximum of integers is vectorised. A loop that stops at the
    first 1 would be shorter, but no compiler vectorises it.
    """
    rest, second, ties = ZERO, _NONE, _NONE
    place = np.int32(powers.shape[0] - 1)
    for c in range(powers.shape[0]):
        bits = bits_of(powers[c])
        is_first = bits >= _BITS_OF_ONE
        rest += ZERO if is_first else powers[c]
        second = max(second, _NONE if is_first else bits)
        # Numba widens sums of integers; with narrow integers more fit a vector.
        ties = np.int32(ties + (_ONE_MORE if is_first else _NONE))
        place = min(place, np.int32(c) if is_first else np.int32(powers.shape[0] - 1))
    return rest, float_of(second), ties, place


@njit(**INLINE)
def _of_nothing(constants: Any) -> Any:
    """Return the step at a probability of zero, which is not zero after a jump (T = 0.4)."""
    return ZERO if constants[0] > ZERO else HALF - constants[3]


@njit(**INLINE)
def _first(constants: Any, second: Any, rest: Any) -> Any:
    """Describe a single largest class: u, h, 1 - h, the slope of h times u, the derivative of h by the sum of all u."""
    _, high, _, middle, temperature = constants
    u = TWO / (ONE + second)
    if u > high:
        others = rest * u
        last = temperature / (others + (u - high))
        return (
            u,
            ONE - others * last,
            others * last,
            last * u,
            -last * last * (u - high) / temperature,
        )
    above = middle * ((ONE - second) / (ONE + second))
    return u, HALF + above, HALF - above, middle * u, ZERO


@njit(**FAST)
def row_tables(
    samples: Any, options: Any, constants: Any, begin: Any, end: Any, kept_at: Any, tables: Any
) -> Any:
    """Fill the tables ``(1, 4, C)`` or ``(1, C, C)`` of rows ``begin`` to ``end``; return what was wrong.

    If ``kept_at`` is an address, the powers of all rows are written there for the second pass.
    """
    logits_at, label_at, weights_at, count, size = samples
    ignored, matrix, _, _ = options
    wrong, step = FINE, _unpacked(constants)
    logits = floats_at(logits_at, count * size).reshape(count, size)
    labels, weights = labels_at(label_at, count), floats_at(weights_at, count)
    kept = floats_at(kept_at, count * size)
    rows = max(1, BLOCK // size)
    work = np.empty((2, rows * size), np.float32)
    powers, steps = work[0], work[1, :size]
    sums = tables[0] if matrix else np.zeros((SUMS, size))
    for start in range(begin, end, rows):
        stop = min(start + rows, end)
        if kept.size:
            powers = kept[start * size : stop * size]
        wrong = max(wrong, _fill(logits, start, stop, powers))
        for n in range(start, stop):
            given = weights[n] if weights.size else ONE
            label, weight, known = place_of(labels[n], given, ignored, size)
            if not known:
                return BAD_LABEL
            row = powers[(n - start) * size : (n - start + 1) * size]
            place, own, others = _steps(row, step, steps)
            add_row(steps, place, own, others, label, weight, matrix, sums)
    if not matrix:
        counts_of_sums(sums, tables[0])
    return wrong


@njit(**INLINE)
def _unpacked(constants: Any) -> Any:
    """Return the step as five numbers, which stay in registers."""
    row = constants[0]
    return row[0], row[1], row[2], row[3], row[4]


@njit(**INLINE)
def _steps(powers: Any, constants: Any, steps: Any) -> Any:
    """Fill ``steps`` with h, given the powers of a row; return place and step of the largest, and the other sum."""
    low, _, slope, middle, _ = constants
    rest, second, ties, place = _below(powers)
    first, own, others, single = ONE, ZERO, ZERO, ties == _ONE_MORE
    if single:
        first, own, _, _, _ = _first(constants, second, rest)
        powers[place] = ZERO
        others = -_of_nothing(constants)
    for c in range(powers.shape[0]):
        u = powers[c] * first
        h = slope * u if u < low else HALF + middle * (u - ONE)
        steps[c] = h
        others += h
    powers[place] = ONE
    if single:
        steps[place] = own
        return place, own, others
    return place, steps[place], others - steps[place]


@njit(**INLINE)
def add_row(
    steps: Any,
    place: Any,
    own: Any,
    others: Any,
    label: Any,
    weight: Any,
    matrix: Any,
    sums: Any,
) -> None:
    """Add a row of steps: ``own`` is the largest, at ``place``, and ``others`` is the sum of the rest."""
    share = weight / (own + others)
    if matrix:
        for c in range(steps.shape[0]):
            sums[label, c] += steps[c] * share
        return
    sums[_TRUE, label] += weight
    sums[_FOUND, label] += steps[label] * share
    sums[_MISSED, label] += share * (others if label == place else own + (others - steps[label]))
    if label != place:
        sums[_WRONG_FIRST, place] += own * share
        sums[_LEFT_FIRST, place] += others * share
        sums[_OTHERS_FIRST, place] += weight
    steps[label], steps[place] = ZERO, ZERO
    for c in range(steps.shape[0]):
        sums[_WRONG, c] += steps[c] * share


@njit(**INLINE)
def counts_of_sums(sums: Any, counts: Any) -> None:
    """Fill ``counts`` ``(4, C)`` with tp, fp, fn, tn, given the sums ``(SUMS, C)``."""
    total = sums[_TRUE].sum()
    for c in range(sums.shape[1]):
        counts[0, c] = sums[_FOUND, c]
        counts[1, c] = sums[_WRONG, c] + sums[_WRONG_FIRST, c]
        counts[2, c] = sums[_MISSED, c]
        spared = (total - sums[_TRUE, c]) - sums[_OTHERS_FIRST, c]
        spared = spared - sums[_WRONG, c] if spared > _ROUNDING * total else 0.0
        counts[3, c] = max(spared, 0.0) + sums[_LEFT_FIRST, c]


@njit(**FAST)
def row_pullback(
    samples: Any,
    options: Any,
    constants: Any,
    begin: Any,
    end: Any,
    slopes: Any,
    factor: Any,
    filled: Any,
    gradient_at: Any,
) -> None:
    """Write the gradient of rows ``begin`` to ``end``, given ``factor`` times slopes ``(1, 4, C)`` or ``(1, C, C)``.

    If ``filled``, the powers of the first pass are in the memory of the gradient.
    """
    logits_at, label_at, weights_at, count, size = samples
    ignored, matrix, detached, _ = options
    step = _unpacked(constants)
    logits = floats_at(logits_at, count * size).reshape(count, size)
    labels, weights = labels_at(label_at, count), floats_at(weights_at, count)
    flat = floats_at(gradient_at, count * size)
    gradient = flat.reshape(count, size)
    by, nan = by_memberships(slopes, factor, matrix, False)
    if nan:
        # Compiled sums ignore NaN, so it is handled here.
        gradient[begin:end] = np.float32(np.nan)
        return
    rows = max(1, BLOCK // size)
    pulls = by[0, 1].copy()
    for start in range(begin, end, rows):
        stop = min(start + rows, end)
        if not filled:
            _fill(logits, start, stop, flat[start * size : stop * size])
        for n in range(start, stop):
            given = weights[n] if weights.size else ONE
            label, weight, _ = place_of(labels[n], given, ignored, size)
            if matrix:
                _pull_row(gradient[n], by[0, label], weight, step, detached)
                continue
            pulls[label] = by[0, 0, label]
            _pull_row(gradient[n], pulls, weight, step, detached)
            pulls[label] = by[0, 1, label]


@njit(**INLINE)
def _pull_row(out: Any, pulls: Any, weight: Any, constants: Any, detached: Any) -> None:
    """Turn the powers of a row into its gradient, given the derivative by each membership."""
    low, _, slope, middle, _ = constants
    rest, second, ties, place = _below(out)
    single = ties == _ONE_MORE
    first, own, own_slope, by_total = ONE, ZERO, ZERO, ZERO
    total = rest + np.float32(ties)
    if single:
        first, own, _, own_slope, by_total = _first(constants, second, rest)
        total = (rest + ONE) * first
        out[place] = ZERO
    # Memberships sum to one, so only differences of pulls matter. Those to the largest class lose the fewest digits.
    base = pulls[place]
    steps, gained, sloped, alone, receivers = ZERO, ZERO, ZERO, ZERO, ZERO
    receiver = second if single else ONE
    for c in range(out.shape[0]):
        u, pull = out[c] * first, pulls[c] - base
        is_low = u < low
        steep = (slope if is_low else middle) * u
        h = steep if is_low else HALF + middle * (u - ONE)
        steps += h
        gained += pull * h
        sloped += pull * steep
        alone += steep
        receivers += ONE if out[c] == receiver else ZERO
    if single:
        steps += own - _of_nothing(constants)
    inverse = ONE / steps
    mean, share = gained * inverse, weight * inverse
    by_own = -mean * share
    at_first = by_own * own_slope
    spread = share * (sloped - mean * alone) + at_first
    through = spread / total if detached else -by_own * by_total
    theta = ZERO if detached else spread - through * total
    sent = (HALF * second * first if single else ONE) * theta / max(receivers, ONE)
    for c in range(out.shape[0]):
        u = out[c] * first
        steep = slope if u < low else middle
        sent_here = sent if out[c] == receiver else ZERO
        out[c] = ((pulls[c] - base - mean) * share * steep - through) * u - sent_here
    if single:
        out[place] = at_first - (through + HALF * theta) * first
