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
        """Whether the batch is so small that calls cost more than arithmetic; PyTorch is quicker on more."""
        return 0 < logits.numel() <= SMALL

    def run(
        self, logits: Tensor, labels: Tensor, weights: Tensor | None, gradient: Tensor | None
    ) -> tuple[Tensor, bool] | None:
        """See :meth:`eastward.kernels.compiled_plan.Plan.run`."""
        z, own = logits.detach().numpy(), labels.numpy()
        if not math.isfinite(np.add.reduce(z, axis=None)):
            return None
        mass = None if weights is None else weights.numpy()
        found = _usable(own, mass, self.ignored, max(self.size, 2))
        if found is None:
            return None
        out = None if gradient is None else gradient.numpy()
        run = _pairs_run if self.problem.binary else _rows_run
        loss, empty = run(self, z, *found, out)
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


def _pairs_run(
    plan: Plan,
    logits: np.ndarray,
    labels: np.ndarray,
    weights: np.ndarray | None,
    out: np.ndarray | None,
) -> tuple[float, bool]:
    """Two classes, as two logits or one."""
    pairs = pairs_of(logits, plan.problem.temperature)
    sums = sums_of_pairs(pairs, labels, weights)
    empty, known = False, loss_and_slope_of_pair(sums, plan.rule, plan.quotients)
    if known is None:
        table = np.array([sums]).T
        loss, array, empty = loss_and_slope_of_table(table, ONE_PAIR, plan.rule)
        slopes = (float(array[0, 0]), float(array[1, 0]))
    else:
        loss, slopes = known
    if out is not None:
        found = gradient_of_pairs(pairs, labels, weights, *slopes)
        out[:, -1] = found
        if plan.size == 2:
            np.negative(found, out=out[:, 0])
    return loss, empty
