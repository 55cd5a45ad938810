r"""Kernels in plain PyTorch: run everywhere, need nothing.

Multiclass, dynamic threshold. With :math:`u_k = p_k / \tau` the softmax denominator cancels: the largest two sum to
two, and the step has its lower bend at :math:`1 - 2.5T` and its upper one at :math:`1 + 2.5T`, which only the
largest class can pass.

.. math:: u_k = \frac{2 e^{z_k}}{e^{z_1} + e^{z_2}},\qquad
          h_k = \begin{cases} \frac{T}{1 - 2.5T} u_k & \text{below} \\
                \frac12 + \frac{1-2T}{5T} (u_k - 1) & \text{between} \\
                1 - T + m (u_k - 1 - 2.5T) & \text{above} \end{cases},\qquad m = \frac{T}{\sum_j u_j - 1 - 2.5T}

The largest class is taken out of the array of u (set to zero, where :math:`h = 0`) and carried by one number for each
row: beyond the upper bend, added on top of the middle piece, it would cancel most of its digits at small T. Classes
that tie with it have the same number, and share what falls to the first place, as others share the second: nothing
depends on their order. A chunk of rows goes through one operation after the other while it stays in the cache.
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
CHUNK = 262_144
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

    others: Tensor  # u, zero for the largest class and those that tie with it
    is_first: Tensor  # 1 for these
    step: Tensor  # h
    bent: (
        Tensor  # positive beyond the lower bend; before it, when the first piece is the steeper one
    )
    first: Tensor  # u of the largest class
    second: Tensor  # u of the largest of the others
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
    heat = problem.temperature
    # exp2 takes a third of the time of exp on a CPU.
    others = (logits - logits.amax(axis, keepdim=True)).mul_(LOG2_E).exp2_()
    is_first = others.floor()
    ties = is_first.sum(axis, keepdim=True)
    second = others.sub_(is_first).amax(axis, keepdim=True)
    runner_up = torch.maximum(second, (ties - 1).clamp_(max=1))
    first = 2 / (runner_up + 1)
    others *= first
    total = others.sum(axis, keepdim=True).addcmul_(ties, first)
    # (1 - second) / (1 + second) is u - 1 of the largest class, with all its digits.
    gap = (1 - runner_up).mul_(first).mul_(0.5)
    beyond = gap - 2.5 * heat
    passed = (beyond > 0).to(logits.dtype)
    beyond.clamp_(min=0)
    last_slope = heat / (total - (1 + 2.5 * heat)).clamp_(min=1e-12)
    bent, step, at_zero = _bend(others, heat)
    of_first = gap * _middle(heat) + (0.5 - at_zero)
    of_first = torch.where(passed > 0, beyond * last_slope + (1 - heat - at_zero), of_first)
    step.addcmul_(is_first, of_first)
    inverse = step.sum(axis, keepdim=True).reciprocal_()
    weights = samples.weights
    share = inverse if weights is None else inverse * weights.unsqueeze(axis)
    return _Rows(
        others,
        is_first,
        step,
        bent,
        first,
        second * first,
        ties,
        passed,
        beyond,
        last_slope,
        total,
        inverse,
        share,
    )


def _middle(temperature: float) -> float:
    return (1 - 2 * temperature) / (5 * temperature)


def _bend(others: Tensor, temperature: float) -> tuple[Tensor, Tensor, float]:
    """The two lower pieces of the step, written so that only numbers of one sign are added; h of u = 0."""
    low, middle = 1 - 2.5 * temperature, _middle(temperature)
    if low < NO_FIRST_PIECE:
        return others, (others * middle).add_(0.5 - middle), 0.5 - middle
    first = temperature / low
    if first > middle:
        step = others.clamp(max=low).mul_(first - middle).add_(others, alpha=middle)
        return low - others, step, 0.0
    cold = temperature < COLD
    bent = (others - 1).add_(1 - low).relu_() if cold else functional.softshrink(others, low)
    return bent, (bent * (middle - first)).add_(others, alpha=first), 0.0


def _slope_times_u(rows: _Rows, temperature: float) -> Tensor:
    """The derivative of the step by u, times u, of every class."""
    low, middle = 1 - 2.5 * temperature, _middle(temperature)
    if low < NO_FIRST_PIECE:
        slope = rows.others * middle
    else:
        first = temperature / low
        base, other = (middle, first) if first > middle else (first, middle)
        slope = torch.gt(rows.bent, 0, out=torch.empty_like(rows.bent))
        slope.mul_(other - base).add_(base).mul_(rows.others)
    of_first = (middle + rows.passed * (rows.last_slope - middle)) * rows.first
    return slope.addcmul_(rows.is_first, of_first)


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
    gradient = _slope_times_u(rows, problem.temperature)
    if problem.matrix:
        pull = _matrix_pull(rows, labels, slopes)
        of_first = (rows.is_first * pull).sum(axis, keepdim=True)
        gradient *= pull
    else:
        at_label = labels.unsqueeze(axis)
        mean, extra = _margin_pull(rows, labels, slopes, narrow)
        by_predicted = slopes[:, 1].unsqueeze(2 if narrow else 1)
        of_first = _by_classes(by_predicted, rows.is_first, narrow) - rows.ties * mean
        of_first = of_first * rows.share + rows.is_first.gather(axis, at_label) * extra
        of_label = gradient.gather(axis, at_label) * extra
        gradient *= (by_predicted - mean).mul_(rows.share)
        gradient.scatter_add_(axis, at_label, of_label)
    # What goes through the total, in the last piece: there the largest class is alone.
    through = rows.passed * of_first * rows.beyond * rows.last_slope.square()
    return _shared(problem, rows, gradient, through / problem.temperature, axis)


def _matrix_pull(rows: _Rows, labels: Tensor, slopes: Tensor) -> Tensor:
    """How much the loss gains by each class of each row ``(K, n, C)``, minus the row's mean, times its share."""
    size = slopes.shape[2]
    cells = labels + size * torch.arange(len(labels), device=labels.device).unsqueeze(1)
    pull = slopes.flatten(0, 1)[cells]
    pull -= (pull * rows.step).sum(2, keepdim=True) * rows.inverse
    return pull.mul_(rows.share)


