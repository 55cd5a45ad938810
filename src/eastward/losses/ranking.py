"""Ranking metrics as losses: soft counts over a threshold grid."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot

from eastward import _checks
from eastward.distributed import resolve_reduce
from eastward.losses._batches import Batch, prepare_batch, result_dtype
from eastward.losses._tables import is_empty
from eastward.losses._temperature import as_temperature
from eastward.memberships import class_probabilities
from eastward.protocols import Logits, Scalar, Step, Targets
from eastward.ranking import grid_counts, soft_auroc, soft_average_precision, threshold_grid
from eastward.steps import resolve_step

__all__ = ["AUROCLoss", "AveragePrecisionLoss"]

# Marks an entry to pass over, among indicators that are 0 or 1.
_NO_INDICATOR = -100


class _GridLoss(nn.Module):
    """One minus the mean over columns of an area under a curve through a threshold grid."""

    temperature: Any

    def __init__(
        self,
        area: Callable[[Tensor], Tensor],
        *,
        thresholds: int | Sequence[float],
        temperature: float,
        step: str | Step,
        multilabel: bool,
        ignore_index: int | None,
        process_group: Any,
        check_inputs: bool,
    ) -> None:
        super().__init__()
        caller = type(self).__name__
        _checks.temperature(caller, temperature)
        resolve_step(step, caller=caller)
        resolve_reduce(process_group)
        self.area, self.thresholds, self.step = area, threshold_grid(thresholds), step
        self.multilabel, self.check_inputs = bool(multilabel), bool(check_inputs)
        self.ignore_index = _checks.ignore_index(caller, ignore_index)
        self.process_group = process_group
        self.register_buffer("temperature", torch.tensor(float(temperature)))

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, as_temperature(self, name, value))

    def forward(
        self, logits: Logits, targets: Targets, sample_weight: Tensor | None = None
    ) -> Scalar:
        """Loss of one batch, ``1 - area``; shapes as in :func:`~eastward.metric_loss`."""
        batch = prepare_batch(
            type(self).__name__,
            logits,
            targets,
            sample_weight,
            self.multilabel,
            self.ignore_index,
            self.check_inputs,
        )
        scores, indicators, ignore_index = self._columns(batch)
        tables = grid_counts(
            scores,
            indicators,
            thresholds=self.thresholds,
            temperature=self.temperature,
            step=self.step,
            sample_weight=batch.sample_weight,
            ignore_index=ignore_index,
        )
        reduce = resolve_reduce(self.process_group)
        tables = reduce(tables) if reduce is not None else tables
        empty = is_empty(tables, warn=self.check_inputs)
        return torch.where(empty, 0.0, 1 - self._mean_area(tables)).to(result_dtype(logits))

    def _columns(self, batch: Batch) -> tuple[Tensor, Tensor, int | None]:
        """Scores and indicators of the binary columns (one-vs-rest, or class 1 of two); what to ignore."""
        scores = class_probabilities(batch.logits, multilabel=self.multilabel)
        if self.multilabel:
            return scores, batch.targets, self.ignore_index
        if scores.shape[1] == 2:
            return scores[:, 1:], batch.targets.unsqueeze(1), self.ignore_index
        ignored = torch.zeros_like(batch.targets, dtype=torch.bool)
        if self.ignore_index is not None:
            ignored = batch.targets == self.ignore_index
        indicators = one_hot(batch.targets.masked_fill(ignored, 0).long(), scores.shape[1])
        # Class 0 or 1 may be the ignored one; among indicators its number would mean all negatives or positives.
        return scores, indicators.masked_fill(ignored.unsqueeze(1), _NO_INDICATOR), _NO_INDICATOR

    def _mean_area(self, tables: Tensor) -> Tensor:
        positives, negatives = tables[0, 0] + tables[0, 2], tables[0, 1] + tables[0, 3]
        defined = ((positives > 0) & (negatives > 0)).to(tables.dtype)
        # No column with both classes: nothing can be ranked, so the loss is flat.
        return (self.area(tables) * defined).sum() / defined.sum().clamp_min(1)


class AUROCLoss(_GridLoss):
    r"""One minus the soft area under the ROC curve (Bridging the Gap).

    True and false positive rates are soft counts at a grid of thresholds, the area is their trapezoid sum; see
    :func:`eastward.ranking.soft_auroc`. More than two classes are taken one-vs-rest and averaged.

    Parameters
    ----------
    thresholds : int or sequence of float, default=9
        How many thresholds evenly inside (0, 1), or the thresholds. 9 is the papers' 0.1 ... 0.9.
    temperature : float, default=0.2
        Of the step.
    step : {"linear", "sigmoid", "hard"} or callable, default="linear"
        Heaviside approximation.
    multilabel : bool, default=False
        Columns are independent labels.
    ignore_index : int or None, default=-100
        Targets with this value do not exist.
    process_group : "auto", None or ProcessGroup, default="auto"
        Sum the counts over processes.
    check_inputs : bool, default=True
        Look at the values too (NaN, labels out of range).

    Notes
    -----
    Columns with one class only are left out; if none remains the loss is 1 without a gradient.

    Examples
    --------
    >>> import torch
    >>> round(AUROCLoss()(torch.tensor([4.0, -4.0]), torch.tensor([1, 0])).item(), 3)
    0.005
    """

    def __init__(
        self,
        *,
        thresholds: int | Sequence[float] = 9,
        temperature: float = 0.2,
        step: str | Step = "linear",
        multilabel: bool = False,
        ignore_index: int | None = -100,
        process_group: Any = "auto",
        check_inputs: bool = True,
    ) -> None:
        super().__init__(
            soft_auroc,
            thresholds=thresholds,
            temperature=temperature,
            step=step,
            multilabel=multilabel,
            ignore_index=ignore_index,
            process_group=process_group,
            check_inputs=check_inputs,
        )


class AveragePrecisionLoss(_GridLoss):
    r"""One minus the soft average precision over a threshold grid.

    See :func:`eastward.ranking.soft_average_precision`; parameters and conventions are those of
    :class:`AUROCLoss`.

    Examples
    --------
    >>> import torch
    >>> round(AveragePrecisionLoss()(torch.tensor([4.0, -4.0]), torch.tensor([1, 0])).item(), 3)
    0.007
    """

    def __init__(
        self,
        *,
        thresholds: int | Sequence[float] = 9,
        temperature: float = 0.2,
        step: str | Step = "linear",
        multilabel: bool = False,
        ignore_index: int | None = -100,
        process_group: Any = "auto",
        check_inputs: bool = True,
    ) -> None:
        super().__init__(
            soft_average_precision,
            thresholds=thresholds,
            temperature=temperature,
            step=step,
            multilabel=multilabel,
            ignore_index=ignore_index,
            process_group=process_group,
            check_inputs=check_inputs,
        )
