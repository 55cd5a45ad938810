"""Columns and their kinds, and how to bring a new table into the form of the training table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd

from eastward import _messages
from eastward.data.dates import CLOCK, date_shown, parse_clock, parse_dates
from eastward.data.numbers import MISSING_WORDS, NumberFormat

__all__ = [
    "AS_WRITTEN",
    "CATEGORY_LIMIT",
    "Column",
    "conform",
    "frame_columns",
    "names_as_text",
    "normalized",
]

# A text column with this many values is encoded by its letters instead of one column for each value.
CATEGORY_LIMIT = 40
# The format of a column that stays text, whatever it looks like.
AS_WRITTEN = "text"
TRUTH = {"true": True, "false": False, "1": True, "0": False, "1.0": True, "0.0": False}


@dataclass(frozen=True)
class Column:
    """A column of a table: its name, its kind, and how the file writes it.

    Attributes
    ----------
    name : str
        Name of the column.
    kind : {"number", "boolean", "date", "category", "text"}
        Kind of its values.
    format : str, optional
        Format of the file, if it matters: ``1.234,5`` for numbers, ``18:05`` for hours, ``%d.%m.%Y`` for dates,
        ``text`` for cells that stay unchanged.

    Examples
    --------
    >>> Column("price", "number", "1.234,5").to_dict()
    {'name': 'price', 'kind': 'number', 'format': '1.234,5'}
    """

    name: str
    kind: str
    format: str | None = None

    def to_dict(self) -> dict[str, str]:
        """Convert to a dictionary for JSON, without the format if there is none."""
        return {key: value for key, value in asdict(self).items() if value is not None}


def normalized(frame: pd.DataFrame) -> pd.DataFrame:
    """Reduce a table to numbers, booleans, datetimes and strings, under names that are strings.

    Categories become strings, even numeric ones: a category 3 is a name, not a number. Times with a zone become UTC.
    """
    names = [str(name) for name in frame.columns]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        advice = "Rename or delete the copies."
        _messages.fail(
            "read_table", "source", "a table whose columns differ in name", repeated, advice
        )
    columns = {name: _plain(frame.iloc[:, position], name) for position, name in enumerate(names)}
    return pd.DataFrame(columns, index=pd.RangeIndex(len(frame)), copy=False)


def _plain(series: pd.Series, name: str) -> pd.Series:
    series = series.reset_index(drop=True)
    kind = series.dtype
    if isinstance(kind, pd.CategoricalDtype):
        return _text(series.astype(object))
    if isinstance(kind, pd.DatetimeTZDtype):
        return series.dt.tz_convert("UTC").dt.tz_localize(None)
    if pd.api.types.is_timedelta64_dtype(kind):
        return series.dt.total_seconds()
    if isinstance(kind, pd.PeriodDtype):
        return series.dt.to_timestamp()
    if pd.api.types.is_complex_dtype(kind):
        _messages.fail("read_table", f"column {name!r}", "made of real numbers", "complex ones")
    if pd.api.types.is_object_dtype(kind):
        return _objects(series, name)
    return series


def _objects(series: pd.Series, name: str) -> pd.Series:
    """Convert a column of Python objects to its real type; mixed types become text."""
    held = pd.api.types.infer_dtype(series, skipna=True)
    if held == "empty":
        return series.astype(float)
    if held == "boolean":
        return series.astype("boolean")
    if held in {"integer", "floating", "mixed-integer-float", "decimal"}:
        return pd.to_numeric(series.where(series.notna(), np.nan).astype(float))
    if held in {"date", "datetime", "datetime64"}:
        return pd.to_datetime(series, utc=True).dt.tz_localize(None)
    nested = [value for value in series.dropna().head(1000) if isinstance(value, list | dict | set)]
    if nested:
        advice = "Spread it over several columns, or leave it out."
        got = f"a {type(nested[0]).__name__} in column {name!r}"
        _messages.fail("read_table", "source", "a flat table", got, advice)
    return _text(series)


def _text(series: pd.Series) -> pd.Series:
    return series.map(str, na_action="ignore").astype("str")


def names_as_text(frame: pd.DataFrame, columns: Sequence[str]) -> pd.DataFrame:
    """Turn numbers, dates and booleans in ``columns`` of ``frame`` into text."""
    changed = {name: _names(frame[name]) for name in columns if name in frame.columns}
    return frame.assign(**changed) if changed else frame


def frame_columns(frame: pd.DataFrame, formats: Mapping[str, str] | None = None) -> list[Column]:
    """Return name, kind and format of each column of a :func:`normalized` frame.

    Parameters
    ----------
    frame : DataFrame
        A table, as :func:`eastward.data.read_table` returns it.
    formats : mapping, optional
        Formats by column, where the file has its own.

    Returns
    -------
    list of Column
        One for each column of the table, in order.

    Examples
    --------
    >>> [
    ...     column.to_dict()
    ...     for column in frame_columns(pd.DataFrame({"age": [31, 40], "city": ["Graz", "Linz"]}))
    ... ]
    [{'name': 'age', 'kind': 'number'}, {'name': 'city', 'kind': 'category'}]
    """
    written = formats or {}
    return [Column(name, column_kind(frame[name]), written.get(name)) for name in frame.columns]


def column_kind(series: pd.Series) -> str:
    """Return the kind of a column: number, boolean, date, category (few strings) or text (many)."""
    if pd.api.types.is_bool_dtype(series):
        return "boolean"
    if pd.api.types.is_datetime64_any_dtype(series):
        return "date"
    if pd.api.types.is_numeric_dtype(series):
        return "number"
    return "category" if series.nunique() <= CATEGORY_LIMIT else "text"


def conform(frame: pd.DataFrame, columns: Sequence[Column], *, first_row: int = 0) -> pd.DataFrame:
    """Bring ``frame`` to exactly ``columns``, in their order and of their kinds.

    Parameters
    ----------
    frame : DataFrame
        A table, for example a part of a file; other columns are left out.
    columns : sequence of Column
        The columns of training.
    first_row : int, default=0
        Number of earlier rows in the file, for messages.

    Returns
    -------
    DataFrame
        The table with these columns; a copy only if something had to change.

    Examples
    --------
    >>> frame = pd.DataFrame({"city": ["Graz"], "age": ["31"], "note": ["x"]})
    >>> conform(frame, [Column("age", "number"), Column("city", "category")])
       age  city
    0   31  Graz
    """
    missing = [column.name for column in columns if column.name not in frame.columns]
    if missing:
        near = _messages.near_misses(missing[0], map(str, frame.columns))
        advice = near or "Add them, or train without them."
        got = f"none called {', '.join(map(repr, missing[:8]))}"
        got += f" and {len(missing) - 8} more" if len(missing) > 8 else ""
        expected = f"a table with the {len(columns)} columns of the training data"
        _messages.fail("predict", "data", expected, got, advice)
    parts = {column.name: _as_kind(frame[column.name], column, first_row) for column in columns}
    # With a given index, pandas does not compare the indices of all columns, which takes longer than the model itself.
    return pd.DataFrame(parts, index=frame.index, copy=False)


def _as_kind(series: pd.Series, column: Column, first_row: int) -> pd.Series:
    if column.format == AS_WRITTEN:
        return _names(series).astype("category")
    given = column_kind_fast(series)
    if given == column.kind or (given == "text" and column.kind == "category"):
        return series
    if series.isna().all():
        return series
    if column.kind == "number":
        converted = series.astype("Float64") if given == "boolean" else _numbers(series, column)
    elif column.kind == "date":
        converted = parse_dates(series, column.format)
    elif column.kind == "boolean":
        converted = _text(series.astype(object)).str.lower().map(TRUTH).astype("boolean")
    else:
        return _names(series)
    _check_converted(series, converted, column, first_row)
    return converted


def column_kind_fast(series: pd.Series) -> str:
    """Return the kind of a column without counting values: every string column is text."""
    is_text = not pd.api.types.is_numeric_dtype(series) and series.dtype.kind in "OUT"
    return "text" if is_text else column_kind(series)


def _numbers(series: pd.Series, column: Column) -> pd.Series:
    if column.format is None:
        return pd.to_numeric(series, errors="coerce")
    if column.format == CLOCK:
        return parse_clock(series)
    return NumberFormat.from_text(column.format).parse(series)


def _names(series: pd.Series) -> pd.Series:
    """Turn numbers into names; 3.0 becomes 3, as it was written where no value was missing."""
    if pd.api.types.is_float_dtype(series):
        known = series.dropna()
        if (known == np.floor(known)).all():
            series = series.astype("Int64")
    return _text(series.astype(object))


def _check_converted(
    series: pd.Series, converted: pd.Series, column: Column, first_row: int
) -> None:
    lost = (series.notna() & converted.isna()).to_numpy()
    # Words that skrub treats as missing in training are also missing here.
    lost = lost & ~_text(series.astype(object)).str.strip().isin(MISSING_WORDS).to_numpy()
    if not lost.any():
        return
    row = int(np.flatnonzero(lost)[0])
    got: Any = f"{series.iloc[row]!r} in row {first_row + row + 1}"
    got += f" and {int(lost.sum()) - 1} more" if lost.sum() > 1 else ""
    advice = "Correct the values, or leave the cells empty: missing values are filled in."
    expected = f"made of {column.kind}s{_example(column)} as in training"
    _messages.fail("predict", f"column {column.name!r}", expected, got, advice)


def _example(column: Column) -> str:
    if column.format is None:
        return ""
    shown = date_shown(column.format) if column.kind == "date" else column.format
    return f" such as {shown}"
