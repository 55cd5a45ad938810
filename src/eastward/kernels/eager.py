r"""Kernels in plain PyTorch: run everywhere, need nothing.

Multiclass, dynamic threshold. With :math:`u_k = p_k / \tau` the softmax denominator cancels: the largest two sum to
two, and the step has its lower bend at :math:`1 - 2.5T` and its upper one at :math:`1 + 2.5T`, which only the
largest class can pass.

.. math:: u_k = \frac{2 e^{z_k}}{e^{z_1} + e^{z_2}},\qquad
          h_k = \begin{cases} \frac{T}{1 - 2.5T} u_k & \text{below} \\
                \frac12 + \frac{1-2T}{5T} (u_k - 1) & \text{between} \\
                1 - T + m (u_k - 1 - 2.5T) & \text{above} \end{cases},\qquad m = \frac{T}{\sum_j u_j - 1 - 2.5T}

A class that has passed the upper bend is taken out of the array (set to zero, where :math:`h = 0`) and carried by one
number for each row: added on top of the middle piece it would cancel most of its digits at small T.
Classes that tie share what falls to the first or second place, so nothing depends on their order.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from eastward.kernels.eager_columns import column_gradient, column_sums
from eastward.kernels.eager_fixed import fixed_gradient, fixed_sums
from eastward.kernels.problems import Problem, Samples

__all__ = ["gradient", "sums"]

# Loss and gradient of the commonest losses on a CPU.
PLANS = "eastward.kernels.eager_plan"
# Up to so many classes, samples lie along the last dimension while they are worked on: sums over classes are then
# sums of long vectors.
NARROW = 48
# Elements per chunk: intermediate results stay in the cache, yet few enough calls are made.
CHUNK = 65_536
LOG2_E = math.log2(math.e)
# From here down the bends are measured from the threshold, where float32 is finer.
COLD = 0.05
# Below this the first piece has no width left.
NO_FIRST_PIECE = 1e-6


def sums(problem: Problem, samples: Samples) -> tuple[Tensor, Any]:
    """See :class:`~eastward.kernels.problems.Backend`."""
    if problem.binary:
        return column_sums(problem, samples), None
    if problem.kind == "fixed":
        return fixed_sums(problem, samples), None
    return _dynamic_sums(problem, samples)


def gradient(problem: Problem, samples: Samples, saved: Any, slopes: Tensor) -> Tensor:
    """See :class:`~eastward.kernels.problems.Backend`."""
    if problem.binary:
        return column_gradient(problem, samples, slopes)
    if problem.kind == "fixed":
        return fixed_gradient(problem, samples, slopes)
    return _dynamic_gradient(problem, samples, saved, slopes)


class _Rows(NamedTuple):
    """What is known of a chunk: ``(K, C, n)`` arrays if it is narrow, else ``(K, n, C)``; the rest one per row."""

    relative: Tensor  # u, zero where the largest class has passed the upper bend
    bent: Tensor  # the part of u beyond the lower bend (or below it, when the first piece is the steeper one)
    step: Tensor  # h
    is_first: Tensor  # 1 for the largest class and those that tie with it
    first: Tensor  # u of the largest class
    ties: Tensor
    passed: Tensor  # 1 where the largest class has passed the upper bend
    beyond: Tensor  # by how much
    last_slope: Tensor  # m
    total: Tensor  # sum of u
    inverse: Tensor  # 1 / sum of h
    share: Tensor  # weight / sum of h


def _dynamic_sums(problem: Problem, samples: Samples) -> tuple[Tensor, Any]:
    logits = samples.logits
    members, _, size = logits.shape
    width = size if problem.matrix else 3
    result = logits.new_zeros(members, width, size, dtype=_wide(logits))
    narrow = size <= NARROW and not problem.matrix
    parts = _parts(logits)
    for part in parts:
        rows = _chunk(problem, _cut(samples, part), narrow)
        result += _chunk_sums(rows, _cut(samples, part), narrow, problem.matrix)
    # Several chunks would not stay in the cache: the backward pass computes them again, which is quicker.
    return result.unsqueeze(1), [rows] if len(parts) == 1 else []


def _dynamic_gradient(problem: Problem, samples: Samples, saved: Any, slopes: Tensor) -> Tensor:
    logits = samples.logits
    narrow = logits.shape[2] <= NARROW and not problem.matrix
    slopes = slopes[:, 0].to(logits.dtype)
    result = torch.empty_like(logits)
    for index, part in enumerate(_parts(logits)):
        rows = saved[index] if saved else _chunk(problem, _cut(samples, part), narrow)
        found = _chunk_gradient(problem, rows, samples.labels[:, part], slopes, narrow)
        result[:, part] = found.transpose(1, 2) if narrow else found
    return result


def _wide(logits: Tensor) -> torch.dtype:
    # Sums of many chunks in float64 where it costs nothing.
    return torch.float64 if logits.device.type == "cpu" else torch.float32


def _parts(logits: Tensor) -> list[slice]:
    members, rows, size = logits.shape
    step = max(1, CHUNK // max(1, members * size))
    return [slice(start, min(start + step, rows)) for start in range(0, rows, step)]


def _cut(samples: Samples, part: slice) -> Samples:
    if part.stop - part.start == samples.logits.shape[1]:
        return samples
    weights = None if samples.weights is None else samples.weights[:, part]
    return Samples(samples.logits[:, part], samples.labels[:, part], weights)


def _chunk(problem: Problem, samples: Samples, narrow: bool) -> _Rows:
    axis = 1 if narrow else 2
    logits = samples.logits.transpose(1, 2).contiguous() if narrow else samples.logits
    temperature = problem.temperature
    # exp2 takes a third of the time of exp on a CPU.
    relative = (logits - logits.amax(axis, keepdim=True)).mul_(LOG2_E).exp2_()
    is_first = relative.floor()
    ties = is_first.sum(axis, keepdim=True)
    second = (relative - is_first).amax(axis, keepdim=True)
    second = torch.maximum(second, (ties - 1).clamp_(max=1))
    first = 2 / (second + 1)
    relative *= first
    total = relative.sum(axis, keepdim=True)
    # (1 - second) / (1 + second) is u - 1 of the largest class, with all its digits.
    beyond = ((1 - second) * (0.5 * first)).sub_(2.5 * temperature)
    passed = (beyond > 0).to(logits.dtype)
    beyond.clamp_(min=0)
    last_slope = temperature / (total - (1 + 2.5 * temperature)).clamp_(min=1e-12)
    relative.addcmul_(is_first, first * passed, value=-1)
    bent, step = _bend(relative, temperature)
    step.addcmul_(is_first, (beyond * last_slope).add_(1 - temperature).mul_(passed))
    inverse = step.sum(axis, keepdim=True).reciprocal_()
    weights = samples.weights
    share = inverse if weights is None else inverse * weights.unsqueeze(axis)
    return _Rows(
        relative,
        bent,
        step,
        is_first,
        first,
        ties,
        passed,
        beyond,
        last_slope,
        total,
        inverse,
        share,
    )


def _bend(relative: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
    """The two lower pieces of the step, written so that only numbers of one sign are added."""
    low = 1 - 2.5 * temperature
    middle = (1 - 2 * temperature) / (5 * temperature)
    if low < NO_FIRST_PIECE:
        return relative, (relative - 1).mul_(middle).add_(0.5)
    first = temperature / low
    if first > middle:
        bent = relative.clamp(max=low)
        return bent, (bent * (first - middle)).add_(relative, alpha=middle)
    if temperature < COLD:
        bent = (relative - 1).add_(2.5 * temperature).relu_()
    else:
        bent = functional.softshrink(relative, low)
    return bent, (bent * (middle - first)).add_(relative, alpha=first)


def _bend_slope(rows: _Rows, temperature: float) -> Tensor:
    """The derivative of the two lower pieces, times u."""
    low = 1 - 2.5 * temperature
    middle = (1 - 2 * temperature) / (5 * temperature)
    if low < NO_FIRST_PIECE:
        return rows.relative * middle
    first = temperature / low
    if first > middle:
        below = rows.relative - functional.hardshrink(rows.relative, low)
        return below.mul_(first - middle).add_(rows.relative, alpha=middle)
    above = rows.bent.sign().mul_(rows.relative)
    return above.mul_(middle - first).add_(rows.relative, alpha=first)


def _chunk_sums(rows: _Rows, samples: Samples, narrow: bool, matrix: bool) -> Tensor:
    labels, size = samples.labels, samples.logits.shape[2]
    if matrix:
        return _matrix(rows.step * rows.share, labels, size)
    if narrow:
        predicted = torch.matmul(rows.step, rows.share.transpose(1, 2)).squeeze(2)
    else:
        predicted = torch.matmul(rows.share.transpose(1, 2), rows.step).squeeze(1)
    axis = 1 if narrow else 2
    right = (rows.step.gather(axis, labels.unsqueeze(axis)) * rows.share).squeeze(axis)
    mass = torch.ones_like(right) if samples.weights is None else samples.weights
    per_class = right.new_zeros(2, len(labels), size)
    per_class.scatter_add_(2, labels.expand(2, -1, -1), torch.stack([right, mass]))
    return torch.stack([per_class[0], predicted, per_class[1]], dim=1)


def _matrix(memberships: Tensor, labels: Tensor, size: int) -> Tensor:
    members = len(labels)
    cells = labels + size * torch.arange(members, device=labels.device).unsqueeze(1)
    blank = memberships.new_zeros(members * size, size)
    blank.index_add_(0, cells.flatten(), memberships.flatten(0, 1))
    return blank.view(members, size, size)


def _chunk_gradient(
    problem: Problem, rows: _Rows, labels: Tensor, slopes: Tensor, narrow: bool
) -> Tensor:
    axis = 1 if narrow else 2
    pull, pulled = _pulls(problem, rows, labels, slopes, narrow)
    weighted = pull * rows.share
    gradient = _bend_slope(rows, problem.temperature)
    if not problem.matrix:
        at_label, extra = labels.unsqueeze(axis), pulled * rows.share
        of_label = gradient.gather(axis, at_label) * extra
    gradient *= weighted
    # The largest class beyond the upper bend was taken out; its own derivative by u, times u.
    own = (rows.is_first * weighted).sum(axis, keepdim=True) * rows.passed
    if not problem.matrix:
        gradient.scatter_add_(axis, at_label, of_label)
        own += rows.is_first.gather(axis, at_label) * extra * rows.passed
    own = own * rows.last_slope * rows.first
    through_total = own * rows.beyond * rows.last_slope / (rows.first * problem.temperature)
    return _shared(problem, rows, gradient, own, through_total, axis)


def _pulls(
    problem: Problem, rows: _Rows, labels: Tensor, slopes: Tensor, narrow: bool
) -> tuple[Tensor, Tensor]:
    """How much each class should gain from the row, minus the row's mean; what the true class gains besides."""
    if problem.matrix:
        size = slopes.shape[2]
        cells = labels + size * torch.arange(len(labels), device=labels.device).unsqueeze(1)
        pull = slopes.flatten(0, 1)[cells]
        mean = (pull * rows.step).sum(2, keepdim=True) * rows.inverse
        return pull - mean, mean
    axis = 1 if narrow else 2
    by_right, by_predicted = slopes[:, 0], slopes[:, 1].unsqueeze(2 if narrow else 1)
    pulled = by_right.gather(1, labels).unsqueeze(axis)
    if narrow:
        mean = torch.matmul(by_predicted.transpose(1, 2), rows.step)
    else:
        mean = torch.matmul(rows.step, by_predicted.transpose(1, 2))
    mean = mean + pulled * rows.step.gather(axis, labels.unsqueeze(axis))
    return by_predicted - mean * rows.inverse, pulled


