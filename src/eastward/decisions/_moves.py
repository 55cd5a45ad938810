"""How decisions change tables, for the scan: counts, whole matrices, and single labels.

A flat table is what adds up when a sample changes sides. Counts need only true positives and predicted mass; what
else a table holds follows from them and the mass of the true classes.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from eastward.decisions._inputs import Sample


def count_tables(tp: Tensor, predicted: Tensor, true: Tensor, total: Tensor) -> Tensor:
    """Stacked counts ``(..., 4, C)`` from true positives, predicted and true mass ``(..., C)``."""
    # Differences of equal sums round to about -1e-16, and a count is never negative.
    fp, fn = (predicted - tp).clamp_min(0), (true - tp).clamp_min(0)
    return torch.stack([tp.clamp_min(0), fp, fn, (total - true - fp).clamp_min(0)], dim=-2)


@dataclass(frozen=True)
class CountMoves:
    """Moves of samples from their rival class to one class, in counts."""

    columns: Tensor
    amounts: Tensor
    start: Tensor
    true: Tensor

    def tables(self, flat: Tensor) -> Tensor:
        """``(G, 4, C)`` from flat ``(G, 2 C)``: true positives, then predicted mass."""
        tp, predicted = flat.chunk(2, dim=1)
        return count_tables(tp, predicted, self.true, self.true.sum())


@dataclass(frozen=True)
class MatrixMoves:
    """Moves of samples from their rival class to one class, in the whole matrix."""

    columns: Tensor
    amounts: Tensor
    start: Tensor
    num_classes: int

    def tables(self, flat: Tensor) -> Tensor:
        """``(G, C, C)`` from flat ``(G, C * C)``."""
        return flat.view(-1, self.num_classes, self.num_classes).clamp_min(0)


@dataclass(frozen=True)
class LabelMoves:
    """Samples that receive one of several labels, in counts of all the labels."""

    columns: Tensor
    amounts: Tensor
    start: Tensor
    true: Tensor
    total: Tensor

    def tables(self, flat: Tensor) -> Tensor:
        """``(G, 4, L)`` from flat ``(G, 2 L)``."""
        tp, predicted = flat.chunk(2, dim=1)
        return count_tables(tp, predicted, self.true, self.total)


def class_moves(
    sample: Sample, rival: Tensor, label: int, *, matrix: bool
) -> CountMoves | MatrixMoves:
    """What changes when samples move from ``rival`` (their best other class) to ``label``."""
    return (_matrix_moves if matrix else _count_moves)(sample, rival, label)


def _count_moves(sample: Sample, rival: Tensor, label: int) -> CountMoves:
    size, weight, targets = sample.num_classes, sample.weight, sample.targets
    chosen = torch.full_like(rival, label)
    loses, gains = weight * (targets == rival), weight * (targets == chosen)
    columns = torch.stack([rival, chosen, size + rival, size + chosen], 1)
    amounts = torch.stack([-loses, gains, -weight, weight], 1)
    start = weight.new_zeros(2 * size).index_add(0, rival, loses)
    start = start.index_add(0, size + rival, weight)
    return CountMoves(columns, amounts, start, sample.class_mass())


def _matrix_moves(sample: Sample, rival: Tensor, label: int) -> MatrixMoves:
    size, weight = sample.num_classes, sample.weight
    row = sample.targets * size
    columns = torch.stack([row + rival, row + label], 1)
    start = weight.new_zeros(size * size).index_add(0, row + rival, weight)
    return MatrixMoves(columns, torch.stack([-weight, weight], 1), start, size)
