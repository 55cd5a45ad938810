# mypy: ignore-errors
"""Compiled passes for columns that are yes-or-no decisions, with one fixed threshold or a grid.

``pieces`` has one row for each threshold: the threshold, how far the middle piece reaches below and above it, and the
slopes of the three pieces.
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
    MASKED,
    NOT_FINITE,
    ONE,
    ZERO,
    bits_of,
    exp_of_negative,
    floats_at,
    is_nan,
    labels_at,
    not_finite,
)
from eastward.kernels.conversions import add_two_class_tables, by_memberships

__all__ = ["column_pullback", "column_tables", "slope_at", "step_at"]

# With one column, this many rows are processed at a time, so that they stay in the fastest cache.
RUN = 512
_NONE, _ONE_MORE = np.int32(0), np.int32(1)


@njit(**INLINE)
def step_at(p: Any, opposite: Any, piece: Any) -> Any:
    """Compute the linear step h at p, and 1 - h; ``opposite`` is 1 - p without cancellation."""
    distance = p - piece[0]
    start, end, centre = p * piece[3], opposite * piece[5], distance * piece[4]
    h, missed = HALF + centre, HALF - centre
    if distance < -piece[1]:
        h, missed = start, ONE - start
    if distance > piece[2]:
        h, missed = ONE - end, end
    return h, missed


@njit(**INLINE)
def slope_at(p: Any, piece: Any) -> Any:
    """Compute the slope of the linear step at p."""
    distance = p - piece[0]
    steep = piece[3] if distance < -piece[1] else piece[4]
    return piece[5] if distance > piece[2] else steep


@njit(**INLINE)
def _what_is_wrong(logits: Any, start: Any, paired: Any, count: Any) -> Any:
    """Return FINE (even if the difference of two finite logits overflows), MASKED or NOT_FINITE."""
    wrong, each = FINE, 2 if paired else 1
    for i in range(each * start, each * (start + count)):
        bits = bits_of(logits[i])
        if is_nan(bits) or (paired and not_finite(bits) and bits == bits_of(logits[i ^ 1])):
            return NOT_FINITE
        if not_finite(bits):
            wrong = MASKED
    return wrong


@njit(**INLINE)
def _probabilities(logits: Any, start: Any, paired: Any, p: Any, opposite: Any) -> Any:
    """Fill in the probabilities of "yes" of a run of columns; return what is wrong with the logits.

    If paired, each column has two logits, for "no" and "yes".
    """
    strange = _NONE
    for j in range(p.shape[0]):
        at = start + j
        p[j] = logits[2 * at + 1] - logits[2 * at] if paired else logits[at]
    for j in range(p.shape[0]):
        x = p[j]
        strange = np.int32(strange | (_ONE_MORE if not_finite(bits_of(x)) else _NONE))
        small = exp_of_negative(-abs(x))
        large = ONE / (ONE + small)
        small = small * large
        p[j] = large if x >= ZERO else small
        opposite[j] = small if x >= ZERO else large
    return FINE if strange == _NONE else _what_is_wrong(logits, start, paired, p.shape[0])


@njit(**INLINE)
def _masses(labels: Any, weights: Any, ignored: Any, on: Any, off: Any) -> Any:
    """Split the weights of a run of columns into "yes" and "no"; return whether every label is valid."""
    strange = _NONE
    for j in range(on.shape[0]):
        label = labels[j]
        gone = label == ignored
        weight = ZERO if gone else ONE
        strange = np.int32(strange | (_ONE_MORE if label & ~1 and not gone else _NONE))
        on[j] = weight if label == 1 else ZERO
        off[j] = ZERO if label == 1 else weight
    if weights.size:
        for j in range(on.shape[0]):
            on[j] *= weights[j]
            off[j] *= weights[j]
    return strange == _NONE


@njit(**FAST)
def column_tables(
    samples: Any,
    options: Any,
    pieces: Any,
    begin: Any,
    end: Any,
    kept_at: Any,  # noqa: ARG001 - all passes are called alike; nothing is kept
    tables: Any,
) -> Any:
    """Add the tables of rows ``begin`` to ``end``, of labels or of two classes; return what was wrong."""
    logits_at, label_at, weights_at, count, size = samples
    ignored, matrix, _, pair = options
    width, wrong = 1 if pair else size, FINE
    logits = floats_at(logits_at, count * size)
    labels, weights = labels_at(label_at, count * width), floats_at(weights_at, count * width)
    columns = np.zeros((pieces.shape[0], 4, 1)) if pair else tables
    # With one column many rows form a run; with several each row is a run.
    run = RUN if width == 1 else width
    work = np.empty((4, run), np.float32)
    for start in range(begin * width, end * width, run):
        stop = min(start + run, end * width)
        p, opposite = work[0, : stop - start], work[1, : stop - start]
        on, off = work[2, : stop - start], work[3, : stop - start]
        own = weights[start:stop] if weights.size else weights
        if not _masses(labels[start:stop], own, ignored, on, off):
            return BAD_LABEL
        paired = pair and size == 2
        wrong = max(wrong, _probabilities(logits, start, paired, p, opposite))
        for g in range(pieces.shape[0]):
            if width == 1:
                _add_run(p, opposite, on, off, pieces[g], columns[g])
            else:
                _add_row(p, opposite, on, off, pieces[g], columns[g])
    if pair:
        add_two_class_tables(columns, matrix, tables)
    return wrong


@njit(**INLINE)
def _add_row(p: Any, opposite: Any, on: Any, off: Any, piece: Any, table: Any) -> None:
    piece = (piece[0], piece[1], piece[2], piece[3], piece[4], piece[5])
    for j in range(p.shape[0]):
        h, missed = step_at(p[j], opposite[j], piece)
        table[0, j] += on[j] * h
        table[1, j] += off[j] * h
        table[2, j] += on[j] * missed
        table[3, j] += off[j] * missed


@njit(**INLINE)
def _add_run(p: Any, opposite: Any, on: Any, off: Any, piece: Any, table: Any) -> None:
    piece = (piece[0], piece[1], piece[2], piece[3], piece[4], piece[5])
    tp, fp, fn, tn = ZERO, ZERO, ZERO, ZERO
    for j in range(p.shape[0]):
        h, missed = step_at(p[j], opposite[j], piece)
        tp += on[j] * h
        fp += off[j] * h
        fn += on[j] * missed
        tn += off[j] * missed
    table[0, 0] += tp
    table[1, 0] += fp
    table[2, 0] += fn
    table[3, 0] += tn


@njit(**FAST)
def column_pullback(
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
    ignored, matrix, _, pair = options
    width, paired = 1 if pair else size, pair and size == 2
    logits, gradient = floats_at(logits_at, count * size), floats_at(gradient_at, count * size)
    labels, weights = labels_at(label_at, count * width), floats_at(weights_at, count * width)
    by, nan = by_memberships(slopes, factor, matrix, pair)
    if nan:
        # Compiled sums ignore NaN, so it is handled here.
        gradient[begin * size : end * size] = np.float32(np.nan)
        return
    run = RUN if width == 1 else width
    work = np.empty((5, run), np.float32)
    for start in range(begin * width, end * width, run):
        stop = min(start + run, end * width)
        p, opposite, by_step = (
            work[0, : stop - start],
            work[1, : stop - start],
            work[2, : stop - start],
        )
        on, off = work[3, : stop - start], work[4, : stop - start]
        own = weights[start:stop] if weights.size else weights
        _masses(labels[start:stop], own, ignored, on, off)
        _probabilities(logits, start, paired, p, opposite)
        by_step[:] = ZERO
        for g in range(pieces.shape[0]):
            _pull(p, on, off, pieces[g], by[g], by_step)
        for j in range(stop - start):
            by_step[j] *= p[j] * opposite[j]
        if paired:
            for j in range(stop - start):
                gradient[2 * (start + j)] = -by_step[j]
                gradient[2 * (start + j) + 1] = by_step[j]
        else:
            for j in range(stop - start):
                gradient[start + j] = by_step[j]


@njit(**INLINE)
def _pull(p: Any, on: Any, off: Any, piece: Any, slopes: Any, by_step: Any) -> None:
    """Add the derivative with respect to the probability."""
    piece = (piece[0], piece[1], piece[2], piece[3], piece[4], piece[5])
    if slopes.shape[1] == 1:
        by_yes, by_no = slopes[0, 0], slopes[1, 0]
        for j in range(p.shape[0]):
            by_step[j] += (by_yes * on[j] + by_no * off[j]) * slope_at(p[j], piece)
        return
    for j in range(p.shape[0]):
        by_step[j] += (slopes[0, j] * on[j] + slopes[1, j] * off[j]) * slope_at(p[j], piece)
