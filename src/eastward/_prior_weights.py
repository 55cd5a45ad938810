"""Weights of samples before they are counted: zero for ignored ones, and scaled to a class prior."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from eastward import _checks
from eastward._numerics import VANISHED, safe_divide
from eastward.protocols import Reduce

__all__ = ["masked_labels", "weights_of_prior", "weights_of_rates"]


def masked_labels(
    targets: Tensor, weights: Tensor, ignore_index: int | None
) -> tuple[Tensor, Tensor]:
    """Give ignored samples class 0 and weight zero, so that 255 or -100 never becomes an index."""
    labels = targets.long()
    if ignore_index is None:
        return labels, weights
    ignored = labels == ignore_index
    return labels.masked_fill(ignored, 0), weights.masked_fill(ignored, 0.0)


def weights_of_prior(
    labels: Tensor,
    weights: Tensor,
    prior: Any,
    size: int,
    reduce: Reduce | None,
    *,
    check_values: bool = True,
) -> Tensor:
    """Compute weights ``(..., N)`` that give every class the mass of its prior.

    ``check_values`` is False for a prior whose values were checked before.
    """
    wanted = _checks.prior("soft_confusion", prior, size, check_values=check_values).to(weights)
    blank = weights.new_zeros(*weights.shape[:-1], size)
    present = blank.scatter_add(-1, labels, weights)
    present = reduce(present) if reduce is not None else present
    # An absent class has no weight to scale. Ignored samples count as class 0 with weight zero.
    return weights * (wanted / present.clamp_min(VANISHED)).gather(-1, labels)


def weights_of_rates(
    positive: Tensor, weights: Tensor, prior: Any, reduce: Reduce | None
) -> Tensor:
    """Compute weights ``(..., N, L)`` that give every label the rate of positives of its prior."""
    size = weights.shape[-1]
    rate = _checks.prior("multilabel_counts", prior, size, sums_to_one=False).to(weights)
    sides = (weights * (1 - positive), weights * positive)
    mass = torch.stack([side.sum(-2, keepdim=True) for side in sides], dim=-2)
    mass = reduce(mass) if reduce is not None else mass
    no, yes = safe_divide(torch.stack([1 - rate, rate]), mass).unbind(-2)
    return weights * torch.where(positive.bool(), yes, no)
