"""A metric as something to maximise, evaluated at many tables at once, and how decisions change tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from eastward.confusion import Counts
from eastward.decisions._inputs import Sample
from eastward.metrics import Metric, as_metric
from eastward.metrics.closed_forms import closed_form_of
from eastward.metrics.quotients import ClosedForm

# Entries of a stack of tables that are held at one time (32 MB in float64).
CELLS_AT_ONCE = 4_000_000

# A metric that cannot be vectorised (Python branches, NumPy, .item()) is called once per candidate; so many
# calls per scan are a fraction of a second.
MAX_LOOPED_CANDIDATES = 200

# For so few tables a closed form in NumPy takes a fraction of the calls that the metric itself takes.
FEW_TABLES = 128


class Merit:
    """Values of a metric at a stack of tables; higher is always better here.

    Tables are ``(G, C, C)`` confusion matrices, or ``(G, 4, C)`` stacked counts when the metric needs no more (and
    always for labels that do not exclude each other). NaN counts as the worst value.
    """

    def __init__(
        self,
        metric: str | Metric | Callable[[Any], Tensor],
        num_classes: int,
        *,
        exclusive: bool = True,
    ) -> None:
        self.metric = as_metric(metric)
        self.num_classes = num_classes
        self.exclusive = exclusive
        self.needs_matrix = self.metric.needs_matrix and exclusive
        self.form = self._closed_form()
        self.vectorised = self.form is not None or self._can_be_vectorised()

    @property
    def max_candidates(self) -> int | None:
        """How many candidates a scan may look at, or None for all of them."""
        return None if self.vectorised else MAX_LOOPED_CANDIDATES

    def __call__(self, tables: Tensor) -> Tensor:
        """Merit of each table, ``(G,)``."""
        values = self._values(tables, vectorised=self.vectorised)
        merits = values if self.metric.higher_is_better else -values
        return torch.nan_to_num(merits, nan=-torch.inf, posinf=torch.inf, neginf=-torch.inf)

    def tables(self, targets: Tensor, decisions: Tensor, weights: Tensor) -> Tensor:
        """Hard tables of decisions under several weightings ``(N, G)``: ``(G, C, C)`` or ``(G, 4, C)``."""
        size = self.num_classes
        if self.needs_matrix:
            flat = weights.new_zeros(size * size, weights.shape[1])
            return flat.index_add(0, targets * size + decisions, weights).T.reshape(-1, size, size)
        blank = weights.new_zeros(size, weights.shape[1])
        hits = weights * (targets == decisions).unsqueeze(1)
        rows = ((targets, hits), (decisions, weights), (targets, weights))
        tp, predicted, true = (blank.index_add(0, labels, mass).T for labels, mass in rows)
        return count_tables(tp, predicted, true, weights.sum(0).unsqueeze(1))

    def _closed_form(self) -> ClosedForm | None:
        if self.needs_matrix:
            return None
        return closed_form_of(self.metric, self.num_classes, exclusive=self.exclusive)

    def _values(self, tables: Tensor, *, vectorised: bool) -> Tensor:
        if self.form is not None and len(tables) <= FEW_TABLES and tables.device.type == "cpu":
            return torch.from_numpy(self.form(tables.double().numpy())[0])
        if vectorised:
            return torch.func.vmap(self._value)(tables)
        values = [torch.as_tensor(self._value(table)).double() for table in tables.unbind(0)]
        return torch.stack(values).to(tables.device)

    def _value(self, table: Tensor) -> Tensor:
        if self.needs_matrix:
            return self.metric(table)
        return self.metric(Counts.unstack(table, exclusive=self.exclusive))

    def _can_be_vectorised(self) -> bool:
        """Whether ``vmap`` runs the metric and gives what single calls give."""
        probe = _probe_tables(self.num_classes, matrix=self.needs_matrix)
        single = self._values(probe, vectorised=False)
        try:
            together = self._values(probe, vectorised=True)
        except (RuntimeError, TypeError, ValueError):
            return False
        return together.shape == single.shape and bool(
            torch.isclose(together.double(), single, equal_nan=True).all()
        )


def merit_of_offsets(sample: Sample, merit: Merit, offsets: Tensor) -> float:
    """Merit of the decisions ``argmax(scores + offsets)``."""
    decisions = (sample.scores + offsets).argmax(1)
    return float(merit(merit.tables(sample.targets, decisions, sample.weight.unsqueeze(1))))


def _probe_tables(num_classes: int, *, matrix: bool) -> Tensor:
    """Three tables with no special values: everything present, nothing perfect."""
    generator = torch.Generator().manual_seed(0)
    shape = (3, num_classes, num_classes) if matrix else (3, 4, num_classes)
    return 1 + 9 * torch.rand(shape, generator=generator, dtype=torch.float64)


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