def _shared(
    problem: Problem, rows: _Rows, gradient: Tensor, own: Tensor, through_total: Tensor, axis: int
) -> Tensor:
    """Add what the threshold, common to all classes of a row, sends to each of them."""
    spread = gradient.sum(axis, keepdim=True) + own
    if problem.detached:
        # The threshold is a constant: only the softmax denominator is common.
        by_probability = spread / rows.total
        gradient.addcmul_(rows.relative, by_probability, value=-1)
        return gradient.addcmul_(rows.is_first, own - rows.passed * rows.first * by_probability)
    spread -= through_total * rows.total
    gradient.addcmul_(rows.relative, through_total, value=-1)
    alone = (rows.ties < 1.5).to(gradient.dtype)
    second = 2 - rows.first
    to_first = own - rows.passed * rows.first * through_total
    to_first -= spread * torch.where(rows.ties > 1.5, rows.ties.reciprocal(), 0.5 * rows.first)
    others = rows.relative - rows.is_first * rows.first * (1 - rows.passed)
    is_second = others.ge(others.amax(axis, keepdim=True)).to(gradient.dtype)
    number = is_second.sum(axis, keepdim=True)
    gradient.addcmul_(is_second, spread * (0.5 * second) * alone / number, value=-1)
    return gradient.addcmul_(rows.is_first, to_first)
