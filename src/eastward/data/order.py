"""Groups and times of rows, which splits must respect."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from eastward import _messages
from eastward.data.columns import column_kind_fast

__all__ = ["RowOrder", "row_order"]

CALLER = "load_task"


class RowOrder(NamedTuple):
    """Groups of rows and their order in time, as numbers, with notes."""

    groups: NDArray[np.int64] | None
    times: NDArray[np.int64] | None
    notes: tuple[str, ...]


def row_order(table: pd.DataFrame, group: str | None, time: str | None) -> RowOrder:
    """Read groups from the column ``group``, and ranks from the column ``time``.

    Examples
    --------
    >>> table = pd.DataFrame({"patient": ["Ann", "Bob", "Ann"], "year": [2021, 2020, 2022]})
    >>> order = row_order(table, "patient", "year")
    >>> order.groups.tolist(), order.times.tolist()
    ([0, 1, 0], [1, 0, 2])
    """
    groups = None if group is None else _ranks(table[group], group, "group")
    notes = []
    if groups is not None:
        if groups.max() == 0:
            advice = "Rows of one group are never split, so that none could be held out."
            _messages.fail(CALLER, f"group {group!r}", "of at least two values", "one", advice)
        notes.append(
            f"rows of one {group!r} are on one side of every split ({groups.max() + 1:,} groups)"
        )
    times = None
    if time is not None:
        if column_kind_fast(table[time]) not in {"date", "number"}:
            got = f"text such as {str(table[time].dropna().iloc[0])[:30]!r}"
            _messages.fail(CALLER, f"time {time!r}", "a column of dates or numbers", got)
        times = _ranks(table[time], time, "time")
        if times.max() == 0:
            advice = "Rows of one time are never split, so that none could be held out."
            _messages.fail(CALLER, f"time {time!r}", "of at least two values", "one", advice)
        notes.append(f"judged by rows that are later in {time!r} than those trained on")
    return RowOrder(groups, times, tuple(notes))


def _ranks(column: pd.Series, name: str, argument: str) -> NDArray[np.int64]:
    missing = int(column.isna().sum())
    if missing:
        got = f"{missing:,} missing values"
        _messages.fail(CALLER, f"{argument} {name!r}", "filled in for every row", got)
    codes, _ = pd.factorize(column, sort=True)
    return np.asarray(codes, dtype=np.int64)
