r"""The exact search along one offset.

While the other offsets stay, sample n is decided for class c iff :math:`b_c` exceeds its *margin*
:math:`\max_{j \ne c}(s_{nj} + b_j) - s_{nc}`. So the table of decisions changes only at margins. Sorting them and
summing up the changes gives every table that any :math:`b_c` can produce, and the metric is evaluated at all of
them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from eastward.decisions._merit import CELLS_AT_ONCE, Merit

# An interval of equally good offsets may reach far out, where no sample was seen: go this far into it and no further.
FARTHEST_INTO_PLATEAU = 1.0

# Sums of weights round; values that differ by less are the same.
SAME_MERIT = 1e-12


class Moves(Protocol):
    """How the decisions for one class change a flat table."""

    @property
    def columns(self) -> Tensor:
        """``(N, M)``: entries of the flat table that sample n changes when it moves to the class."""

    @property
    def amounts(self) -> Tensor:
        """``(N, M)``: by how much."""

    @property
    def start(self) -> Tensor:
        """``(W,)``: the flat table when no sample is decided for the class."""

    def tables(self, flat: Tensor) -> Tensor:
        """The stack of tables that the merit takes, from flat ones ``(G, W)``."""


@dataclass(frozen=True)
class _Candidates:
    """Gaps between margins, each standing for all offsets inside it."""

    low: Tensor
    high: Tensor
    count: Tensor
    """How many of the sorted samples are below the gap."""


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
    """The offset in ``[-reach, reach]`` whose decisions have the greatest merit; ``current`` if it is one.

    Of several best intervals the one nearest to zero is taken, and its middle: offsets generalise better from
    there than from its ends. ``max_candidates`` evenly ranked intervals stand for more, if it is given.
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
    # Margins closer than the resolution are one break point: no offset between them is safe from rounding.
    ends = torch.nonzero(ordered.diff() > resolution).flatten()
    far = ordered.new_full((1,), torch.inf)
    low = torch.cat([-far, ordered[ends], ordered[-1:]]).clamp_min(-reach)
    high = torch.cat([ordered[:1], ordered[ends + 1], far]).clamp_max(reach)
    last = torch.tensor([len(ordered)], device=ordered.device)
    count = torch.cat([torch.zeros_like(last), ends + 1, last])
    usable = high - low > resolution
    return _Candidates(low[usable], high[usable], count[usable])


def _thinned(candidates: _Candidates, limit: int | None, current: float) -> _Candidates:
    """At most ``limit`` candidates at even ranks, the one that holds ``current`` among them."""
    size = len(candidates.low)
    if limit is None or size <= limit:
        return candidates
    even = torch.linspace(0, size - 1, limit - 1, device=candidates.low.device).long()
    holder = torch.nonzero((candidates.low < current) & (current < candidates.high)).flatten()
    kept = torch.cat([even, holder]).unique()
    return _Candidates(candidates.low[kept], candidates.high[kept], candidates.count[kept])


def _merits(candidates: _Candidates, order: Tensor, moves: Moves, merit: Merit) -> Tensor:
    """Merit of each candidate, a bounded number of tables at a time."""
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
    """Flat tables after the first ``counts[g]`` of the given changes, for each g."""
    width = flat.numel()
    position = torch.arange(len(columns), device=flat.device)
    # The sample at a position is part of every table whose count exceeds it; the cumulative sum does the rest.
    first = torch.searchsorted(counts, position, right=True)
    steps = flat.new_zeros(len(counts) * width)
    steps.index_add_(0, (first.unsqueeze(1) * width + columns).flatten(), amounts.flatten())
    return flat + steps.view(-1, width).cumsum(0)


def _middle_of_nearest(candidates: _Candidates, best: Tensor) -> float:
    """The middle of the run of best candidates nearest to zero, kept away from break points."""
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
    """Stretches of consecutive numbers in the sorted ``chosen``: positions of their first and last."""
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
