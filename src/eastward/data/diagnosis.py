"""Explain why a file cannot be read: which line, which byte, and what to do."""

from __future__ import annotations

import codecs
import csv
import io
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from eastward import _messages
from eastward.data.formats import FileFormat, bytes_of, lines_above_header, separator_of
from eastward.data.text_files import text_stream

__all__ = ["check_quotes", "explained"]

CALLER = "read_table"
CHUNK = 1 << 20
STEP = 64
CONVERSION = re.compile(
    r"In CSV column #(?P<column>\d+): (?:Row #\d+: )?CSV conversion error to \w+: "
    r"invalid value '(?P<value>.*)'"
)
BYTE_ORDER_MARKS = {codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}


@contextmanager
def explained(path: Path, form: FileFormat, encoding: str) -> Iterator[None]:
    """Turn Arrow's error about a damaged file into a sentence that names the place."""
    try:
        yield
    except (pa.ArrowException, UnicodeError, EOFError) as error:
        raise _explanation(path, form, encoding, error) from error
    except OSError as error:
        if error.errno is not None:  # an error of the system, such as a missing permission
            raise
        raise _explanation(path, form, encoding, error) from error


def _explanation(path: Path, form: FileFormat, encoding: str, error: Exception) -> ValueError:
    try:
        if form.is_text:
            _check_decompression(path, form)
            _check_decoding(path, form, encoding)
            if form.kind == "jsonl":
                _check_json_lines(path, form, encoding)
            else:
                _check_field_counts(path, form, encoding)
        words = str(error).strip().splitlines()[0]
        if form.is_text and form.kind != "jsonl":
            _check_conversion(path, form, encoding, words)
        _fail_by_words(path, form, words)
    except ValueError as found:
        return found
    return ValueError(str(error))


def _fail_by_words(path: Path, form: FileFormat, words: str) -> None:
    """Quote Arrow's error if no place was found, with the usual cause for binary files."""
    if form.is_text:
        expected = f"a {form.kind.upper()} file whose columns hold one kind of value each"
        advice = "Look at that value, or convert the file to Parquet."
    else:
        expected = f"a complete {form.kind.capitalize()} file"
        advice = (
            "It may have been cut off while it was copied, or its format may differ from its name."
        )
    _messages.fail(CALLER, "source", expected, f"{path.name} ({words})", advice)


def _check_decompression(path: Path, form: FileFormat) -> None:
    if form.compression is None:
        return
    read, line = 0, 1
    try:
        with bytes_of(path, form) as stream:
            # Small steps, because a failed step returns nothing and the steps before it show the place.
            while chunk := stream.read(STEP):
                read += len(chunk)
                line += chunk.count(b"\n")
    except (OSError, EOFError, pa.ArrowException) as error:
        got = f"{path.name}, which breaks off after {read:,} decompressed bytes, in line {line:,} ({error})"
        advice = "Copy or download it again."
        _messages.fail(CALLER, "source", f"a complete {form.compression} file", got, advice)


def _check_decoding(path: Path, form: FileFormat, encoding: str) -> None:
    decoder = codecs.getincrementaldecoder(encoding)("strict")
    position, line = 0, 1
    with bytes_of(path, form) as stream:
        while chunk := stream.read(CHUNK):
            pending = len(decoder.getstate()[0])
            try:
                decoder.decode(chunk)
            except UnicodeDecodeError as error:
                at = position - pending + error.start
                line += chunk[: max(0, error.start - pending)].count(b"\n")
                _fail_undecodable(path, form, encoding, at, line)
            position += len(chunk)
            line += chunk.count(b"\n")
        if decoder.getstate()[0]:
            _fail_undecodable(path, form, encoding, position - len(decoder.getstate()[0]), line)


def _fail_undecodable(path: Path, form: FileFormat, encoding: str, at: int, line: int) -> None:
    with bytes_of(path, form) as stream:
        start = stream.read(2)
        stream.read(max(0, at - 22))
        around = stream.read(40) if at >= 22 else start + stream.read(38)
    guess = BYTE_ORDER_MARKS.get(start, "cp1252")
    offset = min(at, 20) if at >= 22 else at
    byte = around[offset] if offset < len(around) else around[-1]
    got = f"{path.name} with byte 0x{byte:02X} at position {at:,} (line {line:,})"
    if guess == "cp1252":
        text = around.decode("cp1252", errors="replace").replace("\n", " ").strip()
        got += f", near {text!r} if it is cp1252"
    advice = f"Try encoding={guess!r} (--encoding {guess}), or save the file as UTF-8."
    _messages.fail(CALLER, "source", f"text in {encoding}", got, advice)


