"""From sums over samples to the loss and its derivative by those sums, in closed form.

The commonest of them, compiled, are in :mod:`eastward.kernels.compiled_ratios`.
"""

from __future__ import annotations

import numpy as np

from eastward.kernels.rules import Rule
from eastward.kernels.slopes import loss_and_slope_of_arrays

__all__ = [
    "MARGINS",
    "ONE_PAIR",
    "SEPARATE",
    "counts_of_sums",
    "loss_and_slope_of_sums",
    "sum_slopes",
]

# Layouts of the sums: diagonal and margins of classes; one column for two classes; independent columns.
MARGINS, ONE_PAIR, SEPARATE = range(3)


def loss_and_slope_of_sums(
    sums: np.ndarray, layout: int, rule: Rule
) -> tuple[np.ndarray, np.ndarray]:
    """Losses ``(R,)`` and slopes ``(R, 2, C)`` of R tables of sums."""
    losses, slope = loss_and_slope_of_arrays(counts_of_sums(sums, layout), *rule)
    return losses, sum_slopes(slope, layout)


def counts_of_sums(sums: np.ndarray, layout: int) -> np.ndarray:
    """True and false positives and negatives, ``(R, 4, C)``.

    Examples
    --------
    >>> counts_of_sums(np.array([[[3.0, 2], [3, 4], [5, 2]]]), MARGINS)[0]
    array([[3., 2.],
           [0., 2.],
           [2., 0.],
           [2., 3.]])
    """
    if layout == MARGINS:
        counts = np.empty((sums.shape[0], 4, sums.shape[2]))
        right, predicted, true = sums[:, 0], sums[:, 1], sums[:, 2]
        counts[:, 0] = right
        # Differences of equal sums round to about -1e-17; a count below zero would leave the metric's range.
        counts[:, 1] = np.maximum(predicted - right, 0.0)
        counts[:, 2] = np.maximum(true - right, 0.0)
        rest = true.sum(axis=1).reshape(-1, 1) - true
        counts[:, 3] = np.maximum(rest - counts[:, 1], 0.0)
        return counts
    columns = np.empty((sums.shape[0], 4, sums.shape[2]))
    columns[:, 0], columns[:, 1] = sums[:, 0], sums[:, 1]
    columns[:, 2] = np.maximum(sums[:, 2] - sums[:, 0], 0.0)
    columns[:, 3] = np.maximum(sums[:, 3] - sums[:, 1], 0.0)
    if layout == SEPARATE:
        return columns
    counts = np.empty((sums.shape[0], 4, 2))
    counts[:, :, 1] = columns[:, :, 0]
    # What is right and wrong for class 1 is, seen from class 0, the same turned round.
    counts[:, :, 0] = columns[:, ::-1, 0]
    return counts


def sum_slopes(slope: np.ndarray, layout: int) -> np.ndarray:
    """Derivative by the differentiable sums, ``(R, 2, C)``, given that by the counts, ``(R, 4, C)``."""
    by_positive = slope[:, 0] - slope[:, 2]
    by_negative = slope[:, 1] - slope[:, 3]
    if layout == ONE_PAIR:
        result = np.empty((slope.shape[0], 2, 1))
        result[:, 0, 0] = by_positive[:, 1] - by_negative[:, 0]
        result[:, 1, 0] = by_negative[:, 1] - by_positive[:, 0]
        return result
    result = np.empty((slope.shape[0], 2, slope.shape[2]))
    result[:, 0] = by_positive - by_negative if layout == MARGINS else by_positive
    result[:, 1] = by_negative
    return result
