"""Losses of several models at once, one for each of K groups of samples.

Models that train side by side (cross-fitted networks, seeds, an ensemble) share no samples, so there are K tables.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from eastward import _checks
from eastward.losses._at_table import prepare_metric
from eastward.losses._batches import Batch
from eastward.losses._definition import Terms
from eastward.losses._loss import Between, Steps
from eastward.metrics import Metric
from eastward.protocols import Reduce, Step
from eastward.steps import resolve_step

__all__ = ["StackedLoss"]


class StackedLoss:
    """One minus the metric for each of K models; input values are not checked.

    Parameters
    ----------
    metric : Metric
        The metric to maximise.
    threshold, step, prior, multilabel, ignore_index
        As in :func:`~eastward.metric_loss`.
    reduce : callable, optional
        Sum of tables over processes.

    Examples
    --------
    >>> import torch
    >>> from eastward.metrics import get
    >>> losses = StackedLoss(get("accuracy"))(
    ...     torch.zeros(2, 6, 3), torch.arange(6).expand(2, 6) % 3, None
    ... )
    >>> [round(float(loss), 3) for loss in losses]
    [0.667, 0.667]
    """

    def __init__(
        self,
        metric: Metric,
        *,
        threshold: Any = "top2",
        step: str | Step = "linear",
        prior: Any = None,
        multilabel: bool = False,
        ignore_index: int | None = -100,
        reduce: Reduce | None = None,
    ) -> None:
        self.reduce, self.multilabel = reduce, multilabel
        chosen, policy = prepare_metric("metric_loss", metric, None)
        self._steps = Steps(
            Terms(
                chosen,
                _checks.thresholds("metric_loss", threshold),
                resolve_step(step),
                False,
                prior,
                policy == "skip",
                multilabel,
                ignore_index,
            )
        )

    def __call__(
        self,
        logits: Tensor,
        targets: Tensor,
        weights: Tensor | None,
        temperature: Tensor | float = 0.2,
    ) -> Tensor:
        """Compute losses ``(K,)`` of logits ``(K, N, C)``, targets ``(K, N)`` or ``(K, N, L)``, weights ``(K, N)``."""
        if weights is not None and self.multilabel:
            weights = weights.unsqueeze(2).expand(targets.shape)
        return self._steps.losses(
            Batch(logits, targets, weights), temperature, Between(self.reduce)
        )
