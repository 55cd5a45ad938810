"""Write tables part by part, under a temporary name until the last part is written."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
from types import TracebackType
from typing import Any, Self

import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from eastward import _messages
from eastward._files import remove_leftovers
from eastward.data.formats import FileFormat, file_format

__all__ = ["TableWriter"]


class TableWriter:
    """Writes frames one after the other to one file, in the format of its suffix.

    The file appears under its name only when it is complete.

    Parameters
    ----------
    path : path
        The file to write, ending in .csv, .tsv or .jsonl (each also .gz or .zst), .parquet, .arrow or .feather.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> path = Path(tempfile.mkdtemp()) / "numbers.csv"
    >>> with TableWriter(path) as writer:
    ...     writer.write(pd.DataFrame({"n": [1, 2]}))
    >>> path.read_text().split()
    ['n', '1', '2']
    """

    def __init__(self, path: Any) -> None:
        self.path = _messages.path("TableWriter", "path", path)
        self.form = file_format(self.path, "predict", "output")
        self._temporary = self.path.with_name(f".{self.path.name}.{os.getpid()}.part")
        self._stream: Any = None
        self._sink: Any = None

    def __enter__(self) -> Self:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        remove_leftovers(self.path.parent, f".{self.path.name}.")
        self._stream = pa.output_stream(str(self._temporary), compression=self.form.compression)
        return self

    def write(self, frame: pd.DataFrame) -> None:
        """Append the rows of ``frame``, which has the columns of the first frame."""
        if self.form.kind == "jsonl":
            self._stream.write(_json_lines(frame).encode())
            return
        table = pa.Table.from_pandas(frame, preserve_index=False)
        if self._sink is None:
            self._sink = _sink(self._stream, self.form, table.schema)
        self._sink.write_table(table.cast(self._sink.schema))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if kind is None:
                self._close()
                self._temporary.replace(self.path)
            else:
                # Report the first error, not the one that closing raises after it.
                with contextlib.suppress(OSError, pa.ArrowException):
                    self._close()
        finally:
            self._temporary.unlink(missing_ok=True)

    def _close(self) -> None:
        try:
            if self._sink is not None:
                self._sink.close()
        finally:
            self._stream.close()


def _json_lines(frame: pd.DataFrame) -> str:
    """Write one object for each row; pandas would round, but numbers must survive a round trip."""
    columns = {}
    for name, column in frame.items():
        plain = column.dt.strftime("%Y-%m-%dT%H:%M:%S.%f") if column.dtype.kind == "M" else column
        columns[str(name)] = plain.astype(object).where(column.notna(), None).tolist()
    rows = zip(*columns.values(), strict=True)
    records = (dict(zip(columns, row, strict=True)) for row in rows)
    return "".join(f"{json.dumps(record, ensure_ascii=False)}\n" for record in records)


class _DelimitedSink:
    """Arrow's CSV writer, with quotes only where they are needed, even in the header."""

    def __init__(self, stream: Any, schema: pa.Schema, separator: str) -> None:
        header = io.StringIO()
        csv.writer(header, delimiter=separator, lineterminator="\n").writerow(schema.names)
        stream.write(header.getvalue().encode())
        options = pa.csv.WriteOptions(
            include_header=False, delimiter=separator, quoting_style="needed"
        )
        self.schema = schema
        self._writer = pa.csv.CSVWriter(stream, schema, write_options=options)

    def write_table(self, table: pa.Table) -> None:
        self._writer.write_table(table)

    def close(self) -> None:
        self._writer.close()


def _sink(stream: Any, form: FileFormat, schema: pa.Schema) -> Any:
    if form.kind == "parquet":
        return pa.parquet.ParquetWriter(stream, schema)
    if form.kind == "arrow":
        return _ArrowSink(stream, schema)
    return _DelimitedSink(stream, schema, "\t" if form.kind == "tsv" else ",")


class _ArrowSink:
    """Arrow's file writer, with access to its schema."""

    def __init__(self, stream: Any, schema: pa.Schema) -> None:
        self.schema = schema
        self._writer = pa.ipc.new_file(stream, schema)

    def write_table(self, table: pa.Table) -> None:
        self._writer.write_table(table)

    def close(self) -> None:
        self._writer.close()
