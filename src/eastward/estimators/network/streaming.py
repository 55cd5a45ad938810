"""Fit on Parquet files: labels from one column, preprocessing from a sample, rows as a stream."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray

from eastward import _checks
from eastward.estimators.frames import refuse_infinity
from eastward.estimators.network.preparation import (
    CALLER,
    Labels,
    encode_labels,
)
from eastward.estimators.network.scaling import Scaler
from eastward.estimators.network.stream_weights import Weighting, class_codes, weighting_of
from eastward.training import Rows
from eastward.training.streams import (
    SLICE_ROWS,
    ParquetTable,
    PreparedRows,
    RowShares,
    StreamBatches,
)

if TYPE_CHECKING:
    from eastward.estimators.network.classifier import EASTClassifier

__all__ = ["TableStream", "draw_shares", "is_stream", "prepared_stream", "rows_for"]

# Rows in memory for stopping and deciding, rows for preprocessing, and the row groups that they come from.
HELD_ROWS, SAMPLE_ROWS, SAMPLED_GROUPS = 100_000, 100_000, 64
# Data frames cost time for each column of each slice, so they get larger slices.
VECTORIZED_ROWS = 131_072

Vectorize = Callable[[pa.Table], NDArray[np.float32]]


@dataclass(frozen=True)
class TableStream:
    """A Parquet table that is too large for memory, and how its rows become numbers.

    Attributes
    ----------
    table : ParquetTable
        The files.
    target : str
        The column to predict.
    columns : sequence of str
        The features.
    shares : RowShares
        Rows for each purpose.
    vectorize : callable, optional
        Converts an Arrow table of ``columns`` to a float32 array; by default the columns are numbers.
    weight : str, optional
        The column of weights.
    """

    table: ParquetTable
    target: str
    columns: Sequence[str]
    shares: RowShares
    vectorize: Vectorize | None = None
    weight: str | None = None

    @property
    def names(self) -> list[str]:
        """All columns that are read."""
        return [*self.columns, self.target, *([] if self.weight is None else [self.weight])]


@dataclass(frozen=True)
class Prepare:
    """Converts an Arrow table to scaled inputs, class indices and weights; can be sent to other processes."""

    target: str
    columns: Sequence[str]
    classes: NDArray[Any]
    scaler: Scaler | None
    vectorize: Vectorize | None
    weighting: Weighting | None = None

    def __call__(self, rows: pa.Table) -> PreparedRows:
        """Return inputs ``(n, F)``, targets ``(n,)`` and weights."""
        inputs = torch.from_numpy(self.features(rows))
        if self.scaler is not None:
            inputs = self.scaler.in_place(inputs)
        codes = class_codes(rows.column(self.target), self.classes)
        weights = None if self.weighting is None else self.weighting(rows, codes)
        return PreparedRows(inputs, codes, weights)

    def features(self, rows: pa.Table) -> NDArray[np.float32]:
        """Return the features as finite numbers."""
        chosen = rows.select(list(self.columns))
        if self.vectorize is not None:
            return self.vectorize(chosen)
        table = numbers(chosen)
        # One pass in memory order; only if something is wrong are columns checked one by one.
        if not np.isfinite(table.sum()):
            refuse_infinity(table, list(self.columns), "EASTClassifier", gaps=False)
        return table


def plain_values(column: pa.ChunkedArray) -> NDArray[Any]:
    """Convert a column to NumPy; strings become objects."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    values: NDArray[Any] = column.to_numpy()
    return values


def numbers(rows: pa.Table) -> NDArray[np.float32]:
    """Convert numeric columns to one float32 array; missing values are NaN."""
    for name, kind in zip(rows.schema.names, rows.schema.types, strict=True):
        if not (
            pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
        ):
            advice = "Use `eastward train`, which takes strings and dates, or leave it out."
            _checks.fail(CALLER, f"column {name!r} of X", "numbers", f"{kind}", advice)
    single = pa.schema([(name, pa.float32()) for name in rows.schema.names])
    # One call for all columns, because each further call competes with training for Python's lock.
    (batch,) = rows.cast(single, safe=False).combine_chunks().to_batches()
    table: NDArray[np.float32] = batch.to_tensor(null_to_nan=True, row_major=True).to_numpy()
    return table


def is_stream(X: Any) -> bool:
    """Whether ``X`` is the path of Parquet files."""
    return isinstance(X, str | Path | TableStream)


