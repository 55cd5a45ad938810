"""Which rows a loss still learns from: its gradient by how sure, and how right, the network is."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["EDGES", "gradient_by_confidence", "pull_of_fresh_classes"]

# Probability of the predicted class.
EDGES = (0.0, 0.5, 0.7, 0.9, 0.99, 1.0)


def gradient_by_confidence(criterion: Any, logits: Tensor, targets: Tensor) -> list[dict[str, Any]]:
    """Group rows by correctness and confidence, and measure the gradient of each group.

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


def pull_of_fresh_classes(criterion: Any, num_classes: int, *, rows: int = 2000) -> float:
    """Compare the gradient of rows of classes that a network has not learnt with that of classes it half knows.

    Every other class is half known: its rows have it at a probability of about 1/2. Rows of the other classes have
    nearly equal probabilities for all. Where the ratio is far below one, a network goes on with what it knows already
    and leaves the other classes behind.

    Parameters
    ----------
    criterion : callable
        Logits and targets to a 0-d loss.
    num_classes : int
        How many classes there are; rows are spread over them evenly.
    rows : int, default=2000
        Rows in the batch.

    Returns
    -------
    float
        Ratio of the mean absolute gradients.

    Examples
    --------
    >>> round(pull_of_fresh_classes(torch.nn.CrossEntropyLoss(), 200), 1)
    2.0
    """
    generator = torch.Generator().manual_seed(0)
    targets = torch.arange(rows) % num_classes
    logits = 0.1 * torch.randn(rows, num_classes, generator=generator)
    learnt = targets % 2 == 0
    own = nn.functional.one_hot(targets, num_classes) * learnt.unsqueeze(1)
    leaf = (logits + math.log(num_classes - 1) * own).requires_grad_()
    (gradient,) = torch.autograd.grad(criterion(leaf, targets), leaf)
    size = gradient.abs().sum(1)
    return float(size[~learnt].mean() / size[learnt].mean())