def _check_field_counts(path: Path, form: FileFormat, encoding: str) -> None:
    """Report the first line whose number of fields differs from the header."""
    separator = separator_of(path, form, encoding)
    with _lines(path, form, encoding) as lines:
        reader = csv.reader(lines, delimiter=separator)
        _skip_above_header(reader, path, form, encoding)
        header = next(reader, [])
        before = reader.line_num
        for row in reader:
            if row and len(row) != len(header):
                where = f"{path.name}, whose line {before + 1:,} has {len(row)}"
                advice = (
                    "The file may have been cut off there, or a text holds an unquoted separator."
                    if len(header) > 1
                    else f"Delete the first line if it is a title and not a name: {header[0][:40]!r}."
                )
                fields = f"{len(header)} field{'s' * (len(header) != 1)}"
                expected = f"a table with {fields} in each line, as in its header"
                _messages.fail(CALLER, "source", expected, where, advice)
            before = reader.line_num


def _skip_above_header(
    reader: Iterator[list[str]], path: Path, form: FileFormat, encoding: str
) -> None:
    for _ in range(lines_above_header(path, form, encoding)):
        next(reader, None)


def _check_conversion(path: Path, form: FileFormat, encoding: str, words: str) -> None:
    """Report the column and the value that Arrow could not convert, by name instead of number."""
    found = CONVERSION.search(words)
    if found is None:
        return
    name, line = _find_value(path, form, encoding, int(found["column"]), found["value"])
    where = f" in line {line:,}" if line else ""
    got = f"{found['value']!r}{where} of {path.name}"
    advice = "Correct the value, or leave the cell empty: missing values are filled in."
    column = f"column {name!r}"
    _messages.fail(
        CALLER, column, "made of numbers, as in training or in its first rows", got, advice
    )


def _find_value(
    path: Path, form: FileFormat, encoding: str, column: int, value: str
) -> tuple[str, int | None]:
    """Find the name of a column and the line of a value, which Arrow's threads do not count."""
    with _lines(path, form, encoding) as lines:
        reader = csv.reader(lines, delimiter=separator_of(path, form, encoding))
        _skip_above_header(reader, path, form, encoding)
        name = next(reader)[column]
        for row in reader:
            if len(row) > column and row[column].strip() == value.strip():
                return name, reader.line_num
    return name, None


def _check_json_lines(path: Path, form: FileFormat, encoding: str) -> None:
    """Report the first line that is not a JSON object, or where a column changes its type."""
    seen: dict[str, type] = {}
    with _lines(path, form, encoding) as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                record = json.loads(line)
            except json.JSONDecodeError as error:
                got = f"{path.name}, whose line {number:,} is not complete JSON ({error.msg})"
                _messages.fail(CALLER, "source", "one JSON object in each line", got)
            if not isinstance(record, dict):
                got = f"{path.name}, whose line {number:,} holds a {type(record).__name__}"
                _messages.fail(CALLER, "source", "one JSON object in each line", got)
            _check_types(record, seen, f"line {number:,} of {path.name}")


def _check_types(record: dict[str, Any], seen: dict[str, type], where: str) -> None:
    for name, value in record.items():
        kind = float if isinstance(value, int) and not isinstance(value, bool) else type(value)
        if value is not None and seen.setdefault(name, kind) is not kind:
            words = {float: "a number", str: "text", bool: "true or false"}
            before, now = (words.get(k, k.__name__) for k in (seen[name], kind))
            got = f"{now} ({value!r}) after {before} in {where}"
            advice = "Write all values of a column the same way, for example all in quotes."
            _messages.fail(CALLER, f"column {name!r}", "of one type", got, advice)


def check_quotes(path: Path, form: FileFormat) -> None:
    """Check that all quotes are closed; an open quote silently swallows the rest of the file."""
    quotes, last, line = 0, 0, 1
    with bytes_of(path, form) as stream:
        while chunk := stream.read(CHUNK):
            quotes += chunk.count(b'"')
            if b'"' in chunk:
                last = line + chunk[: chunk.rindex(b'"')].count(b"\n")
            line += chunk.count(b"\n")
    if quotes % 2:
        got = f"{path.name} with {quotes:,} quotes, the last one in line {last:,}"
        advice = "The file may have been cut off there."
        _messages.fail(CALLER, "source", "a table whose quotes are all closed", got, advice)


@contextmanager
def _lines(path: Path, form: FileFormat, encoding: str) -> Iterator[Any]:
    with text_stream(path, form, encoding) as stream:
        yield io.TextIOWrapper(stream, encoding="utf-8", errors="replace", newline="")
