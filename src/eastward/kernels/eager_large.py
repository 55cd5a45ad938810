"""Loss and gradient of a large batch on a CPU where there is no compiler: PyTorch, chunk by chunk."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from eastward.kernels.eager_narrow import fill_narrow
from eastward.kernels.eager_passes import Known, gradient_of_chunk, sums_of_chunk
from eastward.kernels.eager_rows import NARROW, Bends
from eastward.kernels.eager_ties import Tied
from eastward.kernels.eager_wide import fill_wide
from eastward.kernels.ratios import Forms, loss_and_slope_of_table
from eastward.kernels.rules import Rule

__all__ = ["Metric", "is_bent_upwards", "large_run"]

# Elements of a chunk: a hundred calls for each are then little beside the arithmetic, as are its buffers in memory.
# With three classes a chunk has up to half as many rows, whose places eager_narrow counts in float32: 66 times that is
# still below 2**24, but not by much.
CHUNK = 480_000


class Metric(NamedTuple):
    """A metric as numbers, twice."""

    rule: Rule
    forms: Forms | None


def is_bent_upwards(bends: Bends) -> bool:
    """Whether the second piece is the steeper one, so that only positive numbers are added."""
    return not bends.at_zero and bends.first <= bends.middle


def chunks_of(rows: int, size: int) -> list[slice]:
    """Slices of rows that are worked on at once, of nearly the same length."""
    number = max(1, round(rows * size / CHUNK))
    step = -(-rows // number)
    if number > 1 and size <= NARROW and step % 512 < 16:
        # Columns a power of two apart would compete for the same lines of the cache.
        step += 16
    return [slice(begin, min(begin + step, rows)) for begin in range(0, rows, step)]


class _Buffers:
    """Two arrays of the size of a chunk, and its part of the gradient, in the layout of the powers."""

    def __init__(self, length: int, size: int, gradient: Tensor | None) -> None:
        self.axis = 0 if size <= NARROW else 1
        self.length, self.size, self.gradient = length, size, gradient
        shape = (size, length) if self.axis == 0 else (length, size)
        self.bent, self.work = torch.empty(shape), torch.empty(shape)

    def of(self, part: slice) -> tuple[Tensor, Tensor, Tensor]:
        """Powers, and two to write on; without a gradient the powers are one of these."""
        bent, work, length = self.bent, self.work, part.stop - part.start
        if length < self.length:
            shape = (self.size, length) if self.axis == 0 else (length, self.size)
            bent, work = (a.view(-1)[: length * self.size].view(shape) for a in (bent, work))
        powers = work if self.gradient is None else _cut(self.gradient, part)
        return powers.view(work.shape) if self.axis == 0 else powers, bent, work


def _cut(array: Any, part: slice) -> Any:
    """Rows of a chunk; slicing costs as much as arithmetic on a small array."""
    return array if part.stop - part.start == len(array) else array[part]


def large_run(
    logits: Tensor,
    labels: np.ndarray,
    weights: np.ndarray | None,
    bends: Bends,
    detached: bool,
    metric: Metric,
    gradient: Tensor | None,
) -> tuple[float, bool] | None:
    """Loss and whether no sample has weight; fills the gradient. None where a logit is not finite."""
    size = logits.shape[1]
    parts = chunks_of(len(logits), size)
    buffers = _Buffers(parts[0].stop, size, gradient)
    found = _sums(logits, labels, weights, bends, parts, buffers)
    if found is None:
        return None
    sums, known = found
    tied = _all_tied(parts, known)
    others = None if tied is None else Tied(logits.numpy(), labels, weights, bends, tied)
    if others is not None:
        sums[:2] += others.sums()
    loss, slopes, empty = loss_and_slope_of_table(sums, *metric)
    if gradient is None:
        return loss, empty
    # Memberships of a row sum to one: a constant in all slopes has no effect.
    slopes[1] -= np.add.reduce(slopes[1]) / size
    by = slopes.astype(np.float32)
    for part, rows in zip(parts, known, strict=True):
        _, bent, work = buffers.of(part)
        gradient_of_chunk(
            _cut(labels, part),
            bends,
            by,
            detached,
            rows,
            buffers.axis,
            _cut(gradient, part),
            bent,
            work,
            filled=len(parts) == 1,
        )
    if others is not None:
        others.fill(gradient.numpy(), by, detached)
    return loss, empty


def _all_tied(parts: list[slice], known: list[Known]) -> np.ndarray | None:
    """Indices, in the whole batch, of the rows in which classes tie; None if there are none."""
    each = zip(parts, known, strict=True)
    found = [part.start + rows.powers.tied for part, rows in each if len(rows.powers.tied)]
    return np.concatenate(found) if found else None


def _sums(
    logits: Tensor,
    labels: np.ndarray,
    weights: np.ndarray | None,
    bends: Bends,
    parts: list[slice],
    buffers: _Buffers,
) -> tuple[np.ndarray, list[Known]] | None:
    """Right, predicted, true ``(3, C)`` of all rows without ties, and what is known of each chunk."""
    sums, known = np.zeros((3, buffers.size)), []
    fill = fill_narrow if buffers.axis == 0 else fill_wide
    for part in parts:
        powers, bent, _ = buffers.of(part)
        own = _cut(labels, part)
        found = fill(_cut(logits, part), own, powers, bent)
        if found is None:
            return None
        mass = None if weights is None else weights[part]
        table, rows = sums_of_chunk(found, own, mass, bends, buffers.axis, powers, bent)
        sums[:2] += table
        known.append(rows)
    sums[2] = np.bincount(labels, weights, buffers.size)
    return sums, known
