"""Tables of a batch, and the loss as a function of tables.

A *table* is what adds up over samples: the confusion matrix ``(C, C)``, or the stacked one-vs-rest counts ``(4, C)``
when the metric needs no more. A grid of G thresholds gives G of them, stacked in front.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from eastward import _checks
from eastward.confusion import Counts, class_confusion, class_counts, label_counts
from eastward.distributed import total_table
from eastward.losses._batches import Batch
from eastward.memberships import class_probabilities, memberships_at
from eastward.metrics import Metric, as_metric
from eastward.metrics._averaging import ABSENT_POLICIES
from eastward.protocols import Reduce, Scalar, Step
from eastward.steps import STEPS

# In a batch of one class, metrics that need two (F1 of class 1, MCC, kappa ...) are 0/0 and have no gradient:
# false positives would go unpunished. Each class that is missing then gets this share of the batch's mass,
# rightly predicted. The value is the score among that many easy samples; false positives lower it.
VIRTUAL_SHARE = 0.01

# Metrics seen last, each beside the object whose id is its key: a training loop asks for the same one in every step.
_PREPARED: dict[tuple[int, str], tuple[Any, Metric]] = {}
_REMEMBERED = 64


def prepare_metric(
    caller: str, metric: str | Metric | Callable[[Any], Tensor], absent: str
) -> Metric:
    """The metric with its policy for absent classes bound."""
    known = _PREPARED.get((id(metric), absent))
    if known is not None and known[0] is metric:
        return known[1]
    _checks.one_of(caller, "absent", absent, ABSENT_POLICIES)
    chosen = as_metric(metric)
    chosen = chosen.with_options(absent=absent) if chosen.per_class else chosen
    if len(_PREPARED) >= _REMEMBERED:
        _PREPARED.clear()
    _PREPARED[id(metric), absent] = (metric, chosen)
    return chosen


def soft_tables(
    batch: Batch,
    metric: Metric,
    *,
    temperature: Tensor | float,
    thresholds: tuple[float, ...] | None,
    step: Step,
    detach_threshold: bool,
    prior: Any,
    multilabel: bool,
    ignore_index: int | None,
    reduce: Reduce | None,
) -> Tensor:
    """The batch's tables, one for each threshold: ``(G, C, C)`` or ``(G, 4, C)``."""
    probabilities = class_probabilities(batch.logits, multilabel=multilabel)
    heat = torch.as_tensor(temperature, dtype=probabilities.dtype, device=probabilities.device)
    common = {
        "sample_weight": batch.sample_weight,
        "prior": prior,
        "ignore_index": ignore_index,
        "reduce": reduce,
    }
    if thresholds is None and not multilabel and probabilities.shape[1] == 2:
        thresholds = _fixed_for_two_classes(step)
    tables = []
    for threshold in thresholds or (None,):
        degrees = memberships_at(
            probabilities,
            threshold,
            heat,
            step,
            detach_threshold=detach_threshold,
            multilabel=multilabel,
        )
        if multilabel:
            table = label_counts(degrees, batch.targets, **common).stack()
        elif metric.needs_matrix:
            table = class_confusion(degrees, batch.targets, **common)
        else:
            table = class_counts(degrees, batch.targets, **common).stack()
        tables.append(table)
    return torch.stack(tables)


def tables_of_all(tables: Tensor, reduce: Reduce, *, margins: bool) -> Tensor:
    """The sum of the processes' tables; its gradient is by the part of this process.

    Parameters
    ----------
    tables : Tensor
        ``(G, C, C)`` or ``(G, 4, C)``.
    reduce : callable
        Sum over processes.
    margins : bool
        Whether tables are counts of classes that exclude each other. They follow from the diagonal and the margins,
        three numbers for each class, and no more travels.
    """
    own = tables.detach()
    if not margins:
        return total_table(tables, reduce(own))
    tp, fp, fn, _ = own.unbind(1)
    tp, predicted, true = reduce(torch.stack([tp, tp + fp, tp + fn], dim=1)).unbind(1)
    fp, fn = (predicted - tp).clamp_min(0), (true - tp).clamp_min(0)
    tn = (true.sum(1, keepdim=True) - true - fp).clamp_min(0)
    return total_table(tables, torch.stack([tp, fp, fn, tn], dim=1))


