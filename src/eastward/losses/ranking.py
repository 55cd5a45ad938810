"""Ranking metrics as losses: soft counts over a threshold grid."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from eastward import _checks
from eastward.distributed import resolve_reduce
from eastward.losses._at_table import is_empty
from eastward.losses._batches import Batch, prepare_batch, result_dtype
from eastward.losses._definition import Terms, unit_of, wide_table
from eastward.losses._module import LossModule
from eastward.losses._passes import Ways, soft_tables
from eastward.memberships import class_probabilities
from eastward.metrics import get
from eastward.protocols import Logits, Scalar, Step, Targets
from eastward.ranking import grid_counts, soft_auroc, soft_average_precision, threshold_grid
from eastward.steps import resolve_step

__all__ = ["AUROCLoss", "AveragePrecisionLoss"]

# Marks an ignored entry among indicators that are 0 or 1.
_NO_INDICATOR = -100
# Any metric of counts would do: a table of labels does not depend on it.
_COUNTED = get("accuracy")


class _GridLoss(LossModule):
    """One minus the mean over columns of an area under a curve through a threshold grid."""

    area: Callable[[Tensor], Tensor]

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
        super().__init__(temperature)
        caller = type(self).__name__
        resolve_step(step, caller=caller)
        resolve_reduce(process_group, caller=caller)
        self.thresholds, self.step = threshold_grid(thresholds, caller=caller), step
        self.multilabel = _checks.boolean(caller, "multilabel", multilabel)
        self.check_inputs = _checks.boolean(caller, "check_inputs", check_inputs)
        self.ignore_index = _checks.ignore_index(caller, ignore_index)
        self.process_group = process_group

    def forward(
        self, logits: Logits, targets: Targets, sample_weight: Tensor | None = None
    ) -> Scalar:
        """Compute the loss of one batch, ``1 - area``; shapes as in :func:`~eastward.metric_loss`."""
        batch = prepare_batch(
            type(self).__name__,
            logits,
            targets,
            sample_weight,
            self.multilabel,
            self.ignore_index,
            self.check_inputs,
        )
        tables = self._tables(batch)
        reduce = self.sum_over_processes(logits)
        tables = reduce(tables) if reduce is not None else tables
        empty = is_empty(tables, warn=self.check_inputs)
        # Scaled to a mass of one, so that the unit of the weights does not matter.
        tables = tables / torch.where(empty, 1.0, tables[0].detach().sum())
        return torch.where(empty, 0.0, 1 - self._mean_area(tables)).to(result_dtype(logits))

    def _tables(self, batch: Batch) -> Tensor:
        """Compute counts ``(G, 4, L)`` of binary columns: independent labels, class 1 of two, or one-vs-rest."""
        _checks.one_temperature(type(self).__name__, self.temperature)
        if not self.multilabel and batch.logits.shape[1] > 2:
            return self._one_against_rest(batch)
        logits, targets, weights = batch
        if not self.multilabel:
            logits = torch.diff(logits) if logits.shape[1] == 2 else logits
            targets = targets.unsqueeze(1)
            weights = None if weights is None else weights.unsqueeze(1)
        columns = Batch(logits, targets, weights)
        terms = Terms(
            _COUNTED,
            self.thresholds,
            resolve_step(self.step),
            False,
            None,
            False,
            True,
            self.ignore_index,
        )
        passes = Ways(terms).passes(columns, self.temperature)
        return soft_tables(passes, columns, terms, self.temperature)

    def _one_against_rest(self, batch: Batch) -> Tensor:
        scores = class_probabilities(batch.logits)
        ignored = torch.zeros_like(batch.targets, dtype=torch.bool)
        if self.ignore_index is not None:
            ignored = batch.targets == self.ignore_index
        indicators = one_hot(batch.targets.masked_fill(ignored, 0).long(), scores.shape[1])
        weights = batch.sample_weight
        unit = scores.new_ones(()) if weights is None else unit_of(weights, (0,))
        # The ignored label may be 0 or 1, which among indicators would mean all negatives or positives.
        tables = grid_counts(
            scores,
            indicators.masked_fill(ignored.unsqueeze(1), _NO_INDICATOR),
            thresholds=self.thresholds,
            temperature=self.temperature,
            step=self.step,
            sample_weight=None if weights is None else weights / unit,
            ignore_index=_NO_INDICATOR,
        )
        return wide_table(tables) * wide_table(unit)

    def _mean_area(self, tables: Tensor) -> Tensor:
        positives, negatives = tables[0, 0] + tables[0, 2], tables[0, 1] + tables[0, 3]
        # NaN is no reason to leave a column out.
        defined = (~((positives <= 0) | (negatives <= 0))).to(tables.dtype)
        # No column with both classes: nothing can be ranked, so the loss is flat.
        return (self.area(tables) * defined).sum() / defined.sum().clamp_min(1)


class AUROCLoss(_GridLoss):
    r"""One minus the soft area under the ROC curve (Bridging the Gap).

    True and false positive rates come from soft counts at a grid of thresholds, and the area from the trapezoid rule;
    see :func:`eastward.ranking.soft_auroc`. With more than two classes, each is set against the rest, and the values
    are averaged.

    Parameters
    ----------
    thresholds : int or sequence of float, default=9
        The number of thresholds, evenly spaced inside (0, 1), or the thresholds themselves. The default is the papers'
        grid 0.1 ... 0.9.
    temperature : float, default=0.2
        Width of the soft step, in (0, 0.4].
    step : {"linear", "sigmoid", "hard"} or callable, default="linear"
        Shape of the soft step. "hard" has no gradient.
    multilabel : bool, default=False
        Columns are labels that do not exclude each other.
    ignore_index : int or None, default=-100
        Targets with this value are left out.
    process_group : "auto", None or ProcessGroup, default="auto"
        Sum the counts over the processes of a ``torch.distributed`` job. None turns it off.
    check_inputs : bool, default=True
        Check values as well as types and shapes: NaN, labels out of range. False saves the time of these checks.

    Notes
    -----
    Columns with one class only are left out; if none remains the loss is 1 without a gradient.

    Examples
    --------
    >>> import torch
    >>> round(AUROCLoss()(torch.tensor([4.0, -4.0]), torch.tensor([1, 0])).item(), 3)
    0.005
    """

    area = staticmethod(soft_auroc)


class AveragePrecisionLoss(_GridLoss):
    r"""One minus the soft average precision over a threshold grid.

    Precision and recall are soft counts at a grid of thresholds; see
    :func:`eastward.ranking.soft_average_precision`. With more than two classes, each is set against the rest, and
    the values are averaged.

    Parameters
    ----------
    thresholds : int or sequence of float, default=9
        The number of thresholds, evenly spaced inside (0, 1), or the thresholds themselves. The default is the papers'
        grid 0.1 ... 0.9.
    temperature : float, default=0.2
        Width of the soft step, in (0, 0.4].
    step : {"linear", "sigmoid", "hard"} or callable, default="linear"
        Shape of the soft step. "hard" has no gradient.
    multilabel : bool, default=False
        Columns are labels that do not exclude each other.
    ignore_index : int or None, default=-100
        Samples with this target are left out.
    process_group : "auto", None or ProcessGroup, default="auto"
        Sum the counts over the processes of a ``torch.distributed`` job. None turns it off.
    check_inputs : bool, default=True
        Check values as well as types and shapes: NaN, labels out of range. False saves the time of these checks.

    Notes
    -----
    Columns with one class only are left out; if none remains the loss is 1 without a gradient.

    Examples
    --------
    >>> import torch
    >>> round(AveragePrecisionLoss()(torch.tensor([4.0, -4.0]), torch.tensor([1, 0])).item(), 3)
    0.007
    """

    area = staticmethod(soft_average_precision)
