"""Rows in which classes tie, on a CPU without a compiler: what falls to a place is shared by those who hold it.

A longer way than those of :mod:`eastward.kernels.eager_narrow` and :mod:`eastward.kernels.eager_wide`, which ask for it
where they meet ties.
"""

from __future__ import annotations

import numpy as np

from eastward.kernels.eager_rows import (
    BUFFERS,
    NARROW,
    Bends,
    Rows,
    gradient_of_rows,
    powers_of,
    rows_of,
    sums_of_rows,
)

__all__ = ["tied_gradient", "tied_sums"]


def tied_sums(
    logits: np.ndarray, labels: np.ndarray, weights: np.ndarray | None, bends: Bends
) -> np.ndarray:
    """Right, predicted, true ``(3, C)`` of rows ``(n, C)``."""
    rows, axis, _ = _rows(logits, labels, bends)
    return sums_of_rows(rows, labels, weights, axis, logits.shape[1])


def tied_gradient(
    logits: np.ndarray,
    labels: np.ndarray,
    weights: np.ndarray | None,
    bends: Bends,
    slopes: np.ndarray,
    detached: bool,
) -> np.ndarray:
    """Their gradient ``(n, C)``, given slopes ``(2, C)`` by right and predicted."""
    rows, axis, buffers = _rows(logits, labels, bends)
    found = gradient_of_rows(rows, labels, weights, axis, bends, slopes, detached, buffers)
    return found.T if axis == 0 else found


def _rows(logits: np.ndarray, labels: np.ndarray, bends: Bends) -> tuple[Rows, int, np.ndarray]:
    axis = 0 if logits.shape[1] <= NARROW else 1
    shape = logits.shape[::-1] if axis == 0 else logits.shape
    buffers = np.empty((BUFFERS, *shape), np.float32)
    return rows_of(powers_of(logits, axis, buffers[4]), labels, axis, bends, buffers), axis, buffers