def _fixed_for_two_classes(step: Step) -> tuple[float, ...] | None:
    """The dynamic threshold of two probabilities that sum to one is 0.5, in value and in gradient.

    A step that is symmetric about it needs no normalisation either: ``h(1 - p) = 1 - h(p)``.
    """
    return (0.5,) if step in (STEPS["linear"], STEPS["sigmoid"]) else None


def loss_of_tables(
    tables: Tensor, metric: Metric, *, virtual: bool, multilabel: bool, warn: bool = True
) -> Scalar:
    """The loss at the (summed) tables; zero, with a warning, if they are empty."""
    empty = is_empty(tables, warn=warn)
    values = [_metric_of(table, metric, virtual, multilabel) for table in tables.unbind(0)]
    value = torch.stack(values).mean()
    loss = 1 - value if metric.higher_is_better else value
    return torch.where(empty, 0.0, loss)


def is_empty(tables: Tensor, *, warn: bool) -> Tensor:
    """Whether no sample is left, as a 0-d boolean; a warning says so where values may be looked at."""
    empty = tables.sum() <= 0
    if warn and _checks.can_inspect(tables) and bool(empty):
        warnings.warn(
            "every sample is ignored or has weight zero: the loss is 0 and has no gradient",
            stacklevel=4,
        )
    return empty


def _metric_of(table: Tensor, metric: Metric, virtual: bool, multilabel: bool) -> Tensor:
    counted = multilabel or not metric.needs_matrix
    if virtual and multilabel and (metric.per_class or metric.needs_two_classes):
        table = with_virtual_labels(table, pooled=metric.options.get("average") == "micro")
    elif virtual and metric.needs_two_classes and not multilabel:
        table = with_virtual_classes(table, counted=counted)
    confusion = Counts.unstack(table, exclusive=not multilabel) if counted else table
    value = metric(confusion)
    _checks.metric_value(metric.name, value, table)
    return value


def with_virtual_labels(table: Tensor, *, pooled: bool) -> Tensor:
    """The same for independent labels, each of which is a problem of two classes, ``(4, L)``.

    A false positive of a label takes nothing from another label, so a label without positives would go unpunished.
    A pooled (micro) metric is defined as long as any label has positives, and is left alone then.
    """
    positives, negatives = table[0] + table[2], table[1] + table[3]
    no_positives, no_negatives = positives <= 0, negatives <= 0
    if pooled:
        no_positives, no_negatives = (
            no_positives & no_positives.all(),
            no_negatives & no_negatives.all(),
        )
    share = VIRTUAL_SHARE * (positives + negatives).detach()
    nothing = torch.zeros_like(share)
    extra_tp = torch.where(no_positives, share, nothing)
    extra_tn = torch.where(no_negatives, share, nothing)
    return table + torch.stack([extra_tp, nothing, nothing, extra_tn])


def with_virtual_classes(table: Tensor, *, counted: bool) -> Tensor:
    """Add a little rightly predicted mass to missing classes, if fewer than two are present."""
    true = table[0] + table[2] if counted else table.sum(1)
    missing = true <= 0
    lonely = (~missing).sum() < 2
    total = (table[:, 0] if counted else true).sum().detach()
    extra = torch.where(missing & lonely, VIRTUAL_SHARE * total, 0.0).to(table.dtype)
    if not counted:
        return table + torch.diag_embed(extra)
    # A sample of one class, rightly predicted, is a true negative of every other.
    nothing = torch.zeros_like(extra)
    return table + torch.stack([extra, nothing, nothing, extra.sum() - extra])
