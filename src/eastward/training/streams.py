"""Tables larger than memory: Parquet row groups, shuffled through a bounded buffer, dealt out to processes.

The order of an epoch is fixed by one number: row groups in random order, cut into equally long stretches for the
processes; each stretch is read in blocks of a few row groups, and the rows of a block are shuffled. Where a batch lies
follows from counts alone, so that training goes on in the middle of an epoch after reading one block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.dataset
import pyarrow.parquet
import torch
from numpy.typing import NDArray
from torch import Tensor

from eastward import _checks

__all__ = ["Block", "ParquetTable", "RowGroup", "RowShares", "StreamBatches"]

CALLER = "EASTClassifier.fit"
BUFFER_ROWS = 262_144
# Knuth's and Steele's constants of the splitmix64 generator: neighbouring rows get unrelated numbers.
GOLDEN, FIRST, SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


@dataclass(frozen=True)
class RowGroup:
    """A stretch of a file that is read at once; ``first`` is the number of its first row in the table."""

    path: str
    index: int
    first: int
    rows: int


class ParquetTable:
    """Parquet files with the same columns as one table; nothing but their footers is read.

    Parameters
    ----------
    source : path or sequence of path
        A file, a folder of files (also nested), or several files.

    Examples
    --------
    >>> import pyarrow as pa, pyarrow.parquet, tempfile
    >>> path = Path(tempfile.mkdtemp()) / "table.parquet"
    >>> pa.parquet.write_table(pa.table({"a": range(10), "y": [0, 1] * 5}), path, row_group_size=4)
    >>> table = ParquetTable(path)
    >>> table.rows, [group.rows for group in table.groups]
    (10, [4, 4, 2])
    """

    def __init__(self, source: Any) -> None:
        self.paths = _files(source)
        self.schema: pa.Schema = pa.parquet.read_schema(self.paths[0])
        self.groups = list(self._row_groups())
        self.rows = sum(group.rows for group in self.groups)
        if not self.rows:
            _checks.fail(CALLER, "X", "a table with rows", f"{len(self.paths)} files without any")

    def _row_groups(self) -> Iterator[RowGroup]:
        first = 0
        for path in self.paths:
            footer = pa.parquet.read_metadata(path)
            missing = set(self.schema.names) - set(footer.schema.to_arrow_schema().names)
            if missing:
                got = f"{Path(path).name} without {sorted(missing)[:5]}"
                _checks.fail(CALLER, "X", "files with the same columns", got)
            for index in range(footer.num_row_groups):
                rows = footer.row_group(index).num_rows
                yield RowGroup(path, index, first, rows)
                first += rows

    @property
    def identity(self) -> str:
        """What tells this table from another one: names, sizes and row groups."""
        files = [(Path(path).name, Path(path).stat().st_size) for path in self.paths]
        return repr((files, [group.rows for group in self.groups]))

    def columns_without(self, names: Sequence[str]) -> list[str]:
        """All columns but these, which must be there."""
        for name in names:
            if name not in self.schema.names:
                near = _checks.near_misses(name, self.schema.names)
                advice = near or f"It has {', '.join(self.schema.names[:12])}."
                _checks.fail(CALLER, "y", "a column of the table", repr(name), advice)
        return [name for name in self.schema.names if name not in names]

    def read(self, group: RowGroup, columns: Sequence[str]) -> pa.Table:
        """Columns of one row group."""
        with pa.parquet.ParquetFile(group.path) as file:
            return file.read_row_group(group.index, columns=list(columns))

    def value_counts(self, column: str) -> dict[Any, int]:
        """How often each value occurs, by one pass over one column; None is a missing value."""
        counts: dict[Any, int] = {}
        for group in self.groups:
            values = self.read(group, [column]).column(0).combine_chunks()
            if pa.types.is_dictionary(values.type):
                values = values.dictionary_decode()
            for entry in pa.compute.value_counts(values).to_pylist():
                value = entry["values"]
                counts[value] = counts.get(value, 0) + entry["counts"]
        return counts


def _files(source: Any) -> list[str]:
    """Paths of the Parquet files that ``source`` names, sorted."""
    given = [source] if isinstance(source, str | Path) else list(source)
    paths: list[str] = []
    for entry in given:
        path = Path(entry)
        if not path.exists():
            expected = "a Parquet file or a folder of them"
            _checks.fail(CALLER, "X", expected, f"{path}, not there", error=FileNotFoundError)
        if path.is_dir():
            found = sorted(str(file) for file in path.rglob("*.parquet"))
            if not found:
                _checks.fail(CALLER, "X", "a folder with .parquet files", f"{path} without any")
            paths += found
        else:
            paths.append(str(path))
    try:
        pa.dataset.dataset(paths[0], format="parquet")
    except (pa.ArrowInvalid, OSError) as error:
        message = f"X of {CALLER} must be a Parquet file; got {Path(paths[0]).name} ({error})."
        raise ValueError(message) from error
    return paths


@dataclass(frozen=True)
class RowShares:
    """Which rows serve for what, decided by a number for each row that does not depend on how it is read.

    Attributes
    ----------
    seed : int
        Of the numbers.
    groups : frozenset of int
        Positions of the row groups that rows are held out from.
    test, held, sample : float
        Shares of those groups' rows: to judge by, to stop and decide by, and to fit preprocessing on. The rows of the
        sample are trained on, too.

    Examples
    --------
    >>> shares = RowShares(0, frozenset([0]), held=0.25)
    >>> int(shares.drawn(0, RowGroup("a", 0, 0, 1000), "held").sum())
    245
    """

    seed: int
    groups: frozenset[int]
    test: float = 0.0
    held: float = 0.0
    sample: float = 0.0

    def numbers(self, group: RowGroup) -> NDArray[np.float64]:
        """A number in [0, 1) for each row of the group."""
        with np.errstate(over="ignore"):
            state = np.arange(group.first, group.first + group.rows, dtype=np.uint64)
            state = (state + np.uint64(self.seed + 1)) * np.uint64(GOLDEN)
            state = (state ^ (state >> np.uint64(30))) * np.uint64(FIRST)
            state = (state ^ (state >> np.uint64(27))) * np.uint64(SECOND)
            state ^= state >> np.uint64(31)
        return (state >> np.uint64(11)).astype(np.float64) / 2**53

    def drawn(self, position: int, group: RowGroup, purpose: str) -> NDArray[np.bool_]:
        """Rows of the group at ``position`` for "test", "held", "sample", or "train" (all that are not held out)."""
        out = self.test + self.held
        if position not in self.groups:
            return np.full(group.rows, purpose == "train")
        bounds = {
            "test": (0.0, self.test),
            "held": (self.test, out),
            "sample": (out, out + self.sample),
            "train": (out, 1.0),
        }
        low, high = bounds[purpose]
        numbers = self.numbers(group)
        return (numbers >= low) & (numbers < high)


Block = list[tuple[int, int, int]]
"""Row groups that are read and shuffled together: position, and first and last training row of each."""


@dataclass
class StreamBatches:
    """Batches of a Parquet table, for a single member.

    Attributes
    ----------
    table : ParquetTable
        Where rows come from.
    shares : RowShares
        Which of them are not trained on.
    prepare : callable
        From an Arrow table to inputs ``(n, F)`` and class indices ``(n,)``.
    columns : sequence of str
        What ``prepare`` wants to see.
    batch_size : int
        Rows for one step, over all processes.
    buffer_rows : int
        Rows that are shuffled together, at least one row group.
    rank, world : int
        Which of how many processes this is.
    max_steps : int, optional
        Upper limit of steps in an epoch.
    """

    table: ParquetTable
    shares: RowShares
    prepare: Callable[[pa.Table], tuple[Tensor, Tensor]]
    columns: Sequence[str]
    batch_size: int = 1024
    buffer_rows: int = BUFFER_ROWS
    rank: int = 0
    world: int = 1
    max_steps: int | None = None
    # Rows are this process's own, and a checkpoint should not wait for the end of an epoch.
    dealt_out: bool = field(default=True, init=False)
    long_epochs: bool = field(default=True, init=False)

    @cached_property
    def train_rows(self) -> list[int]:
        """Rows of each row group that are trained on."""
        return [
            int(self.shares.drawn(position, group, "train").sum())
            for position, group in enumerate(self.table.groups)
        ]

    @property
    def steps(self) -> int:
        """Optimiser steps in an epoch, the same in every process."""
        steps = max(1, round(sum(self.train_rows) / self.batch_size))
        return steps if self.max_steps is None else min(steps, self.max_steps)

    def for_stage(self, stage: Any, processes: Any) -> StreamBatches:
        """The same rows, in the batches that a stage wants, for one process of several."""
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
        """Inputs, ``(1, B)`` targets and None of each batch, from batch ``start`` on."""
        seed = int(torch.randint(2**31 - 1, (1,), generator=generator))
        blocks = self._blocks(seed)
        rows = sum(stop - begin for block in blocks for _, begin, stop in block)
        every = max(1, round(sum(self.train_rows) / self.batch_size))
        bounds = [round(rows * step / every) for step in range(self.steps + 1)]
        parts = self._shuffled(blocks, seed, bounds[start])
        waiting_inputs, waiting_targets = next(parts, (torch.empty(0, 0), torch.empty(0)))
        for begin, stop in pairwise(bounds[start:]):
            while len(waiting_targets) < stop - begin:
                inputs, targets = next(parts)
                waiting_inputs = torch.cat([waiting_inputs, inputs])
                waiting_targets = torch.cat([waiting_targets, targets])
            size = stop - begin
            yield waiting_inputs[:size], waiting_targets[:size].unsqueeze(0), None
            waiting_inputs, waiting_targets = waiting_inputs[size:], waiting_targets[size:]

    def _blocks(self, seed: int) -> list[Block]:
        """The stretch of the epoch's row groups for this process, in pieces of about ``buffer_rows``."""
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
            if held >= self.buffer_rows:
                blocks.append([])
                held = 0
            blocks[-1].append((position, begin, stop))
            held += stop - begin
        return blocks

    def _shuffled(
        self, blocks: list[Block], seed: int, skipped: int
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """The rows of each block in random order, without the first ``skipped`` rows; the next block is read ahead."""
        wanted = []
        for number, block in enumerate(blocks):
            size = sum(stop - begin for _, begin, stop in block)
            if skipped < size:
                wanted.append((block, number, max(skipped, 0)))
            skipped -= size
        with ThreadPoolExecutor(1) as reader:
            ahead = [reader.submit(self._read, *entry, seed) for entry in wanted[:1]]
            for entry in [*wanted[1:], None]:
                if not ahead:
                    return
                part = ahead.pop().result()
                if entry is not None:
                    ahead.append(reader.submit(self._read, *entry, seed))
                yield part
                del part

    def _read(self, block: Block, number: int, skipped: int, seed: int) -> tuple[Tensor, Tensor]:
        """Read, prepare and shuffle one block."""
        parts = []
        for position, begin, stop in block:
            group = self.table.groups[position]
            mine = self.shares.drawn(position, group, "train")
            ranks = np.cumsum(mine)
            mine &= (ranks > begin) & (ranks <= stop)
            rows = self.table.read(group, self.columns)
            parts.append(self.prepare(rows if mine.all() else rows.filter(pa.array(mine))))
        inputs, targets = (torch.cat(list(pieces)) for pieces in zip(*parts, strict=True))
        order = np.random.default_rng((seed, number, self.rank)).permutation(len(targets))[skipped:]
        chosen = torch.from_numpy(order)
        return inputs[chosen], targets[chosen]
