"""Which rows a loss still learns from: its gradient by how sure, and how right, the network is."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

__all__ = ["EDGES", "gradient_by_confidence"]

# Probability of the predicted class.
EDGES = (0.0, 0.5, 0.7, 0.9, 0.99, 1.0)


def gradient_by_confidence(criterion: Any, logits: Tensor, targets: Tensor) -> list[dict[str, Any]]:
    """Rows in groups by whether they are right and how sure the network is, with what the loss makes of each group.

    Parameters
    ----------
    criterion : callable
        Logits and targets to a 0-d loss.
    logits : Tensor
        ``(N, C)``.
    targets : Tensor
        ``(N,)``.

    Returns
    -------
    list of dict
        ``right``, ``low`` and ``high`` (of the probability of the predicted class), ``rows`` (share of all), ``pull``
        (mean absolute gradient of a row over that of all rows) and ``gradient`` (share of the whole gradient).

    Examples
    --------
    >>> logits = torch.tensor([[4.0, 0.0], [0.2, 0.0], [0.0, 6.0]])
    >>> rows = gradient_by_confidence(torch.nn.CrossEntropyLoss(), logits, torch.tensor([0, 0, 0]))
    >>> [(row["right"], row["high"], round(row["gradient"], 2)) for row in rows]
    [(False, 1.0, 0.68), (True, 0.7, 0.31), (True, 0.99, 0.01)]
    """
    leaf = logits.detach().clone().requires_grad_()
    (gradient,) = torch.autograd.grad(criterion(leaf, targets), leaf)
    size = gradient.abs().sum(1)
    confidence, decided = logits.softmax(1).max(1)
    total, mean = float(size.sum()), float(size.mean())
    groups = []
    for right in (False, True):
        for low, high in pairwise(EDGES):
            chosen = ((decided == targets) == right) & (confidence > low) & (confidence <= high)
            if chosen.any():
                groups.append(
                    {
                        "right": right,
                        "low": low,
                        "high": high,
                        "rows": float(chosen.float().mean()),
                        "pull": float(size[chosen].mean()) / mean,
                        "gradient": float(size[chosen].sum()) / total,
                    }
                )
    return groups
