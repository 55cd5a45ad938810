r"""An exact search along one offset, for any metric.

While the other offsets are fixed, sample n is decided for class c if and only if :math:`b_c` exceeds its *margin*
:math:`\max_{j \ne c}(s_{nj} + b_j) - s_{nc}`. So the table of decisions changes only at margins. Sorting the
margins and adding up the changes gives every table that any :math:`b_c` can produce, and the metric is evaluated at
all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from eastward.confusion import Counts
from eastward.decisions._inputs import Sample
from eastward.metrics import Metric, as_metric
from eastward.metrics.closed_forms import closed_form_of

# Entries of a stack of tables in memory at one time (32 MB in float64).
CELLS_AT_ONCE = 4_000_000

# A metric that cannot be vectorised (Python branches, NumPy, .item()) is called once per candidate. This many
# calls per scan take a fraction of a second.
MAX_LOOPED_CANDIDATES = 200

# For so few tables, a closed form in NumPy needs far fewer calls than the metric itself.
FEW_TABLES = 128


class Merit:
    """A metric evaluated at a stack of tables, with the sign such that higher is better.

    Tables are ``(G, C, C)`` confusion matrices, or ``(G, 4, C)`` stacked counts if the metric needs no more. Labels
    that do not exclude each other always have counts. NaN counts as the worst value.
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
        self.form = closed_form_of(self.metric, num_classes, exclusive=exclusive)
        self.vectorised = self.form is not None or self._can_be_vectorised()

    @property
    def max_candidates(self) -> int | None:
        """Largest number of candidates of a scan, or None for all."""
        return None if self.vectorised else MAX_LOOPED_CANDIDATES

    def __call__(self, tables: Tensor) -> Tensor:
        """Compute the merit of each table, ``(G,)``."""
        values = self._values(tables, vectorised=self.vectorised)
        merits = values if self.metric.higher_is_better else -values
        return torch.nan_to_num(merits, nan=-torch.inf, posinf=torch.inf, neginf=-torch.inf)

    def tables(self, targets: Tensor, decisions: Tensor, weights: Tensor) -> Tensor:
        """Count decisions under several weightings ``(N, G)`` into tables ``(G, C, C)`` or ``(G, 4, C)``."""
        size = self.num_classes
        if self.needs_matrix:
            flat = weights.new_zeros(size * size, weights.shape[1])
            return flat.index_add(0, targets * size + decisions, weights).T.reshape(-1, size, size)
        blank = weights.new_zeros(size, weights.shape[1])
        hits = weights * (targets == decisions).unsqueeze(1)
        rows = ((targets, hits), (decisions, weights), (targets, weights))
        tp, predicted, true = (blank.index_add(0, labels, mass).T for labels, mass in rows)
        return count_tables(tp, predicted, true, weights.sum(0).unsqueeze(1))

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
        """Whether ``vmap`` can run the metric and agrees with single calls."""
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
    """Compute the merit of the decisions ``argmax(scores + offsets)``."""
    decisions = (sample.scores + offsets).argmax(1)
    return float(merit(merit.tables(sample.targets, decisions, sample.weight.unsqueeze(1))))


def _probe_tables(num_classes: int, *, matrix: bool) -> Tensor:
    """Return three generic tables: every class present, nothing perfect."""
    generator = torch.Generator().manual_seed(0)
    shape = (3, num_classes, num_classes) if matrix else (3, 4, num_classes)
    return 1 + 9 * torch.rand(shape, generator=generator, dtype=torch.float64)


def count_tables(tp: Tensor, predicted: Tensor, true: Tensor, total: Tensor) -> Tensor:
    """Stack counts ``(..., 4, C)`` from true positives, predicted and true mass ``(..., C)``."""
    # Differences of equal sums can round to about -1e-16, but a count is never negative.
    fp, fn = (predicted - tp).clamp_min(0), (true - tp).clamp_min(0)
    return torch.stack([tp.clamp_min(0), fp, fn, (total - true - fp).clamp_min(0)], dim=-2)


