r"""A small batch of few classes on a CPU without a compiler: as few calls of NumPy as there can be.

The formulas are those of :mod:`eastward.kernels.eager_passes`, with
:math:`b_k = \max\big(\tfrac{A}{M} e_k,\; e_k - (1 - \tfrac{A}{M})(1 - 2.5 T)\,\theta\big)`. Places are masks here: an
operation on an array this small costs its call, and a mask needs fewer of them than an index. What several numbers of
a row are multiples of is multiplied once. Rows in which classes tie, and cold steps, whose bends need more digits, go
through :mod:`eastward.kernels.eager_rows`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from eastward.kernels.eager_rows import Bends

__all__ = ["SmallRows", "gradient_of_small", "small_rows"]

_HALVES = np.array([[-0.5], [0.5]], np.float32)
_HALF = np.float32(0.5)
_ZERO = np.float32(0)


class SmallRows(NamedTuple):
    """What is known of a batch: arrays ``(C, n)``, then numbers of each row."""

    powers: np.ndarray  # zero for the largest class
    is_first: np.ndarray
    is_second: np.ndarray
    gentle: np.ndarray  # before the lower bend
    b: np.ndarray
    power: np.ndarray  # of the second largest class
    threshold: np.ndarray
    through: np.ndarray
    own: np.ndarray
    places: np.ndarray  # of the true classes in the flat array
    of_label: np.ndarray
    inverse: np.ndarray
    share: np.ndarray


def small_rows(
    logits: np.ndarray, labels: np.ndarray, weights: np.ndarray | None, bends: Bends
) -> tuple[np.ndarray, SmallRows] | None:
    """Right, predicted, true ``(3, C)`` and what is known of the rows; None where classes tie."""
    length, size = logits.shape
    powers = logits.T.copy()
    powers -= np.maximum.reduce(powers)
    np.exp(powers, out=powers)
    is_first = powers >= 1
    np.copyto(powers, _ZERO, where=is_first)
    power = np.maximum.reduce(powers)
    is_second = powers == power
    if np.count_nonzero(is_first) + np.count_nonzero(is_second) != 2 * length:
        return None
    gap, threshold = power * _HALVES + _HALF
    ratio = bends.first / bends.middle
    of_first, through, own, shift = _largest(gap, threshold, np.add.reduce(powers), bends)
    b, steep = powers * np.float32(ratio), powers - shift
    gentle = b >= steep
    np.maximum(b, steep, out=b)
    np.copyto(b, of_first, where=is_first)
    inverse = 1 / np.add.reduce(b)
    share = inverse if weights is None else inverse * weights
    places = labels * length
    places += np.arange(length)
    of_label = b.take(places)
    sums = np.empty((3, size))
    sums[0] = np.bincount(labels, of_label * share, size)
    sums[1] = b @ share
    sums[2] = np.bincount(labels, weights, size)
    rows = SmallRows(
        powers,
        is_first,
        is_second,
        gentle,
        b,
        power,
        threshold,
        through,
        own,
        places,
        of_label,
        inverse,
        share,
    )
    return sums, rows


def _largest(
    gap: np.ndarray, threshold: np.ndarray, others: np.ndarray, bends: Bends
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """b, ρ and slope less ρ of the largest class, and the distance of the two lines that b is the larger of."""
    heat, low, first, middle, _ = bends
    multiples = [2.5 * heat, heat / middle, 0.5 / middle, low * (1 - first / middle)]
    width, scale, b, shift = threshold * np.array(multiples, np.float32)[:, None]
    beyond = gap - width
    np.maximum(beyond, _ZERO, out=beyond)
    rest = others + beyond
    # Before the upper bend the slope is M, and what is added for going beyond it zero.
    np.copyto(rest, scale, where=beyond <= 0)
    slope = np.divide(scale, rest, out=scale)
    b += np.minimum(gap, width, out=gap)
    beyond *= slope
    b += beyond
    through = np.divide(beyond, rest, out=rest)
    return b, through, slope - through, shift


def gradient_of_small(
    rows: SmallRows, labels: np.ndarray, bends: Bends, slopes: np.ndarray, detached: bool
) -> np.ndarray:
    """Gradient ``(C, n)``, given slopes ``(2, C)`` by right and predicted."""
    by_label, pull = slopes[0].take(labels), slopes[1]
    mean = pull @ rows.b
    mean += by_label * rows.of_label
    mean *= rows.inverse
    work: np.ndarray = pull[:, None] - mean
    work.reshape(-1)[rows.places] += by_label
    work *= rows.share
    of_first = np.add.reduce(work * rows.is_first)
    np.multiply(work, np.float32(bends.first / bends.middle), out=work, where=rows.gentle)
    if detached:
        return _detached(rows, work, of_first)
    work -= of_first * rows.through
    work *= rows.powers
    others = np.add.reduce(work)
    of_first *= rows.own
    of_first += others
    of_first *= rows.power * _HALF / rows.threshold
    np.subtract(work, of_first, out=work, where=rows.is_second)
    of_first -= others
    np.copyto(work, of_first, where=rows.is_first)
    return work


def _detached(rows: SmallRows, work: np.ndarray, of_first: np.ndarray) -> np.ndarray:
    """The threshold is a constant: only the softmax denominator is common."""
    work *= rows.powers
    of_first *= rows.own + rows.through
    common = (np.add.reduce(work) + of_first) / (np.add.reduce(rows.powers) + 1)
    work -= rows.powers * common
    np.copyto(work, of_first - common, where=rows.is_first)
    return work
