"""Losses of several models at once: K groups of samples, one loss for each.

Models that train side by side (cross-fitted networks, seeds, an ensemble) share no sample sums, so a kernel takes all
of them in one call.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from eastward import _checks
from eastward.losses._batches import Batch
from eastward.losses._definition import Terms
from eastward.losses._fused import fused_losses, gradient_of_losses
from eastward.losses._tables import prepare_metric
from eastward.metrics import Metric
from eastward.protocols import Reduce, Step
from eastward.steps import resolve_step

__all__ = ["stacked_losses", "stacked_losses_and_gradient"]


def stacked_losses(
    logits: Tensor, targets: Tensor, weights: Tensor | None, metric: Metric, **options: Any
) -> Tensor | None:
    """Losses ``(K,)`` of K models, differentiable; None where kernels do not apply.

    Parameters
    ----------
    logits : Tensor
        ``(K, N, C)``.
    targets : Tensor
        ``(K, N)``, or ``(K, N, L)`` for independent labels.
    weights : Tensor, optional
        ``(K, N)``.
    metric : Metric
        What is to be maximised.
    **options
        ``temperature``, ``threshold``, ``step``, ``prior``, ``multilabel``, ``ignore_index`` and ``reduce`` of
        :func:`~eastward.metric_loss`. Values are not looked at.

    Examples
    --------
    >>> import torch
    >>> from eastward.metrics import get
    >>> losses = stacked_losses(
    ...     torch.zeros(2, 6, 3), torch.arange(6).expand(2, 6) % 3, None, get("accuracy")
    ... )
    >>> [round(float(loss), 3) for loss in losses]
    [0.667, 0.667]
    """
    losses: Tensor | None = _stacked(fused_losses, logits, targets, weights, metric, **options)
    return losses


def stacked_losses_and_gradient(
    logits: Tensor, targets: Tensor, weights: Tensor | None, metric: Metric, **options: Any
) -> tuple[Tensor, Tensor] | None:
    """Losses ``(K,)`` and the gradient of their sum at the logits, without a graph; as :func:`stacked_losses`."""
    found: tuple[Tensor, Tensor] | None = _stacked(
        gradient_of_losses, logits, targets, weights, metric, **options
    )
    return found


def _stacked(
    calculate: Any,
    logits: Tensor,
    targets: Tensor,
    weights: Tensor | None,
    metric: Metric,
    *,
    temperature: Tensor | float = 0.2,
    threshold: Any = "top2",
    step: str | Step = "linear",
    prior: Any = None,
    multilabel: bool = False,
    ignore_index: int | None = -100,
    reduce: Reduce | None = None,
) -> Any:
    terms = Terms(
        prepare_metric("metric_loss", metric, "skip"),
        _checks.thresholds("metric_loss", threshold),
        resolve_step(step),
        False,
        prior,
        True,
        multilabel,
        ignore_index,
    )
    if weights is not None and multilabel:
        weights = weights.unsqueeze(2).expand(targets.shape)
    return calculate(Batch(logits, targets, weights), terms, temperature, reduce=reduce)
