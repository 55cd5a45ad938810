"""The two passes in Triton, for the dynamic threshold on a GPU: one program for each tile of rows.

The kernels agree with the definition in Triton's interpreter. They have not been measured on a GPU. If there are more
classes than a tile holds, plain PyTorch takes over.
"""

from __future__ import annotations

from typing import Any

import torch
import triton  # type: ignore[import-untyped]  # it ships no types
from torch import Tensor

from eastward.kernels import plain
from eastward.kernels.problems import FINE, Problem, Samples, scaled, step_in_thresholds
from eastward.kernels.tiled_rows import pullback_kernel, tables_kernel

__all__ = ["pullback", "tables"]

MOST_CLASSES = 16_384
TILE = 4_096


def tables(problem: Problem, samples: Samples, *, keep: bool) -> tuple[Tensor, int, Any]:
    """Compute the tables; see :class:`~eastward.kernels.problems.Kernel`. Only plain PyTorch keeps anything."""
    wrong, _ = plain.what_is_wrong(problem, samples)
    if samples.logits.shape[-1] > MOST_CLASSES or wrong != FINE:
        return plain.tables(problem, samples, keep=keep)
    found = _tables(problem, samples.in_groups())
    return found[0] if samples.is_one_group else found, wrong, None


def _tables(problem: Problem, samples: Samples) -> Tensor:
    groups, rows, size = samples.logits.shape
    shape = (groups, size if problem.matrix else 4, size)
    result = samples.logits.new_zeros(shape, dtype=torch.float64)
    if rows:
        tile, classes, grid = _tiles(samples.logits)
        tables_kernel[grid](
            *_given(samples),
            result,
            *step_in_thresholds(problem.temperature),
            problem.ignored,
            rows,
            size,
            HAS_WEIGHTS=samples.weights is not None,
            MATRIX=problem.matrix,
            ROWS=tile,
            CLASSES=classes,
        )
    return result.unsqueeze(1)


def pullback(
    problem: Problem,
    samples: Samples,
    slopes: Any,
    factors: Tensor | float,
    kept: Any = None,
) -> Tensor:
    """Compute the gradient; see :class:`~eastward.kernels.problems.Kernel`."""
    if samples.logits.shape[-1] > MOST_CLASSES:
        return plain.pullback(problem, samples, slopes, factors, kept)
    slopes = scaled(slopes, factors)
    if samples.is_one_group:
        return _pullback(problem, samples.in_groups(), slopes.unsqueeze(0))[0]
    return _pullback(problem, samples, slopes)


def _pullback(problem: Problem, samples: Samples, slopes: Tensor) -> Tensor:
    _, rows, size = samples.logits.shape
    result = torch.empty_like(samples.logits)
    steep = slopes[:, 0] if problem.matrix else slopes[:, 0, :2] - slopes[:, 0, 2:]
    if rows:
        tile, classes, grid = _tiles(samples.logits)
        pullback_kernel[grid](
            *_given(samples),
            steep.to(samples.logits.dtype).contiguous(),
            result,
            *step_in_thresholds(problem.temperature),
            problem.ignored,
            rows,
            size,
            HAS_WEIGHTS=samples.weights is not None,
            MATRIX=problem.matrix,
            DETACHED=problem.detached,
            ROWS=tile,
            CLASSES=classes,
        )
    return result


def _given(samples: Samples) -> tuple[Any, ...]:
    """Return logits, labels and weights; absent weights get an unused tensor, because arguments cannot be None."""
    weights = samples.logits if samples.weights is None else samples.weights
    return samples.logits, samples.labels, weights


def _tiles(logits: Tensor) -> tuple[int, int, tuple[int, int]]:
    groups, rows, size = logits.shape
    classes = triton.next_power_of_2(size)
    tile = max(1, TILE // classes)
    return tile, classes, (triton.cdiv(rows, tile), groups)
