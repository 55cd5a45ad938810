"""The head alone, trained by the metric: features computed once, the exact gradient of all rows.

Several heads train side by side, one for each fold of the validation rows that it does without, and one for all rows:
they see the same features, so that one matrix product serves them all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from eastward.alignment.heads import HeadWeights
from eastward.alignment.rows import IGNORED, HeadRows
from eastward.alignment.schedule import AlignmentSchedule
from eastward.losses.stacked import StackedLoss
from eastward.metrics import Metric

__all__ = ["HeadOptions", "aligned_heads"]


class HeadOptions(NamedTuple):
    """How the head is trained: Adam steps, their size, and the pull back to the start."""

    steps: int = 120
    learning_rate: float = 0.02
    proximal: float = 0.01


def aligned_heads(
    starts: Sequence[HeadWeights],
    rows: HeadRows,
    used: Tensor,
    metric: Metric,
    prior: Tensor | None,
    options: HeadOptions,
) -> list[HeadWeights]:
    r"""The heads that the metric wants, each not far from where it starts.

    .. math:: \min_w\; 1 - M_T(w) + \lambda \lVert w - w_0 \rVert^2

    The temperature T falls from 0.2 to 0.05, and the result is the mean of the weights over the last third of the
    steps. Features are measured in units of their root mean square, so that a step means the same in every network.

    Parameters
    ----------
    starts : sequence of HeadWeights
        K heads, already at a good decision.
    rows : HeadRows
        N rows.
    used : Tensor
        ``(K, N)`` booleans: the rows that each head may learn from.
    metric : Metric
        To be maximised.
    prior : Tensor, optional
        ``(C,)`` frequencies that one is judged by; None for labels.
    options : HeadOptions
        Steps, learning rate, and weight of the proximal term.

    Returns
    -------
    list of HeadWeights
    """
    schedule = AlignmentSchedule(metric, steps=options.steps, prior=prior)
    multilabel, single = rows.targets.dim() > 1, starts[0].single
    loss = StackedLoss(
        metric,
        prior=None if prior is None else prior.float(),
        multilabel=multilabel,
        ignore_index=IGNORED,
    )
    unit = rows.features.square().mean().sqrt().clamp_min(1e-12)
    features = rows.features / unit
    weights = rows.weight.float() * used
    targets = rows.targets.expand(len(starts), *rows.targets.shape).contiguous()
    origin = [
        torch.stack([start.weight * unit for start in starts]),
        torch.stack([start.bias for start in starts]),
    ]
    moving = [part.clone().requires_grad_() for part in origin]
    optimizer = torch.optim.Adam(moving, lr=options.learning_rate, fused=True)
    mean = [torch.zeros_like(part) for part in moving]
    averaged = 0
    for step in range(options.steps):
        logits = _logits(features, *moving, single=single)
        value = loss(logits, targets, weights, schedule(step)).sum()
        slopes = torch.autograd.grad(value, moving)
        for part, start, slope in zip(moving, origin, slopes, strict=True):
            part.grad = slope + 2 * options.proximal * (part.detach() - start)
        optimizer.step()
        if schedule.averages(step):
            averaged += 1
            for total, part in zip(mean, moving, strict=True):
                total.add_(part.detach() - total, alpha=1 / averaged)
    return [
        start._replace(weight=weight / unit, bias=bias)
        for start, weight, bias in zip(starts, *mean, strict=True)
    ]


def _logits(features: Tensor, weight: Tensor, bias: Tensor, *, single: bool) -> Tensor:
    """``(K, N, C)`` logits of K heads, ``(K, O, F)`` and ``(K, O)``."""
    heads, outputs = bias.shape
    flat = torch.addmm(bias.flatten(), features, weight.flatten(0, 1).T)
    found = flat.view(-1, heads, outputs).transpose(0, 1)
    return torch.cat([torch.zeros_like(found), found], dim=2) if single else found