@dataclass(frozen=True)
class CountMoves:
    """Moves of samples from their rival class to one class, as changes of counts."""

    columns: Tensor
    amounts: Tensor
    start: Tensor
    true: Tensor

    def tables(self, flat: Tensor) -> Tensor:
        """Turn flat ``(G, 2 C)`` (true positives, then predicted mass) into counts ``(G, 4, C)``."""
        tp, predicted = flat.chunk(2, dim=1)
        return count_tables(tp, predicted, self.true, self.true.sum())


@dataclass(frozen=True)
class MatrixMoves:
    """Moves of samples from their rival class to one class, as changes of the matrix."""

    columns: Tensor
    amounts: Tensor
    start: Tensor
    num_classes: int

    def tables(self, flat: Tensor) -> Tensor:
        """Turn flat ``(G, C * C)`` into matrices ``(G, C, C)``."""
        return flat.view(-1, self.num_classes, self.num_classes).clamp_min(0)


@dataclass(frozen=True)
class LabelMoves:
    """Samples that receive one of several labels, as changes of the counts of all labels."""

    columns: Tensor
    amounts: Tensor
    start: Tensor
    true: Tensor
    total: Tensor

    def tables(self, flat: Tensor) -> Tensor:
        """Turn flat ``(G, 2 L)`` into counts ``(G, 4, L)``."""
        tp, predicted = flat.chunk(2, dim=1)
        return count_tables(tp, predicted, self.true, self.total)


def class_moves(
    sample: Sample, rival: Tensor, label: int, *, matrix: bool
) -> CountMoves | MatrixMoves:
    """Describe how tables change when samples move from ``rival`` (their best other class) to ``label``."""
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


# An interval of equally good offsets may reach far beyond all samples, so go only this far into it.
FARTHEST_INTO_PLATEAU = 1.0

# Sums of weights are rounded, so values that differ by less count as equal.
SAME_MERIT = 1e-12


class Moves(Protocol):
    """How the decisions for one class change a flat table."""

    @property
    def columns(self) -> Tensor:
        """Entries ``(N, M)`` of the flat table that sample n changes when it moves to the class."""

    @property
    def amounts(self) -> Tensor:
        """By how much ``(N, M)`` those entries change."""

    @property
    def start(self) -> Tensor:
        """The flat table ``(W,)`` when no sample is decided for the class."""

    def tables(self, flat: Tensor) -> Tensor:
        """Turn flat tables ``(G, W)`` into those that the merit takes."""


@dataclass(frozen=True)
class _Candidates:
    """Gaps between margins; each stands for all offsets inside it."""

    low: Tensor
    high: Tensor
    count: Tensor
    """Number of sorted samples below the gap."""


def best_offset(
    margins: Tensor,
    moves: Moves,
    merit: Merit,
    *,
    current: float,
    reach: float,
    resolution: float,
    max_candidates: int | None = None,
) -> float:
    """Find the offset in ``[-reach, reach]`` whose decisions have the greatest merit; ``current`` wins ties.

    Of several best intervals the one nearest to zero is taken, at its middle, because offsets from there generalise
    better than those from its ends. With ``max_candidates``, that many intervals at even ranks stand for all.
    """
    ordered, order = margins.sort(stable=True)
    candidates = _gaps(ordered, reach, resolution)
    for limit in (max_candidates, merit.max_candidates):
        candidates = _thinned(candidates, limit, current)
    merits = _merits(candidates, order, moves, merit)
    best = merits >= merits.max() - SAME_MERIT * max(1.0, abs(float(merits.max())))
    inside = (candidates.low < current) & (current < candidates.high)
    if bool((inside & best).any()):
        return current
    return _middle_of_nearest(candidates, best)


