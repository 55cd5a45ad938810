r"""Many classes on a CPU without a compiler: PyTorch passes over rows, NumPy does what each row has one of.

The formulas are those of :mod:`eastward.kernels.eager`. With many classes a pass over the rows is dear and an index is
cheap: the largest class is taken out of the array of :math:`e^{z - z_1}` by its index and carried by numbers, and no
array is made that a sum can stand in for. With A the slope of the first piece and B what the second one adds to it,

.. math:: h = A u + B\,[u - 1 + 2.5 T]_+,\qquad
          \sum_k a_k h_k = A \sum_k a_k u_k + B \sum_k a_k\,[u_k - 1 + 2.5 T]_+

Rows with ties, whose classes share what falls to a place, and steps with a first piece steeper than the second go
through :mod:`eastward.kernels.eager_rows`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from eastward.kernels.eager_rows import COLD, Bends
from eastward.kernels.eager_ties import tied_sums

__all__ = [
    "WideRows",
    "chunks_of",
    "fill_bent",
    "gradient_of_wide",
    "is_bent_upwards",
    "wide_rows",
]

# Elements of a chunk: a few dozen calls for each are then little beside the arithmetic, as are its buffers in memory.
CHUNK = 524_288
_LOG2_E = math.log2(math.e)


class _Largest(NamedTuple):
    """The largest class of each row, as numbers."""

    first: np.ndarray  # u
    total: np.ndarray  # sum of u over all classes
    passed: np.ndarray  # 1 where it has passed the upper bend
    beyond: np.ndarray  # by how much
    slope: np.ndarray  # derivative of h by u, where it is
    step: np.ndarray  # h


class _Places(NamedTuple):
    """Where classes of each row stand in the flat array."""

    first: np.ndarray
    second: np.ndarray
    label: np.ndarray


class WideRows(NamedTuple):
    """What is known of a chunk in which no classes tie."""

    places: _Places
    largest: _Largest
    second: np.ndarray  # power of the second largest class
    of_label: np.ndarray  # h of the true class
    inverse: np.ndarray  # 1 / sum of h
    share: np.ndarray  # weight / sum of h


def is_bent_upwards(bends: Bends) -> bool:
    """Whether the second piece is the steeper one, so that only positive numbers are added."""
    return not bends.at_zero and bends.first <= bends.middle


def chunks_of(rows: int, size: int) -> list[slice]:
    """Slices of rows that are worked on at once, of nearly the same length."""
    number = max(1, round(rows * size / CHUNK))
    step = -(-rows // number)
    return [slice(begin, min(begin + step, rows)) for begin in range(0, rows, step)]


def wide_rows(
    logits: Tensor,
    labels: np.ndarray,
    weights: np.ndarray | None,
    bends: Bends,
    powers: Tensor,
    bent: Tensor,
) -> tuple[np.ndarray, WideRows | None]:
    """Right, predicted, true ``(3, C)`` of a chunk, and what is known of its rows unless some classes tie.

    Fills ``powers``, zero for the largest class, and ``bent``.
    """
    flat = powers.numpy().reshape(-1)
    places, second = _fill_powers(logits, labels, powers)
    if _any_ties(powers, places.second, second):
        return tied_sums(logits.numpy(), labels, weights, bends), None
    largest = _largest(second, powers.sum(1).numpy(), bends)
    fill_bent(powers, second, bends, bent)
    gentle, more = bends.first, bends.middle - bends.first
    weighed = gentle * (largest.total - largest.first) + largest.step
    inverse = 1 / (weighed + more * largest.first * bent.sum(1).numpy())
    share = inverse if weights is None else inverse * weights
    # Zero, in both arrays, where the true class is the largest.
    of_label = flat.take(places.label) * gentle + bent.numpy().take(places.label) * more
    of_label = of_label * largest.first + (places.label == places.first) * largest.step
    size, scaled = logits.shape[1], share * largest.first
    sums = np.empty((3, size))
    sums[0] = np.bincount(labels, of_label * share, size)
    sums[1] = np.bincount(places.first % size, largest.step * share, size)
    # By PyTorch: NumPy's threads would fight with PyTorch's for the cores.
    sums[1] += torch.mv(powers.t(), torch.from_numpy(scaled * np.float32(gentle))).numpy()
    sums[1] += torch.mv(bent.t(), torch.from_numpy(scaled * np.float32(more))).numpy()
    sums[2] = np.bincount(labels, weights, size)
    return sums, WideRows(places, largest, second, of_label, inverse, share)


def _fill_powers(logits: Tensor, labels: np.ndarray, powers: Tensor) -> tuple[_Places, np.ndarray]:
    """Fill ``powers``; places, and the power of the second largest class."""
    z, flat = logits.numpy(), powers.numpy().reshape(-1)
    begins = np.arange(0, z.size, z.shape[1])
    first_at = z.argmax(1) + begins
    torch.sub(logits, torch.from_numpy(z.take(first_at)[:, None]), out=powers)
    # exp2 takes a third of the time of exp.
    powers.mul_(_LOG2_E).exp2_()
    flat[first_at] = 0
    second_at = powers.numpy().argmax(1) + begins
    return _Places(first_at, second_at, labels + begins), flat.take(second_at)


def _largest(second: np.ndarray, others: np.ndarray, bends: Bends) -> _Largest:
    """Given the power of the second largest class and the sum of all but the largest."""
    heat = bends.temperature
    first = 2 / (1 + second)
    total = (others + 1) * first
    # u - 1 of the largest class, with all its digits.
    gap = (1 - second) * (0.5 * first)
    beyond = np.maximum(gap - np.float32(2.5 * heat), 0)
    passed = (beyond > 0).astype(np.float32)
    last = heat / np.maximum(total - (1 + 2.5 * heat), 1e-12)
    step = 0.5 + bends.middle * gap
    step += passed * (1 - heat + beyond * last - step)
    slope = bends.middle + passed * (last - bends.middle)
    return _Largest(first, total, passed, beyond, slope, step)


def fill_bent(powers: Tensor, second: np.ndarray, bends: Bends, bent: Tensor) -> None:
    """How far each class lies beyond the lower bend, in units of the powers."""
    threshold = torch.from_numpy(0.5 * (1 + second[:, None]))
    if bends.temperature < COLD:
        # Measured from the threshold, where float32 is finer.
        torch.sub(powers, threshold, out=bent).add_(threshold * (2.5 * bends.temperature))
    else:
        torch.sub(powers, threshold * bends.low, out=bent)
    bent.relu_()


def _any_ties(powers: Tensor, second_at: np.ndarray, second: np.ndarray) -> bool:
    if second.max() >= 1:
        return True
    flat = powers.numpy().reshape(-1)
    flat[second_at] = 0
    third = powers.amax(1).numpy()
    flat[second_at] = second
    same = third >= second
    return bool(same.any() and (second[same] > 0).any())


def gradient_of_wide(
    labels: np.ndarray,
    bends: Bends,
    slopes: np.ndarray,
    detached: bool,
    rows: WideRows,
    gradient: Tensor,
    bent: Tensor,
    work: Tensor,
) -> None:
    """Turn powers into the gradient, given slopes ``(2, C)`` by right and predicted; ``bent`` is written on."""
    places, largest, share = rows.places, rows.largest, rows.share
    gentle, more = bends.first, bends.middle - bends.first
    by_first, by_label = slopes[1].take(places.first % slopes.shape[1]), slopes[0].take(labels)
    powers, pull = gradient, torch.from_numpy(slopes[1])
    mean = gentle * torch.mv(powers, pull).numpy() + more * torch.mv(bent, pull).numpy()
    mean = mean * largest.first + by_first * largest.step + by_label * rows.of_label
    mean *= rows.inverse
    # One array after the other in the same place: what is in the cache stays there.
    sloped = torch.gt(bent, 0, out=bent)
    torch.addcmul(powers, powers, sloped, value=more / gentle, out=sloped)
    torch.sub(pull, torch.from_numpy(mean[:, None]), out=work).mul_(sloped)
    scaled = share * largest.first * np.float32(gentle)
    slope_of_first = largest.slope * largest.first
    is_label, extra = places.label == places.first, by_label * share
    slope_of_label = sloped.numpy().take(places.label) * (largest.first * gentle)
    own = extra * (slope_of_label + is_label * slope_of_first)
    pull_of_first = (by_first - mean) * share
    to_first = pull_of_first * slope_of_first
    spread = work.sum(1).numpy() * scaled + to_first + own
    pulled = pull_of_first + is_label * extra
    through, from_first, from_second = _sent(largest, pulled, spread, bends, detached)
    work.mul_(torch.from_numpy(scaled[:, None]))
    torch.addcmul(work, powers, torch.from_numpy(through[:, None]), value=-1, out=gradient)
    flat = gradient.numpy().reshape(-1)
    flat[places.first] += to_first - from_first
    flat[places.label] += own
    flat[places.second] -= from_second


def _sent(
    largest: _Largest, pulled: np.ndarray, spread: np.ndarray, bends: Bends, detached: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What threshold and total take from each power, from the largest class and from the second."""
    first = largest.first
    if detached:
        # The threshold is a constant: only the softmax denominator is common.
        through = spread / largest.total * first
        return through, through, np.zeros_like(through)
    through = largest.passed * pulled * largest.slope * largest.beyond
    through *= largest.slope / bends.temperature
    theta = spread - through * largest.total
    through *= first
    return through, through + 0.5 * first * theta, (1 - 0.5 * first) * theta
