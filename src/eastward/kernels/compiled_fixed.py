# mypy: ignore-errors
"""Compiled kernels for fixed thresholds on three or more classes, row by row.

The formulas are those of :mod:`eastward.kernels.eager_fixed`. ``pieces`` holds one row for each threshold: itself,
half the width of the middle piece, the slopes of the three pieces.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from eastward.kernels.compiled_arithmetic import (
    FAST,
    FINE,
    NOT_FINITE,
    ONE,
    ZERO,
    exp_of_negative,
    largest,
)
from eastward.kernels.compiled_columns import slope_at, step_at

__all__ = ["fixed_gradient", "fixed_sums"]


@njit(**FAST)
def _softmax(logits: Any, n: Any, p: Any) -> Any:
    """Fill ``p`` with that of row ``n``; whether all logits are finite."""
    top, finite = largest(logits, n)
    total = ZERO
    for c in range(p.shape[0]):
        p[c] = exp_of_negative(logits[n, c] - top)
        total += p[c]
    inverse = ONE / total
    for c in range(p.shape[0]):
        p[c] *= inverse
    return finite


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
    """Add the sums ``(G, 3, C)`` or ``(G, C, C)`` of rows ``begin`` to ``end``; what was wrong."""
    size = logits.shape[1]
    p, steps = np.empty(size, np.float32), np.empty(size, np.float32)
    for n in range(begin, end):
        if not _softmax(logits, n, p):
            return NOT_FINITE
        weight = weights[n] if weights.size else ONE
        label = labels[n]
        for g in range(pieces.shape[0]):
            piece, total = pieces[g], ZERO
            for c in range(size):
                steps[c] = step_at(p[c], ONE - p[c], piece)
                total += steps[c]
            share = weight / total
            cells = sums[g, label] if matrix else sums[g, 1]
            for c in range(size):
                cells[c] += steps[c] * share
            if not matrix:
                sums[g, 0, label] += steps[label] * share
                sums[g, 2, label] += weight
    return FINE


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
        _softmax(logits, n, p)
        weight, label, out = weights[n] if weights.size else ONE, labels[n], gradient[n]
        out[:] = ZERO
        for g in range(pieces.shape[0]):
            piece, total = pieces[g], ZERO
            pull = slopes[g, label] if matrix else slopes[g, 1]
            extra = ZERO if matrix else slopes[g, 0, label]
            mean = ZERO
            for c in range(size):
                steps[c] = step_at(p[c], ONE - p[c], piece)
                total += steps[c]
                mean += pull[c] * steps[c]
            mean = (mean + extra * steps[label]) / total
            share = weight / total
            for c in range(size):
                out[c] += (pull[c] - mean) * share * slope_at(p[c], piece)
            out[label] += extra * share * slope_at(p[label], piece)
        spread = ZERO
        for c in range(size):
            spread += p[c] * out[c]
        for c in range(size):
            out[c] = p[c] * (out[c] - spread)