def _gaps(ordered: Tensor, reach: float, resolution: float) -> _Candidates:
    # Margins closer than the resolution form one break point: no offset between them is safe from rounding.
    ends = torch.nonzero(ordered.diff() > resolution).flatten()
    far = ordered.new_full((1,), torch.inf)
    low = torch.cat([-far, ordered[ends], ordered[-1:]]).clamp_min(-reach)
    high = torch.cat([ordered[:1], ordered[ends + 1], far]).clamp_max(reach)
    last = torch.tensor([len(ordered)], device=ordered.device)
    count = torch.cat([torch.zeros_like(last), ends + 1, last])
    usable = high - low > resolution
    return _Candidates(low[usable], high[usable], count[usable])


def _thinned(candidates: _Candidates, limit: int | None, current: float) -> _Candidates:
    """Keep at most ``limit`` candidates at even ranks, including the one that holds ``current``."""
    size = len(candidates.low)
    if limit is None or size <= limit:
        return candidates
    even = torch.linspace(0, size - 1, limit - 1, device=candidates.low.device).long()
    holder = torch.nonzero((candidates.low < current) & (current < candidates.high)).flatten()
    kept = torch.cat([even, holder]).unique()
    return _Candidates(candidates.low[kept], candidates.high[kept], candidates.count[kept])


def _merits(candidates: _Candidates, order: Tensor, moves: Moves, merit: Merit) -> Tensor:
    """Compute the merit of each candidate, with a bounded number of tables at a time."""
    columns, amounts = moves.columns[order], moves.amounts[order]
    chunk = max(1, CELLS_AT_ONCE // moves.start.numel())
    flat, done, merits = moves.start, 0, []
    for counts in candidates.count.split(chunk):
        stop = int(counts[-1])
        tables = _running_tables(flat, columns[done:stop], amounts[done:stop], counts - done)
        merits.append(merit(moves.tables(tables)))
        flat, done = tables[-1], stop
    return torch.cat(merits)


def _running_tables(flat: Tensor, columns: Tensor, amounts: Tensor, counts: Tensor) -> Tensor:
    """Compute flat tables after the first ``counts[g]`` of the given changes, for each g."""
    width = flat.numel()
    position = torch.arange(len(columns), device=flat.device)
    # A sample belongs to every table whose count exceeds its position; the cumulative sum does the rest.
    first = torch.searchsorted(counts, position, right=True)
    steps = flat.new_zeros(len(counts) * width)
    steps.index_add_(0, (first.unsqueeze(1) * width + columns).flatten(), amounts.flatten())
    return flat + steps.view(-1, width).cumsum(0)


def _middle_of_nearest(candidates: _Candidates, best: Tensor) -> float:
    """Return the middle of the run of best candidates nearest to zero, away from break points."""
    chosen = torch.nonzero(best).flatten()
    low: list[float] = candidates.low[chosen].tolist()
    high: list[float] = candidates.high[chosen].tolist()
    runs = _runs(chosen.tolist())
    first, last = min(runs, key=lambda run: _distance_to_zero(low[run[0]], high[run[1]]))
    target = _capped_middle(low[first], high[last])
    nearest = min(range(first, last + 1), key=lambda k: max(low[k] - target, target - high[k], 0.0))
    inset = (high[nearest] - low[nearest]) / 4
    return min(max(target, low[nearest] + inset), high[nearest] - inset)


def _runs(chosen: list[int]) -> list[tuple[int, int]]:
    """Find runs of consecutive numbers in the sorted ``chosen``: positions of first and last."""
    cuts = [k for k in range(1, len(chosen)) if chosen[k] != chosen[k - 1] + 1]
    return list(zip([0, *cuts], [*(k - 1 for k in cuts), len(chosen) - 1], strict=True))


def _distance_to_zero(low: float, high: float) -> float:
    return max(low, -high, 0.0)


def _capped_middle(low: float, high: float) -> float:
    middle = (low + high) / 2
    if low <= 0 <= high:
        return min(max(middle, -FARTHEST_INTO_PLATEAU), FARTHEST_INTO_PLATEAU)
    return (
        min(middle, low + FARTHEST_INTO_PLATEAU)
        if low > 0
        else max(middle, high - FARTHEST_INTO_PLATEAU)
    )
