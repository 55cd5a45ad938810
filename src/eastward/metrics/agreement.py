r"""Metrics of the table as a whole: accuracy, balanced accuracy, correlation, kappa, G-mean, cost.

The formulas use tp, fp, fn and tn. A difference such as :math:`s^2 - \sum_k t_k^2` loses its digits when one class
dominates; the equal sum :math:`\sum_k (tp_k + fn_k)(fp_k + tn_k)` does not.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from eastward import _checks
from eastward._numerics import VANISHED, safe_divide, safe_sqrt
from eastward.confusion import Counts
from eastward.metrics._averaging import (
    ABSENT_POLICIES,
    averaged,
    class_mask,
    normalised_counts,
    square_matrix,
)
from eastward.metrics.averaged_quotients import SMALLEST_FACTOR
from eastward.metrics.products import CORRELATION, KAPPA, KAPPA_OF_LABEL
from eastward.metrics.quotients import RECALL, SPECIFICITY, TWO_SIDED_RECALL
from eastward.metrics.weighted_cells import WeightedCells

__all__ = [
    "accuracy",
    "balanced_accuracy",
    "cohen_kappa",
    "expected_cost",
    "geometric_mean",
    "matthews_corrcoef",
]


def accuracy(confusion: Tensor | Counts) -> Tensor:
    r"""Share of the mass on the diagonal, :math:`\sum_k tp_k / \sum C`.

    For multilabel counts it is the mean over labels of :math:`(tp + tn) / n` (one minus the Hamming loss).

    Parameters
    ----------
    confusion : Tensor or Counts
        ``(C, C)`` matrix, rows true and columns predicted; or one-vs-rest counts.

    Returns
    -------
    Tensor
        0-d in [0, 1].

    Examples
    --------
    >>> import torch
    >>> accuracy(torch.tensor([[3.0, 1.0], [0.0, 4.0]]))
    tensor(0.8750)
    """
    counts = normalised_counts("accuracy", confusion)
    return counts.tp.sum() if counts.exclusive else (counts.tp + counts.tn).mean()


def balanced_accuracy(confusion: Tensor | Counts, *, absent: str = "skip") -> Tensor:
    r"""Mean recall over the classes, :math:`\frac1K \sum_k tp_k / (tp_k + fn_k)`.

    For multilabel counts it is the mean over labels of :math:`\frac12(recall + specificity)`.

    Parameters
    ----------
    confusion : Tensor or Counts
        ``(C, C)`` matrix, rows true and columns predicted; or one-vs-rest counts.
    absent : {"skip", "observed", "zero", "one"}, default="skip"
        How to treat classes without true samples: "skip" leaves them out (scikit-learn's rule here), "observed" counts
        those that were predicted, "zero" counts all of them as 0, "one" as 1.

    Returns
    -------
    Tensor
        0-d in [0, 1].

    Examples
    --------
    >>> import torch
    >>> balanced_accuracy(torch.tensor([[3.0, 1.0], [0.0, 4.0]]))
    tensor(0.8750)
    """
    caller = "balanced_accuracy"
    if isinstance(confusion, Counts) and not confusion.exclusive:
        return averaged(caller, confusion, TWO_SIDED_RECALL, "macro", absent)
    return averaged(caller, confusion, RECALL, "macro", absent)


def matthews_corrcoef(confusion: Tensor | Counts) -> Tensor:
    r"""Correlation of truth and prediction (multiclass :math:`R_K`).

    .. math::
        R_K = \frac{\sum_k (tp_k\,tn_k - fp_k\,fn_k)}
                   {\sqrt{\sum_k (tp_k+fn_k)(fp_k+tn_k)}\sqrt{\sum_k (tp_k+fp_k)(fn_k+tn_k)}}

    With two classes this is the usual MCC. For multilabel counts it is the mean over the labels where it is defined.

    Parameters
    ----------
    confusion : Tensor or Counts
        ``(C, C)`` matrix, rows true and columns predicted; or one-vs-rest counts.

    Returns
    -------
    Tensor
        0-d in [-1, 1]; 0 when truth or prediction is constant.

    References
    ----------
    Gorodkin (2004), "Comparing two K-category assignments by a K-category correlation coefficient".

    Examples
    --------
    >>> import torch
    >>> matthews_corrcoef(torch.tensor([[3.0, 1.0], [1.0, 3.0]]))
    tensor(0.5000)
    """
    counts = normalised_counts("matthews_corrcoef", confusion)
    value = CORRELATION(counts)
    if counts.exclusive:
        return value
    return _mean_where(value, ~(counts.true * (counts.fp + counts.tn) <= VANISHED))


def cohen_kappa(confusion: Tensor | Counts, weights: str | None = None) -> Tensor:
    r"""Agreement beyond chance, :math:`1 - \sum W \circ C / \sum W \circ E`.

    :math:`E` is the matrix expected from the margins. :math:`W` has zeros on the diagonal, and elsewhere 1,
    :math:`|i - j|` or :math:`(i - j)^2`.

    Parameters
    ----------
    confusion : Tensor or Counts
        ``(C, C)`` matrix, rows true and columns predicted; or one-vs-rest counts. Weights need the matrix. For
        multilabel counts, kappa is the mean over the labels where it is defined.
    weights : {None, "linear", "quadratic"}, default=None
        How the penalty grows with the distance between ordered classes: not at all, linearly or quadratically.

    Returns
    -------
    Tensor
        0-d in [-1, 1]; 0 if kappa is undefined (a single class, always predicted).

    Examples
    --------
    >>> import torch
    >>> cohen_kappa(torch.tensor([[3.0, 1.0], [1.0, 3.0]]))
    tensor(0.5000)
    """
    caller = "cohen_kappa"
    if weights is not None:
        _checks.one_of(caller, "weights", weights, ("linear", "quadratic"), otherwise="or None")
        matrix = square_matrix(caller, confusion)
        return kappa_cells(len(matrix), weights, matrix)(matrix)
    counts = normalised_counts(caller, confusion)
    if counts.exclusive:
        return KAPPA(counts)
    return _mean_where(KAPPA_OF_LABEL(counts), ~(counts.true <= VANISHED))


def geometric_mean(confusion: Tensor | Counts, *, absent: str = "observed") -> Tensor:
    r"""Geometric mean of the recalls, :math:`\big(\prod_k recall_k\big)^{1/K}`.

    For multilabel counts it is the mean over labels of :math:`\sqrt{recall \cdot specificity}`.

    Parameters
    ----------
    confusion : Tensor or Counts
        ``(C, C)`` matrix, rows true and columns predicted; or one-vs-rest counts.
    absent : {"observed", "skip", "zero", "one"}, default="observed"
        How to treat classes without true samples: "observed" counts those that were predicted, "skip" leaves all of
        them out, "zero" counts all of them as 0, "one" as 1. A class that counts with a recall of 0 makes the mean 0.

    Returns
    -------
    Tensor
        0-d in [0, 1].

    Examples
    --------
    >>> import torch
    >>> geometric_mean(torch.tensor([[4.0, 0.0], [3.0, 1.0]]))
    tensor(0.5000)
    """
    caller = "geometric_mean"
    if isinstance(confusion, Counts) and not confusion.exclusive:
        return averaged(caller, confusion, _two_sided_geometric, "macro", absent)
    _checks.one_of(caller, "absent", absent, ABSENT_POLICIES)
    counts = normalised_counts(caller, confusion)
    recalls = RECALL(counts)
    if absent == "one":
        recalls = torch.where(counts.true <= VANISHED, 1.0, recalls)
    chosen = class_mask(counts, absent)
    logs = recalls.clamp_min(SMALLEST_FACTOR).log()
    value = safe_divide((logs * chosen).sum(), chosen.sum()).exp()
    lost = ((recalls <= VANISHED) & (chosen > 0)).any() | (chosen.sum() == 0)
    return torch.where(lost, 0.0, value)


def expected_cost(confusion: Tensor, cost: Any) -> Tensor:
    r"""Mean cost of a decision, :math:`\sum_{ij} C_{ij}\,cost_{ij} / \sum C`. Lower is better.

    Parameters
    ----------
    confusion : Tensor
        ``(C, C)``, rows true and columns predicted.
    cost : array-like
        ``(C, C)``: the cost of predicting the column when the row is true. Negative entries are gains.

    Returns
    -------
    Tensor
        0-d, between the smallest and the largest cost.

    Examples
    --------
    >>> import torch
    >>> expected_cost(torch.tensor([[3.0, 1.0], [2.0, 4.0]]), cost=[[0, 1], [5, 0]])
    tensor(1.1000)
    """
    matrix = square_matrix("expected_cost", confusion)
    return cost_cells(len(matrix), cost, matrix)(matrix)


def cost_cells(size: int, cost: Any, like: Tensor) -> WeightedCells:
    """Return the formula of the expected cost, with the dtype and device of ``like``.

    Examples
    --------
    >>> import torch
    >>> cost_cells(2, [[0, 1], [5, 0]], torch.ones(1)).weights[1].tolist()
    [5.0, 0.0]
    """
    table = _checks.cost("expected_cost", cost, size).to(like)
    return WeightedCells(table, by_chance=False)


def kappa_cells(size: int, weights: str, like: Tensor) -> WeightedCells:
    """Return the formula of kappa with linear or quadratic weights, with the dtype and device of ``like``.

    Examples
    --------
    >>> import torch
    >>> kappa_cells(3, "quadratic", torch.ones(1)).weights[0].tolist()
    [0.0, 1.0, 4.0]
    """
    ranks = torch.arange(size, dtype=like.dtype, device=like.device)
    distance = (ranks.unsqueeze(1) - ranks).abs() ** (1 if weights == "linear" else 2)
    return WeightedCells(distance, by_chance=True)


def _two_sided_geometric(counts: Counts) -> Tensor:
    return safe_sqrt(RECALL(counts)) * safe_sqrt(SPECIFICITY(counts))


def _mean_where(values: Tensor, chosen: Tensor) -> Tensor:
    mask = chosen.to(values.dtype)
    return safe_divide((values * mask).sum(), mask.sum())
