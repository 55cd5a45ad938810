"""The two passes compiled by numba, for the CPU: rows are shared between threads."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from eastward.kernels.columns import column_pullback, column_tables
from eastward.kernels.conversions import by_memberships, two_class_tables
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

_NOTHING = np.empty(0, np.float32)


def tables(problem: Problem, samples: Samples, *, keep: bool) -> tuple[Tensor, int, Tensor | None]:
    """See :class:`~eastward.kernels.problems.Kernel`."""
    logits, labels, weights = _arrays(samples)
    # Exponentials are half of the work on rows of classes.
    kept = torch.empty_like(samples.logits) if keep and problem.kind == "top2" else None
    room = _NOTHING if kept is None else kept.numpy()
    if logits.ndim == 2:
        result, wrong = _tables(problem, logits, labels, weights, room)
    else:
        number = len(logits)
        groups = zip(logits, labels, _each(weights, number), _each(room, number), strict=True)
        found = [_tables(problem, *group) for group in groups]
        result, wrong = np.stack([table for table, _ in found]), max(each for _, each in found)
    if wrong == NOT_FINITE:
        # Compiled sums know no NaN; a table that is none says what happened.
        result[:] = np.nan
    return torch.from_numpy(result), wrong, kept


def pullback(
    problem: Problem, samples: Samples, slopes: Tensor, kept: Tensor | None = None
) -> Tensor:
    """See :class:`~eastward.kernels.problems.Kernel`."""
    logits, labels, weights = _arrays(samples)
    result = torch.empty_like(samples.logits) if kept is None else kept
    filled = kept is not None
    if logits.ndim == 2:
        given = (logits, labels, weights, slopes.numpy(), result.numpy())
        _pullback(problem, filled, *given)
        return result
    each = (logits, labels, _each(weights, len(logits)), slopes.numpy(), result.numpy())
    for group in zip(*each, strict=True):
        _pullback(problem, filled, *group)
    return result


def _arrays(samples: Samples) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    logits, labels, weights = samples
    return logits.numpy(), labels.numpy(), _NOTHING if weights is None else weights.numpy()


def _each(array: np.ndarray, groups: int) -> Any:
    return array if array is not _NOTHING else [array] * groups


def _tables(
    problem: Problem,
    logits: np.ndarray,
    labels: np.ndarray,
    weights: np.ndarray,
    room: np.ndarray,
) -> tuple[np.ndarray, int]:
    """Tables ``(G, 4, C)`` or ``(G, C, C)`` of one group, and what was wrong."""
    grid, size = len(problem.thresholds), logits.shape[1]
    if problem.kind in ("pair", "labels"):
        pair = problem.kind == "pair"
        group = (logits.reshape(-1), labels.reshape(-1), weights.reshape(-1))
        shape, options = (grid, 4, 1 if pair else size), (pair and size == 2,)
        columns, wrong = _added_up(column_tables, problem, group, len(logits), options, shape)
        if not pair:
            return columns, wrong
        result = np.empty((grid, 2 if problem.matrix else 4, 2))
        two_class_tables(columns, problem.matrix, result)
        return result, wrong
    group, shape = (logits, labels, weights), (grid, size if problem.matrix else SUMS, size)
    kernel, rest = (
        (fixed_tables, ()) if problem.kind == "fixed" else (row_tables, (room.reshape(-1),))
    )
    sums, wrong = _added_up(kernel, problem, group, len(logits), (problem.matrix, *rest), shape)
    if problem.matrix:
        return sums, wrong
    result = np.empty((grid, 4, size))
    counts_of_sums(sums, result)
    return result, wrong


def _added_up(
    kernel: Callable[..., int],
    problem: Problem,
    group: tuple[Any, ...],
    rows: int,
    options: tuple[Any, ...],
    shape: tuple[int, ...],
) -> tuple[np.ndarray, int]:
    """Sums of all parts, added in one order whatever thread is first: results do not vary from run to run."""
    given = (*group, problem.ignored, _constants(problem))
    parts = parts_of(rows, group[0].size)
    if len(parts) == 1:
        sums = np.zeros(shape)
        return sums, kernel(*given, 0, rows, *options, sums)
    copies = [np.zeros(shape) for _ in parts]
    found = everywhere(
        lambda begin, end, into: kernel(*given, begin, end, *options, into),
        [(*part, copy) for part, copy in zip(parts, copies, strict=True)],
    )
    return np.sum(copies, axis=0), max(found)


def _pullback(
    problem: Problem,
    filled: bool,
    logits: np.ndarray,
    labels: np.ndarray,
    weights: np.ndarray,
    slopes: np.ndarray,
    out: np.ndarray,
) -> None:
    """Write the gradient of one group."""
    rows, elements = len(logits), logits.size
    pair = problem.kind == "pair"
    grid, kinds, size = slopes.shape
    shape = (grid, kinds if problem.matrix and not pair else 2, 1 if pair else size)
    by = np.empty(shape, np.float32)
    if by_memberships(slopes, problem.matrix, pair, by):
        # Compiled sums know no NaN.
        out[:] = np.nan
        return
    if pair or problem.kind == "labels":
        kernel: Any = column_pullback
        options: tuple[Any, ...] = (pair and logits.shape[1] == 2, by)
        logits, labels, weights = logits.reshape(-1), labels.reshape(-1), weights.reshape(-1)
        out = out.reshape(-1)
    elif problem.kind == "fixed":
        kernel, options = fixed_pullback, (problem.matrix, by)
    else:
        kernel, options = row_pullback, (problem.matrix, by[0], problem.detached, filled)
    given = (logits, labels, weights, problem.ignored, _constants(problem))
    parts = parts_of(rows, elements)
    if len(parts) == 1:
        kernel(*given, 0, rows, *options, out)
    else:
        everywhere(lambda begin, end: kernel(*given, begin, end, *options, out), parts)


def _constants(problem: Problem) -> Any:
    """The step at this temperature in float32."""
    if problem.kind == "top2":
        return _bends(problem.temperature)
    return step_pieces(problem.thresholds, problem.temperature)


@functools.lru_cache(maxsize=64)
def _bends(temperature: float) -> tuple[np.float32, ...]:
    return tuple(map(np.float32, step_in_thresholds(temperature)))
