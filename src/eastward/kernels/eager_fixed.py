r"""Fixed thresholds on three or more classes.

.. math:: q_k = \frac{w}{H} \Big(M_{yk} - \frac{1}{H} \sum_j M_{yj} h_j\Big),\qquad
          \frac{\partial L}{\partial z_k} = p_k \Big(q_k h'(p_k) - \sum_j p_j q_j h'(p_j)\Big)

with :math:`H = \sum_k h_k`, :math:`M` the slope of the loss by the confusion matrix and :math:`y` the true class.
"""

from __future__ import annotations

import torch
from torch import Tensor

from eastward.kernels.eager_columns import step_pieces
from eastward.kernels.problems import Problem, Samples

__all__ = ["fixed_gradient", "fixed_sums"]

CHUNK = 131_072


def fixed_sums(problem: Problem, samples: Samples) -> Tensor:
    """Sums ``(K, G, 3, C)`` or ``(K, G, C, C)``."""
    members, rows, size = samples.logits.shape
    width = size if problem.matrix else 3
    wide = torch.float64 if samples.logits.device.type == "cpu" else torch.float32
    shape = (members, len(problem.thresholds), width, size)
    result = samples.logits.new_zeros(shape, dtype=wide)
    for part in _parts(members, rows, size):
        probability = torch.softmax(samples.logits[:, part], dim=2)
        labels = samples.labels[:, part]
        weights = None if samples.weights is None else samples.weights[:, part]
        for index, threshold in enumerate(problem.thresholds):
            step = _step(probability, threshold, problem.temperature)
            membership = step / step.sum(2, keepdim=True)
            if weights is not None:
                membership *= weights.unsqueeze(2)
            table = _matrix(membership, labels) if problem.matrix else _margins(membership, labels)
            result[:, index] += table
    return result


def fixed_gradient(problem: Problem, samples: Samples, slopes: Tensor) -> Tensor:
    """Gradient at the logits, given slopes ``(K, G, 2, C)`` or ``(K, G, C, C)``."""
    members, rows, size = samples.logits.shape
    result = torch.empty_like(samples.logits)
    slopes = slopes.to(result.dtype)
    for part in _parts(members, rows, size):
        probability = torch.softmax(samples.logits[:, part], dim=2)
        labels = samples.labels[:, part]
        by_probability = torch.zeros_like(probability)
        for index, threshold in enumerate(problem.thresholds):
            step, slope = _step_and_slope(probability, threshold, problem.temperature)
            pull = _pull(slopes[:, index], labels, matrix=problem.matrix)
            total = step.sum(2, keepdim=True)
            pull -= (pull * step).sum(2, keepdim=True) / total
            by_probability.addcmul_(pull.div_(total), slope)
        if samples.weights is not None:
            by_probability *= samples.weights[:, part].unsqueeze(2)
        by_probability *= probability
        spread = by_probability.sum(2, keepdim=True)
        result[:, part] = by_probability.addcmul_(probability, spread, value=-1)
    return result


def _parts(members: int, rows: int, size: int) -> list[slice]:
    step = max(1, CHUNK // max(1, members * size))
    return [slice(start, min(start + step, rows)) for start in range(0, rows, step)]


def _step(probability: Tensor, threshold: float, temperature: float) -> Tensor:
    return _step_and_slope(probability, threshold, temperature)[0]


def _step_and_slope(
    probability: Tensor, threshold: float, temperature: float
) -> tuple[Tensor, Tensor]:
    half, first, middle, last = step_pieces(threshold, temperature)
    distance = probability - threshold
    below, above = distance < -half, distance > half
    step = torch.where(above, 1 - (1 - probability) * last, 0.5 + distance * middle)
    step = torch.where(below, probability * first, step)
    slope = torch.where(below, first, torch.where(above, last, middle))
    return step, slope


def _cells(labels: Tensor, size: int) -> Tensor:
    return labels + size * torch.arange(len(labels), device=labels.device).unsqueeze(1)


def _matrix(membership: Tensor, labels: Tensor) -> Tensor:
    members, size = len(labels), membership.shape[2]
    blank = membership.new_zeros(members * size, size)
    blank.index_add_(0, _cells(labels, size).flatten(), membership.flatten(0, 1))
    return blank.view(members, size, size)


def _margins(membership: Tensor, labels: Tensor) -> Tensor:
    right = membership.gather(2, labels.unsqueeze(2)).squeeze(2)
    per_class = right.new_zeros(2, len(labels), membership.shape[2])
    # Rows of memberships sum to the weight of their sample.
    per_class.scatter_add_(2, labels.expand(2, -1, -1), torch.stack([right, membership.sum(2)]))
    return torch.stack([per_class[0], membership.sum(1), per_class[1]], dim=1)


def _pull(slopes: Tensor, labels: Tensor, *, matrix: bool) -> Tensor:
    """What the loss gains by each entry of a row, ``(K, n, C)``."""
    size = slopes.shape[2]
    if matrix:
        return slopes.flatten(0, 1)[_cells(labels, size)]
    pull = slopes[:, 1].unsqueeze(1).repeat(1, labels.shape[1], 1)
    return pull.scatter_add_(2, labels.unsqueeze(2), slopes[:, 0].gather(1, labels).unsqueeze(2))
