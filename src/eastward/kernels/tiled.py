"""The Triton backend: one program for a tile of rows, on a GPU.

Fixed thresholds, binary columns, and more classes than a tile holds go through plain PyTorch, which is one pass over
the logits there. No GPU was at hand: the kernels were compared with the definition through Triton's interpreter,
and nothing is claimed about their speed.
"""

from __future__ import annotations

from typing import Any

import torch
import triton  # type: ignore[import-untyped]  # it ships no types
from torch import Tensor

from eastward.kernels import eager
from eastward.kernels.problems import Problem, Samples
from eastward.kernels.tiled_rows import gradient_kernel, sums_kernel

__all__ = ["gradient", "sums"]

MOST_CLASSES = 16_384
TILE = 4_096
NO_FIRST_PIECE = 1e-6


def sums(problem: Problem, samples: Samples) -> tuple[Tensor, Any]:
    """See :class:`~eastward.kernels.problems.Backend`."""
    if not _fits(problem, samples):
        return eager.sums(problem, samples)
    members, rows, size = samples.logits.shape
    result = samples.logits.new_zeros(members, size if problem.matrix else 3, size)
    tile, classes, grid = _tiles(samples.logits)
    if rows:
        sums_kernel[grid](
            samples.logits,
            samples.labels,
            _weights(samples),
            result,
            *_constants(problem.temperature),
            rows,
            size,
            HAS_WEIGHTS=samples.weights is not None,
            MATRIX=problem.matrix,
            ROWS=tile,
            CLASSES=classes,
        )
    return result.unsqueeze(1), None


def gradient(problem: Problem, samples: Samples, saved: Any, slopes: Tensor) -> Tensor:
    """See :class:`~eastward.kernels.problems.Backend`."""
    if not _fits(problem, samples):
        return eager.gradient(problem, samples, saved, slopes)
    _, rows, size = samples.logits.shape
    result = torch.empty_like(samples.logits)
    tile, classes, grid = _tiles(samples.logits)
    if rows:
        gradient_kernel[grid](
            samples.logits,
            samples.labels,
            _weights(samples),
            slopes[:, 0].to(samples.logits.dtype).contiguous(),
            result,
            *_constants(problem.temperature),
            rows,
            size,
            HAS_WEIGHTS=samples.weights is not None,
            MATRIX=problem.matrix,
            DETACHED=problem.detached,
            ROWS=tile,
            CLASSES=classes,
        )
    return result


def _fits(problem: Problem, samples: Samples) -> bool:
    return problem.kind == "dynamic" and samples.logits.shape[2] <= MOST_CLASSES


def _weights(samples: Samples) -> Tensor:
    """Some tensor in any case: a kernel's argument cannot be absent, only unused."""
    return samples.logits if samples.weights is None else samples.weights


def _tiles(logits: Tensor) -> tuple[int, int, tuple[int, int]]:
    members, rows, size = logits.shape
    classes = triton.next_power_of_2(size)
    tile = max(1, TILE // classes)
    return tile, classes, (triton.cdiv(rows, tile), members)


def _constants(temperature: float) -> tuple[float, ...]:
    low = 1 - 2.5 * temperature
    first = temperature / low if low > NO_FIRST_PIECE else 0.0
    low = low if low > NO_FIRST_PIECE else -1.0
    middle = (1 - 2 * temperature) / (5 * temperature)
    return low, 1 + 2.5 * temperature, first, middle, temperature
