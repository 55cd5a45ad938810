"""Loss and gradient of a small batch on a CPU where there is no compiler: a few dozen calls of NumPy.

See :mod:`eastward.kernels.compiled_plan` for the same with numba.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from eastward.kernels.closed_form import MARGINS, ONE_PAIR
from eastward.kernels.eager_narrow import gradient_of_narrow, narrow_chunks, narrow_rows
from eastward.kernels.eager_pair import gradient_of_pairs, pairs_of, sums_of_pairs
from eastward.kernels.eager_rows import (
    BUFFERS,
    NARROW,
    Bends,
    bends_of,
    gradient_of_rows,
    powers_of,
    rows_of,
    sums_of_rows,
)
from eastward.kernels.eager_ties import tied_gradient, tied_sums
from eastward.kernels.eager_wide import (
    chunks_of,
    fill_bent,
    gradient_of_wide,
    is_bent_upwards,
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
# Rows with ties that are worked on at once.
TIED = 16_384


class Plan(NamedTuple):
    """What does not change from batch to batch."""

    problem: Problem
    rule: Rule
    quotients: Quotients
    size: int
    ignored: int | None

    def suits(self, logits: Tensor) -> bool:
        """Whether there are few logits, so that calls cost more than arithmetic, or a way for many."""
        return 0 < logits.numel() <= SMALL or (logits.numel() > SMALL and self.is_steep)

    @property
    def is_steep(self) -> bool:
        """Whether the threshold is dynamic and the middle piece of the step steeper than the first."""
        return self.problem.kind == "dynamic" and is_bent_upwards(
            bends_of(self.problem.temperature)
        )

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
        return None if result is None else (torch.tensor(result[0]), result[1])

    def _loss(
        self, z: Tensor, labels: np.ndarray, weights: np.ndarray | None, gradient: Tensor | None
    ) -> tuple[float, bool] | None:
        narrow = self.size <= NARROW
        if narrow and z.numel() > SMALL:
            return _narrow_run(self, z, labels, weights, gradient)
        if not math.isfinite(z.sum()):
            return None
        if not narrow and self.is_steep:
            return _wide_run(self, z, labels, weights, gradient)
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


def _narrow_run(
    plan: Plan,
    logits: Tensor,
    labels: np.ndarray,
    weights: np.ndarray | None,
    gradient: Tensor | None,
) -> tuple[float, bool] | None:
    """Many rows of few classes and the dynamic threshold, chunk by chunk; None where a logit is not finite."""
    size, bends = plan.size, bends_of(plan.problem.temperature)
    parts = narrow_chunks(*logits.shape)
    buffers = torch.empty(2, parts[0].stop * size)
    sums, kept, ties = np.zeros((3, size)), [], []
    for part in parts:
        mass = None if weights is None else weights[part]
        bent, work = buffers[:, : size * (part.stop - part.start)].view(2, size, -1)
        powers = work if gradient is None else gradient[part].view(work.shape)
        found = narrow_rows(logits[part], labels[part], mass, bends, powers, bent)
        if found is None:
            return None
        sums[:2] += found[0]
        kept.append(found[1])
        ties.append(found[2] + part.start)
    sums[2] = np.bincount(labels, weights, size)
    tied = _Tied(logits.numpy(), labels, weights, bends, np.concatenate(ties))
    sums[:2] += tied.sums()
    loss, slopes, empty = loss_and_slope_of_table(sums, MARGINS, plan.rule)
    if gradient is None:
        return loss, empty
    # Memberships of a row sum to one: a constant in all slopes has no effect, and without it less cancels.
    slopes[1] -= slopes[1].mean()
    by, detached = slopes.astype(np.float32), plan.problem.detached
    for part, rows in zip(parts, kept, strict=True):
        bent, work = buffers[:, : size * (part.stop - part.start)].view(2, size, -1)
        gradient_of_narrow(labels[part], bends, by, detached, rows, gradient[part], bent, work)
    tied.fill(gradient.numpy(), by, detached)
    return loss, empty


class _Tied(NamedTuple):
    """Rows with ties among others, worked on a few at a time."""

    logits: np.ndarray
    labels: np.ndarray
    weights: np.ndarray | None
    bends: Bends
    places: np.ndarray

    def _parts(self) -> Iterator[tuple[np.ndarray, Any]]:
        for begin in range(0, len(self.places), TIED):
            at = self.places[begin : begin + TIED]
            mass = None if self.weights is None else self.weights[at]
            yield at, (self.logits[at], self.labels[at], mass, self.bends)

    def sums(self) -> Any:
        """Right and predicted ``(2, C)``."""
        return sum(tied_sums(*given)[:2] for _, given in self._parts())

    def fill(self, gradient: np.ndarray, slopes: np.ndarray, detached: bool) -> None:
        """Their gradient, in its place."""
        for at, given in self._parts():
            gradient[at] = tied_gradient(*given, slopes, detached)


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
            z = logits[part].numpy()
            out.numpy()[:] = tied_gradient(z, given, mass, bends, by, detached)
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
