"""torchmetrics: every metric as a ``torchmetrics.Metric``, true or soft."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from eastward import _checks
from eastward.confusion import Counts, hard_confusion, multilabel_counts
from eastward.integrations._extras import missing_extra
from eastward.losses import EASTLoss
from eastward.metrics import Metric, as_metric

try:
    import torchmetrics
except ModuleNotFoundError as error:
    raise missing_extra(__name__, error, "torchmetrics") from error

__all__ = ["SoftMetric", "TrueMetric"]


class TrueMetric(torchmetrics.Metric):
    """The true metric of decisions, from a confusion matrix that adds up over batches and processes.

    Parameters
    ----------
    metric : str, Metric or callable, default="f1_macro"
        A name from :func:`eastward.metrics.names`, or a function from a confusion matrix to a 0-d tensor. Absent
        classes are treated as in scikit-learn.
    num_classes : int
        Number of classes or labels.
    multilabel : bool, default=False
        Targets are indicators ``(N, C)``, and every column decides on its own.
    threshold : float, default=0.0
        Threshold of a single column: 0 for logits, 0.5 for probabilities.
    ignore_index : int or None, default=-100
        Targets with this value are left out.
    **options
        Further options of ``torchmetrics.Metric``.

    Examples
    --------
    >>> metric = TrueMetric("accuracy", num_classes=3)
    >>> metric.update(torch.eye(3), torch.tensor([0, 1, 1]))
    >>> metric.compute()
    tensor(0.6667)
    """

    is_differentiable = False
    full_state_update = False
    table: Tensor

    def __init__(
        self,
        metric: str | Metric | Callable[[Any], Tensor] = "f1_macro",
        *,
        num_classes: int,
        multilabel: bool = False,
        threshold: float = 0.0,
        ignore_index: int | None = -100,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.metric = as_metric(metric)
        self.num_classes = _checks.whole_number(
            "TrueMetric", "num_classes", num_classes, at_least=1 if multilabel else 2
        )
        self.multilabel, self.threshold, self.ignore_index = multilabel, threshold, ignore_index
        # Labels that do not exclude each other have four counts each, not a matrix.
        rows = 4 if multilabel else self.num_classes
        blank = torch.zeros(rows, self.num_classes, dtype=torch.float64)
        self.add_state("table", blank, dist_reduce_fx="sum")

    @property
    def higher_is_better(self) -> bool:  # type: ignore[override]  # a class attribute there, known here with the metric
        """Whether a higher value is better."""
        return self.metric.higher_is_better

    def update(self, preds: Tensor, target: Tensor) -> None:
        """Count one batch: scores ``(N, C, ...)``, one score ``(N,)``, or labels of the target's shape."""
        decisions, ignored = self._decisions(preds, target), self.ignore_index
        if self.multilabel:
            part = multilabel_counts(decisions.double(), target.long(), ignore_index=ignored)
            self.table += part.stack().to(self.table)
        else:
            self.table += hard_confusion(
                decisions, target, num_classes=self.num_classes, ignore_index=ignored
            ).to(self.table)

    def compute(self) -> Tensor:
        """Compute the value over all batches so far, 0-d."""
        counted = Counts.unstack(self.table, exclusive=False) if self.multilabel else self.table
        return self.metric(counted).float()

    def _decisions(self, preds: Tensor, target: Tensor) -> Tensor:
        if self.multilabel and preds.shape != target.shape:
            expected = f"of the shape of target, {tuple(target.shape)}"
            _checks.fail("TrueMetric.update", "preds", expected, _checks.describe(preds))
        if not preds.is_floating_point():
            return preds
        if self.multilabel:
            return preds > self.threshold
        if preds.dim() == target.dim() + 1 and preds.shape[1] == self.num_classes:
            return preds.argmax(1)
        if preds.numel() == target.numel() and self.num_classes == 2:
            return (preds.reshape(target.shape) > self.threshold).long()
        expected = f"labels, or scores with {self.num_classes} columns"
        return _checks.fail("TrueMetric.update", "preds", expected, _checks.describe(preds))


class SoftMetric(torchmetrics.Metric):
    """The surrogate of a loss over an epoch, from soft tables that add up over batches.

    Parameters
    ----------
    loss : EASTLoss
        The loss whose surrogate is computed; each update uses its current temperature.
    **options
        Further options of ``torchmetrics.Metric``.

    Notes
    -----
    ``compute`` returns the soft metric, not the loss; it is not a mean of batch values. A loss with a class prior
    normalises each batch on its own, so the result is then an average over batches.

    Examples
    --------
    >>> metric = SoftMetric(EASTLoss("accuracy"))
    >>> logits = torch.tensor([[2.0, 0.0], [0.0, 1.0]])
    >>> metric.update(logits, torch.tensor([0, 0]))
    >>> metric.compute()
    tensor(0.5637)
    """

    is_differentiable = False
    full_state_update = False
    tables: list[Tensor]

    def __init__(self, loss: Any, **options: Any) -> None:
        super().__init__(**options)
        if not isinstance(loss, EASTLoss):
            got = _checks.describe(loss)
            _checks.fail("SoftMetric", "loss", "an EASTLoss", got, error=TypeError)
        self.loss = loss
        # A list, because the size of the table is unknown before the first batch; its entries are summed.
        self.add_state("tables", [], dist_reduce_fx=None)

    @property
    def higher_is_better(self) -> bool:  # type: ignore[override]  # a class attribute there, known here with the loss
        """Whether a higher value is better."""
        return bool(self.loss.metric.higher_is_better)

    def update(self, logits: Tensor, targets: Tensor, sample_weight: Tensor | None = None) -> None:
        """Add the soft tables of one batch; shapes as in :func:`eastward.metric_loss`."""
        with torch.no_grad():
            part = self.loss.tables(logits, targets, sample_weight)
        self.tables = [part if not self.tables else self.tables[0] + part]

    def compute(self) -> Tensor:
        """Compute the value over all batches so far, 0-d."""
        if len(self.tables) == 0:
            _checks.fail("SoftMetric.compute", "updates", "at least one", "none")
        # After gathering, the entries are stacked: one table for each process.
        stacked = torch.stack(
            [table.reshape(-1, *table.shape[-3:]).sum(0) for table in self.tables]
        )
        value = self.loss.loss_at(stacked.sum(0))
        result: Tensor = 1 - value if self.higher_is_better else value
        return result
