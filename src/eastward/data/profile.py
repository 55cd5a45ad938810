"""Profile each column of a table: gaps, values, distribution, and association with the target."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from eastward.data.columns import Column, frame_columns
from eastward.data.labels import label_names
from eastward.data.task import Task

__all__ = ["profile_task"]

# Associations use at most this many rows and columns, because pairs grow with the square.
ASSOCIATION_ROWS, ASSOCIATION_COLUMNS = 2000, 60
# The most columns that a report shows.
MAX_COLUMNS = 300
BINS, TOP_VALUES, LONGEST_VALUE = 12, 5, 40
# A histogram ends this many interquartile ranges beyond the quartiles; otherwise one outlier would squeeze it.
FENCE = 3.0
# From this association on, two columns carry nearly the same information.
ALIKE, MOST_ALIKE = 0.9, 10


def profile_task(task: Task) -> dict[str, Any]:
    """Collect facts about every column, ready for JSON.

    Parameters
    ----------
    task : Task
        From :func:`~eastward.data.load_task`.

    Returns
    -------
    dict
        ``columns``, each with ``name``, ``kind``, ``missing`` (share), ``distinct``, ``target`` (Cramér's V with the
        target, 0 to 1, or None), and either ``numbers`` (``low``, ``median``, ``high``, ``bars``) or ``values`` (the
        most frequent, ``label`` and ``count``). ``alike``: pairs of columns that carry nearly the same information,
        with ``first``, ``second`` and ``association``.

    Notes
    -----
    Cramér's V is :func:`skrub.column_associations`, as in skrub's ``TableReport``, but numbers are replaced by ranks.
    Bins of equal width would put all rows but an outlier into one bin.

    Examples
    --------
    >>> from eastward.data import load_task
    >>> frame = pd.DataFrame(
    ...     {"amount": [9, 3, 8, None, 7], "city": list("aabab"), "y": list("pqqpq")}
    ... )
    >>> amount, city = profile_task(load_task(frame, "y"))["columns"]
    >>> amount["missing"], amount["numbers"]["median"], city["values"][0]
    (0.2, 7.5, {'label': 'a', 'count': 3})
    """
    columns = frame_columns(task.features, task.formats)[:MAX_COLUMNS]
    with_target, alike = _associations(task, columns)
    return {
        "columns": [
            {
                **_profile(task.features[column.name], column),
                "target": with_target.get(column.name),
            }
            for column in columns
        ],
        "alike": alike,
    }


def _profile(series: pd.Series, column: Column) -> dict[str, Any]:
    known = series.dropna()
    facts: dict[str, Any] = {
        "name": column.name,
        "kind": column.kind,
        "missing": 1 - len(known) / max(1, len(series)),
        "distinct": int(known.nunique()),
    }
    if column.kind == "date" and len(known):
        seconds = known.astype("datetime64[s]").astype(np.int64).to_numpy()
        numbers = _numbers(seconds)
        ends = {key: str(pd.Timestamp(numbers[key], unit="s"))[:10] for key in ENDS}
        return {**facts, "numbers": {**numbers, **ends}}
    if column.kind == "number" and len(known):
        return {**facts, "numbers": _numbers(known.to_numpy(dtype=np.float64))}
    counts = known.astype(str).value_counts()[:TOP_VALUES]
    values = [{"label": _short(name), "count": int(n)} for name, n in counts.items()]
    return {**facts, "values": values}


ENDS = ("low", "median", "high")
RANKED = ("number", "date")


def _numbers(values: NDArray[Any]) -> dict[str, Any]:
    finite = values[np.isfinite(values)]
    if not len(finite):
        return {**dict.fromkeys(ENDS), "bars": []}
    low, lower, median, upper, high = (
        float(end) for end in np.quantile(finite, [0, 0.25, 0.5, 0.75, 1])
    )
    reach = FENCE * (upper - lower) or high - low
    ends = max(low, lower - reach), min(high, upper + reach)
    bars = np.histogram(finite, bins=BINS, range=ends)[0]
    return {"low": low, "median": median, "high": high, "bars": bars.tolist()}


def _short(value: Any) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE - 1]}…"


def _associations(
    task: Task, columns: list[Column]
) -> tuple[dict[str, float], list[dict[str, Any]]]:
    """Compute Cramér's V of each column with the target, and find pairs of columns that are nearly redundant."""
    # Imported here, so that reading a table need not wait for skrub.
    from skrub import column_associations  # noqa: PLC0415

    names = [column.name for column in columns[:ASSOCIATION_COLUMNS]]
    rows = np.random.default_rng(0).permutation(len(task.labels))[:ASSOCIATION_ROWS]
    frame = task.features[names].iloc[rows].reset_index(drop=True)
    ranked = [column.name for column in columns[:ASSOCIATION_COLUMNS] if column.kind in RANKED]
    frame[ranked] = frame[ranked].rank()
    codes = np.unique(task.labels, return_inverse=True)[1]
    frame[None] = np.array(label_names(np.unique(task.labels)), dtype=object)[codes[rows]]
    frame.columns = [str(k) for k in range(len(frame.columns))]
    last = len(names)
    found = column_associations(frame, compute_pearson=False)
    told: dict[str, float] = {}
    alike: list[dict[str, Any]] = []
    for left, right, value in zip(
        found["left_column_idx"], found["right_column_idx"], found["cramer_v"], strict=True
    ):
        if not np.isfinite(value):
            continue
        if last in (left, right):
            told[names[min(left, right)]] = float(value)
        elif value >= ALIKE:
            pair = {"first": names[left], "second": names[right], "association": float(value)}
            alike.append(pair)
    return told, sorted(alike, key=lambda pair: -pair["association"])[:MOST_ALIKE]
