r"""Two classes at the threshold 1/2, on a CPU without a compiler.

With :math:`x = z_1 - z_0` and the smaller of the two probabilities, :math:`v = e^{-|x|} / (1 + e^{-|x|})`, the step is
odd about one half: :math:`h - \frac12` is, but for the sign of x, :math:`\frac{1-2T}{2.5T} (\frac12 - v)` in the middle
piece and :math:`\frac12 - s v` beyond it, where s is the slope of the outer pieces.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from eastward.kernels.eager_columns import step_pieces

__all__ = ["Pairs", "gradient_of_pairs", "pairs_of", "sums_of_pairs"]


class Pairs(NamedTuple):
    """What is known of a chunk of samples: h - 1/2, and the derivative of h by x."""

    above_half: np.ndarray
    slope: np.ndarray


def pairs_of(logits: np.ndarray, temperature: float) -> Pairs:
    """Memberships of class 1 of logits ``(n, 2)`` or ``(n, 1)``, and their derivatives."""
    x = logits[:, 1] - logits[:, 0] if logits.shape[1] == 2 else logits[:, 0]
    half, outer, inner, _ = step_pieces(0.5, temperature)
    e = np.abs(x)
    np.negative(e, out=e)
    np.exp(e, out=e)
    larger = 1 / (e + 1)
    e *= larger
    distance = 0.5 - e
    middle = distance <= half
    # At T = 0.4 the first piece has no width: outside the middle one nothing is left but rounding.
    step = np.where(middle, inner * distance, 0.5 - outer * e)
    slope = np.where(middle, np.float32(inner), np.float32(outer))
    slope *= e
    slope *= larger
    return Pairs(np.copysign(step, x), slope)


def sums_of_pairs(
    pairs: Pairs, labels: np.ndarray, weights: np.ndarray | None
) -> tuple[float, float, float, float]:
    """Memberships of the positives and of the negatives, mass of the positives and of the negatives."""
    above = pairs.above_half if weights is None else pairs.above_half * weights
    on = labels.astype(np.float32)
    found, both = float(np.dot(on, above)), float(np.add.reduce(above))
    if weights is None:
        positives, mass = float(np.add.reduce(on)), float(len(on))
    else:
        positives, mass = float(np.dot(on, weights)), float(np.add.reduce(weights))
    negatives = mass - positives
    return found + 0.5 * positives, both - found + 0.5 * negatives, positives, negatives


def gradient_of_pairs(
    pairs: Pairs,
    labels: np.ndarray,
    weights: np.ndarray | None,
    by_positive: float,
    by_negative: float,
) -> np.ndarray:
    """The derivative by x, given those by the memberships of the positives and of the negatives."""
    pull = labels.astype(np.float32)
    pull *= by_positive - by_negative
    pull += by_negative
    pull *= pairs.slope
    if weights is not None:
        pull *= weights
    return pull
