r"""Ranking metrics over a grid of thresholds, from soft counts.

The area under the ROC curve and average precision summarise a classifier at every threshold. Here the curve is drawn
through the soft counts at a grid of thresholds, as in Bridging the Gap, which makes its area differentiable.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from eastward import _checks
from eastward._numerics import at_least_float32, safe_divide
from eastward.confusion import Counts, multilabel_counts
from eastward.protocols import Step
from eastward.steps import resolve_step

__all__ = ["grid_counts", "soft_auroc", "soft_average_precision", "threshold_grid"]

# Each threshold is a pass over the batch, so a larger grid would take forever.
MOST_THRESHOLDS = 10_000


def threshold_grid(
    thresholds: int | Sequence[float] = 9, *, caller: str = "threshold_grid"
) -> tuple[float, ...]:
    """Return a grid of thresholds: evenly spaced inside (0, 1), or the given ones sorted.

    Parameters
    ----------
    thresholds : int or sequence of float, default=9
        The number of thresholds, or the thresholds themselves.
    caller : str, default="threshold_grid"
        Function name to show in error messages.

    Returns
    -------
    tuple of float
        The thresholds, in ascending order.

    Examples
    --------
    >>> threshold_grid(3)
    (0.25, 0.5, 0.75)
    """
    if isinstance(thresholds, int) and not isinstance(thresholds, bool):
        if not 1 <= thresholds <= MOST_THRESHOLDS:
            expected = f"a number from 1 to {MOST_THRESHOLDS:,}"
            advice = "Nine, the papers' grid, are enough to train on."
            _checks.fail(caller, "thresholds", expected, thresholds, advice)
        return tuple(k / (thresholds + 1) for k in range(1, thresholds + 1))
    given: object = thresholds
    if given is None or isinstance(given, str | bool):
        got = _checks.describe(given)
        _checks.fail(caller, "thresholds", "a count or numbers in (0, 1)", got, error=TypeError)
    return tuple(sorted(_checks.thresholds(caller, thresholds, argument="thresholds") or ()))


def grid_counts(
    probabilities: Tensor,
    targets: Tensor,
    *,
    thresholds: int | Sequence[float] = 9,
    temperature: Tensor | float = 0.2,
    step: str | Step = "linear",
    sample_weight: Tensor | None = None,
    ignore_index: int | None = -100,
) -> Tensor:
    """Compute soft counts of binary columns at each threshold.

    Parameters
    ----------
    probabilities : Tensor
        ``(N, L)`` in [0, 1]; each column is a binary problem.
    targets : Tensor
        ``(N, L)`` zeros and ones.
    thresholds : int or sequence of float, default=9
        The number of thresholds, evenly spaced inside (0, 1), or the thresholds themselves. The default is the papers'
        grid 0.1 ... 0.9.
    temperature : Tensor or float, default=0.2
        Temperature of the step, in (0, 0.4].
    step : {"linear", "sigmoid", "hard"} or callable, default="linear"
        Shape of the soft step; see :func:`eastward.soft_memberships`.
    sample_weight : Tensor, optional
        Weights of the samples, ``(N,)``.
    ignore_index : int or None, default=-100
        Entries of the targets with this value are left out.

    Returns
    -------
    Tensor
        ``(G, 4, L)``: tp, fp, fn, tn at rising thresholds. Additive over batches.

    Examples
    --------
    >>> import torch
    >>> grid_counts(torch.tensor([[0.9], [0.2]]), torch.tensor([[1], [0]]), thresholds=[0.5]).shape
    torch.Size([1, 4, 1])
    """
    _checks.temperature("grid_counts", temperature)
    probabilities = at_least_float32(probabilities)
    heat = torch.as_tensor(temperature, dtype=probabilities.dtype, device=probabilities.device)
    soft = resolve_step(step, caller="grid_counts")
    tables = []
    for threshold in threshold_grid(thresholds):
        degrees = soft(probabilities, probabilities.new_tensor(threshold), heat)
        counts = multilabel_counts(
            degrees, targets, sample_weight=sample_weight, ignore_index=ignore_index
        )
        tables.append(counts.stack())
    return torch.stack(tables)


def soft_auroc(tables: Tensor) -> Tensor:
    r"""Compute the area under the soft ROC curve of each column.

    .. math:: \int TPR \, dFPR \approx \sum_g \tfrac12 (TPR_g + TPR_{g+1}) (FPR_g - FPR_{g+1})

    with the ends (1, 1) and (0, 0) added (trapezoid rule).

    Parameters
    ----------
    tables : Tensor
        ``(G, 4, L)``, as :func:`grid_counts` returns them.

    Returns
    -------
    Tensor
        ``(L,)`` in [0, 1]. 0.5 for a column with only one class.

    References
    ----------
    Bridging the Gap, section 2 and supplement 1.2.

    Examples
    --------
    >>> import torch
    >>> tables = grid_counts(torch.tensor([[1.0], [0.0]]), torch.tensor([[1], [0]]))
    >>> soft_auroc(tables)
    tensor([1.])
    """
    counts = Counts.unstack(tables.movedim(1, 0), exclusive=False)
    rate_true = safe_divide(counts.tp, counts.tp + counts.fn)
    rate_false = safe_divide(counts.fp, counts.fp + counts.tn)
    one, zero = torch.ones_like(rate_true[:1]), torch.zeros_like(rate_true[:1])
    up = torch.cat([one, rate_true, zero])
    along = torch.cat([one, rate_false, zero])
    area = ((up[:-1] + up[1:]) / 2 * (along[:-1] - along[1:])).sum(0)
    lacks_one = ((counts.tp + counts.fn)[0] <= 0) | ((counts.fp + counts.tn)[0] <= 0)
    return torch.where(lacks_one, 0.5, area)


def soft_average_precision(tables: Tensor) -> Tensor:
    r"""Compute the soft average precision of each column, :math:`\sum_g (R_g - R_{g+1}) P_g`.

    Thresholds rise with g. Above the last one recall is 0. Below the first one recall is 1, with the precision of
    calling everything positive.

    Parameters
    ----------
    tables : Tensor
        ``(G, 4, L)``, as :func:`grid_counts` returns them.

    Returns
    -------
    Tensor
        ``(L,)`` in [0, 1]; 0 for a column without positives.

    Examples
    --------
    >>> import torch
    >>> tables = grid_counts(torch.tensor([[1.0], [0.0]]), torch.tensor([[1], [0]]))
    >>> soft_average_precision(tables)
    tensor([1.])
    """
    counts = Counts.unstack(tables.movedim(1, 0), exclusive=False)
    found = safe_divide(counts.tp, counts.tp + counts.fn)
    exact = safe_divide(counts.tp, counts.tp + counts.fp)
    positives, negatives = (counts.tp + counts.fn)[:1], (counts.fp + counts.tn)[:1]
    base_rate = safe_divide(positives, positives + negatives)
    recalls = torch.cat([torch.ones_like(base_rate), found, torch.zeros_like(base_rate)])
    precisions = torch.cat([base_rate, exact])
    area = ((recalls[:-1] - recalls[1:]) * precisions).sum(0)
    return torch.where(positives[0] <= 0, 0.0, area)
