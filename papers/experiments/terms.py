"""Lee's Figure 1: what each class contributes to three losses, as its mistakes grow."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import torch
from torch import Tensor
from torch.nn import functional

from eastward import baselines

__all__ = ["LOSSES", "terms"]


def _surrogate(logits: Tensor, targets: Tensor) -> Tensor:
    value: Tensor = baselines.SurrogateFBetaLoss(1.0, 0.5, balanced=False)(logits, targets)
    return value


def _mean_absolute(logits: Tensor, targets: Tensor) -> Tensor:
    # Over both classes it is twice what the figure shows.
    value: Tensor = baselines.MAELoss()(logits, targets) / 2
    return value


def _cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    return functional.binary_cross_entropy_with_logits(logits, targets.to(logits))


LOSSES: Mapping[str, Callable[[Tensor, Tensor], Tensor]] = MappingProxyType(
    {
        "cross-entropy": _cross_entropy,
        "mean absolute error": _mean_absolute,
        "surrogate F1, p = 0.5": _surrogate,
    }
)


def terms(name: str, mistakes: float) -> tuple[float, float]:
    """Both terms of a loss where every row of a class is wrong by the same probability.

    Parameters
    ----------
    name : str
        One of ``LOSSES``.
    mistakes : float
        Probability of the wrong class, in (0, 1).

    Returns
    -------
    tuple of float
        The term of the positive rows, and that of the negative rows.

    Examples
    --------
    >>> [round(value, 4) for value in terms("surrogate F1, p = 0.5", 0.5)]
    [0.6931, 0.4055]
    """
    loss, logit = LOSSES[name], torch.logit(torch.tensor([mistakes], dtype=torch.float64))
    positive = loss(-logit, torch.tensor([1]))
    negative = loss(logit, torch.tensor([0]))
    return float(positive), float(negative)
