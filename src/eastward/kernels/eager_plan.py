"""Loss and gradient of a small batch on a CPU where there is no compiler: a few dozen calls of NumPy.

See :mod:`eastward.kernels.compiled_plan` for the same with numba.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from eastward.kernels.closed_form import MARGINS, ONE_PAIR
from eastward.kernels.eager_pair import gradient_of_pairs, pairs_of, sums_of_pairs
from eastward.kernels.eager_rows import (
    BUFFERS,
    bends_of,
    gradient_of_rows,
    powers_of,
    rows_of,
    sums_of_rows,
)
from eastward.kernels.eager_wide import (
    chunks_of,
    fill_bent,
    gradient_of_wide,
    is_bent_upwards,
    tied_gradient,
    wide_rows,
)
from eastward.kernels.problems import Problem
from eastward.kernels.ratios import (
    Quotients,
    loss_and_slope_of_pair,
    loss_and_slope_of_table,
    quotients_of,
)
from eastward.kernels.rules import Rule

__all__ = ["Plan", "plan_of"]

# Elements of a batch that is small.
SMALL = 32_768
# Up to so many classes samples lie along the last dimension.
NARROW = 48


class Plan(NamedTuple):
    """What does not change from batch to batch."""

    problem: Problem
    rule: Rule
    quotients: Quotients
    size: int
    ignored: int | None

    def suits(self, logits: Tensor) -> bool:
        """Whether classes are many, or the batch so small that calls cost more than arithmetic."""
        return logits.numel() > 0 and (self.is_wide or logits.numel() <= SMALL)

    @property
    def is_wide(self) -> bool:
        """Whether rows are so long that an index is cheaper than a pass over them."""
        kind, bends = self.problem.kind, bends_of(self.problem.temperature)
        return kind == "dynamic" and self.size > NARROW and is_bent_upwards(bends)

    def run(
        self, logits: Tensor, labels: Tensor, weights: Tensor | None, gradient: Tensor | None
    ) -> tuple[Tensor, bool] | None:
        """See :meth:`eastward.kernels.compiled_plan.Plan.run`."""
        z, own = logits.detach(), labels.numpy()
        if not math.isfinite(z.sum()):
            return None
        mass = None if weights is None else weights.numpy()
        found = _usable(own, mass, self.ignored, max(self.size, 2))
        if found is None:
            return None
        if self.is_wide:
            loss, empty = _wide_run(self, z, *found, gradient)
        else:
            out = None if gradient is None else gradient.numpy()
            run = _pairs_run if self.problem.binary else _rows_run
            loss, empty = run(self, z.numpy(), *found, out)
        return torch.tensor(loss), empty


def plan_of(
    problem: Problem, rule: Rule | None, size: int, ignore_index: int | None
) -> Plan | None:
    """The plan for logits of ``size`` columns; None where the general way is taken."""
    if rule is None or problem.matrix or problem.kind not in ("dynamic", "pair"):
        return None
    if problem.kind == "pair" and problem.thresholds != (0.5,):
        return None
    return Plan(problem, rule, quotients_of(rule), size, ignore_index)


def _usable(
    labels: np.ndarray, weights: np.ndarray | None, ignored: int | None, size: int
) -> tuple[np.ndarray, np.ndarray | None] | None:
    """Labels that may be indices, weights that are zero where a sample is ignored; None if a label is out of range."""
    inside = ignored is None or not 0 <= ignored < size
    if inside and _within(labels, size):
        return labels, weights
    if ignored is not None:
        here = labels != ignored
        labels = np.where(here, labels, 0)
        weights = here.astype(np.float32) if weights is None else weights * here
    return (labels, weights) if _within(labels, size) else None


def _within(labels: np.ndarray, size: int) -> bool:
    return bool(np.minimum.reduce(labels) >= 0 and np.maximum.reduce(labels) < size)


def _rows_run(
    plan: Plan,
    logits: np.ndarray,
    labels: np.ndarray,
    weights: np.ndarray | None,
    out: np.ndarray | None,
) -> tuple[float, bool]:
    """Three or more classes and the dynamic threshold."""
    axis = 0 if plan.size <= NARROW else 1
    buffers = np.empty((BUFFERS, *(logits.shape[::-1] if axis == 0 else logits.shape)), np.float32)
    bends = bends_of(plan.problem.temperature)
    powers = powers_of(logits, axis, buffers[4])
    rows = rows_of(powers, labels, axis, bends, buffers)
    sums = sums_of_rows(rows, labels, weights, axis, plan.size)
    loss, slopes, empty = loss_and_slope_of_table(sums, MARGINS, plan.rule)
    if out is not None:
        by, detached = slopes.astype(np.float32), plan.problem.detached
        found = gradient_of_rows(rows, labels, weights, axis, bends, by, detached, buffers)
        np.copyto(out, found.T if axis == 0 else found)
    return loss, empty


def _wide_run(
    plan: Plan,
    logits: Tensor,
    labels: np.ndarray,
    weights: np.ndarray | None,
    gradient: Tensor | None,
) -> tuple[float, bool]:
    """Many classes and the dynamic threshold, chunk by chunk; powers wait where the gradient will be."""
    bends = bends_of(plan.problem.temperature)
    parts = chunks_of(*logits.shape)
    bent, work = torch.empty(2, parts[0].stop, plan.size)
    masses = [None if weights is None else weights[part] for part in parts]
    found = []
    for part, mass in zip(parts, masses, strict=True):
        length = part.stop - part.start
        powers = work[:length] if gradient is None else gradient[part]
        found.append(wide_rows(logits[part], labels[part], mass, bends, powers, bent[:length]))
    sums = np.add.reduce([table for table, _ in found])
    loss, slopes, empty = loss_and_slope_of_table(sums, MARGINS, plan.rule)
    if gradient is None:
        return loss, empty
    # Memberships of a row sum to one: a constant in all slopes has no effect, and without it less cancels.
    slopes[1] -= slopes[1].mean()
    by = slopes.astype(np.float32)
    for part, mass, (_, rows) in zip(parts, masses, found, strict=True):
        given, out, detached = labels[part], gradient[part], plan.problem.detached
        if rows is None:
            tied_gradient(logits[part], given, mass, bends, by, detached, out)
            continue
        beyond = bent[: len(given)]
        if len(parts) > 1:
            fill_bent(out, rows.second, bends, beyond)
        gradient_of_wide(given, bends, by, detached, rows, out, beyond, work[: len(given)])
    return loss, empty


def _pairs_run(
    plan: Plan,
    logits: np.ndarray,
    labels: np.ndarray,
    weights: np.ndarray | None,
    out: np.ndarray | None,
) -> tuple[float, bool]:
    """Two classes, as two logits or one."""
    pairs = pairs_of(logits, labels, plan.problem.temperature)
    sums = sums_of_pairs(pairs, weights)
    empty, known = False, loss_and_slope_of_pair(sums, plan.rule, plan.quotients)
    if known is None:
        table = np.array([sums]).T
        loss, array, empty = loss_and_slope_of_table(table, ONE_PAIR, plan.rule)
        slopes = (float(array[0, 0]), float(array[1, 0]))
    else:
        loss, slopes = known
    if out is not None:
        found = gradient_of_pairs(pairs, weights, *slopes)
        out[:, -1] = found
        if plan.size == 2:
            np.negative(found, out=out[:, 0])
    return loss, empty
