"""Train only the head for the metric, with the exact gradient of all rows on features computed once.

Several heads train side by side: one without each fold of the validation rows, and one on all rows. They share the
features, so one matrix product serves all of them.
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


# With fewer rows, the overhead of a step exceeds its arithmetic, so there are fewer and larger steps.
FEW_ROWS = 2000


class HeadOptions(NamedTuple):
    """Options of the head stage: number and size of Adam's steps, and the pull back to the start."""

    steps: int = 120
    learning_rate: float = 0.02
    proximal: float = 0.01

    @classmethod
    def for_rows(cls, count: int) -> HeadOptions:
        """Return the options for this many rows; few rows get a third of the steps.

        Examples
        --------
        >>> HeadOptions.for_rows(500).steps, HeadOptions.for_rows(5000).steps
        (40, 120)
        """
        return cls(steps=40, learning_rate=0.05) if count < FEW_ROWS else cls()


def aligned_heads(
    starts: Sequence[HeadWeights],
    rows: HeadRows,
    used: Tensor,
    metric: Metric,
    prior: Tensor | None,
    options: HeadOptions,
) -> list[HeadWeights]:
    r"""Train heads for the metric, and keep each of them near its start.

    .. math:: \min_w\; 1 - M_T(w) + \lambda \lVert w - w_0 \rVert^2

    The temperature T falls from 0.2 to 0.05, and the result is the mean of the weights over the last third of the
    steps. Features are divided by their root mean square, so that a step has the same size in every network.

    Parameters
    ----------
    starts : sequence of HeadWeights
        K heads that already make good decisions.
    rows : HeadRows
        Features, targets and weights of N rows.
    used : Tensor
        ``(K, N)`` booleans that mark the rows from which each head may learn.
    metric : Metric
        The metric to maximise.
    prior : Tensor, optional
        ``(C,)`` class frequencies that count; None for labels.
    options : HeadOptions
        Steps, learning rate, and weight of the proximal term.

    Returns
    -------
    list of HeadWeights
        The trained heads, in the order of ``starts``.
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
    """Compute logits ``(K, N, C)`` of K heads with weights ``(K, O, F)`` and biases ``(K, O)``."""
    heads, outputs = bias.shape
    flat = torch.addmm(bias.flatten(), features, weight.flatten(0, 1).T)
    found = flat.view(-1, heads, outputs).transpose(0, 1)
    return torch.cat([torch.zeros_like(found), found], dim=2) if single else found
