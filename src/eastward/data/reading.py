"""Read files and frames into pandas frames, whole or in parts that fit into memory."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet

from eastward import _messages
from eastward.data.columns import Column, names_as_text, normalized
from eastward.data.diagnosis import check_quotes, explained
from eastward.data.formats import (
    FileFormat,
    check_encoding,
    file_and_part,
    file_format,
)
from eastward.data.text_files import BLOCK_BYTES, csv_options, text_batches, text_stream
from eastward.data.whole_files import read_json, read_workbook

__all__ = ["count_rows", "iter_tables", "read_table", "source_name", "table_columns"]

ROWS_PER_BATCH = 65_536
# Formats that cannot be read in parts.
WHOLE = ("json", "xlsx")


def read_table(
    source: Any,
    columns: Sequence[str] | None = None,
    *,
    encoding: str = "utf-8",
    as_text: Sequence[str] = (),
) -> pd.DataFrame:
    """Read a file or frame into a pandas frame of numbers, booleans, datetimes and strings.

    Parameters
    ----------
    source : path or frame
        CSV, TSV, JSON lines or JSON (plain, ``.gz``, ``.zst`` or ``.zip``), Excel, Parquet, Arrow or Feather; or a
        pandas, polars or Arrow table. Parquet and Arrow files are memory-mapped. CSV may be separated by commas,
        semicolons, tabs or bars. ``book.xlsx#Claims`` names a sheet, ``files.zip#claims.csv`` a member, and
        ``answer.json#claims`` one of several lists of rows.
    columns : sequence of str, optional
        Names of the columns to read, in this order; all by default.
    encoding : str, default="utf-8"
        Encoding of text files.
    as_text : sequence of str
        Columns whose cells stay as they are written: ``007`` is not 7.

    Returns
    -------
    DataFrame
        ``(rows, columns)``, numbered from 0.

    Examples
    --------
    >>> read_table(pd.DataFrame({"age": [31, 40], "city": ["Graz", "Linz"]}), columns=["city"])
       city
    0  Graz
    1  Linz
    """
    columns = None if columns is None else _names("read_table", "columns", columns)
    as_text = _names("read_table", "as_text", as_text)
    if not isinstance(source, str | Path):
        table = names_as_text(_frame(source), as_text)
        return _chosen("read_table", table, columns, source_name(source))
    path = _existing(source)
    form = file_format(path, "read_table")
    check_encoding(encoding, "read_table")
    with explained(path, form, encoding):
        table = to_frame(_read(path, form, columns, encoding, as_text))
    table = names_as_text(table, as_text)
    if form.is_text and form.kind != "jsonl":
        check_quotes(path, form)
    if not len(table):
        _messages.fail("read_table", "source", "a table with rows", f"{path.name}, which has none")
    return _chosen("read_table", table, columns, path.name)


def iter_tables(
    source: Any,
    rows_per_batch: int = ROWS_PER_BATCH,
    *,
    columns: Sequence[str] | None = None,
    kinds: Sequence[Column] | None = None,
    encoding: str = "utf-8",
) -> Iterator[pd.DataFrame]:
    """Iterate over the rows of a file or frame in parts of ``rows_per_batch``; the last one may be smaller.

    Only a few parts are in memory at a time, whatever the size of the file.

    Parameters
    ----------
    source : path or frame
        A file or table in any form that :func:`read_table` reads.
    rows_per_batch : int
        Rows of each part.
    columns : sequence of str, optional
        Names of the columns to read; all by default. :func:`table_columns` lists them.
    kinds : sequence of Column, optional
        Known kinds of columns; in text files the others are guessed from the first megabytes.
    encoding : str, default="utf-8"
        Encoding of text files.

    Returns
    -------
    iterator of DataFrame
        The parts, in the order of the rows.

    Examples
    --------
    >>> [len(part) for part in iter_tables(pd.DataFrame({"age": range(5)}), 2)]
    [2, 2, 1]
    """
    caller = "iter_tables"
    _messages.whole_number(caller, "rows_per_batch", rows_per_batch, at_least=1)
    wanted = None if columns is None else _names(caller, "columns", columns)
    known = None if kinds is None else _kinds(caller, kinds)
    check_encoding(encoding, caller)
    return _tables(source, rows_per_batch, wanted, known, encoding)


def _tables(
    source: Any,
    rows_per_batch: int,
    columns: Sequence[str] | None,
    kinds: Sequence[Column] | None,
    encoding: str,
) -> Iterator[pd.DataFrame]:
    if not isinstance(source, str | Path):
        table = _chosen("iter_tables", _frame(source), columns, source_name(source))
        for start in range(0, len(table), rows_per_batch):
            yield table.iloc[start : start + rows_per_batch].reset_index(drop=True)
        return
    path = _existing(source)
    form = file_format(path, "iter_tables")
    if columns is not None and (form.is_delimited or form.kind == "parquet"):
        # Only these formats read no more than the columns, so that the others would be unknown below.
        header = pd.DataFrame(columns=table_columns(source, encoding=encoding))
        _chosen("iter_tables", header, columns, path.name)
    with explained(path, form, encoding):
        batches = _batches(path, form, rows_per_batch, columns, kinds, encoding)
        for table in _exact_sizes(batches, rows_per_batch):
            yield _chosen("iter_tables", to_frame(table), columns, path.name)


def table_columns(source: Any, *, encoding: str = "utf-8") -> list[str]:
    """Return the names of the columns, without reading the rows.

    Parameters
    ----------
    source : path or frame
        A file or table in any form that :func:`read_table` reads.
    encoding : str, default="utf-8"
        Encoding of text files.

    Returns
    -------
    list of str
        The names, in the order of the file.

    Examples
    --------
    >>> table_columns(pd.DataFrame({"age": [31], "city": ["Graz"]}))
    ['age', 'city']
    """
    if isinstance(source, str | Path) and file_format(_existing(source), "read_table").is_text:
        first = next(iter_tables(source, 1, encoding=encoding), None)
        return _header(Path(source), encoding) if first is None else list(first.columns)
    if isinstance(source, str | Path):
        path = _existing(source)
        form = file_format(path, "read_table")
        with explained(path, form, encoding):
            if form.kind == "parquet":
                return list(pa.parquet.read_schema(path, memory_map=True).names)
            if form.kind in WHOLE:
                return list(_whole(path, form, encoding).column_names)
            return list(_arrow_batches(path)[1].names)
    return [str(name) for name in _frame(source).columns]


def _header(path: Path, encoding: str) -> list[str]:
    """Return the names of the columns of a text file without rows."""
    form = file_format(path, "read_table")
    if not form.is_delimited:
        return []
    with explained(path, form, encoding), text_stream(path, form, encoding) as stream:
        return list(pa.csv.open_csv(stream, **csv_options(path, form, encoding)).schema.names)


def count_rows(source: Any) -> int | None:
    """Return the number of rows, if it is known without reading them.

    Parameters
    ----------
    source : path or frame
        A file or table in any form that :func:`read_table` reads.

    Returns
    -------
    int or None
        The number of rows of a frame or a Parquet file; None for other files.

    Examples
    --------
    >>> count_rows(pd.DataFrame({"age": [31, 40]}))
    2
    """
    if not isinstance(source, str | Path):
        return len(_table("count_rows", source))
    path = _existing(source, "count_rows")
    form = file_format(path, "count_rows")
    if form.kind != "parquet":
        return None
    with explained(path, form, "utf-8"):
        return int(pa.parquet.read_metadata(path, memory_map=True).num_rows)


def source_name(source: Any) -> str:
    """Return the name of ``source`` in messages and reports."""
    return Path(source).name if isinstance(source, str | Path) else "the table"


def _existing(source: str | Path, caller: str = "read_table") -> Path:
    whole = Path(source)
    path = file_and_part(whole)[0]
    if path.is_file():
        if not path.stat().st_size:
            got = f"{path.name}, an empty file"
            _messages.fail(caller, "source", "a table with rows", got)
        return whole
    if path.is_dir():
        _messages.fail(caller, "source", "a file", f"{path}, a folder")
    beside = [other.name for other in path.parent.iterdir()] if path.parent.is_dir() else []
    near = _messages.near_misses(path.name, beside)
    advice = (
        near
        or f"The folder {path.parent} {'has' if beside else 'is not there, or has'} no such file."
    )
    expected = "a file that exists"
    return _messages.fail(caller, "source", expected, path, advice, error=FileNotFoundError)


def _frame(source: Any) -> pd.DataFrame:
    table = _table("read_table", source)
    return normalized(table) if isinstance(table, pd.DataFrame) else to_frame(table)


def _table(caller: str, source: Any) -> pd.DataFrame | pa.Table:
    if isinstance(source, pd.DataFrame | pa.Table):
        return source
    if hasattr(source, "to_arrow"):  # polars
        return source.to_arrow()
    expected = "a path, or a pandas, polars or Arrow table"
    return _messages.fail(caller, "source", expected, type(source).__name__, error=TypeError)


def _names(caller: str, argument: str, given: Any) -> list[Any]:
    """Return columns as a list, after checking that each can be a name."""
    names = None if isinstance(given, str) or not isinstance(given, Iterable) else list(given)
    if names is None or not all(isinstance(name, Hashable) for name in names):
        got = _messages.describe(given)
        _messages.fail(caller, argument, "a sequence of columns", got, error=TypeError)
    return names


def _kinds(caller: str, given: Any) -> list[Column]:
    kinds = list(given) if isinstance(given, Iterable) else [given]
    for one in kinds:
        if not isinstance(one, Column):
            got = _messages.describe(one)
            _messages.fail(caller, "kinds", "a sequence of Column", got, error=TypeError)
    return kinds


def _chosen(
    caller: str, table: pd.DataFrame, columns: Sequence[str] | None, name: str
) -> pd.DataFrame:
    if columns is None:
        return table
    for column in columns:
        if column not in table.columns:
            fail_no_column(caller, "columns", column, table, name)
    return table[list(columns)]


def fail_no_column(caller: str, argument: str, column: str, table: pd.DataFrame, name: str) -> None:
    """Raise an error that ``table`` has no such column, and list its columns."""
    known = [str(known) for known in table.columns]
    by_letters = {label.lower(): label for label in known}
    shown = ", ".join(known[:12]) + (f" and {len(known) - 12} more" if len(known) > 12 else "")
    near = _messages.near_misses(column, known, by_letters)
    advice = f"It has {shown}."
    if any(label.startswith("Unnamed: ") for label in known):
        advice += " The names of the columns must be in the first row."
    _messages.fail(caller, argument, f"a column of {name}", repr(column), near or advice)


def _read(
    path: Path,
    form: FileFormat,
    columns: Sequence[str] | None,
    encoding: str,
    as_text: Sequence[str] = (),
) -> pa.Table:
    if form.kind == "parquet":
        wanted = _present(columns, pa.parquet.read_schema(path, memory_map=True).names)
        return pa.parquet.ParquetFile(path, memory_map=True).read(columns=wanted)
    if form.kind == "arrow":
        return pa.Table.from_batches(*_arrow_batches(path))
    if form.kind in WHOLE:
        return _whole(path, form, encoding)
    with text_stream(path, form, encoding) as stream:
        if form.kind == "jsonl":
            table = pa.json.read_json(stream)
            table.validate(full=True)  # JSON needs no check of its encoding
            return table
        types = dict.fromkeys(as_text, pa.string())
        options = csv_options(path, form, encoding, types)
        return pa.csv.read_csv(stream, **options)


def _batches(
    path: Path,
    form: FileFormat,
    rows: int,
    columns: Sequence[str] | None,
    kinds: Sequence[Column] | None,
    encoding: str,
) -> Iterator[pa.RecordBatch]:
    if form.kind == "parquet":
        # Through a small buffer, because pages of a mapped file would count as used memory.
        # Without reading ahead, because Arrow would keep the bytes of all row groups until the end.
        file = pa.parquet.ParquetFile(path, buffer_size=BLOCK_BYTES, pre_buffer=False)
        wanted = _present(columns, file.schema_arrow.names)
        yield from file.iter_batches(batch_size=rows, columns=wanted)
    elif form.kind == "arrow":
        yield from _arrow_batches(path)[0]
    elif form.kind in WHOLE:
        yield from _whole(path, form, encoding).to_batches(max_chunksize=rows)
    else:
        with text_stream(path, form, encoding) as stream:
            yield from text_batches(stream, path, form, columns, kinds, encoding)


def _whole(path: Path, form: FileFormat, encoding: str) -> pa.Table:
    frame = read_workbook(path) if form.kind == "xlsx" else read_json(path, form, encoding)
    return pa.Table.from_pandas(frame, preserve_index=False)


def _arrow_batches(path: Path) -> tuple[Iterator[pa.RecordBatch], pa.Schema]:
    """Return the memory-mapped batches of an Arrow file or stream, and their schema."""
    mapped = pa.memory_map(str(path))
    try:
        file = pa.ipc.open_file(mapped)
    except pa.ArrowInvalid:
        mapped.seek(0)
        stream = pa.ipc.open_stream(mapped)
        return iter(stream), stream.schema
    return (file.get_batch(k) for k in range(file.num_record_batches)), file.schema


def _present(columns: Sequence[str] | None, known: Sequence[str]) -> list[str] | None:
    return None if columns is None else [name for name in columns if name in known]


def _exact_sizes(batches: Iterator[pa.RecordBatch], rows: int) -> Iterator[pa.Table]:
    """Regroup rows into parts of exactly ``rows``, so that results do not depend on the layout of a file."""
    waiting: list[pa.Table] = []
    count = 0
    for batch in batches:
        waiting.append(pa.Table.from_batches([batch]))
        count += batch.num_rows
        if count < rows:
            continue
        table = pa.concat_tables(waiting)
        for start in range(0, count - rows + 1, rows):
            yield table.slice(start, rows)
        count %= rows
        waiting = [table.slice(table.num_rows - count)] if count else []
    if count:
        yield pa.concat_tables(waiting)


def to_frame(table: pa.Table) -> pd.DataFrame:
    """Convert an Arrow table to a :func:`~eastward.data.columns.normalized` frame."""
    for position, field in enumerate(table.schema):
        wanted = _plain_type(field)
        if wanted is not None:
            column = table.column(position).cast(wanted)
            table = table.set_column(position, field.name, column)
    frame = table.to_pandas(types_mapper={pa.bool_(): pd.BooleanDtype()}.get, split_blocks=True)
    return normalized(frame)


def _plain_type(field: pa.Field) -> pa.DataType | None:
    """Return the type to cast a column to before pandas gets it; None for types that pandas has."""
    kind = field.type
    if pa.types.is_nested(kind):
        advice = "Spread it over several columns, or leave it out."
        _messages.fail(
            "read_table", "source", "a flat table", f"column {field.name!r} of type {kind}", advice
        )
    if pa.types.is_dictionary(kind):
        return pa.string()
    if pa.types.is_date(kind):
        return pa.timestamp("ms")
    if pa.types.is_decimal(kind) or pa.types.is_null(kind):
        return pa.float64()
    if pa.types.is_time(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return pa.string()
    return None
