"""Arrow's options for CSV, TSV and JSON lines."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.json

from eastward.data.columns import Column
from eastward.data.formats import (
    FileFormat,
    bytes_of,
    first_lines,
    lines_above_header,
    separator_of,
)
from eastward.data.padding import is_padded, without_padding

__all__ = ["BLOCK_BYTES", "csv_options", "text_batches", "text_stream"]

BLOCK_BYTES = 8 << 20
# Spellings of a missing value: Arrow's list, and the question mark of many public data sets.
MISSING = [*pa.csv.ConvertOptions().null_values, "?"]


def text_batches(
    stream: Any,
    path: Path,
    form: FileFormat,
    columns: Sequence[str] | None,
    kinds: Sequence[Column] | None,
    encoding: str,
) -> Any:
    """Yield the rows of a text file in blocks; known kinds of columns are not guessed."""
    types = _arrow_types(kinds or (), form)
    if form.kind == "jsonl":
        schema = pa.schema(types.items()) if types else None
        return pa.json.open_json(
            stream,
            read_options=pa.json.ReadOptions(block_size=BLOCK_BYTES),
            parse_options=pa.json.ParseOptions(explicit_schema=schema),
        )
    return pa.csv.open_csv(stream, **csv_options(path, form, encoding, types, columns))


def _arrow_types(kinds: Sequence[Column], form: FileFormat) -> dict[str, pa.DataType]:
    """Return Arrow's types where they are certain; other columns are read as text and parsed later."""
    known = {"number": pa.float64(), "boolean": pa.bool_() if form.kind == "jsonl" else pa.string()}
    return {
        column.name: pa.string() if column.format else known.get(column.kind, pa.string())
        for column in kinds
        # JSON itself says whether a value is text.
        if form.kind != "jsonl" or column.format is None
    }


def csv_options(
    path: Path,
    form: FileFormat,
    encoding: str,
    types: dict[str, pa.DataType] | None = None,
    columns: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Return Arrow's options for a CSV or TSV file."""
    return {
        "read_options": pa.csv.ReadOptions(
            block_size=BLOCK_BYTES, skip_rows=lines_above_header(path, form, encoding)
        ),
        "parse_options": pa.csv.ParseOptions(
            delimiter=separator_of(path, form, encoding), newlines_in_values=True
        ),
        "convert_options": pa.csv.ConvertOptions(
            strings_can_be_null=True,
            null_values=MISSING,
            column_types=types,
            include_columns=columns,
        ),
    }


def text_stream(path: Path, form: FileFormat, encoding: str) -> Any:
    """Open a file as a stream of UTF-8; spaces after the commas of a CSV are removed."""
    stream = bytes_of(path, form)
    if encoding.lower().replace("_", "-") not in {"utf-8", "utf8", "ascii"}:
        stream = pa.transcoding_input_stream(stream, encoding, "utf-8")
    if not form.is_delimited:
        return stream
    separator = separator_of(path, form, encoding)
    padded = is_padded(first_lines(path, form, encoding), separator)
    return without_padding(stream, separator) if padded else stream