def _margin_pull(
    rows: _Rows, labels: Tensor, slopes: Tensor, narrow: bool
) -> tuple[Tensor, Tensor]:
    """The mean of what the loss gains by the classes of a row; what the true class gains besides, times the share."""
    axis = 1 if narrow else 2
    pulled = slopes[:, 0].gather(1, labels).unsqueeze(axis)
    mean = _by_classes(slopes[:, 1].unsqueeze(2 if narrow else 1), rows.step, narrow)
    mean = mean + pulled * rows.step.gather(axis, labels.unsqueeze(axis))
    return mean * rows.inverse, pulled * rows.share


def _by_classes(by_class: Tensor, array: Tensor, narrow: bool) -> Tensor:
    if narrow:
        return torch.matmul(by_class.transpose(1, 2), array)
    return torch.matmul(array, by_class.transpose(1, 2))


def _shared(problem: Problem, rows: _Rows, gradient: Tensor, through: Tensor, axis: int) -> Tensor:
    """Add what threshold and total, common to all classes of a row, send to each of them."""
    spread = gradient.sum(axis, keepdim=True)
    if problem.detached:
        # The threshold is a constant: only the softmax denominator is common.
        through = spread / rows.total
        to_first = through * rows.first
    else:
        theta = spread - through * rows.total
        to_first = torch.where(rows.ties > 1.5, theta / rows.ties, 0.5 * rows.first * theta)
        to_first += through * rows.first
        is_second = torch.eq(rows.others, rows.second, out=torch.empty_like(gradient))
        number = is_second.sum(axis, keepdim=True)
        to_second = (rows.ties < 1.5) * theta * (1 - 0.5 * rows.first) / number
        gradient.addcmul_(is_second, to_second, value=-1)
    gradient.addcmul_(rows.others, through, value=-1)
    return gradient.addcmul_(rows.is_first, to_first, value=-1)
