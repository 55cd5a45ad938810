r"""Two classes at the threshold 1/2, on a CPU without a compiler: as few calls of NumPy as there can be.

With :math:`x = z_1 - z_0` and :math:`t = \tanh(x / 2) = 2 p - 1` the step is odd in t, and its bends are where
:math:`|t| = 2.5 T`:

.. math:: h - \tfrac12 = \tfrac12 \big(s_o t + (s_i - s_o) \min(\max(t, -2.5 T), 2.5 T)\big),\qquad
          \frac{\partial h}{\partial x} = \tfrac14 (1 - t^2)\, s

where :math:`s_i` and :math:`s_o` are the slopes inside and outside and s is the one that applies. Close to one, t has
few digits: a gradient below 1e-6 of the largest is rough, and zero from about :math:`|x| = 17` on.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from eastward.kernels.eager_columns import step_pieces

__all__ = ["PairStep", "Pairs", "gradient_of_pairs", "pair_step", "pairs_of", "sums_of_pairs"]

_HALF = np.float32(0.5)


class Pairs(NamedTuple):
    """What is known of a chunk of samples: h - 1/2, the derivative of h by x, and 1 for the positives."""

    above_half: np.ndarray
    slope: np.ndarray
    positive: np.ndarray


class PairStep(NamedTuple):
    """The step as a function of t: where it bends, and the coefficients of its two parts."""

    bend: np.float32
    lowest: np.float32  # the other bend
    by_held: np.float32  # of t between the bends, in h - 1/2
    by_t: np.float32
    inside: np.float32  # what the derivative has more between the bends
    outside: np.float32


def pair_step(temperature: float) -> PairStep:
    """The constants of the step, as numbers that need no conversion."""
    half, outer, inner, _ = step_pieces(0.5, temperature)
    if half >= 0.5:
        # The outer pieces have no width: nothing is left of them but rounding.
        outer = inner
    more = inner - outer
    numbers = (2 * half, -2 * half, 0.5 * more, 0.5 * outer, 0.25 * more, 0.25 * outer)
    return PairStep(*map(np.float32, numbers))


def pairs_of(logits: np.ndarray, labels: np.ndarray, step: PairStep) -> Pairs:
    """Memberships of class 1 of finite logits ``(n, 2)`` or ``(n, 1)``, and their derivatives."""
    t = logits[:, 1] - logits[:, 0] if logits.shape[1] == 2 else logits[:, 0].copy()
    t *= _HALF
    np.tanh(t, out=t)
    held = np.minimum(t, step.bend)
    np.maximum(held, step.lowest, out=held)
    slope = (held == t) * step.inside
    slope += step.outside
    held *= step.by_held
    held += t * step.by_t
    t *= t
    slope -= t * slope
    return Pairs(held, slope, labels.astype(np.float32))


def sums_of_pairs(pairs: Pairs, weights: np.ndarray | None) -> tuple[float, float, float, float]:
    """Memberships of the positives and of the negatives, mass of the positives and of the negatives."""
    above, on = pairs.above_half, pairs.positive
    if weights is None:
        positives, mass = float(np.add.reduce(on)), float(len(on))
    else:
        above = above * weights
        positives, mass = float(np.add.reduce(on * weights)), float(np.add.reduce(weights))
    # Not by a scalar product: its code would have to come into the cache for this alone.
    found, both = float(np.add.reduce(on * above)), float(np.add.reduce(above))
    negatives = mass - positives
    return found + 0.5 * positives, both - found + 0.5 * negatives, positives, negatives


def gradient_of_pairs(
    pairs: Pairs,
    weights: np.ndarray | None,
    by_positive: float,
    by_negative: float,
    out: np.ndarray,
) -> None:
    """The derivative by x, given those by the memberships of the positives and of the negatives."""
    pull = pairs.positive * (by_positive - by_negative)
    pull += by_negative
    if weights is not None:
        pull *= weights
    np.multiply(pull, pairs.slope, out=out)
