r"""Offsets tuned on labels and expectations together.

The metric of a hundred rare rows is a rough estimate, and the offsets that are best for it follow its accidents. The
model's own held-out probabilities say the same with far less variance, but with whatever bias they have. Mixing the
two,

.. math:: q_{nj} = s\,[y_n = j] + (1 - s)\,p_{nj},

and tuning the metric of the matrix :math:`C_{ij} = \sum_n q_{ni}\,[\hat y_n = j]` keeps most of both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from eastward import _checks
from eastward.decisions._inputs import class_sample
from eastward.decisions.bagging import bagged_offsets
from eastward.metrics import Metric

__all__ = ["LABEL_SHARE", "smoothed_offsets", "smoothed_rows"]

LABEL_SHARE = 0.25
"""The share of labels that did best on development splits of 33 tables (docs/quality.md)."""

# Smaller shares of a row than this cannot move a decision, but each is a row to sort.
SMALLEST_SHARE = 5e-3


def smoothed_offsets(
    log_probabilities: Any,
    targets: Any,
    metric: str | Metric | Callable[[Any], Tensor] = "f1_macro",
    *,
    label_share: float = LABEL_SHARE,
    n_bags: int = 5,
    sample_weight: Any = None,
    random_state: int = 0,
) -> Tensor:
    """Bagged offsets for a metric of labels and expectations together.

    Parameters
    ----------
    log_probabilities : Tensor or array
        ``(N, C)``, by models that did not see the rows.
    targets : Tensor or array
        ``(N,)`` class indices.
    metric : str, Metric or callable, default="f1_macro"
        What to maximise (or minimise, where lower is better).
    label_share : float, default=0.25
        Share of the labels, in [0, 1]; 1 is :func:`bagged_offsets`.
    n_bags : int, default=5
        Bootstraps to average over.
    sample_weight : Tensor or array, optional
        ``(N,)``, finite and not negative.
    random_state : int, default=0
        Seed of the bootstraps.

    Returns
    -------
    Tensor
        ``(C,)`` with mean zero.

    Examples
    --------
    >>> import torch
    >>> p = torch.tensor([[0.9, 0.1], [0.8, 0.2], [0.6, 0.4], [0.7, 0.3]])
    >>> b = smoothed_offsets(p.log(), torch.tensor([0, 0, 1, 1]), "f1", label_share=0.5)
    >>> bool(b[1] > 0)
    True
    """
    caller = "smoothed_offsets"
    if not 0 <= _checks.real(caller, "label_share", label_share) <= 1:
        _checks.fail(caller, "label_share", "in [0, 1]", label_share)
    sample = class_sample(caller, log_probabilities, targets, sample_weight)
    rows, classes, shares = smoothed_rows(sample.scores, sample.targets, float(label_share))
    return bagged_offsets(
        sample.scores[rows].to(sample.dtype),
        classes,
        metric,
        n_bags=n_bags,
        sample_weight=shares * sample.weight[rows],
        random_state=random_state,
    )


def smoothed_rows(
    log_probabilities: Tensor, targets: Tensor, label_share: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Rows, classes and weights of a weighted sample that stands for the mixture of labels and probabilities.

    Examples
    --------
    >>> import torch
    >>> logs = torch.tensor([[0.8, 0.2]], dtype=torch.float64).log()
    >>> rows, classes, weights = smoothed_rows(logs, torch.tensor([1]), 0.5)
    >>> rows.tolist(), classes.tolist(), [round(w, 2) for w in weights.tolist()]
    ([0, 0], [0, 1], [0.4, 0.6])
    """
    share = (1 - label_share) * log_probabilities.softmax(1)
    share[torch.arange(len(targets)), targets] += label_share
    share[share < SMALLEST_SHARE] = 0.0
    share /= share.sum(1, keepdim=True)
    rows, classes = torch.nonzero(share, as_tuple=True)
    return rows, classes, share[rows, classes]
