r"""Two classes, and independent labels: each column is a yes or no at a fixed threshold.

With :math:`p = \sigma(x)` and the step's slope :math:`s(p)`, the derivative of a membership by its logit is
:math:`s(p)\,p\,(1 - p)`. Two classes are one column, :math:`x = z_1 - z_0`: the memberships are :math:`(1 - h, h)`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from eastward.kernels.problems import Problem, Samples

__all__ = ["column_gradient", "column_sums", "step_pieces"]


def step_pieces(threshold: float, temperature: float) -> tuple[float, float, float, float]:
    """Half the width of the middle piece of the linear step, and the slopes of the three pieces."""
    half = 2.5 * temperature * min(threshold, 1 - threshold)
    first = temperature / max(threshold - half, 1e-19)
    last = temperature / max(1 - threshold - half, 1e-19)
    return half, first, (0.5 - temperature) / max(half, 1e-19), last


def column_sums(problem: Problem, samples: Samples) -> Tensor:
    """Sums ``(K, G, 4, L)``."""
    positive, negative = _masses(samples)
    probability = torch.sigmoid(_columns(samples.logits, problem))
    rows = [positive.sum(1), negative.sum(1)]
    parts = []
    for threshold in problem.thresholds:
        step = _step(probability, threshold, problem.temperature)
        parts.append(torch.stack([(positive * step).sum(1), (negative * step).sum(1), *rows], 1))
    return torch.stack(parts, dim=1)


def column_gradient(problem: Problem, samples: Samples, slopes: Tensor) -> Tensor:
    """Gradient at the logits, given slopes ``(K, G, 2, L)``."""
    logits = _columns(samples.logits, problem)
    probability = torch.sigmoid(logits)
    slopes = slopes.to(probability.dtype)
    by_step = torch.zeros_like(probability)
    positive = (samples.labels == 1).view(probability.shape)
    for index, threshold in enumerate(problem.thresholds):
        by_positive, by_negative = slopes[:, index, 0], slopes[:, index, 1]
        pull = torch.where(positive, by_positive.unsqueeze(1), by_negative.unsqueeze(1))
        by_step.addcmul_(pull, _step_slope(probability, threshold, problem.temperature))
    # 1 - p as the probability of the opposite keeps the digits of a small one.
    by_step *= probability * torch.sigmoid(-logits)
    if samples.weights is not None:
        by_step *= samples.weights.view(by_step.shape)
    return _by_logits(by_step, samples.logits, problem)


def _columns(logits: Tensor, problem: Problem) -> Tensor:
    """The logit of "yes", ``(K, N, L)``."""
    if problem.kind == "pair" and logits.shape[2] == 2:
        return (logits[..., 1] - logits[..., 0]).unsqueeze(2)
    return logits


def _by_logits(by_column: Tensor, logits: Tensor, problem: Problem) -> Tensor:
    if problem.kind == "pair" and logits.shape[2] == 2:
        return torch.cat([-by_column, by_column], dim=2)
    return by_column


def _masses(samples: Samples) -> tuple[Tensor, Tensor]:
    labels = samples.labels if samples.labels.dim() == 3 else samples.labels.unsqueeze(2)
    positive = labels.to(samples.logits.dtype)
    if samples.weights is None:
        return positive, 1 - positive
    weights = samples.weights.view(positive.shape)
    positive = positive * weights
    return positive, weights - positive


def _step(probability: Tensor, threshold: float, temperature: float) -> Tensor:
    half, first, middle, last = step_pieces(threshold, temperature)
    distance = probability - threshold
    if threshold == 0.5 and 0.05 <= temperature <= 0.35:
        # One clamp and no choice: h = 1/2 + first * d + (middle - first) * clamp(d, -half, half).
        return (
            distance.clamp(-half, half).mul_(middle - first).add_(distance, alpha=first).add_(0.5)
        )
    upper = torch.where(distance > half, 1 - (1 - probability) * last, 0.5 + distance * middle)
    return torch.where(distance < -half, probability * first, upper)


def _step_slope(probability: Tensor, threshold: float, temperature: float) -> Tensor:
    half, first, middle, last = step_pieces(threshold, temperature)
    distance = probability - threshold
    slope = torch.where(distance > half, last, middle)
    return torch.where(distance < -half, first, slope)
