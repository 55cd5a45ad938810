r"""A small batch of few classes on a CPU without a compiler: as few *different* functions of NumPy as there can be.

After a network has run, the first call of a function takes some six microseconds more than the next, which is more than
the arithmetic: what can be written with functions used before is. The formulas are those of
:mod:`eastward.kernels.eager_passes`, with
:math:`b_k = \max\big(\tfrac{A}{M} e_k,\; e_k - (1 - \tfrac{A}{M})(1 - 2.5 T)\,\theta\big)`, masks in place of indices,
and one multiplication for what several numbers of a row are multiples of. Rows in which classes tie, and cold steps,
whose bends need more digits, go through :mod:`eastward.kernels.eager_rows`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from eastward.kernels.eager_rows import Bends

__all__ = ["SmallRows", "SmallStep", "gradient_of_small", "small_rows", "small_step"]

_HALVES = np.array([[-0.5], [0.5]], np.float32)
_HALF = np.float32(0.5)
_ZERO = np.float32(0)
_ONE = np.float32(1)


class SmallStep(NamedTuple):
    """The step in the units of the powers, as arrays that need no conversion."""

    multiples: np.ndarray  # of the threshold: see `_largest`
    ratio: np.float32  # A/M
    less: np.float32  # A/M - 1
    classes: np.ndarray  # their numbers, (C, 1)


class SmallRows(NamedTuple):
    """What is known of a batch: arrays ``(C, n)``, then numbers of each row."""

    powers: np.ndarray  # zero for the largest class
    is_first: np.ndarray
    is_second: np.ndarray
    is_label: np.ndarray
    gentle: np.ndarray  # before the lower bend
    b: np.ndarray
    half: np.ndarray  # half of u of the second largest class
    others: np.ndarray  # sum of the powers
    through: np.ndarray
    own: np.ndarray
    inverse: np.ndarray
    share: np.ndarray


def small_step(bends: Bends, size: int) -> SmallStep:
    """The constants of the step, for so many classes."""
    heat, low, first, middle, _ = bends
    ratio = first / middle
    multiples = [2.5 * heat, heat / middle, 0.5 / middle, low * (1 - ratio)]
    column = np.array(multiples, np.float32)[:, None]
    classes = np.arange(size)[:, None]
    return SmallStep(column, np.float32(ratio), np.float32(ratio - 1), classes)


def small_rows(
    logits: np.ndarray, labels: np.ndarray, weights: np.ndarray | None, step: SmallStep
) -> tuple[np.ndarray, SmallRows] | None:
    """Right, predicted, true ``(3, C)`` and what is known of the rows; None where classes tie."""
    length, size = logits.shape
    powers = logits.T.copy()
    powers -= np.maximum.reduce(powers)
    np.exp(powers, out=powers)
    is_first = np.floor(powers)
    powers -= is_first
    power = np.maximum.reduce(powers)
    is_second = powers == power
    if np.count_nonzero(is_first) + np.count_nonzero(is_second) != 2 * length:
        return None
    others = np.add.reduce(powers)
    gap, threshold = power * _HALVES + _HALF
    of_first, through, own, shift = _largest(gap, threshold, others, step)
    b, steep = powers * step.ratio, powers - shift
    gentle = b >= steep
    np.maximum(b, steep, out=b)
    b += is_first * of_first
    inverse = _ONE / np.add.reduce(b)
    share = inverse if weights is None else inverse * weights
    is_label = labels == step.classes
    sums, weighed = np.empty((3, size)), b * share
    np.add.reduce(weighed, 1, out=sums[1])
    weighed *= is_label
    np.add.reduce(weighed, 1, out=sums[0])
    np.add.reduce(is_label if weights is None else is_label * weights, 1, out=sums[2])
    half = power * _HALF
    half /= threshold
    rows = SmallRows(
        powers,
        is_first,
        is_second,
        is_label,
        gentle,
        b,
        half,
        others,
        through,
        own,
        inverse,
        share,
    )
    return sums, rows


def _largest(
    gap: np.ndarray, threshold: np.ndarray, others: np.ndarray, step: SmallStep
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """b, ρ and slope less ρ of the largest class, and the distance of the two lines that b is the larger of."""
    width, scale, b, shift = threshold * step.multiples
    beyond = gap - width
    passed = beyond >= _ZERO
    beyond *= passed
    # The smaller of gap and width.
    gap -= beyond
    rest = others + beyond
    slope = scale / rest
    b += gap
    beyond *= slope
    b += beyond
    through = beyond / rest
    # One before the upper bend.
    slope -= _ONE
    slope *= passed
    slope += _ONE
    slope -= through
    return b, through, slope, shift


def gradient_of_small(
    rows: SmallRows, step: SmallStep, slopes: np.ndarray, detached: bool
) -> np.ndarray:
    """Gradient ``(C, n)``, given slopes ``(2, C)`` by right and predicted."""
    by_right, by_predicted = slopes[:, :, None]
    work: np.ndarray = by_right * rows.is_label
    work += by_predicted
    mean = np.add.reduce(work * rows.b)
    mean *= rows.inverse
    work -= mean
    work *= rows.share
    of_first = np.add.reduce(work * rows.is_first)
    factor = rows.gentle * step.less
    factor += _ONE
    work *= factor
    if detached:
        # The threshold is a constant: only the softmax denominator is common.
        work *= rows.powers
        of_first *= rows.own + rows.through
        common = (np.add.reduce(work) + of_first) / (rows.others + _ONE)
        work -= rows.powers * common
        work += rows.is_first * (of_first - common)
        return work
    work -= of_first * rows.through
    work *= rows.powers
    others = np.add.reduce(work)
    of_first *= rows.own
    of_first += others
    of_first *= rows.half
    work -= rows.is_second * of_first
    of_first -= others
    work += rows.is_first * of_first
    return work
