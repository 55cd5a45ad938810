"""Step two of a loss: from tables to its value and its slope.

Everything except the two passes over the logits happens here, on a few numbers and in plain PyTorch: absent classes,
the metric, your own functions. The slope comes from a closed form, or from autograd.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch
from torch import Tensor

from eastward import _checks
from eastward.confusion import Counts
from eastward.metrics import Metric, as_metric
from eastward.metrics._averaging import ABSENT_POLICIES
from eastward.metrics.closed_forms import Form, closed_form_of
from eastward.protocols import Scalar

__all__ = ["TableLoss", "is_empty", "prepare_metric"]

# In a batch of one class, metrics that need two (F1 of class 1, MCC, kappa ...) are 0/0 and have no gradient, so
# false positives would cost nothing. Each missing class therefore gets this share of the batch's mass, all of it
# predicted correctly. False positives lower the resulting score.
VIRTUAL_SHARE = 0.01

# Tables with a total mass in this range are passed to the metric unchanged; others are scaled to a total of one.
ORDINARY_MASSES = (1e-20, 1e20)


def prepare_metric(caller: str, metric: Any, absent: str | None) -> tuple[Metric, str]:
    """Bind the policy for absent classes, the caller's or the metric's own; return the metric and the policy."""
    chosen = as_metric(metric, caller)
    own = chosen.options.get("absent", "skip") if chosen.per_class else "skip"
    policy = own if absent is None else absent
    _checks.one_of(caller, "absent", policy, ABSENT_POLICIES)
    return (chosen.with_options(absent=policy) if chosen.per_class else chosen), policy


class TableLoss:
    """One minus the metric (or the metric, where lower is better), as a function of tables alone.

    Parameters
    ----------
    metric : Metric
        The metric to maximise.
    virtual : bool
        Whether missing classes get a little mass if the metric needs them.
    multilabel : bool
        Whether columns are independent labels.

    Examples
    --------
    >>> import torch
    >>> from eastward.metrics import get
    >>> at_table = TableLoss(get("accuracy"), virtual=True, multilabel=False)
    >>> round(at_table(torch.tensor([[[3.0, 4], [0, 1], [1, 0], [4, 3]]])).item(), 3)
    0.125
    """

    def __init__(self, metric: Metric, *, virtual: bool, multilabel: bool) -> None:
        self.metric, self.virtual, self.multilabel = metric, virtual, multilabel
        self.counted = multilabel or not metric.needs_matrix
        # Whether missing classes get a little mass.
        self._fills = virtual and (metric.needs_two_classes or (multilabel and metric.per_class))
        self._forms: dict[int, Form | None] = {}

    def __call__(
        self, tables: Tensor, *, dtype: torch.dtype = torch.float64, warn: bool = False
    ) -> Scalar:
        """Compute the loss at tables ``(G, C, C)`` or ``(G, 4, C)``, differentiable by autograd.

        Parameters
        ----------
        tables : Tensor
            One table for each threshold; or K groups of them, ``(K, G, ...)``, for K losses.
        dtype : torch.dtype, default=torch.float64
            Dtype in which the metric is computed.
        warn : bool, default=False
            Whether to warn if the tables are empty; the loss is zero then.
        """
        if tables.dim() == 4:
            return torch.stack([self(group, dtype=dtype, warn=warn) for group in tables])
        if self._is_ordinary(tables):
            return self._of_ordinary(tables.to(dtype))
        empty = is_empty(tables, warn=warn)
        return torch.where(empty, 0.0, self._of_filled(tables, dtype))

    def has_closed_form(self, logits: Tensor) -> bool:
        """Whether the metric has a closed form for the classes of these logits, on a CPU."""
        if not logits.is_cpu:
            return False
        size = logits.shape[-1] if self.multilabel else max(logits.shape[-1], 2)
        if size not in self._forms:
            self._forms[size] = closed_form_of(self.metric, size, exclusive=not self.multilabel)
        return self._forms[size] is not None

    def with_slope(
        self, tables: Tensor | np.ndarray, *, dtype: torch.dtype, warn: bool = False
    ) -> tuple[Tensor, np.ndarray]:
        """Compute losses at tables ``([K,] G, ...)`` and their slopes in closed form; zero for an empty group."""
        given = tables.numpy() if isinstance(tables, Tensor) else tables
        better, grid = self.metric.higher_is_better, given.shape[-3]
        flat = given if given.ndim == 3 else given.reshape(-1, *given.shape[2:])
        if self._fills and self._lacks(flat):
            flat = self.with_virtual(torch.from_numpy(flat)).numpy()
        form: Any = self._forms[flat.shape[2]]
        values, slopes, mean, empty = form(flat, (-1.0 if better else 1.0) / grid)
        if empty:
            warn_empty(warn=warn)
            # This makes the loss zero.
            nothing = flat.sum(axis=(1, 2)) == 0
            values[nothing], slopes[nothing] = 1.0 if better else 0.0, 0.0
            mean = values.mean()
        if given.ndim == 3:
            return torch.scalar_tensor(1 - mean if better else mean, dtype=dtype), slopes
        means = torch.from_numpy(values.reshape(-1, grid).mean(1)).to(dtype)
        return 1 - means if better else means, slopes.reshape(given.shape)

    def _is_ordinary(self, tables: Tensor) -> bool:
        """Whether the metric can take tables of one group unchanged; reading them is cheap on a CPU."""
        if not (tables.is_cpu and _checks.can_inspect(tables)):
            return False
        given = tables.detach().numpy()
        low, high = ORDINARY_MASSES
        return bool(low <= given.sum() <= high) and not (self._fills and self._lacks(given))

    def _lacks(self, given: np.ndarray) -> bool:
        """Whether a class or label has no true sample, or only true samples."""
        if not self.counted:
            return bool((given.sum(-1) <= 0).any())
        # Positives are tp + fn, negatives fp + tn.
        return bool((given[:, :2] + given[:, 2:] <= 0).any())

    def _of_filled(self, tables: Tensor, dtype: torch.dtype) -> Tensor:
        total = tables.detach().sum()
        low, high = ORDINARY_MASSES
        unusual = (total > 0) & ((total < low) | (total > high))
        tables = (tables / torch.where(unusual, total, 1.0)).to(dtype)
        return self._of_ordinary(self.with_virtual(tables))

    def _of_ordinary(self, tables: Tensor) -> Tensor:
        """Compute the loss at tables ``(G, ...)`` that the metric can take unchanged."""
        values = [self._value(table) for table in tables.unbind(0)]
        value = values[0] if len(values) == 1 else torch.stack(values).mean()
        return 1 - value if self.metric.higher_is_better else value

    def _value(self, table: Tensor) -> Tensor:
        confusion = Counts.unstack(table, exclusive=not self.multilabel) if self.counted else table
        value = self.metric(confusion)
        _checks.metric_value(self.metric.name, value, table)
        return value

    def with_virtual(self, tables: Tensor) -> Tensor:
        """Add a little correctly predicted mass for missing classes, if the metric needs it."""
        if not self._fills:
            return tables
        if self.multilabel:
            pooled = self.metric.options.get("average") == "micro"
            return with_virtual_labels(tables, pooled=pooled)
        return with_virtual_classes(tables, counted=self.counted)


def is_empty(tables: Tensor, *, warn: bool) -> Tensor:
    """Return whether no sample is left, as a 0-d boolean, with a warning where values may be read."""
    empty = tables.sum() <= 0
    if warn and _checks.can_inspect(tables) and bool(empty):
        warn_empty(warn=True)
    return empty


def warn_empty(*, warn: bool) -> None:
    """Warn that there is nothing to learn from this batch."""
    if warn:
        warnings.warn(
            "every sample is ignored or has weight zero: the loss is 0 and has no gradient",
            stacklevel=5,
        )


def with_virtual_labels(tables: Tensor, *, pooled: bool) -> Tensor:
    """Add a little correctly predicted mass to labels ``(G, 4, L)`` that are all positive or all negative.

    A false positive of one label takes nothing from another, so false positives of a label without positives would
    cost nothing. A pooled (micro) metric is defined as long as any label has positives, and then stays as it is.
    """
    tp, fp, fn, tn = tables.unbind(-2)
    positives, negatives = tp + fn, fp + tn
    no_positives, no_negatives = positives <= 0, negatives <= 0
    if pooled:
        no_positives = no_positives & no_positives.all(-1, keepdim=True)
        no_negatives = no_negatives & no_negatives.all(-1, keepdim=True)
    share = VIRTUAL_SHARE * (positives + negatives).detach()
    nothing = torch.zeros_like(share)
    extra_tp = torch.where(no_positives, share, nothing)
    extra_tn = torch.where(no_negatives, share, nothing)
    return tables + torch.stack([extra_tp, nothing, nothing, extra_tn], dim=-2)


def with_virtual_classes(tables: Tensor, *, counted: bool) -> Tensor:
    """Add a little correctly predicted mass to missing classes, if fewer than two are present."""
    true = tables[:, 0] + tables[:, 2] if counted else tables.sum(-1)
    missing = true <= 0
    lonely = (~missing).sum(-1, keepdim=True) < 2
    total = (tables[..., 0] if counted else true).sum(-1, keepdim=True).detach()
    extra = torch.where(missing & lonely, VIRTUAL_SHARE * total, 0.0).to(tables.dtype)
    if not counted:
        return tables + torch.diag_embed(extra)
    # A correctly predicted sample of one class is a true negative of every other class.
    nothing = torch.zeros_like(extra)
    rest = extra.sum(-1, keepdim=True) - extra
    return tables + torch.stack([extra, nothing, nothing, rest], dim=-2)
