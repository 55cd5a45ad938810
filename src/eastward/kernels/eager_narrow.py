r"""Few classes and many rows on a CPU without a compiler: few passes over a chunk, and nothing computed twice.

The formulas are those of :mod:`eastward.kernels.eager`, in units in which most factors cancel. With
:math:`e_k = e^{z_k - z_1}`, zero for the largest class, A and M the slopes of the two lower pieces,
:math:`\theta = \tfrac12 (1 + e_2) = 1 / u_1` the threshold in units of e, and
:math:`x_k = e_k - (1 - 2.5 T)\,\theta` the distance from the bend,

.. math:: b_k = \frac{h_k}{M u_1} = \lambda(x_k) - \lambda(x_1), \qquad
          \lambda(x) = x \text{ where } x > 0, \text{ else } \tfrac{A}{M} x

Given the derivatives a of the loss by the columns and r by the diagonal, the gradient is
:math:`e_k\,(W_k \lambda'(x_k) - \rho W_1)`, where :math:`W_k = \frac{w}{\sum b}\,(a_k + r_y [k = y] - \text{mean})`
and ρ is one number of each row. What the largest two classes get besides follows from the gradient's sum, which is
zero. It is computed with the opposite sign, which the copy back to rows turns round.

Samples lie along the last dimension. The powers e wait in the memory of the chunk's gradient, as ``(C, n)``, until the
second pass writes the gradient over them; besides, a dozen numbers of each row are kept. Rows in which classes tie have
no weight here: :mod:`eastward.kernels.eager_ties` sees to them.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from eastward.kernels.eager_rows import COLD, Bends

__all__ = ["NarrowRows", "gradient_of_narrow", "narrow_chunks", "narrow_rows"]

# Elements of a chunk: a hundred calls for each are then little beside the arithmetic, and it stays in the cache.
CHUNK = 420_000
# Rows that are turned into columns at once, in the innermost cache.
_TURNED = 512
_LOG2_E = math.log2(math.e)
# Larger than any class: a sum of classes, each plus this, tells one class from two.
_ONE = 64


class _Largest(NamedTuple):
    """The largest class of each row, as numbers."""

    b: np.ndarray
    through: np.ndarray  # ρ
    own: np.ndarray  # its slope over M, less ρ


class _Places(NamedTuple):
    """Where classes of each row stand in the flat array."""

    first: np.ndarray
    second: np.ndarray
    label: np.ndarray


class NarrowRows(NamedTuple):
    """What is known of the rows of a chunk: one number each."""

    places: _Places
    largest: _Largest
    threshold: np.ndarray  # θ
    half: np.ndarray  # half of u of the second largest class
    total: np.ndarray  # sum of the powers, one for the largest class included
    of_label: np.ndarray  # b of the true class
    inverse: np.ndarray  # 1 / sum of b
    share: np.ndarray  # weight / sum of b


def narrow_chunks(rows: int, size: int) -> list[slice]:
    """Slices of rows that are worked on at once, of nearly the same length."""
    number = max(1, round(rows * size / CHUNK))
    step = -(-rows // number)
    if number > 1 and step % 512 < 16:
        # Columns a power of two apart would compete for the same lines of the cache.
        step += 16
    return [slice(begin, min(begin + step, rows)) for begin in range(0, rows, step)]


def narrow_rows(
    logits: Tensor,
    labels: np.ndarray,
    weights: np.ndarray | None,
    bends: Bends,
    powers: Tensor,
    bent: Tensor,
) -> tuple[np.ndarray, NarrowRows, np.ndarray] | None:
    """Right and predicted ``(2, C)`` of a chunk, what is known of its rows, and the rows in which classes tie.

    None where a logit is not finite. Fills ``powers``; ``bent`` is written on.
    """
    found = _fill_powers(logits, powers, bent)
    if found is None:
        return None
    first, second, power = found
    tied = _tied(first, second, power)
    places = _places(first, second, labels)
    total = powers.sum(0).numpy()
    total += 1
    doubled = power + 1
    largest = _largest((1 - power) / doubled, total, bends)
    threshold = 0.5 * doubled
    fill_bent(powers, threshold, bends, bent)
    # λ of a class without power: b is what exceeds it.
    least = threshold * np.float32(-bends.low * bends.first / bends.middle)
    flat = bent.numpy().reshape(-1)
    of_first = np.add(largest.b, least, out=largest.b)
    flat[places.first] = of_first
    inverse = bent.sum(0).numpy()
    inverse -= least * np.float32(len(bent))
    np.divide(1, inverse, out=inverse)
    share = inverse if weights is None else inverse * weights
    if len(tied):
        share = share.copy()
        share[tied] = 0
    of_label = flat.take(places.label)
    of_label -= least
    sums = np.empty((2, len(bent)))
    sums[0] = np.bincount(labels, of_label * share, len(bent))
    sums[1] = torch.mv(bent, torch.from_numpy(share)).numpy()
    sums[1] -= float(np.dot(least, share))
    half = np.divide(power, doubled, out=doubled)
    rows = NarrowRows(places, largest, threshold, half, total, of_label, inverse, share)
    return sums, rows, tied


def _fill_powers(
    logits: Tensor, powers: Tensor, work: Tensor
) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """Fill ``powers``; the largest and the second class, each plus 64, and the power of the second.

    Where several classes tie, the sum of theirs.
    """
    _turn(logits, powers)
    # The sum is finite only if every logit is; a rare overflow of the sum goes the longer way, too.
    if not math.isfinite(powers.sum()):
        return None
    # exp2 takes a third of the time of exp.
    powers.sub_(powers.amax(0)).mul_(_LOG2_E).exp2_()
    classes = torch.arange(_ONE, _ONE + len(powers), dtype=torch.float32)
    torch.floor(powers, out=work)
    first = torch.mv(work.t(), classes)
    second = powers.sub_(work).amax(0)
    torch.eq(powers, second, out=work)
    return first.numpy(), torch.mv(work.t(), classes).numpy(), second.numpy()


def _turn(logits: Tensor, out: Tensor) -> None:
    """Rows to columns."""
    if torch.get_num_threads() > 1:
        # Unlike a plain copy, this is shared by the threads and has the columns in the outer loop.
        torch.mul(logits.t(), 1, out=out)
        return
    rows, columns = logits.numpy(), out.numpy()
    for begin in range(0, len(rows), _TURNED):
        columns[:, begin : begin + _TURNED] = rows[begin : begin + _TURNED].T


def _tied(first: np.ndarray, second: np.ndarray, power: np.ndarray) -> np.ndarray:
    """Rows in which classes tie; their places become class 0."""
    if max(first.max(), second.max()) < 2 * _ONE:
        return np.empty(0, np.intp)
    firsts, seconds = first >= 2 * _ONE, second >= 2 * _ONE
    first[firsts] = second[seconds] = _ONE
    # Second classes without any power have no gradient to share.
    return np.flatnonzero(firsts | (seconds & (power > 0)))


def _places(first: np.ndarray, second: np.ndarray, labels: np.ndarray) -> _Places:
    length = len(labels)
    begins = np.arange(length)
    # In float32, which is exact up to sixteen million and four times as quick as integers.
    shift = begins.astype(np.float32) - np.float32(_ONE * length)
    for classes in (first, second):
        np.multiply(classes, length, out=classes)
        np.add(classes, shift, out=classes)
    return _Places(first.astype(np.intp), second.astype(np.intp), labels * length + begins)


def _largest(gap: np.ndarray, total: np.ndarray, bends: Bends) -> _Largest:
    """Given u - 1 of the largest class; most steps are in place, which halves their time."""
    heat, middle = bends.temperature, bends.middle
    u = gap + 1
    last = total * u
    last -= 1 + 2.5 * heat
    np.maximum(last, np.float32(1e-12), out=last)
    np.divide(heat, last, out=last)
    beyond = gap - np.float32(2.5 * heat)
    np.maximum(beyond, np.float32(0), out=beyond)
    passed = (beyond > 0).astype(np.float32)
    # h = 1/2 + M min(gap, 2.5 T) + m beyond
    gap -= beyond
    gap *= middle
    gap += 0.5
    beyond *= last
    gap += beyond
    u *= middle
    gap /= u
    # ρ = m² beyond / (M T); the slope is m beyond the upper bend, M before it.
    last *= 1 / middle
    beyond *= last
    beyond *= 1 / heat
    last -= 1
    last *= passed
    last += 1
    last -= beyond
    return _Largest(gap, beyond, last)


def fill_bent(powers: Tensor, threshold: np.ndarray, bends: Bends, bent: Tensor) -> None:
    """λ of the distance from the lower bend."""
    at = torch.from_numpy(threshold)
    if bends.temperature < COLD:
        # Measured from the threshold, where float32 is finer.
        torch.sub(powers, at, out=bent).add_(at * (2.5 * bends.temperature))
    else:
        torch.sub(powers, at * bends.low, out=bent)
    functional.leaky_relu_(bent, bends.first / bends.middle)


def gradient_of_narrow(
    labels: np.ndarray,
    bends: Bends,
    slopes: np.ndarray,
    detached: bool,
    rows: NarrowRows,
    gradient: Tensor,
    bent: Tensor,
    work: Tensor,
) -> None:
    """Turn powers into the gradient, given slopes ``(2, C)`` by right and predicted; those by predicted sum to zero."""
    powers, places = gradient.view(bent.shape), rows.places
    fill_bent(powers, rows.threshold, bends, bent)
    bent.numpy().reshape(-1)[places.first] = rows.largest.b
    pull, by_label = torch.from_numpy(slopes[1]), slopes[0].take(labels)
    # λ in place of b: a constant in all classes of a row has no effect here.
    mean = torch.mv(bent.t(), pull).numpy()
    mean += by_label * rows.of_label
    mean *= rows.inverse
    mean *= rows.share
    by_label *= rows.share
    share = torch.from_numpy(rows.share)
    torch.addcmul(torch.from_numpy(mean), pull[:, None], share, value=-1, out=work)
    flat = work.numpy().reshape(-1)
    flat[places.label] -= by_label
    of_first = flat.take(places.first)
    # W where the distance is positive, A/M of it elsewhere.
    sloped = torch.ops.aten.leaky_relu_backward.grad_input
    sloped(work, bent, bends.first / bends.middle, False, grad_input=work)
    send = _send_detached if detached else _send
    send(rows, powers, of_first, work)
    torch.neg(work.t(), out=gradient)


def _send(rows: NarrowRows, powers: Tensor, of_first: np.ndarray, work: Tensor) -> None:
    """What goes through the threshold and the total; ``of_first`` is W of the largest class."""
    work.sub_(torch.from_numpy(of_first * rows.largest.through)).mul_(powers)
    others = work.sum(0).numpy()
    of_first *= rows.largest.own
    of_first += others
    of_first *= rows.half
    flat = work.numpy().reshape(-1)
    flat[rows.places.second] -= of_first
    of_first -= others
    flat[rows.places.first] = of_first


def _send_detached(rows: NarrowRows, powers: Tensor, of_first: np.ndarray, work: Tensor) -> None:
    """The threshold is a constant: only the softmax denominator is common."""
    others = work.mul_(powers).sum(0).numpy()
    of_first *= rows.largest.own + rows.largest.through
    common = (others + of_first) / rows.total
    work.addcmul_(powers, torch.from_numpy(common), value=-1)
    work.numpy().reshape(-1)[rows.places.first] = of_first - common
