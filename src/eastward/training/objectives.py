"""Objectives of training stages: one loss for each member.

An objective maps logits ``(K, B, C)``, targets ``(K, B)`` and weights to K losses. Members share no parameter, so the
gradient of the sum of these losses is the gradient of each member's own loss.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from eastward.losses.stacked import StackedLoss
from eastward.metrics import Metric
from eastward.protocols import Reduce

__all__ = ["IGNORED", "CrossEntropyObjective", "MetricObjective", "member_means"]

IGNORED = -100


class CrossEntropyObjective:
    """The weighted mean cross-entropy of each member (binary cross-entropy for independent labels).

    Parameters
    ----------
    multilabel : bool, default=False
        Whether labels are independent.
    reduce : callable, optional
        A differentiable sum over processes.

    Examples
    --------
    >>> import torch
    >>> objective = CrossEntropyObjective()
    >>> objective(torch.zeros(2, 4, 3), torch.zeros(2, 4, dtype=torch.long), None)
    tensor([1.0986, 1.0986])
    """

    def __init__(self, *, multilabel: bool = False, reduce: Reduce | None = None) -> None:
        self.multilabel, self.reduce = multilabel, reduce
        self.temperature: float | None = None

    def __call__(self, logits: Tensor, targets: Tensor, weights: Tensor | None) -> Tensor:
        """Compute losses ``(K,)`` of logits ``(K, B, C)``, targets ``(K, B)`` and weights."""
        members, size = targets.shape[:2]
        if self.multilabel:
            known = targets != IGNORED
            each = functional.binary_cross_entropy_with_logits(
                logits.float(), targets.clamp_min(0).to(logits.dtype).float(), reduction="none"
            )
            each = (each * known).mean(-1)
            known = known.all(-1)
        else:
            each = functional.cross_entropy(
                logits.float().flatten(0, 1),
                targets.flatten(),
                reduction="none",
                ignore_index=IGNORED,
            ).view(members, size)
            known = targets != IGNORED
        mass = known.to(each.dtype) if weights is None else weights * known
        return member_means(each, mass, self.reduce)


def member_means(each: Tensor, mass: Tensor, reduce: Reduce | None) -> Tensor:
    """Compute weighted means ``(K,)`` of ``(K, B)`` values, over the rows of all processes."""
    total, weight = (each * mass).sum(1), mass.sum(1)
    if reduce is not None:
        total, weight = reduce(torch.stack([total, weight])).unbind()
    return total / weight.clamp_min(torch.finfo(each.dtype).tiny)


class MetricObjective:
    """One minus the soft metric of each member, with an optional share of cross-entropy.

    Parameters
    ----------
    metric : Metric
        The metric to maximise.
    prior : Tensor, optional
        ``(C,)`` class frequencies to which the batches are corrected.
    threshold : "top2", float or sequence of float, default="top2"
        Threshold of the memberships, as in :func:`~eastward.metric_loss`.
    step : str or callable, default="linear"
        Soft step of the memberships, as in :func:`~eastward.metric_loss`.
    multilabel : bool, default=False
        Whether labels are independent.
    reduce : callable, optional
        A differentiable sum over processes.

    Attributes
    ----------
    temperature : float
        Temperature of the memberships, set by annealing.
    blend : float
        Weight of cross-entropy in the loss; 0, unless the collapse guard raises it.
    """

    def __init__(
        self,
        metric: Metric,
        *,
        prior: Tensor | None = None,
        threshold: Any = "top2",
        step: Any = "linear",
        multilabel: bool = False,
        reduce: Reduce | None = None,
    ) -> None:
        self._stacked = StackedLoss(
            metric,
            threshold=threshold,
            step=step,
            prior=prior,
            multilabel=multilabel,
            ignore_index=IGNORED,
            reduce=reduce,
        )
        self.temperature: float = 0.2
        self.blend = 0.0
        self._cross_entropy = CrossEntropyObjective(multilabel=multilabel, reduce=reduce)

    def __call__(self, logits: Tensor, targets: Tensor, weights: Tensor | None) -> Tensor:
        """Compute losses ``(K,)`` of logits ``(K, B, C)``, targets ``(K, B)`` and weights."""
        losses = self._stacked(logits, targets, weights, self.temperature)
        if self.blend:
            losses = losses + self.blend * self._cross_entropy(logits, targets, weights)
        return losses
