"""Soft tables in plain PyTorch: the definition, which every fast version is tested against.

A *table* is what adds up over samples: the confusion matrix ``(C, C)``, or the stacked one-vs-rest counts ``(4, C)``
when the metric needs no more. A grid of G thresholds gives G of them, stacked in front.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from eastward._numerics import at_least_float32
from eastward.confusion import class_confusion, class_counts, label_counts
from eastward.losses._batches import Batch
from eastward.memberships import class_probabilities, memberships_at
from eastward.metrics import Metric
from eastward.protocols import Reduce, Step
from eastward.steps import STEPS, step_and_complement

__all__ = ["Terms", "defined_tables", "unit_of", "wide_table"]


class Terms(NamedTuple):
    """The options of a loss, checked."""

    metric: Metric
    thresholds: tuple[float, ...] | None
    step: Step
    detach_threshold: bool
    prior: Any
    virtual: bool
    multilabel: bool
    ignore_index: int | None


def defined_tables(
    batch: Batch, terms: Terms, temperature: Tensor | float, reduce: Reduce | None = None
) -> Tensor:
    """Compute the tables of a batch, one for each threshold: ``(G, C, C)`` or ``(G, 4, C)``.

    ``reduce`` sums the masses of classes over processes; only a prior needs it.
    """
    weights, unit = batch.sample_weight, None
    if weights is not None:
        weights = at_least_float32(weights)
        unit = unit_of(weights, tuple(range(weights.dim())))
        weights = weights / unit
    common = {
        "sample_weight": weights,
        "prior": terms.prior,
        "ignore_index": terms.ignore_index,
        "reduce": in_units(reduce, unit),
    }
    tables = wide_table(torch.stack(_tables_of_grid(batch, terms, temperature, common)))
    # A prior sets the masses of classes.
    return tables if unit is None or terms.prior is not None else tables * wide_table(unit)


def _tables_of_grid(
    batch: Batch, terms: Terms, temperature: Tensor | float, common: dict[str, Any]
) -> list[Tensor]:
    probabilities = class_probabilities(batch.logits, multilabel=terms.multilabel)
    heat = torch.as_tensor(temperature, dtype=probabilities.dtype, device=probabilities.device)
    thresholds = terms.thresholds or (None,)
    if terms.multilabel:
        opposite = torch.sigmoid(-at_least_float32(batch.logits))
        pairs = [
            step_and_complement(
                terms.step, probabilities, opposite, probabilities.new_tensor(tau or 0.5), heat
            )
            for tau in thresholds
        ]
        return [label_counts(h, batch.targets, missed=m, **common).stack() for h, m in pairs]
    if terms.thresholds is None and probabilities.shape[1] == 2 and _is_symmetric(terms.step):
        thresholds = (0.5,)
    degrees = [
        memberships_at(
            probabilities, tau, heat, terms.step, detach_threshold=terms.detach_threshold
        )
        for tau in thresholds
    ]
    if terms.metric.needs_matrix:
        return [class_confusion(each, batch.targets, **common) for each in degrees]
    return [class_counts(each, batch.targets, **common).stack() for each in degrees]


def _is_symmetric(step: Step) -> bool:
    """Whether ``h(1 - p) = 1 - h(p)`` at a threshold of one half, so that two classes need no normalisation.

    The dynamic threshold of two probabilities that sum to one is 0.5, in value and in gradient.
    """
    return step in (STEPS["linear"], STEPS["sigmoid"])


def wide_table(table: Tensor) -> Tensor:
    """Return the table in float64, where sums of any weights fit, on devices that have it."""
    return table if table.device.type == "mps" else table.double()


def unit_of(weights: Tensor, dims: tuple[int, ...]) -> Tensor:
    """Return the largest weight, in whose units no sum overflows or vanishes; 1 without weights."""
    if weights.numel() == 0:
        return weights.new_ones(())
    largest = weights.detach().amax(dims)
    return torch.where(largest > 0, largest, 1.0)


def in_units(reduce: Reduce | None, unit: Tensor | None) -> Reduce | None:
    """Wrap a sum over processes, so that masses go in and come out in the units of this process."""
    if reduce is None or unit is None:
        return reduce
    wide = wide_table(unit)
    return lambda masses: (reduce(wide_table(masses) * wide) / wide).to(masses)
