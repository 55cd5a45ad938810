"""Dates and times as people write them: 31.12.2023, 12/31/2023, 31 Dec 2023 18:05, and 18:05 alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

import pandas as pd

from eastward.data.numbers import MISSING_WORDS

__all__ = [
    "CLOCK",
    "clock_columns",
    "could_have_day_first",
    "date_formats",
    "date_shown",
    "looks_like_a_date",
    "parse_clock",
    "parse_dates",
]

ISO = "ISO8601"
DAYS = (
    "%d.%m.%Y",
    "%m/%d/%Y",
    "%d/%m/%Y",
    "%d-%m-%Y",
    "%m-%d-%Y",
    "%Y.%m.%d",
    "%d.%m.%y",
    "%m/%d/%y",
    "%d/%m/%y",
    "%d %b %Y",
    "%d %B %Y",
    "%d-%b-%Y",
    "%d-%b-%y",
    "%a, %d %b %Y",
    "%d. %B %Y",
    "%b %d, %Y",
    "%B %d, %Y",
)
TIMES = (
    *("", " %H:%M", " %H:%M:%S", ", %H:%M", ", %H:%M:%S"),
    *(" %I:%M %p", " %I:%M:%S %p", "T%H:%M:%S"),
)
FORMATS = (ISO, *(day + time for day in DAYS for time in TIMES))
LOOKED_AT = 50
# Dates as whole numbers: 20231231.
DIGITS = "%Y%m%d"
EARLIEST, LATEST = 1900_01_01, 2100_12_31
# The format of times without a day, which is also its example.
CLOCK = "18:05"
CLOCK_PATTERN = (
    r"^(?P<hours>\d{1,3}):(?P<minutes>[0-5]\d)(?::(?P<seconds>[0-5]\d(?:\.\d+)?))?"
    r"\s?(?P<half>[AaPp]\.?[Mm]\.?)?$"
)


def date_formats(
    frame: pd.DataFrame, columns: Sequence[str], *, day_first: bool = False
) -> dict[str, str]:
    """Find text columns of dates, and their ``strptime`` formats.

    ``03/04/2023`` alone may be in March or in April. Then the other columns decide, or ``day_first``.

    Examples
    --------
    >>> frame = pd.DataFrame({"seen": ["31.12.2023", "01.02.2024"], "city": ["Graz", "Linz"]})
    >>> date_formats(frame, ["seen", "city"])
    {'seen': '%d.%m.%Y'}
    """
    digits = {name: DIGITS for name in columns if _is_digits(frame[name])}
    columns = [name for name in columns if not pd.api.types.is_numeric_dtype(frame[name])]
    possible = {name: possible_dates(frame[name]) for name in columns}
    possible = {name: formats for name, formats in possible.items() if formats}
    certain = [formats[0] for formats in possible.values() if len(formats) == 1]
    first = day_first or any(text.startswith("%d") for text in certain)
    chosen = {
        name: min(formats, key=lambda text: text.startswith("%d") != first)
        for name, formats in possible.items()
    }
    return chosen | digits


def _is_digits(series: pd.Series) -> bool:
    """Whether whole numbers, such as 20231231, are all days of the last and this century."""
    if not pd.api.types.is_integer_dtype(series) or not len(series):
        return False
    return bool(series.between(EARLIEST, LATEST).all()) and bool(
        parse_dates(series, DIGITS).notna().all()
    )


def possible_dates(series: pd.Series) -> list[str]:
    """Return every format that all cells of a text column follow."""
    cells = pd.Series(series.dropna().unique()).astype("str").str.strip()
    cells = cells[~cells.isin(MISSING_WORDS)]
    few = cells.head(LOOKED_AT)
    # Day, month and year are needed: a number alone is not a date.
    if few.empty or not few.str.contains(r"\w\W+\w+\W+\d").all():
        return []
    return [
        text
        for text in FORMATS
        if parse_dates(few, text).notna().all() and parse_dates(cells, text).notna().all()
    ]


def could_have_day_first(formats: Mapping[str, str], frame: pd.DataFrame) -> list[str]:
    """Return the columns whose dates were read with the month first but could have the day first.

    Examples
    --------
    >>> frame = pd.DataFrame({"seen": ["03/04/2023", "05/06/2023"]})
    >>> could_have_day_first({"seen": "%m/%d/%Y"}, frame)
    ['seen']
    """
    return [
        name
        for name, text in formats.items()
        if text.startswith("%m") and any(t.startswith("%d") for t in possible_dates(frame[name]))
    ]


def looks_like_a_date(series: pd.Series) -> pd.Series:
    """Whether each cell is a date in some format, without its time of day.

    Examples
    --------
    >>> looks_like_a_date(pd.Series(["31.12.2023", "2024-02-01", "soon"])).tolist()
    [True, True, False]
    """
    found = pd.Series(False, index=series.index)
    for text in (ISO, *DAYS):
        found |= parse_dates(series, text).notna()
    return found & series.str.contains(r"\w\W+\w+\W+\d")


def clock_columns(frame: pd.DataFrame, columns: Sequence[str]) -> list[str]:
    """Return the text columns whose cells are all times without a day, such as 18:05 or 1:30:15.

    Examples
    --------
    >>> clock_columns(
    ...     pd.DataFrame({"start": ["18:05", "9:30"], "score": ["3:1", "0:2"]}), ["start", "score"]
    ... )
    ['start']
    """
    return [name for name in columns if _is_clock(frame[name])]


def _is_clock(series: pd.Series) -> bool:
    cells = pd.Series(series.dropna().unique()).astype("str").str.strip()
    cells = cells[~cells.isin(MISSING_WORDS)]
    return len(cells) > 0 and all(
        bool(part.str.match(CLOCK_PATTERN).all()) for part in (cells.head(LOOKED_AT), cells)
    )


def parse_clock(series: pd.Series) -> pd.Series:
    """Parse times such as 18:05 as hours; other cells are missing.

    Examples
    --------
    >>> parse_clock(pd.Series(["18:30", "6:30 PM", "12:15 am", "-"])).tolist()
    [18.5, 18.5, 0.25, nan]
    """
    parts = series.astype("str").str.strip().str.extract(CLOCK_PATTERN)
    hours, minutes, seconds = (
        pd.to_numeric(parts[name], errors="coerce").astype(float)
        for name in ("hours", "minutes", "seconds")
    )
    half = parts["half"].str.lower().str[0]
    hours = hours.where(half.isna(), hours % 12) + 12 * (half == "p").fillna(False).astype(float)
    return hours + minutes / 60 + seconds.fillna(0) / 3600


def parse_dates(series: pd.Series, text: str | None) -> pd.Series:
    """Parse dates in the format ``text`` (None: ISO 8601); other cells are missing."""
    cells = series.str.strip() if pd.api.types.is_string_dtype(series) else series
    if text == DIGITS and pd.api.types.is_numeric_dtype(series):
        cells = series.astype("Int64").astype("str")
    found = pd.to_datetime(cells, format=text or ISO, errors="coerce", utc=True)
    return found.dt.tz_localize(None)


def date_shown(text: str) -> str:
    """Return an example of a format.

    Examples
    --------
    >>> date_shown("%d.%m.%Y")
    '31.12.2023'
    """
    example = datetime(2023, 12, 31, 18, 5)  # noqa: DTZ001 - an example for readers
    return example.date().isoformat() if text == ISO else example.strftime(text)