def draw_shares(
    table: ParquetTable, seed: int, *, held: float, test: float = 0.0, rows: int = HELD_ROWS
) -> RowShares:
    """Draw rows to hold out and rows for preprocessing, from a bounded number of row groups."""
    chosen = np.random.default_rng(seed).permutation(len(table.groups))[:SAMPLED_GROUPS]
    available = sum(table.groups[position].rows for position in chosen)
    limit = rows / available
    shares = {"test": min(test, limit), "held": min(held, limit)}
    sample = min(1 - sum(shares.values()), SAMPLE_ROWS / available)
    return RowShares(seed, frozenset(chosen.tolist()), sample=sample, **shares)


def rows_for(stream: TableStream, purpose: str, columns: Sequence[str]) -> pa.Table:
    """Read the rows that were drawn for a purpose into memory."""
    parts = []
    for position in sorted(stream.shares.groups):
        group = stream.table.groups[position]
        mine = stream.shares.drawn(position, group, purpose)
        if mine.any():
            parts.append(stream.table.read(group, columns).filter(pa.array(mine)))
    if not parts:
        got = f"{stream.table.rows:,} rows, none of which was drawn"
        advice = "Read a table as small as this into memory."
        _checks.fail(CALLER, "X", "large enough to hold rows out", got, advice)
    return pa.concat_tables(parts)


def as_stream(model: EASTClassifier, X: Any, y: Any, weight: str | None) -> TableStream:
    """Turn the user's input into a stream."""
    if isinstance(X, TableStream):
        return X
    if not isinstance(y, str):
        advice = "Name the target: fit('folder', 'column')."
        _checks.fail(
            CALLER, "y", "the name of a column with Parquet files", type(y).__name__, advice
        )
    table = ParquetTable(X)
    table.check_column(y, argument="y")
    if weight is not None:
        table.check_column(weight, argument="sample_weight")
    columns = table.columns_without([y] if weight is None else [y, weight])
    shares = draw_shares(table, model._seed % 2**31, held=float(model.validation_fraction))  # noqa: SLF001
    return TableStream(table, y, columns, shares, weight=weight)


def stream_labels(stream: TableStream) -> tuple[Labels, dict[Any, int]]:
    """Count the classes in one pass over the target column."""
    counts = stream.table.value_counts(stream.target)
    missing = counts.pop(None, 0)
    if missing:
        advice = "Leave those rows out before training."
        expected = "filled in for every row"
        _checks.fail(CALLER, f"y ({stream.target!r})", expected, f"{missing:,} missing", advice)
    return encode_labels(np.asarray(list(counts))), counts


@dataclass(frozen=True)
class PreparedStream:
    """Held-out rows in memory, the others as a stream, with features and labels."""

    rows: Rows
    source: StreamBatches
    labels: Labels
    scaler: Scaler | None
    class_counts: dict[Any, int]


def prepared_stream(model: EASTClassifier, X: Any, y: Any, weight: str | None) -> PreparedStream:
    """Prepare held-out rows and training rows, and store the columns in the model."""
    stream = as_stream(model, X, y, weight)
    labels, counts = stream_labels(stream)
    classes = labels.classes
    weighting = weighting_of(
        stream.table, stream.target, stream.weight, model.class_weight, classes
    )
    prepare = Prepare(stream.target, stream.columns, classes, None, stream.vectorize, weighting)
    sample = prepare.features(rows_for(stream, "sample", stream.names))
    model.n_features_in_ = sample.shape[1]
    if stream.vectorize is None:
        model.feature_names_in_ = np.asarray(stream.columns, dtype=object)
    wanted = model.module is None if model.standardize == "auto" else bool(model.standardize)
    # "auto" means none, because pieces of many rows take much memory
    bins = 0 if model.bins == "auto" else int(model.bins)
    scaler = Scaler.of(sample, bins=bins) if wanted else None
    prepare = replace(prepare, scaler=scaler)
    held = prepare(rows_for(stream, "held", stream.names))
    every = torch.arange(len(held.targets))
    rows = Rows(held.inputs, held.targets, held.weights, [every[:0]], [every], len(classes))
    at_once = SLICE_ROWS if stream.vectorize is None else VECTORIZED_ROWS
    source = StreamBatches(stream.table, stream.shares, prepare, stream.names, slice_rows=at_once)
    by_class = {name: counts[name] for name in classes.tolist()}
    return PreparedStream(rows, source, labels, scaler, by_class)
