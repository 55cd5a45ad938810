"""Turn the cells of a file into numbers and dates, with a note on each choice."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from eastward import _messages
from eastward.data.columns import AS_WRITTEN, column_kind_fast
from eastward.data.dates import (
    CLOCK,
    clock_columns,
    could_have_day_first,
    date_formats,
    date_shown,
    parse_clock,
    parse_dates,
)
from eastward.data.formats import (
    file_format,
    first_lines,
    lines_above_header,
    separator_of,
)
from eastward.data.numbers import (
    NumberFormat,
    could_be_either,
    groups_by_points,
    number_formats,
    percentages,
    possible_formats,
)
from eastward.data.reading import read_table

__all__ = ["Tidied", "tidied"]

CALLER = "load_task"
# A code such as a postcode, not a number.
LEADING_ZERO = re.compile(r"0\d+")


@dataclass(frozen=True)
class Tidied:
    """A table with parsed numbers and dates, their formats in the file, and notes."""

    table: pd.DataFrame
    formats: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def tidied(
    table: pd.DataFrame,
    *,
    source: Any = None,
    target: str | None = None,
    decimal: str | None = None,
    text: Sequence[str] = (),
    encoding: str = "utf-8",
) -> Tidied:
    """Parse the numbers and dates of ``table``, in whatever format they are written.

    Neither Arrow nor DuckDB detects how a file writes its numbers, and skrub's ``ToFloat`` needs the format of each
    column as an argument. Here every format is tried, and one that all cells of a column follow is taken.

    Parameters
    ----------
    table : DataFrame
        From :func:`~eastward.data.read_table`.
    source : path, optional
        The file of ``table``, because a column may have to be read again.
    target : str, optional
        A column to leave unchanged.
    decimal : {".", ","}, optional
        The decimal sign of columns that could be read both ways.
    text : sequence of str
        Columns that stay unchanged.
    encoding : str
        Encoding of text files.

    Returns
    -------
    Tidied
        The table, the formats of its columns, and notes.

    Examples
    --------
    >>> result = tidied(
    ...     pd.DataFrame({"rain": ["0,2", "12,8"], "seen": ["31.12.2023", "01.01.2024"]})
    ... )
    >>> result.table["rain"].tolist(), result.formats
    ([0.2, 12.8], {'rain': '1.234,5', 'seen': '%d.%m.%Y'})
    """
    if decimal is not None:
        _messages.one_of(CALLER, "decimal", decimal, (".", ","))
    words = [
        name
        for name in table.columns
        if name != target and name not in text and column_kind_fast(table[name]) == "text"
    ]
    sign = decimal or _sign_of_the_file(source, encoding)
    numbers = number_formats(table, words, decimal=decimal, otherwise=sign)
    commas = decimal == "," or any(style.decimal == "," for style in numbers.values())
    clocks = clock_columns(table, [name for name in words if name not in numbers])
    whole = [n for n in table.columns if n != target and pd.api.types.is_integer_dtype(table[n])]
    undecided = [w for w in (*words, *whole) if w not in {*numbers, *clocks, *text}]
    dates = date_formats(table, undecided, day_first=commas)
    columns: dict[str, pd.Series] = {n: style.parse(table[n]) for n, style in numbers.items()}
    columns |= {name: parse_clock(table[name]) for name in clocks}
    columns |= {name: parse_dates(table[name], style) for name, style in dates.items()}
    formats = {name: style.text for name, style in numbers.items()} | dates
    pointed: dict[str, pd.Series] = {}
    if decimal != "." and (commas or sign == ","):
        pointed = _numbers_with_points(table, source, target, text, encoding)
    if commas:
        columns |= pointed
        formats |= dict.fromkeys(pointed, NumberFormat(",", ".").text)
    kept = {name: table[name].astype("category") for name in text}
    notes = (
        *_number_notes(formats, dates),
        *_percent_notes(table, numbers),
        *_clock_notes(clocks),
        *_date_notes(dates, table),
        *_text_notes(text),
    )
    notes += tuple(_code_notes(table, source, target, text, encoding))
    notes += () if decimal else tuple(_doubts(table, numbers))
    notes += () if commas else tuple(_doubted_points(table, target, pointed))
    formats |= dict.fromkeys(clocks, CLOCK) | dict.fromkeys(text, AS_WRITTEN)
    return Tidied(table.assign(**columns, **kept), formats, notes)


def _sign_of_the_file(source: Any, encoding: str) -> str:
    """Guess the decimal sign: programs separate cells by semicolons where decimals have commas."""
    if not isinstance(source, str | Path):
        return "."
    form = file_format(Path(source), CALLER)
    return "," if form.kind == "csv" and separator_of(Path(source), form, encoding) == ";" else "."


def _numbers_with_points(
    table: pd.DataFrame, source: Any, target: str | None, text: Sequence[str], encoding: str
) -> dict[str, pd.Series]:
    """Find columns of a file with decimal commas where 12.500 was read as twelve and a half."""
    if not isinstance(source, str | Path) or not file_format(Path(source), CALLER).is_delimited:
        return {}
    names = [
        name
        for name in table.columns
        if name != target and name not in text and pd.api.types.is_float_dtype(table[name])
    ]
    if not names:
        return {}
    written = read_table(source, encoding=encoding, as_text=names)
    return {
        name: NumberFormat(",", ".").parse(written[name])
        for name in names
        if groups_by_points(written[name])
    }


def _number_notes(formats: Mapping[str, str], dates: Mapping[str, str]) -> Iterator[str]:
    by_format: dict[str, list[str]] = {}
    for name, style in formats.items():
        if name not in dates:
            by_format.setdefault(style, []).append(name)
    for style, names in by_format.items():
        yield f"read as numbers written like {style}: {_shown(names)} (otherwise: --text COLUMN)"


def _doubts(table: pd.DataFrame, numbers: Mapping[str, NumberFormat]) -> Iterator[str]:
    """Report columns whose comma could mean either, if no other column decides."""
    signs = [{style.decimal for style in possible_formats(table[name])} for name in numbers]
    if len(set().union(*(known for known in signs if len(known) == 1))) == 1:
        return
    for name, style in numbers.items():
        other = "," if style.decimal == "." else "."
        if could_be_either(table[name]):
            yield f"{name!r} could also have the decimal sign {other} (--decimal {other})"


def _percent_notes(table: pd.DataFrame, numbers: Mapping[str, NumberFormat]) -> Iterator[str]:
    """Say that percentages become shares, and name columns where only some cells have the sign."""
    counts = {name: percentages(table[name]) for name in numbers}
    signed = [name for name, (signs, _) in counts.items() if signs]
    if signed:
        yield f"percentages were read as shares, 8 % as 0.08: {_shown(signed)}"
    mixed = [name for name in signed if counts[name][1]]
    if mixed:
        yield f"numbers with and without %, which were not read alike (8 % as 0.08, 8 as 8): {_shown(mixed)}"


def _clock_notes(clocks: Sequence[str]) -> Iterator[str]:
    if clocks:
        yield f"read as hours written like {CLOCK}: {_shown(clocks)} (otherwise: --text COLUMN)"


def _code_notes(
    table: pd.DataFrame, source: Any, target: str | None, text: Sequence[str], encoding: str
) -> Iterator[str]:
    """Name columns of whole numbers whose first cells have leading zeros, as postcodes do."""
    if not isinstance(source, str | Path):
        return
    path = Path(source)
    form = file_format(path, CALLER)
    if not form.is_delimited:
        return
    # The last line may be cut off.
    lines = first_lines(path, form, encoding).splitlines()[
        lines_above_header(path, form, encoding) : -1
    ]
    rows = csv.reader(lines, delimiter=separator_of(path, form, encoding), skipinitialspace=True)
    cells = list(zip(*(row for row in rows if len(row) == table.shape[1]), strict=True))
    for name, column in zip(table.columns, cells, strict=False):
        if name == target or name in text or not pd.api.types.is_integer_dtype(table[name]):
            continue
        code = next((cell for cell in column[1:] if LEADING_ZERO.fullmatch(cell.strip())), None)
        if code is not None:
            told = f"{code.strip()} was read as {int(code)}"
            yield f"leading zeros of {name!r} were dropped: {told} (--text {name} keeps cells as they are written)"


def _doubted_points(
    table: pd.DataFrame, target: str | None, pointed: Mapping[str, pd.Series]
) -> Iterator[str]:
    """Report columns such as 1.234, if no other column, such as 1.5, says that points separate decimals."""
    fractions = [
        name
        for name in table.columns
        if name != target and pd.api.types.is_float_dtype(table[name]) and table[name].notna().any()
    ]
    if pointed and len(pointed) == len(fractions):
        yield f"{_shown(list(pointed))} could also have the decimal sign , (--decimal ,)"


def _date_notes(dates: Mapping[str, str], table: pd.DataFrame) -> Iterator[str]:
    for style in dict.fromkeys(dates.values()):
        names = [name for name, own in dates.items() if own == style]
        yield f"read as dates written like {date_shown(style)}: {_shown(names)} (otherwise: --text COLUMN)"
    if not any(style.startswith("%d") for style in dates.values()):
        doubted = could_have_day_first(dates, table)
        if doubted:
            yield f"dates whose first number could also be the day; if so, write 2023-12-31: {_shown(doubted)}"


def _text_notes(text: Sequence[str]) -> Iterator[str]:
    if text:
        yield f"kept as text: {_shown(text)}"


def _shown(names: Sequence[str]) -> str:
    more = f" and {len(names) - 6} more" if len(names) > 6 else ""
    return ", ".join(map(repr, names[:6])) + more
