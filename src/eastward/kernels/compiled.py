"""The two passes for the CPU, compiled by numba; threads share the rows.

Compiled functions receive addresses; only tables are passed as arrays.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from eastward.kernels.columns import column_pullback, column_tables
from eastward.kernels.fixed import fixed_pullback, fixed_tables
from eastward.kernels.problems import NOT_FINITE, Problem, Samples
from eastward.kernels.rows import row_pullback, row_tables
from eastward.kernels.sharing import LEAST_TO_SHARE, parts_of, run_in_threads

__all__ = ["pullback", "tables"]

# The two passes for each kind of problem.
_PASSES: dict[str, tuple[Any, Any]] = {
    "top2": (row_tables, row_pullback),
    "fixed": (fixed_tables, fixed_pullback),
    "pair": (column_tables, column_pullback),
    "labels": (column_tables, column_pullback),
}


def tables(
    problem: Problem, samples: Samples, *, keep: bool
) -> tuple[np.ndarray, int, Tensor | None]:
    """Compute the tables; see :class:`~eastward.kernels.problems.Kernel`."""
    logits = samples.logits
    # Worth keeping: exponentials are half of the work on rows of classes.
    kept = torch.empty_like(logits) if keep and problem.kind == "top2" else None
    room = 0 if kept is None else kept.data_ptr()
    size = 2 if problem.kind == "pair" else logits.shape[-1]
    shape = (len(problem.constants), size if problem.matrix else 4, size)
    if logits.dim() == 2:
        result = np.zeros(shape)
        wrong = _add_tables(problem, _addresses(samples), room, result)
    else:
        result, wrong = np.zeros((len(logits), *shape)), 0
        for given, at, into in zip(_groups(samples), _places(logits, room), result, strict=True):
            wrong = max(wrong, _add_tables(problem, given, at, into))
    if wrong == NOT_FINITE:
        # Compiled sums ignore NaN, so the table is set to NaN here.
        result[:] = np.nan
    return result, wrong, kept


def pullback(
    problem: Problem,
    samples: Samples,
    slopes: Any,
    factors: Tensor | float,
    kept: Tensor | None = None,
) -> Tensor:
    """Compute the gradient; see :class:`~eastward.kernels.problems.Kernel`."""
    logits, filled = samples.logits, kept is not None
    result = torch.empty_like(logits) if kept is None else kept
    if isinstance(slopes, Tensor):
        slopes = slopes.numpy()
    if logits.dim() == 2:
        given = (_addresses(samples), slopes, float(factors), result.data_ptr())
        _write_gradient(problem, filled, *given)
        return result
    each = torch.as_tensor(factors).expand(len(logits)).tolist()
    places = _places(logits, result.data_ptr())
    for group in zip(_groups(samples), slopes, each, places, strict=True):
        _write_gradient(problem, filled, *group)
    return result


def _addresses(samples: Samples) -> tuple[int, int, int, int, int]:
    """Return the addresses of logits, labels and weights (0: none) of one group, and rows and columns."""
    logits, labels, weights = samples
    where = 0 if weights is None else weights.data_ptr()
    return (logits.data_ptr(), labels.data_ptr(), where, *logits.shape[-2:])


def _groups(samples: Samples) -> Iterator[tuple[int, ...]]:
    """Return the :func:`_addresses` of each group."""
    for group in zip(*(part for part in samples if part is not None), strict=True):
        yield _addresses(Samples(group[0], group[1], group[2] if len(group) == 3 else None))


def _places(logits: Tensor, address: int) -> Iterator[int]:
    """Return the address of each group in an array of the logits' shape; 0 without an array."""
    for group in range(len(logits)):
        yield address and address + group * logits[0].nbytes


def _add_tables(problem: Problem, given: tuple[int, ...], room: int, result: np.ndarray) -> int:
    """Add the tables of one group to ``result``; return what was wrong."""
    kernel = _PASSES[problem.kind][0]
    fixed = (given, problem.options, problem.constants)
    if given[3] * given[4] < LEAST_TO_SHARE:
        wrong: int = kernel(*fixed, 0, given[3], room, result)
        return wrong
    parts = parts_of(given[3], given[3] * given[4])
    # Added in a fixed order, so that results do not vary from run to run.
    copies = [np.zeros_like(result) for _ in parts]
    found = run_in_threads(
        lambda begin, end, into: kernel(*fixed, begin, end, room, into),
        [(*part, copy) for part, copy in zip(parts, copies, strict=True)],
    )
    result += np.sum(copies, axis=0)
    worst: int = max(found)
    return worst


def _write_gradient(
    problem: Problem,
    filled: bool,
    given: tuple[int, ...],
    slopes: np.ndarray,
    factor: float,
    place: int,
) -> None:
    """Write the gradient of one group."""
    kernel = _PASSES[problem.kind][1]
    fixed, rest = (given, problem.options, problem.constants), (slopes, factor, filled, place)
    if given[3] * given[4] < LEAST_TO_SHARE:
        kernel(*fixed, 0, given[3], *rest)
        return
    parts = parts_of(given[3], given[3] * given[4])
    run_in_threads(lambda begin, end: kernel(*fixed, begin, end, *rest), parts)
