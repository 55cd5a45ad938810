# mypy: ignore-errors
"""Compiled kernels for fixed thresholds: binary columns, and three or more classes.

The formulas are those of :mod:`eastward.kernels.eager_columns` and :mod:`eastward.kernels.eager_fixed`. ``pieces``
holds one row for each threshold: itself, half the width of the middle piece, the slopes of the three pieces.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from eastward.kernels.compiled_arithmetic import (
    FAST,
    HALF,
    ONE,
    ZERO,
    bits_of,
    exp_of_negative,
    not_finite,
)

__all__ = ["column_gradient", "column_sums", "fixed_gradient", "fixed_sums"]

_LOWEST = np.float32(-np.inf)


@njit(**FAST)
def _step(p: Any, opposite: Any, piece: Any) -> Any:
    """The linear step at p; ``opposite`` is 1 - p with all its digits."""
    distance = p - piece[0]
    h = p * piece[2] if distance < -piece[1] else HALF + distance * piece[3]
    return ONE - opposite * piece[4] if distance > piece[1] else h


@njit(**FAST)
def _slope(p: Any, piece: Any) -> Any:
    distance = p - piece[0]
    steep = piece[2] if distance < -piece[1] else piece[3]
    return piece[4] if distance > piece[1] else steep


@njit(**FAST)
def _probabilities(logits: Any, start: Any, paired: Any, p: Any, opposite: Any) -> Any:
    """Probabilities of "yes" of a run of flat columns; whether all logits are finite."""
    strange = 0
    if paired:
        for j in range(p.shape[0]):
            no, yes = logits[2 * (start + j)], logits[2 * (start + j) + 1]
            strange += not_finite(bits_of(no)) | not_finite(bits_of(yes))
            p[j] = yes - no
    else:
        for j in range(p.shape[0]):
            strange += not_finite(bits_of(logits[start + j]))
            p[j] = logits[start + j]
    for j in range(p.shape[0]):
        x = p[j]
        small = exp_of_negative(-abs(x))
        large = ONE / (ONE + small)
        small = small * large
        p[j] = large if x >= ZERO else small
        opposite[j] = small if x >= ZERO else large
    return strange == 0


@njit(**FAST)
def column_sums(
    logits: Any,
    labels: Any,
    weights: Any,
    pieces: Any,
    paired: Any,
    begin: Any,
    end: Any,
    sums: Any,
) -> Any:
    """Add the sums ``(G, 4, L)`` of rows ``begin`` to ``end`` of flat arrays; whether all logits are finite."""
    width = sums.shape[2]
    # One column: many rows make a run; several: each row is one.
    run = 256 if width == 1 else width
    work = np.empty((4, run), np.float32)
    for start in range(begin * width, end * width, run):
        count = min(run, end * width - start)
        p, opposite = work[0, :count], work[1, :count]
        on, off = work[2, :count], work[3, :count]
        if not _probabilities(logits, start, paired, p, opposite):
            return False
        for j in range(count):
            weight = weights[start + j] if weights.size else ONE
            on[j] = weight if labels[start + j] == 1 else ZERO
            off[j] = weight - on[j]
        for g in range(pieces.shape[0]):
            _add_columns(p, opposite, on, off, pieces[g], sums[g])
    return True


@njit(**FAST)
def _add_columns(p: Any, opposite: Any, on: Any, off: Any, piece: Any, sums: Any) -> None:
    if sums.shape[1] > 1:
        for j in range(p.shape[0]):
            h = _step(p[j], opposite[j], piece)
            sums[0, j] += on[j] * h
            sums[1, j] += off[j] * h
            sums[2, j] += on[j]
            sums[3, j] += off[j]
        return
    found, false, positives, negatives = ZERO, ZERO, ZERO, ZERO
    for j in range(p.shape[0]):
        h = _step(p[j], opposite[j], piece)
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
    pieces: Any,
    paired: Any,
    begin: Any,
    end: Any,
    slopes: Any,
    gradient: Any,
) -> None:
    """Write the gradient of rows ``begin`` to ``end``, given slopes ``(G, 2, L)``; arrays are flat."""
    width = slopes.shape[2]
    run = 256 if width == 1 else width
    work = np.empty((3, run), np.float32)
    for start in range(begin * width, end * width, run):
        count = min(run, end * width - start)
        p, opposite, by_step = work[0, :count], work[1, :count], work[2, :count]
        _probabilities(logits, start, paired, p, opposite)
        by_step[:] = ZERO
        for g in range(pieces.shape[0]):
            piece, pull = pieces[g], slopes[g]
            for j in range(count):
                column = 0 if width == 1 else j
                steep = pull[0, column] if labels[start + j] == 1 else pull[1, column]
                by_step[j] += steep * _slope(p[j], piece)
        for j in range(count):
            weight = weights[start + j] if weights.size else ONE
            by_step[j] *= weight * p[j] * opposite[j]
        if paired:
            for j in range(count):
                gradient[2 * (start + j)] = -by_step[j]
                gradient[2 * (start + j) + 1] = by_step[j]
        else:
            for j in range(count):
                gradient[start + j] = by_step[j]


@njit(**FAST)
def _softmax(row: Any, p: Any) -> Any:
    """Fill ``p``; whether all logits are finite."""
    top, strange, total = _LOWEST, 0, ZERO
    for c in range(row.shape[0]):
        strange += not_finite(bits_of(row[c]))
        top = max(top, row[c])
    for c in range(row.shape[0]):
        p[c] = exp_of_negative(row[c] - top)
        total += p[c]
    inverse = ONE / total
    for c in range(row.shape[0]):
        p[c] *= inverse
    return strange == 0


@njit(**FAST)
def fixed_sums(
    logits: Any,
    labels: Any,
    weights: Any,
    pieces: Any,
    begin: Any,
    end: Any,
    sums: Any,
    matrix: Any,
) -> Any:
    """Add the sums ``(G, 3, C)`` or ``(G, C, C)`` of rows ``begin`` to ``end``; whether all are finite."""
    size = logits.shape[1]
    p, steps = np.empty(size, np.float32), np.empty(size, np.float32)
    for n in range(begin, end):
        if not _softmax(logits[n], p):
            return False
        weight = weights[n] if weights.size else ONE
        label = labels[n]
        for g in range(pieces.shape[0]):
            piece, total = pieces[g], ZERO
            for c in range(size):
                steps[c] = _step(p[c], ONE - p[c], piece)
                total += steps[c]
            share = weight / total
            cells = sums[g, label] if matrix else sums[g, 1]
            for c in range(size):
                cells[c] += steps[c] * share
            if not matrix:
                sums[g, 0, label] += steps[label] * share
                sums[g, 2, label] += weight
    return True


@njit(**FAST)
def fixed_gradient(
    logits: Any,
    labels: Any,
    weights: Any,
    pieces: Any,
    begin: Any,
    end: Any,
    slopes: Any,
    gradient: Any,
    matrix: Any,
) -> None:
    """Write the gradient of rows ``begin`` to ``end``, given slopes ``(G, 2, C)`` or ``(G, C, C)``."""
    size = logits.shape[1]
    p, steps = np.empty(size, np.float32), np.empty(size, np.float32)
    for n in range(begin, end):
        _softmax(logits[n], p)
        weight, label, out = weights[n] if weights.size else ONE, labels[n], gradient[n]
        out[:] = ZERO
        for g in range(pieces.shape[0]):
            piece, total = pieces[g], ZERO
            pull = slopes[g, label] if matrix else slopes[g, 1]
            extra = ZERO if matrix else slopes[g, 0, label]
            mean = ZERO
            for c in range(size):
                steps[c] = _step(p[c], ONE - p[c], piece)
                total += steps[c]
                mean += pull[c] * steps[c]
            mean = (mean + extra * steps[label]) / total
            share = weight / total
            for c in range(size):
                out[c] += (pull[c] - mean) * share * _slope(p[c], piece)
            out[label] += extra * share * _slope(p[label], piece)
        spread = ZERO
        for c in range(size):
            spread += p[c] * out[c]
        for c in range(size):
            out[c] = p[c] * (out[c] - spread)
