"""Parquet files as one table, and the purpose of each row: training, validation or testing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.dataset
import pyarrow.parquet
from numpy.typing import NDArray

from eastward import _checks

__all__ = ["ParquetTable", "RowGroup", "RowShares"]

CALLER = "EASTClassifier.fit"
# Constants of the splitmix64 generator, which gives neighbouring rows unrelated numbers.
GOLDEN, FIRST, SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


@dataclass(frozen=True)
class RowGroup:
    """A part of a file that is read as a whole; ``first`` is the number of its first row in the table."""

    path: str
    index: int
    first: int
    rows: int


class ParquetTable:
    """Parquet files with the same columns as one table; the constructor reads only their footers.

    Parameters
    ----------
    source : path or sequence of path
        A file, several files, or a folder of files, with or without subfolders.

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
            _checks.fail(CALLER, "X", "a table with rows", f"{len(self.paths)} files without rows")

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
        """Description that identifies the table: names and sizes of the files, and their row groups."""
        files = [(Path(path).name, Path(path).stat().st_size) for path in self.paths]
        return repr((files, [group.rows for group in self.groups]))

    def check_column(self, name: str, *, argument: str) -> None:
        """Raise an error if the table does not have the column."""
        if name not in self.schema.names:
            near = _checks.near_misses(name, self.schema.names)
            advice = near or f"It has {', '.join(self.schema.names[:12])}."
            _checks.fail(CALLER, argument, "a column of the table", repr(name), advice)

    def columns_without(self, names: Sequence[str]) -> list[str]:
        """Return the names of all columns except ``names``."""
        return [name for name in self.schema.names if name not in names]

    def read(self, group: RowGroup, columns: Sequence[str]) -> pa.Table:
        """Read some columns of one row group."""
        with pa.parquet.ParquetFile(group.path) as file:
            return file.read_row_group(group.index, columns=list(columns))

    def value_counts(self, column: str) -> dict[Any, int]:
        """Count the values of a column in one pass; the key None counts missing values."""
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
    """Return the sorted paths of the Parquet files that ``source`` names."""
    given = [source] if isinstance(source, str | Path) else list(source)
    paths: list[str] = []
    for entry in given:
        path = Path(entry)
        if not path.exists():
            expected, got = "a Parquet file or a folder of them", f"{path}, which does not exist"
            _checks.fail(CALLER, "X", expected, got, error=FileNotFoundError)
        if path.is_dir():
            found = sorted(str(file) for file in path.rglob("*.parquet"))
            if not found:
                _checks.fail(CALLER, "X", "a folder with .parquet files", f"{path}, which has none")
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
    """The purpose of each row, decided by a random number that depends only on its position in the table.

    Attributes
    ----------
    seed : int
        Seed of the random numbers.
    groups : frozenset of int
        Positions of the row groups with held-out rows.
    test, held, sample : float
        Shares of the rows in these groups: for testing, for stopping and deciding, and for fitting the preprocessing.
        Rows of the sample are also used for training.

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
        """Compute a random number in [0, 1) for each row of the group."""
        with np.errstate(over="ignore"):
            state = np.arange(group.first, group.first + group.rows, dtype=np.uint64)
            state = (state + np.uint64(self.seed + 1)) * np.uint64(GOLDEN)
            state = (state ^ (state >> np.uint64(30))) * np.uint64(FIRST)
            state = (state ^ (state >> np.uint64(27))) * np.uint64(SECOND)
            state ^= state >> np.uint64(31)
        return (state >> np.uint64(11)).astype(np.float64) / 2**53

    def drawn(self, position: int, group: RowGroup, purpose: str) -> NDArray[np.bool_]:
        """Mark the rows of a group for "test", "held", "sample", or "train" (all that are not held out)."""
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
