"""The numba backend: compiled kernels on the CPU, parallel over samples."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from eastward.kernels import (
    compiled_columns,
    compiled_fixed,
    compiled_narrow,
    compiled_wide,
    compiled_wide_gradient,
)
from eastward.kernels.compiled_arithmetic import FINE
from eastward.kernels.compiled_ratios import loss_and_slope
from eastward.kernels.eager_columns import step_pieces
from eastward.kernels.problems import NotFiniteError, Problem, Samples
from eastward.kernels.sharing import everywhere, parts_of

__all__ = ["gradient", "loss_and_slope", "step_constants", "sums", "threshold_pieces"]

# Up to so many classes vectors run along samples, beyond along classes.
NARROW = 48
# Below this the first piece of the step has no width left.
NO_FIRST_PIECE = 1e-6
NO_WEIGHTS = np.empty(0, np.float32)
NO_ROOM = np.empty((0, 0), np.float32)
# Loss and gradient of the commonest losses in one call.
PLANS = "eastward.kernels.compiled_plan"
# Labels that arrive here are masked: none of them is this one.
NOTHING = -(2**63)


def sums(problem: Problem, samples: Samples) -> tuple[Tensor, Any]:
    """See :class:`~eastward.kernels.problems.Backend`."""
    members, rows, size = samples.logits.shape
    given = _arrays(problem, samples)
    shape = _shape(problem, size)
    result = np.zeros((members, *shape))
    kernel, constants, flags = _sums_kernel(problem, size)
    wide = kernel is compiled_wide.wide_sums
    kept = [(np.empty((rows, compiled_wide.KEPT), np.float32),) if wide else () for _ in given]
    # Exponentials wait where the gradient will be.
    room = torch.empty_like(samples.logits) if wide and samples.recorded else None
    rooms = [NO_ROOM] * members if room is None else room.numpy()
    for member, (arrays, more) in enumerate(zip(given, kept, strict=True)):
        last = (*more, rooms[member]) if wide else ()

        def work(
            begin: int, end: int, into: np.ndarray, arrays: Any = arrays, last: Any = last
        ) -> Any:
            return kernel(*arrays, *constants, begin, end, into, *flags, *last)

        if _added_up(work, rows, rows * size, result[member]) != FINE:
            raise NotFiniteError
    saved = (given, kept, [] if room is None else [room])
    return torch.from_numpy(result.reshape(members, -1, *shape[-2:])), saved


def gradient(problem: Problem, samples: Samples, saved: Any, slopes: Tensor) -> Tensor:
    """See :class:`~eastward.kernels.problems.Backend`."""
    _, rows, size = samples.logits.shape
    given, kept, room = saved
    # Only once: a second backward pass finds no exponentials there any more.
    prepared = bool(room)
    result = room.pop() if prepared else torch.empty_like(samples.logits)
    written = result.numpy()
    steep = slopes.numpy().astype(np.float32)
    kernel, constants, (before, after) = _gradient_kernel(problem, size)
    for member, (arrays, more) in enumerate(zip(given, kept, strict=True)):
        out = written[member].reshape(-1) if problem.binary else written[member]
        slope = steep[member, 0] if problem.kind == "dynamic" else steep[member]
        last = (*more, prepared) if more else ()

        def work(
            begin: int,
            end: int,
            arrays: Any = arrays,
            slope: Any = slope,
            out: Any = out,
            last: Any = last,
        ) -> Any:
            return kernel(*arrays, *constants, begin, end, slope, *before, out, *after, *last)

        everywhere(work, parts_of(rows, rows * size))
    return result


def _arrays(problem: Problem, samples: Samples) -> list[tuple[np.ndarray, ...]]:
    """Logits, labels and weights of each member; flat for binary columns."""
    logits, labels = samples.logits.numpy(), samples.labels.numpy()
    weights = [NO_WEIGHTS] * len(logits) if samples.weights is None else samples.weights.numpy()
    members: list[tuple[np.ndarray, ...]] = list(zip(logits, labels, weights, strict=True))
    if problem.binary:
        return [tuple(part.reshape(-1) for part in member) for member in members]
    return members


def _shape(problem: Problem, size: int) -> tuple[int, ...]:
    """Of the sums of one member."""
    if problem.kind == "dynamic":
        return (size if problem.matrix else 3, size)
    if problem.kind == "fixed":
        return (len(problem.thresholds), size if problem.matrix else 3, size)
    return (len(problem.thresholds), 4, 1 if problem.kind == "pair" else size)


def _sums_kernel(problem: Problem, size: int) -> tuple[Callable[..., Any], Any, Any]:
    """The kernel, its constants, and what follows the result among its arguments."""
    if problem.binary:
        paired = problem.kind == "pair" and size == 2
        return compiled_columns.column_sums, (NOTHING, threshold_pieces(problem), paired), ()
    if problem.kind == "fixed":
        return compiled_fixed.fixed_sums, (threshold_pieces(problem),), (problem.matrix,)
    constants = (NOTHING, step_constants(problem.temperature))
    if size <= NARROW and not problem.matrix:
        return compiled_narrow.narrow_sums, constants, ()
    return compiled_wide.wide_sums, constants, (problem.matrix,)


def _gradient_kernel(problem: Problem, size: int) -> tuple[Callable[..., Any], Any, Any]:
    """The kernel, its constants, and what precedes and follows the result among its arguments."""
    if problem.binary:
        paired = problem.kind == "pair" and size == 2
        return (
            compiled_columns.column_gradient,
            (NOTHING, threshold_pieces(problem), paired),
            ((), ()),
        )
    if problem.kind == "fixed":
        return compiled_fixed.fixed_gradient, (threshold_pieces(problem),), ((), (problem.matrix,))
    constants = (NOTHING, step_constants(problem.temperature))
    if size <= NARROW and not problem.matrix:
        return compiled_narrow.narrow_gradient, constants, ((problem.detached,), ())
    return compiled_wide_gradient.wide_gradient, constants, ((problem.detached,), (problem.matrix,))


@functools.lru_cache(maxsize=64)
def step_constants(temperature: float) -> tuple[np.float32, ...]:
    """Lower bend, upper bend, first and middle slope, temperature, of the step in u."""
    low = 1 - 2.5 * temperature
    first = temperature / low if low > NO_FIRST_PIECE else 0.0
    low = low if low > NO_FIRST_PIECE else -1.0
    numbers = (low, 1 + 2.5 * temperature, first, (1 - 2 * temperature) / (5 * temperature))
    return tuple(np.float32(number) for number in (*numbers, temperature))


@functools.lru_cache(maxsize=64)
def _grid_pieces(thresholds: tuple[float, ...], temperature: float) -> np.ndarray:
    rows = [(threshold, *step_pieces(threshold, temperature)) for threshold in thresholds]
    return np.asarray(rows, dtype=np.float32)


def threshold_pieces(problem: Problem) -> np.ndarray:
    """One row for each threshold: itself, half the width of the middle piece, three slopes."""
    return _grid_pieces(problem.thresholds, problem.temperature)


def _added_up(work: Callable[..., Any], rows: int, elements: int, into: np.ndarray) -> int:
    """Sums of all parts, added in one order whatever thread is first: results do not vary from run to run."""
    parts = parts_of(rows, elements)
    if len(parts) == 1:
        return int(work(*parts[0], into))
    copies = [np.zeros_like(into) for _ in parts]
    found = everywhere(work, [(*part, copy) for part, copy in zip(parts, copies, strict=True)])
    for copy in copies:
        into += copy
    return int(max(found))
