r"""Two passes over a chunk of rows on a CPU without a compiler: few operations on arrays, and nothing computed twice.

The formulas are those of :mod:`eastward.kernels.eager`, in units in which most factors cancel. With
:math:`e_k = e^{z_k - z_1}`, zero for the largest class, A and M the slopes of the two lower pieces,
:math:`\theta = \tfrac12 (1 + e_2) = 1 / u_1` the threshold in units of e, and
:math:`x_k = e_k - (1 - 2.5 T)\,\theta` the distance from the bend,

.. math:: b_k = \frac{h_k}{M u_1} = \lambda(x_k) - \lambda(x_1), \qquad
          \lambda(x) = x \text{ where } x > 0, \text{ else } \tfrac{A}{M} x

With :math:`\beta = [1 - \theta - 2.5 T \theta]_+` and
:math:`\sigma = \frac{T}{M} \theta / (\beta + \sum_{k > 1} e_k)` the largest class has
:math:`b_1 = \frac{\theta}{2 M} + \min(1 - \theta, 2.5 T \theta) + \beta \sigma`.

Given the derivatives a of the loss by the columns and r by the diagonal, the gradient is
:math:`e_k\,(W_k \lambda'(x_k) - \rho W_1)`, where :math:`W_k = \frac{w}{\sum b}\,(a_k + r_y [k = y] - \text{mean})` and
:math:`\rho = \beta \sigma / (\beta + \sum_{k > 1} e_k)`. What the largest two classes get besides follows from the
gradient's sum, which is zero.

The powers e wait in the memory of the chunk's gradient until the second pass writes the gradient over them. Classes are
along ``axis``: with few of them rows are along the last dimension, which the gradient's memory does not know of. Rows
in which classes tie have no weight here: :mod:`eastward.kernels.eager_ties` sees to them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from eastward.kernels.eager_rows import COLD, Bends

__all__ = ["Known", "Powers", "gradient_of_chunk", "sums_of_chunk"]

_ZERO, _HALF, _ONE = np.float32(0), np.float32(0.5), np.float32(1)
_sloped = torch.ops.aten.leaky_relu_backward.grad_input


class Powers(NamedTuple):
    """What is known of a chunk whose powers are filled in, one number for each row."""

    first: np.ndarray  # place of the largest class in the flat array
    second: np.ndarray  # and of the second largest
    label: np.ndarray  # and of the true class
    power: np.ndarray  # of the second largest class
    tied: np.ndarray  # indices of the rows in which classes tie


class _Largest(NamedTuple):
    """The largest class of each row."""

    b: np.ndarray
    through: np.ndarray  # ρ
    own: np.ndarray  # its slope over M, less ρ


class Known(NamedTuple):
    """What the second pass needs to know of each row."""

    powers: Powers
    largest: _Largest
    threshold: np.ndarray  # θ
    others: np.ndarray  # sum of the powers
    of_label: np.ndarray  # b of the true class
    inverse: np.ndarray  # 1 / sum of b
    share: np.ndarray  # weight / sum of b


def sums_of_chunk(
    found: Powers,
    labels: np.ndarray,
    weights: np.ndarray | None,
    bends: Bends,
    axis: int,
    powers: Tensor,
    bent: Tensor,
) -> tuple[np.ndarray, Known]:
    """Right and predicted ``(2, C)`` of a chunk, and what is known of its rows. Fills ``bent``."""
    size = bent.shape[axis]
    others = powers.sum(axis).numpy()
    threshold = found.power * _HALF
    threshold += _HALF
    largest = _largest(found.power, threshold, others, bends)
    _fill_bent(powers, threshold, bends, axis, bent)
    # λ of a class without power: b is what exceeds it.
    least = threshold * np.float32(-bends.low * bends.first / bends.middle)
    np.add(largest.b, least, out=largest.b)
    flat = bent.numpy().reshape(-1)
    flat[found.first] = largest.b
    inverse = bent.sum(axis).numpy()
    inverse -= least * np.float32(size)
    np.divide(_ONE, inverse, out=inverse)
    share = inverse if weights is None else inverse * weights
    if len(found.tied):
        share = share.copy()
        share[found.tied] = 0
    of_label = flat.take(found.label)
    of_label -= least
    sums = np.empty((2, size))
    sums[0] = np.bincount(labels, of_label * share, size)
    # By PyTorch: NumPy's threads would fight with PyTorch's for the cores.
    scale = torch.from_numpy(share)
    product = torch.mv(bent, scale) if axis == 0 else scale @ bent
    least *= share
    np.subtract(product.numpy(), np.add.reduce(least), out=sums[1])
    return sums, Known(found, largest, threshold, others, of_label, inverse, share)


def _largest(
    power: np.ndarray, threshold: np.ndarray, others: np.ndarray, bends: Bends
) -> _Largest:
    """Only numbers of one sign are added, and in place, which halves the time."""
    heat, middle = bends.temperature, bends.middle
    # u - 1 in units of the powers, with all its digits.
    gap = power * np.float32(-0.5)
    gap += _HALF
    width = threshold * np.float32(2.5 * heat)
    beyond = gap - width
    np.maximum(beyond, _ZERO, out=beyond)
    rest = beyond + others
    slope = threshold / rest
    slope *= np.float32(heat / middle)
    b = np.minimum(gap, width, out=gap)
    np.multiply(threshold, np.float32(0.5 / middle), out=width)
    b += width
    passed = beyond > _ZERO
    beyond *= slope
    b += beyond
    through = np.divide(beyond, rest, out=rest)
    # One where it has not passed the upper bend.
    slope -= _ONE
    slope *= passed
    slope += _ONE
    slope -= through
    return _Largest(b, through, slope)


def _fill_bent(
    powers: Tensor, threshold: np.ndarray, bends: Bends, axis: int, bent: Tensor
) -> None:
    """λ of the distance from the lower bend."""
    if bends.temperature < COLD:
        # Measured from the threshold, where float32 is finer.
        width = threshold * np.float32(2.5 * bends.temperature)
        torch.sub(powers, _along(threshold, axis), out=bent).add_(_along(width, axis))
    else:
        torch.sub(powers, _along(threshold * np.float32(bends.low), axis), out=bent)
    functional.leaky_relu_(bent, bends.first / bends.middle)


def _along(numbers: np.ndarray, axis: int) -> Tensor:
    """Numbers of rows, beside their classes."""
    return torch.from_numpy(numbers if axis == 0 else numbers[:, None])


def gradient_of_chunk(
    labels: np.ndarray,
    bends: Bends,
    slopes: np.ndarray,
    detached: bool,
    known: Known,
    axis: int,
    gradient: Tensor,
    bent: Tensor,
    work: Tensor,
    *,
    filled: bool,
) -> None:
    """Turn powers into the gradient, given slopes ``(2, C)`` by right and predicted; those by predicted sum to zero.

    ``filled`` says that ``bent`` is as the first pass left it.
    """
    places, share = known.powers, known.share
    powers = gradient.view(bent.shape) if axis == 0 else gradient
    if not filled:
        _fill_bent(powers, known.threshold, bends, axis, bent)
        bent.numpy().reshape(-1)[places.first] = known.largest.b
    pull, by_label = torch.from_numpy(slopes[1]), slopes[0].take(labels)
    # λ in place of b: a constant in all classes of a row has no effect here.
    mean = torch.mv(bent.t() if axis == 0 else bent, pull).numpy()
    mean += by_label * known.of_label
    mean *= known.inverse
    by_label *= share
    _fill_pull(pull, mean, share, axis, work)
    if axis == 0:
        np.negative(by_label, out=by_label)
    flat = work.numpy().reshape(-1)
    flat[places.label] += by_label
    of_first = flat.take(places.first)
    # W where the distance is positive, A/M of it elsewhere.
    _sloped(work, bent, bends.first / bends.middle, False, grad_input=work)
    send = _send_detached if detached else _send
    result = work if axis == 0 else powers
    send(known, axis, of_first, powers, work, result)
    if axis == 0:
        torch.neg(result.t(), out=gradient)


def _fill_pull(pull: Tensor, mean: np.ndarray, share: np.ndarray, axis: int, out: Tensor) -> None:
    """What each class pulls; with few of them with the opposite sign, which the copy back to rows turns round."""
    if axis == 1:
        # Two operations on whole arrays take half the time of one with three small ones.
        torch.sub(pull, _along(mean, 1), out=out).mul_(_along(share, 1))
        return
    mean *= share
    scale = torch.from_numpy(share)
    torch.addcmul(torch.from_numpy(mean), pull[:, None], scale, value=-1, out=out)


def _send(
    known: Known, axis: int, of_first: np.ndarray, powers: Tensor, work: Tensor, out: Tensor
) -> None:
    """What goes through the threshold and the total; ``of_first`` is W of the largest class."""
    work.sub_(_along(of_first * known.largest.through, axis))
    others = torch.mul(work, powers, out=out).sum(axis).numpy()
    of_first *= known.largest.own
    of_first += others
    # Half of u of the second largest class goes to it.
    of_first *= known.powers.power
    of_first /= known.threshold
    of_first *= _HALF
    flat = out.numpy().reshape(-1)
    flat[known.powers.second] -= of_first
    of_first -= others
    flat[known.powers.first] = of_first


def _send_detached(
    known: Known, axis: int, of_first: np.ndarray, powers: Tensor, work: Tensor, out: Tensor
) -> None:
    """The threshold is a constant: only the softmax denominator is common."""
    others = work.mul_(powers).sum(axis).numpy()
    of_first *= known.largest.own + known.largest.through
    common = (others + of_first) / (known.others + 1)
    torch.addcmul(work, powers, _along(common, axis), value=-1, out=out)
    out.numpy().reshape(-1)[known.powers.first] = of_first - common
