"""Stream tables that are larger than memory from Parquet files, shuffled in a bounded buffer.

One number determines the order of an epoch. Row groups come in random order, and each process gets an equally long part
of them. It reads its part in blocks of a few row groups, and shuffles the rows of a block. The position of a batch
follows from counts alone. So training can resume in the middle of an epoch after reading one block.

Threads read while the network trains. They decode, transpose, scale and shuffle rows in slices that fit into the
processor's cache, mostly without holding Python's lock.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from torch import Tensor

from eastward.training.parquet import ParquetTable, RowGroup, RowShares

__all__ = ["Block", "ParquetTable", "PreparedRows", "RowGroup", "RowShares", "StreamBatches"]

BUFFER_ROWS = 262_144
# The first block of an epoch is small, because training waits for it.
FIRST_ROWS = BUFFER_ROWS // 8
SLICE_ROWS = 16_384
MOST_READERS = 4


class PreparedRows(NamedTuple):
    """Rows for a network: inputs ``(n, F)``, class indices ``(n,)``, and weights ``(n,)`` or None."""

    inputs: Tensor
    targets: Tensor
    weights: Tensor | None = None

    def part(self, rows: slice) -> PreparedRows:
        """Return some of the rows, without a copy."""
        weights = None if self.weights is None else self.weights[rows]
        return PreparedRows(self.inputs[rows], self.targets[rows], weights)

    def followed_by(self, other: PreparedRows) -> PreparedRows:
        """Append other rows to these."""
        weights = None
        if self.weights is not None and other.weights is not None:
            weights = torch.cat([self.weights, other.weights])
        return PreparedRows(
            torch.cat([self.inputs, other.inputs]),
            torch.cat([self.targets, other.targets]),
            weights,
        )

    def blank(self, rows: int) -> PreparedRows:
        """Allocate memory for this many rows of the same kind."""
        weights = None if self.weights is None else self.weights.new_empty(rows)
        return PreparedRows(
            self.inputs.new_empty(rows, *self.inputs.shape[1:]),
            self.targets.new_empty(rows),
            weights,
        )

    def put(self, rows: PreparedRows, places: NDArray[np.int64]) -> None:
        """Write ``rows`` to these positions."""
        for mine, given in zip(self, rows, strict=True):
            if mine is not None and given is not None:
                _as_items(mine)[places] = _as_items(given.contiguous())


def _as_items(tensor: Tensor) -> NDArray[Any]:
    """View each row as one opaque item, because NumPy then moves rows three times as fast."""
    array = tensor.numpy()
    width = array[:1].nbytes if len(array) else array.itemsize
    return array.reshape(len(array), -1).view(f"V{width}").reshape(-1)


Block = list[tuple[int, int, int]]
"""Row groups that are read and shuffled together, each with its position and its first and last training row."""


@dataclass
class StreamBatches:
    """Batches of a Parquet table, for a single member.

    Attributes
    ----------
    table : ParquetTable
        The table to read.
    shares : RowShares
        Decides which rows are used for training.
    prepare : callable
        Turns an Arrow table into :class:`PreparedRows`.
    columns : sequence of str
        The columns that ``prepare`` needs.
    batch_size : int
        Number of rows in a step, over all processes.
    buffer_rows : int
        Number of rows to shuffle together, at least those of one row group.
    rank, world : int
        Rank of this process, and number of processes.
    max_steps : int, optional
        Largest number of steps in an epoch.
    slice_rows : int
        Number of rows to prepare at once.
    readers : int, optional
        Number of threads that prepare the row groups of a block. The default leaves each process one core for training.
    """

    table: ParquetTable
    shares: RowShares
    prepare: Callable[[pa.Table], PreparedRows]
    columns: Sequence[str]
    batch_size: int = 1024
    buffer_rows: int = BUFFER_ROWS
    rank: int = 0
    world: int = 1
    max_steps: int | None = None
    slice_rows: int = SLICE_ROWS
    readers: int | None = None
    # Each process has its own rows, and epochs are long enough to need checkpoints in between.
    dealt_out: bool = field(default=True, init=False)
    long_epochs: bool = field(default=True, init=False)

    @cached_property
    def train_rows(self) -> list[int]:
        """Number of training rows in each row group of the table."""
        return [
            int(self.shares.drawn(position, group, "train").sum())
            for position, group in enumerate(self.table.groups)
        ]

    @property
    def steps(self) -> int:
        """Number of optimiser steps in an epoch, the same in every process."""
        steps = max(1, round(sum(self.train_rows) / self.batch_size))
        return steps if self.max_steps is None else min(steps, self.max_steps)

    def for_stage(self, stage: Any, processes: Any) -> StreamBatches:
        """Return a copy with the batch size of a stage, for one of several processes."""
        return replace(
            self,
            batch_size=stage.rows_per_step,
            max_steps=stage.max_steps,
            rank=processes.rank,
            world=processes.world,
        )

    def epoch(
        self, generator: torch.Generator, start: int = 0
    ) -> Iterator[tuple[Tensor, Tensor, Tensor | None]]:
        """Yield inputs, ``(1, B)`` targets and weights (or None) of each batch, starting with batch ``start``."""
        seed = int(torch.randint(2**31 - 1, (1,), generator=generator))
        blocks = self._blocks(seed)
        rows = sum(_rows_in(block) for block in blocks)
        every = max(1, round(sum(self.train_rows) / self.batch_size))
        bounds = [round(rows * step / every) for step in range(self.steps + 1)]
        parts = self._shuffled(blocks, seed, bounds[start])
        block, used = next(parts, _nothing()), 0
        for begin, stop in pairwise(bounds[start:]):
            size = stop - begin
            while len(block.targets) - used < size:
                # A batch can span two blocks: the rest of one, and the next.
                block, used = block.part(slice(used, None)).followed_by(next(parts)), 0
            batch, used = block.part(slice(used, used + size)), used + size
            weights = None if batch.weights is None else batch.weights.unsqueeze(0)
            yield batch.inputs, batch.targets.unsqueeze(0), weights

    def _blocks(self, seed: int) -> list[Block]:
        """Return this process's row groups of an epoch, in blocks of about ``buffer_rows`` rows."""
        order = np.random.default_rng(seed).permutation(len(self.table.groups)).tolist()
        total = sum(self.train_rows)
        low, high = (round(total * part / self.world) for part in (self.rank, self.rank + 1))
        blocks: list[Block] = [[]]
        seen = held = 0
        for position in order:
            count = self.train_rows[position]
            begin, stop = max(low - seen, 0), min(high - seen, count)
            seen += count
            if begin >= stop:
                continue
            if held >= (self.buffer_rows if len(blocks) > 1 else min(self.buffer_rows, FIRST_ROWS)):
                blocks.append([])
                held = 0
            blocks[-1].append((position, begin, stop))
            held += stop - begin
        return blocks

    def _shuffled(self, blocks: list[Block], seed: int, skipped: int) -> Iterator[PreparedRows]:
        """Yield the shuffled rows of each block, without the first ``skipped`` rows, and read the next block ahead."""
        wanted = []
        for number, block in enumerate(blocks):
            size = _rows_in(block)
            if skipped < size:
                wanted.append((block, number, max(skipped, 0)))
            skipped -= size
        with ThreadPoolExecutor(1) as ahead, ThreadPoolExecutor(self._readers) as readers:
            coming = [ahead.submit(self._read, *entry, seed, readers) for entry in wanted[:1]]
            for entry in [*wanted[1:], None]:
                if not coming:
                    return
                block_rows = coming.pop().result()
                if entry is not None:
                    coming.append(ahead.submit(self._read, *entry, seed, readers))
                yield block_rows
                del block_rows

    @property
    def _readers(self) -> int:
        if self.readers is not None:
            return self.readers
        free = (os.cpu_count() or 1) // self.world - 1
        return min(MOST_READERS, max(1, free))

    def _read(
        self, block: Block, number: int, skipped: int, seed: int, readers: ThreadPoolExecutor
    ) -> PreparedRows:
        """Read, prepare and shuffle one block; the position of a row does not depend on the threads."""
        places = np.random.default_rng((seed, number, self.rank)).permutation(_rows_in(block))
        bounds = np.cumsum([0] + [stop - begin for _, begin, stop in block])
        shuffled: list[PreparedRows] = []
        # The first row group shows the shape of rows, so memory can be allocated before the others arrive.
        self._place(block[0], places[: bounds[1]], len(places), shuffled)
        tasks = [
            readers.submit(self._place, entry, places[low:high], len(places), shuffled)
            for entry, (low, high) in zip(block[1:], pairwise(bounds[1:]), strict=True)
        ]
        for task in tasks:
            task.result()
        return shuffled[0].part(slice(skipped, None))

    def _place(
        self,
        entry: tuple[int, int, int],
        places: NDArray[np.int64],
        total: int,
        shuffled: list[PreparedRows],
    ) -> None:
        """Prepare one row group, slice by slice, and write its rows to their positions."""
        position, begin, stop = entry
        group = self.table.groups[position]
        mine = self.shares.drawn(position, group, "train")
        ranks = np.cumsum(mine)
        mine &= (ranks > begin) & (ranks <= stop)
        rows = self.table.read(group, self.columns)
        done = 0
        for start in range(0, group.rows, self.slice_rows):
            chosen = mine[start : start + self.slice_rows]
            count = int(chosen.sum())
            if not count:
                continue
            piece = rows.slice(start, self.slice_rows)
            prepared = self.prepare(
                piece if count == len(chosen) else piece.filter(pa.array(chosen))
            )
            if not shuffled:
                shuffled.append(prepared.blank(total))
            shuffled[0].put(prepared, places[done : done + count])
            done += count


def _rows_in(block: Block) -> int:
    return sum(stop - begin for _, begin, stop in block)


def _nothing() -> PreparedRows:
    return PreparedRows(torch.empty(0, 0), torch.empty(0))
