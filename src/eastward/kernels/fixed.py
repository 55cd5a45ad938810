# mypy: ignore-errors
"""Compiled passes for three or more classes and fixed thresholds; ``pieces`` as in ``columns``."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from eastward.kernels.arithmetic import (
    BAD_LABEL,
    FAST,
    FINE,
    INLINE,
    ONE,
    ZERO,
    exp_of_negative,
    floats_at,
    labels_at,
    largest,
    place_of,
)
from eastward.kernels.columns import slope_at, step_at
from eastward.kernels.conversions import by_memberships
from eastward.kernels.rows import SUMS, add_row, counts_of_sums

__all__ = ["fixed_pullback", "fixed_tables"]


@njit(**INLINE)
def _softmax(row: Any, p: Any, opposite: Any) -> Any:
    """Fill ``p`` with the softmax of a row and ``opposite`` with one minus it; return what is wrong."""
    top, wrong = largest(row)
    rest, place = ZERO, 0
    for c in range(p.shape[0]):
        p[c] = exp_of_negative(row[c] - top)
        place = c if row[c] == top else place
    for c in range(p.shape[0]):
        rest += p[c] if c != place else ZERO
    inverse = ONE / (ONE + rest)
    for c in range(p.shape[0]):
        p[c] *= inverse
        opposite[c] = ONE - p[c]
    opposite[place] = rest * inverse
    return wrong


@njit(**INLINE)
def _steps(p: Any, opposite: Any, piece: Any, steps: Any) -> Any:
    """Fill ``steps`` with h; return the place of the largest, and the sum of the others."""
    place, others = 0, ZERO
    for c in range(p.shape[0]):
        steps[c] = step_at(p[c], opposite[c], piece)[0]
        place = c if steps[c] > steps[place] else place
    for c in range(p.shape[0]):
        others += steps[c] if c != place else ZERO
    return place, others


@njit(**FAST)
def fixed_tables(
    samples: Any,
    options: Any,
    pieces: Any,
    begin: Any,
    end: Any,
    kept_at: Any,  # noqa: ARG001 - all passes are called alike; nothing is kept
    tables: Any,
) -> Any:
    """Add the tables ``(G, 4, C)`` or ``(G, C, C)`` of rows ``begin`` to ``end``; return what was wrong."""
    logits_at, label_at, weights_at, count, size = samples
    ignored, matrix, _, _ = options
    grid, wrong = pieces.shape[0], FINE
    logits = floats_at(logits_at, count * size).reshape(count, size)
    labels, weights = labels_at(label_at, count), floats_at(weights_at, count)
    sums = tables if matrix else np.zeros((grid, SUMS, size))
    work = np.empty((3, size), np.float32)
    p, opposite, steps = work[0], work[1], work[2]
    for n in range(begin, end):
        given = weights[n] if weights.size else ONE
        label, weight, known = place_of(labels[n], given, ignored, size)
        if not known:
            return BAD_LABEL
        wrong = max(wrong, _softmax(logits[n], p, opposite))
        for g in range(grid):
            place, others = _steps(p, opposite, pieces[g], steps)
            add_row(steps, place, steps[place], others, label, weight, matrix, sums[g])
    if not matrix:
        for g in range(grid):
            counts_of_sums(sums[g], tables[g])
    return wrong


@njit(**FAST)
def fixed_pullback(
    samples: Any,
    options: Any,
    pieces: Any,
    begin: Any,
    end: Any,
    slopes: Any,
    factor: Any,
    filled: Any,  # noqa: ARG001 - all passes are called alike; nothing is kept
    gradient_at: Any,
) -> None:
    """Write the gradient of rows ``begin`` to ``end``, given ``factor`` times slopes of the tables' shape."""
    logits_at, label_at, weights_at, count, size = samples
    ignored, matrix, _, _ = options
    logits = floats_at(logits_at, count * size).reshape(count, size)
    labels, weights = labels_at(label_at, count), floats_at(weights_at, count)
    gradient = floats_at(gradient_at, count * size).reshape(count, size)
    by, nan = by_memberships(slopes, factor, matrix, False)
    if nan:
        # Compiled sums ignore NaN, so it is handled here.
        gradient[begin:end] = np.float32(np.nan)
        return
    work = np.empty((3, size), np.float32)
    p, opposite, steps = work[0], work[1], work[2]
    for n in range(begin, end):
        given = weights[n] if weights.size else ONE
        label, weight, _ = place_of(labels[n], given, ignored, size)
        _softmax(logits[n], p, opposite)
        out = gradient[n]
        out[:] = ZERO
        for g in range(pieces.shape[0]):
            place, others = _steps(p, opposite, pieces[g], steps)
            pulls = by[g, label if matrix else 1]
            own = pulls[label] if matrix else by[g, 0, label]
            base = own if place == label else pulls[place]
            inverse, mean = ONE / (steps[place] + others), ZERO
            for c in range(size):
                mean += ((own if c == label else pulls[c]) - base) * steps[c]
            mean *= inverse
            for c in range(size):
                pull = (own if c == label else pulls[c]) - base
                out[c] += (pull - mean) * inverse * weight * slope_at(p[c], pieces[g])
        spread = ZERO
        for c in range(size):
            spread += p[c] * out[c]
        for c in range(size):
            out[c] = p[c] * (out[c] - spread)
