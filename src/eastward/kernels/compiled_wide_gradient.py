# mypy: ignore-errors
"""Compiled gradient for many classes and the dynamic threshold, or for whole matrices: row by row.

Where the step is a line of slope s in :math:`u`, :math:`h = s u + b`, so that one pass over the powers of
:mod:`eastward.kernels.compiled_wide` finds the sums of :math:`a h`, :math:`a s u` and :math:`s u` that the gradient
needs, and a second one writes it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from eastward.kernels.compiled_arithmetic import (
    FAST,
    HALF,
    INLINE,
    ONE,
    TWO,
    ZERO,
    bits_of,
    place_of,
)
from eastward.kernels.compiled_wide import SMALL, fill, of_first

__all__ = ["wide_gradient"]


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
    pulls = slopes if matrix else _centred(slopes[1])
    for n in range(begin, end):
        given = weights[n] if weights.size else ONE
        label, weight, _ = place_of(labels[n], given, ignored, size)
        if not has_powers:
            fill(logits, n, kept[n, 0], gradient, n, np.uint64(0), np.uint64(size))
            if kept[n, 5] < TWO:
                gradient[n, bits_of(kept[n, 6])] = ZERO
        extra = ZERO if matrix else slopes[0, label]
        pull = label if matrix else 0
        _row(gradient, n, kept, constants, label, weight, pulls, pull, extra, detached)


@njit(**INLINE)
def _row(
    out: Any,
    n: Any,
    kept: Any,
    constants: Any,
    label: Any,
    weight: Any,
    pulls: Any,
    pull: Any,
    extra: Any,
    detached: Any,
) -> None:
    """From powers to the gradient of row ``n``.

    Row ``pull`` of ``pulls`` has the derivative by the sum of each class; ``extra`` is that by the true class's own.
    """
    first, total, inverse = kept[n, 1], kept[n, 2], kept[n, 3]
    place, single = bits_of(kept[n, 6]), kept[n, 5] < TWO
    # Of the threshold, half of u_2 goes to the classes in second place; or all to those that tie for the first.
    receiver = kept[n, 4] if single else ONE
    gentle, steep, bend = constants[2] * first, constants[3] * first, constants[0] / first
    sloped, alone, above, receivers = _gains(out, n, bend, gentle, steep, receiver, pulls, pull)
    at_first, pulled = of_first(constants, first, total), ZERO
    if single:
        pulled = pulls[pull, place]
        above -= pulled if bend <= ZERO else ZERO
        alone += at_first[0]
    gained = sloped - (constants[3] - HALF) * above
    if single:
        sloped += pulled * at_first[0]
        gained += pulled * at_first[1]
    is_first = single and label == place
    own_slope, own_step = at_first if is_first else _at(out[n, label], first, constants)
    mean, share = (gained + extra * own_step) * inverse, weight * inverse
    own = extra * share * own_slope
    by_first = (pulled - mean) * share * at_first[0]
    spread = share * (sloped - mean * alone) + own
    through, to_first, to_receiver = spread / total, ZERO, ZERO
    if not detached:
        through = _through_total(constants, first, total, by_first + (own if is_first else ZERO))
        theta = spread - through * total
        to_first = HALF * first * theta
        to_receiver = HALF * (TWO - first) * theta if single else theta
        to_receiver /= max(receivers, ONE)
    through *= first
    factors = (gentle * share, steep * share, mean, through, to_receiver)
    _write(out, n, bend, receiver, factors, pulls, pull)
    if single:
        out[n, place] = by_first - through - to_first
    out[n, label] += own


@njit(**INLINE)
def _through_total(constants: Any, first: Any, total: Any, by_first: Any) -> Any:
    """What the largest class sends through the sum of u: something in the last piece only."""
    high, temperature = constants[1], constants[4]
    if first <= high:
        return ZERO
    last = temperature / max(total - high, SMALL)
    return by_first * (first - high) * last / (first * temperature)


@njit(**INLINE)
def _centred(pull: Any) -> Any:
    """Memberships of a row sum to one, so a constant in all pulls has no effect; without it less cancels."""
    return (pull - pull.mean()).astype(np.float32).reshape(1, -1)


@njit(**INLINE)
def _at(power: Any, first: Any, constants: Any) -> Any:
    """Slope times u, and h, of one class that is not the largest."""
    low, _, slope, middle, _ = constants
    u = power * first
    if u < low:
        return slope * u, slope * u
    return middle * u, HALF + middle * (u - ONE)


@njit(**INLINE)
def _gains(
    powers: Any,
    n: Any,
    bend: Any,
    gentle: Any,
    steep: Any,
    receiver: Any,
    pulls: Any,
    pull: Any,
) -> Any:
    """Sums over classes: pull times slope times u, the same without pull, pull above the bend; how many receive."""
    sloped, alone, above, receivers = ZERO, ZERO, ZERO, ZERO
    for c in range(powers.shape[1]):
        power, a = powers[n, c], pulls[pull, c]
        is_low = power < bend
        s = (gentle if is_low else steep) * power
        sloped += a * s
        alone += s
        above += ZERO if is_low else a
        receivers += ONE if power == receiver else ZERO
    return sloped, alone, above, receivers


@njit(**INLINE)
def _write(out: Any, n: Any, bend: Any, receiver: Any, factors: Any, pulls: Any, pull: Any) -> None:
    """From powers to the gradient, but for what the largest and the true class have of their own."""
    gentle, steep, mean, through, to_receiver = factors
    for c in range(out.shape[1]):
        power = out[n, c]
        s = gentle if power < bend else steep
        sent = to_receiver if power == receiver else ZERO
        out[n, c] = ((pulls[pull, c] - mean) * s - through) * power - sent
