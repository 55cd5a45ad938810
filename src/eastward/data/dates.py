"""Dates as people write them: 31.12.2023, 12/31/2023, 31 Dec 2023 18:05."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import pandas as pd

from eastward.data.numbers import MISSING_WORDS

__all__ = ["date_formats", "date_shown", "parse_dates"]

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
    "%d. %B %Y",
    "%b %d, %Y",
    "%B %d, %Y",
)
TIMES = ("", " %H:%M", " %H:%M:%S", ", %H:%M", " %I:%M %p", "T%H:%M:%S")
FORMATS = (ISO, *(day + time for day in DAYS for time in TIMES))
LOOKED_AT = 50


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
    possible = {name: possible_dates(frame[name]) for name in columns}
    possible = {name: formats for name, formats in possible.items() if formats}
    certain = [formats[0] for formats in possible.values() if len(formats) == 1]
    first = day_first or any(text.startswith("%d") for text in certain)
    return {
        name: min(formats, key=lambda text: text.startswith("%d") != first)
        for name, formats in possible.items()
    }


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


def parse_dates(series: pd.Series, text: str | None) -> pd.Series:
    """Parse dates in the format ``text`` (None: ISO 8601); other cells are missing."""
    cells = series.str.strip() if pd.api.types.is_string_dtype(series) else series
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
