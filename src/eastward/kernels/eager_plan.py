"""Loss and gradient of a batch on a CPU where there is no compiler: which way it goes, and the way of small ones.

See :mod:`eastward.kernels.compiled_plan` for the same with numba.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from eastward.kernels.closed_form import ONE_PAIR, loss_and_slope_of_sums
from eastward.kernels.eager_large import Metric, is_bent_upwards, large_run
from eastward.kernels.eager_pair import (
    PairStep,
    gradient_of_pairs,
    pair_step,
    pairs_of,
    sums_of_pairs,
)
from eastward.kernels.eager_rows import (
    BUFFERS,
    COLD,
    NARROW,
    Bends,
    bends_of,
    gradient_of_rows,
    powers_of,
    rows_of,
    sums_of_rows,
)
from eastward.kernels.eager_small import SmallStep, gradient_of_small, small_rows, small_step
from eastward.kernels.problems import Problem
from eastward.kernels.ratios import (
    Forms,
    Quotients,
    forms_of,
    loss_and_slope_of_pair,
    loss_and_slope_of_table,
    quotients_of,
)
from eastward.kernels.rules import Rule

__all__ = ["Plan", "plan_of"]

# Elements of a batch that is small.
SMALL = 32_768


class Plan(NamedTuple):
    """What does not change from batch to batch."""

    problem: Problem
    rule: Rule
    quotients: Quotients
    forms: Forms | None
    bends: Bends
    step: SmallStep
    pair: PairStep
    # Whether the threshold is dynamic and the middle piece of the step steeper than the first.
    is_steep: bool
    size: int
    ignored: int | None

    def suits(self, count: int) -> bool:
        """Whether so many logits are few, so that calls cost more than arithmetic, or there is a way for many."""
        return 0 < count <= SMALL or (count > SMALL and self.is_steep)

    def run(
        self, logits: Tensor, labels: Tensor, weights: Tensor | None, gradient: Tensor | None
    ) -> tuple[Tensor, bool] | None:
        """See :meth:`eastward.kernels.compiled_plan.Plan.run`."""
        z, own = logits.detach(), labels.numpy()
        mass = None if weights is None else weights.numpy()
        found = _usable(own, mass, self.ignored, max(self.size, 2))
        if found is None:
            return None
        result = self._loss(z, *found, gradient)
        if result is None:
            return None
        return torch.scalar_tensor(result[0], dtype=torch.float32), result[1]

    def _loss(
        self, z: Tensor, labels: np.ndarray, weights: np.ndarray | None, gradient: Tensor | None
    ) -> tuple[float, bool] | None:
        if self.is_steep and (self.size > NARROW or z.numel() > SMALL):
            metric, detached = Metric(self.rule, self.forms), self.problem.detached
            return large_run(z, labels, weights, self.bends, detached, metric, gradient)
        if not _are_finite(z):
            return None
        out = None if gradient is None else gradient.numpy()
        run = _pairs_run if self.problem.binary else _rows_run
        return run(self, z.numpy(), labels, weights, out)


def plan_of(
    problem: Problem, rule: Rule | None, size: int, ignore_index: int | None
) -> Plan | None:
    """The plan for logits of ``size`` columns; None where the general way is taken."""
    if rule is None or problem.matrix or problem.kind not in ("dynamic", "pair"):
        return None
    if problem.kind == "pair" and problem.thresholds != (0.5,):
        return None
    bends = bends_of(problem.temperature)
    known = (quotients_of(rule), forms_of(rule), bends)
    steps = (small_step(bends, size), pair_step(problem.temperature))
    is_steep = problem.kind == "dynamic" and is_bent_upwards(bends)
    return Plan(problem, rule, *known, *steps, is_steep, size, ignore_index)


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
    # Without a sign, a negative label is a very large one.
    return int(np.maximum.reduce(labels.view(np.uint64))) < size


def _are_finite(logits: Tensor) -> bool:
    """Whether logits are finite, and far from where their differences would not be.

    By PyTorch, because NumPy would have to be kept from warning, which takes longer than the sum itself.
    """
    flat = logits.view(-1)
    return math.isfinite(flat.dot(flat).item())


def _rows_run(
    plan: Plan,
    logits: np.ndarray,
    labels: np.ndarray,
    weights: np.ndarray | None,
    out: np.ndarray | None,
) -> tuple[float, bool]:
    """Three or more classes and the dynamic threshold."""
    bends, detached = plan.bends, plan.problem.detached
    if plan.is_steep and bends.temperature >= COLD:
        known = small_rows(logits, labels, weights, plan.step)
        if known is not None:
            loss, slopes, empty = loss_and_slope_of_table(known[0], plan.rule, plan.forms)
            if out is not None:
                by = slopes.astype(np.float32)
                np.copyto(out, gradient_of_small(known[1], plan.step, by, detached).T)
            return loss, empty
    axis = 0 if plan.size <= NARROW else 1
    buffers = np.empty((BUFFERS, *(logits.shape[::-1] if axis == 0 else logits.shape)), np.float32)
    powers = powers_of(logits, axis, buffers[4])
    rows = rows_of(powers, labels, axis, bends, buffers)
    sums = sums_of_rows(rows, labels, weights, axis, plan.size)
    loss, slopes, empty = loss_and_slope_of_table(sums, plan.rule, plan.forms)
    if out is not None:
        by = slopes.astype(np.float32)
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
    pairs = pairs_of(logits, labels, plan.pair)
    sums = sums_of_pairs(pairs, weights)
    empty, known = False, loss_and_slope_of_pair(sums, plan.rule, plan.quotients)
    if known is None:
        losses, found = loss_and_slope_of_sums(np.array([sums])[..., None], ONE_PAIR, plan.rule)
        loss, empty = float(losses[0]), sums[2] + sums[3] <= 0
        slopes = (float(found[0, 0, 0]), float(found[0, 1, 0]))
    else:
        loss, slopes = known
    if out is not None:
        found = out[:, -1]
        gradient_of_pairs(pairs, weights, *slopes, found)
        if plan.size == 2:
            np.negative(found, out=out[:, 0])
    return loss, empty
