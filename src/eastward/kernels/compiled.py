"""The two passes compiled by numba, for the CPU: rows are shared between threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from eastward.kernels.columns import column_pullback, column_tables
from eastward.kernels.fixed import fixed_pullback, fixed_tables
from eastward.kernels.problems import (
    NOT_FINITE,
    Problem,
    Samples,
    step_in_thresholds,
    step_pieces,
)
from eastward.kernels.rows import SUMS, counts_of_sums, row_pullback, row_tables
from eastward.kernels.sharing import everywhere, parts_of

__all__ = ["pullback", "tables"]

_NO_WEIGHTS = np.empty(0, np.float32)


def tables(problem: Problem, samples: Samples) -> tuple[Tensor, int]:
    """See :class:`~eastward.kernels.problems.Kernel`."""
    groups = _groups(problem, samples)
    _, rows, size = samples.logits.shape
    found = [_group_tables(problem, group, rows, size) for group in groups]
    result = np.stack([table for table, _ in found]) if len(found) > 1 else found[0][0][None]
    wrong = max(status for _, status in found)
    if wrong == NOT_FINITE:
        # Compiled sums know no NaN; a table that is none says what happened.
        result[:] = np.nan
    return torch.from_numpy(result), wrong


def pullback(problem: Problem, samples: Samples, slopes: Tensor) -> Tensor:
    """See :class:`~eastward.kernels.problems.Kernel`."""
    _, rows, size = samples.logits.shape
    steep = slopes.numpy()
    if np.isnan(steep).any():
        return torch.full_like(samples.logits, torch.nan)
    result = torch.empty_like(samples.logits)
    by = _by_memberships(problem, steep).astype(np.float32)
    for group, slope, out in zip(_groups(problem, samples), by, result.numpy(), strict=True):
        kernel, given = _pullback_of(problem, slope, out)
        everywhere(_with_rows(kernel, group, given), parts_of(rows, rows * size))
    return result


def _with_rows(
    kernel: Callable[..., Any], group: tuple[Any, ...], given: tuple[Any, ...]
) -> Callable[[int, int], Any]:
    return lambda begin, end: kernel(*group, begin, end, *given)


def _groups(problem: Problem, samples: Samples) -> list[tuple[Any, ...]]:
    """Logits, labels, weights and constants of each group; flat for columns."""
    logits, labels = samples.logits.numpy(), samples.labels.numpy()
    weights = [_NO_WEIGHTS] * len(logits) if samples.weights is None else samples.weights.numpy()
    constants = (
        tuple(map(np.float32, step_in_thresholds(problem.temperature)))
        if problem.kind == "top2"
        else step_pieces(problem.thresholds, problem.temperature)
    )
    rest = (problem.ignored, constants)
    if problem.kind in ("pair", "labels"):
        return [
            (z.reshape(-1), y.reshape(-1), w.reshape(-1), *rest)
            for z, y, w in zip(logits, labels, weights, strict=True)
        ]
    return [(z, y, w, *rest) for z, y, w in zip(logits, labels, weights, strict=True)]


def _group_tables(
    problem: Problem, group: tuple[Any, ...], rows: int, size: int
) -> tuple[np.ndarray, int]:
    """Tables ``(G, 4, C)`` or ``(G, C, C)`` of one group, and what was wrong."""
    grid = len(problem.thresholds)
    if problem.kind == "labels":
        return _added_up(column_tables, group, (False,), (grid, 4, size), rows)
    if problem.kind == "pair":
        columns, wrong = _added_up(column_tables, group, (size == 2,), (grid, 4, 1), rows)
        return _of_two_classes(columns, matrix=problem.matrix), wrong
    kinds = size if problem.matrix else SUMS
    if problem.kind == "fixed":
        sums, wrong = _added_up(fixed_tables, group, (problem.matrix,), (grid, kinds, size), rows)
    else:
        sums, wrong = _added_up(row_tables, group, (problem.matrix,), (kinds, size), rows)
        sums = sums[None]
    if problem.matrix:
        return sums, wrong
    counts = np.empty((grid, 4, size))
    for g in range(grid):
        counts_of_sums(sums[g], counts[g])
    return counts, wrong


def _added_up(
    kernel: Callable[..., int],
    group: tuple[Any, ...],
    options: tuple[Any, ...],
    shape: tuple[int, ...],
    rows: int,
) -> tuple[np.ndarray, int]:
    """Sums of all parts, added in one order whatever thread is first: results do not vary from run to run."""
    parts = parts_of(rows, group[0].size)
    if len(parts) == 1:
        sums = np.zeros(shape)
        return sums, kernel(*group, 0, rows, *options, sums)
    copies = [np.zeros(shape) for _ in parts]
    found = everywhere(
        lambda begin, end, into: kernel(*group, begin, end, *options, into),
        [(*part, copy) for part, copy in zip(parts, copies, strict=True)],
    )
    return np.sum(copies, axis=0), max(found)


def _pullback_of(
    problem: Problem, slope: np.ndarray, out: np.ndarray
) -> tuple[Callable[..., None], tuple[Any, ...]]:
    """The kernel, and what follows the rows among its arguments."""
    if problem.kind in ("pair", "labels"):
        paired = problem.kind == "pair" and out.shape[1] == 2
        return column_pullback, (paired, slope, out.reshape(-1))
    if problem.kind == "fixed":
        return fixed_pullback, (problem.matrix, slope, out)
    return row_pullback, (problem.matrix, slope[0], problem.detached, out)


def _by_memberships(problem: Problem, slopes: np.ndarray) -> np.ndarray:
    """Derivatives ``(K, G, 2, C)`` by a membership of the true class and of another, given those by counts.

    What a sample gives to tp it takes from fn, and what it gives to fp it takes from tn.
    """
    if problem.matrix and problem.kind != "pair":
        return slopes
    if problem.matrix:
        # Rows are true classes: by "yes" of those that are, and of those that are not.
        by_yes: np.ndarray = slopes[..., 1] - slopes[..., 0]
        return by_yes[:, :, ::-1, None]
    by: np.ndarray = slopes[:, :, :2] - slopes[:, :, 2:]
    # What is right and wrong for class 1 is, seen from class 0, the same turned round.
    return by if problem.kind != "pair" else by[..., 1:] - by[:, :, ::-1, :1]


def _of_two_classes(columns: np.ndarray, *, matrix: bool) -> np.ndarray:
    """Tables of two classes, given the counts ``(G, 4, 1)`` of the second."""
    if not matrix:
        return np.concatenate([columns[:, ::-1], columns], axis=2)
    tp, fp, fn, tn = columns[:, :, 0].T
    return np.stack([np.stack([tn, fp], -1), np.stack([fn, tp], -1)], axis=1)
