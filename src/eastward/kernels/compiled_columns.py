# mypy: ignore-errors
"""Compiled kernels for binary columns: two classes, or independent labels, at fixed thresholds.

The formulas are those of :mod:`eastward.kernels.eager_columns`. ``pieces`` holds one row for each threshold: itself,
half the width of the middle piece, the slopes of the three pieces. All arrays are flat.
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
    ZERO,
    bits_of,
    exp_of_negative,
    not_finite,
)

__all__ = ["column_gradient", "column_sums", "slope_at", "step_at"]

# Rows of a single column that are worked on together.
RUN = 256
_NONE, _ONE_MORE = np.int32(0), np.int32(1)
# Places are unsigned: those that might count from the end make no vectors.
_NEXT, _TWICE = np.uint64(1), np.uint64(2)


@njit(**INLINE)
def step_at(p: Any, opposite: Any, piece: Any) -> Any:
    """The linear step at p; ``opposite`` is 1 - p with all its digits."""
    distance = p - piece[0]
    h = p * piece[2] if distance < -piece[1] else HALF + distance * piece[3]
    return ONE - opposite * piece[4] if distance > piece[1] else h


@njit(**INLINE)
def slope_at(p: Any, piece: Any) -> Any:
    """The slope of the linear step at p."""
    distance = p - piece[0]
    steep = piece[2] if distance < -piece[1] else piece[3]
    return piece[4] if distance > piece[1] else steep


@njit(**INLINE)
def _probabilities(logits: Any, start: Any, paired: Any, p: Any, opposite: Any) -> Any:
    """Probabilities of "yes" of a run of flat columns; whether all logits are finite."""
    strange, count = _NONE, np.uint64(p.shape[0])
    if paired:
        for j in range(count):
            no, yes = logits[_TWICE * (start + j)], logits[_TWICE * (start + j) + _NEXT]
            odd = not_finite(bits_of(no)) | not_finite(bits_of(yes))
            strange = np.int32(strange | (_ONE_MORE if odd else _NONE))
            p[j] = yes - no
    else:
        for j in range(count):
            odd = not_finite(bits_of(logits[start + j]))
            strange = np.int32(strange | (_ONE_MORE if odd else _NONE))
            p[j] = logits[start + j]
    for j in range(count):
        x = p[j]
        small = exp_of_negative(-abs(x))
        large = ONE / (ONE + small)
        small = small * large
        p[j] = large if x >= ZERO else small
        opposite[j] = small if x >= ZERO else large
    return strange == _NONE


@njit(**INLINE)
def _masses(labels: Any, weights: Any, ignored: Any, start: Any, on: Any, off: Any) -> Any:
    """Weights of a run of columns, as those of "yes" and those of "no"; whether every label is 0, 1 or ignored."""
    strange, count = _NONE, np.uint64(on.shape[0])
    for j in range(count):
        label = labels[start + j]
        gone = label == ignored
        weight = ZERO if gone else ONE
        strange = np.int32(strange | (_ONE_MORE if label & ~1 and not gone else _NONE))
        on[j] = weight if label == 1 else ZERO
        off[j] = ZERO if label == 1 else weight
    if weights.size:
        for j in range(count):
            on[j] *= weights[start + j]
            off[j] *= weights[start + j]
    return strange == _NONE


@njit(**FAST)
def column_sums(
    logits: Any,
    labels: Any,
    weights: Any,
    ignored: Any,
    pieces: Any,
    paired: Any,
    begin: Any,
    end: Any,
    sums: Any,
) -> Any:
    """Add the sums ``(G, 4, L)`` of rows ``begin`` to ``end``; what was wrong."""
    width = sums.shape[2]
    # One column: many rows make a run; several: each row is one.
    run = RUN if width == 1 else width
    work = np.empty((4, run), np.float32)
    for start in range(begin * width, end * width, run):
        count = min(run, end * width - start)
        p, opposite = work[0, :count], work[1, :count]
        on, off = work[2, :count], work[3, :count]
        place = np.uint64(start)
        if not _masses(labels, weights, ignored, place, on, off):
            return BAD_LABEL
        if not _probabilities(logits, place, paired, p, opposite):
            return NOT_FINITE
        for g in range(pieces.shape[0]):
            if width == 1:
                _add_run(p, opposite, on, off, pieces[g], sums[g])
            else:
                _add_row(p, opposite, on, off, pieces[g], sums[g])
    return FINE


@njit(**INLINE)
def _add_row(p: Any, opposite: Any, on: Any, off: Any, piece: Any, sums: Any) -> None:
    piece = (piece[0], piece[1], piece[2], piece[3], piece[4])
    for j in range(p.shape[0]):
        h = step_at(p[j], opposite[j], piece)
        sums[0, j] += on[j] * h
        sums[1, j] += off[j] * h
        sums[2, j] += on[j]
        sums[3, j] += off[j]


@njit(**INLINE)
def _add_run(p: Any, opposite: Any, on: Any, off: Any, piece: Any, sums: Any) -> None:
    piece = (piece[0], piece[1], piece[2], piece[3], piece[4])
    found, false, positives, negatives = ZERO, ZERO, ZERO, ZERO
    for j in range(p.shape[0]):
        h = step_at(p[j], opposite[j], piece)
        found += on[j] * h
        false += off[j] * h
        positives += on[j]
        negatives += off[j]
    sums[0, 0] += found
    sums[1, 0] += false
    sums[2, 0] += positives
    sums[3, 0] += negatives


@njit(**FAST)
def column_gradient(
    logits: Any,
    labels: Any,
    weights: Any,
    ignored: Any,
    pieces: Any,
    paired: Any,
    begin: Any,
    end: Any,
    slopes: Any,
    gradient: Any,
) -> None:
    """Write the gradient of rows ``begin`` to ``end``, given slopes ``(G, 2, L)``."""
    width = slopes.shape[2]
    run = RUN if width == 1 else width
    work = np.empty((5, run), np.float32)
    for start in range(begin * width, end * width, run):
        count = min(run, end * width - start)
        p, opposite, by_step = work[0, :count], work[1, :count], work[2, :count]
        on, off = work[3, :count], work[4, :count]
        place = np.uint64(start)
        _masses(labels, weights, ignored, place, on, off)
        _probabilities(logits, place, paired, p, opposite)
        by_step[:] = ZERO
        for g in range(pieces.shape[0]):
            _pull(p, on, off, pieces[g], slopes[g], by_step)
        _write(by_step, p, opposite, place, paired, gradient)


@njit(**INLINE)
def _write(by_step: Any, p: Any, opposite: Any, start: Any, paired: Any, gradient: Any) -> None:
    """From the derivative by the probability to that by the logits."""
    if paired:
        for j in range(np.uint64(p.shape[0])):
            pulled = by_step[j] * p[j] * opposite[j]
            gradient[_TWICE * (start + j)] = -pulled
            gradient[_TWICE * (start + j) + _NEXT] = pulled
    else:
        for j in range(np.uint64(p.shape[0])):
            gradient[start + j] = by_step[j] * p[j] * opposite[j]


@njit(**INLINE)
def _pull(p: Any, on: Any, off: Any, piece: Any, slopes: Any, by_step: Any) -> None:
    """Add the derivative by the probability."""
    piece = (piece[0], piece[1], piece[2], piece[3], piece[4])
    if slopes.shape[1] == 1:
        by_found, by_false = slopes[0, 0], slopes[1, 0]
        for j in range(p.shape[0]):
            by_step[j] += (by_found * on[j] + by_false * off[j]) * slope_at(p[j], piece)
        return
    for j in range(p.shape[0]):
        by_step[j] += (slopes[0, j] * on[j] + slopes[1, j] * off[j]) * slope_at(p[j], piece)
