"""Describe a table before training: classes, imbalance, and what looks wrong."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from eastward.data.columns import Column, frame_columns
from eastward.data.dates import looks_like_a_date
from eastward.data.labels import label_names
from eastward.data.numbers import MISSING_WORDS, NumberFormat, written_differently
from eastward.data.task import Task

__all__ = ["copies_across", "describe_task"]

# A column is an id if nearly all values differ; with few rows that proves nothing.
ID_SHARE, ID_ROWS = 0.99, 20
# A column is suspicious if, by itself, it leaves only this share of the mistakes of always predicting the largest
# class.
LEAK_MISTAKES = 0.02
MOSTLY_MISSING = 0.95
NUMBERS_IN_TEXT = 0.8
# Cells that are compared with every format of a date.
MOST_DATES = 200
FEW_ROWS = 10
# One sentence for all columns with the same remark.
GROUPED = {
    "constant": "the same value in every row, so left out: {}",
    "empty": "no value at all, so left out: {}",
    "id": "each row has its own value, as in an id; leave out with --ignore what is one: {}",
    "date": "dates; to predict rows later than these, judge the model by later rows with --time: {}",
}


def describe_task(task: Task) -> dict[str, Any]:
    """Describe a task as a plain dictionary, with warnings in sentences.

    Parameters
    ----------
    task : Task
        From :func:`~eastward.data.load_task`.

    Returns
    -------
    dict
        ``name, rows, features, classes`` (label and count, most frequent first), ``imbalance`` (largest over
        smallest class), ``warnings`` and ``columns`` (name and kind).

    Examples
    --------
    >>> from eastward.data import load_task
    >>> frame = pd.DataFrame({"amount": [9, 3, 8, 2, 7], "fraud": ["yes", "no", "no", "yes", "no"]})
    >>> facts = describe_task(load_task(frame, "fraud"))
    >>> facts["rows"], facts["imbalance"], facts["classes"][0]
    (5, 1.5, {'label': 'no', 'count': 3})
    """
    classes, codes = np.unique(task.labels, return_inverse=True)
    counts = np.bincount(codes)
    order = np.argsort(-counts, kind="stable")
    names = label_names(classes)
    columns = frame_columns(task.features, task.formats)
    return {
        "name": task.name,
        "rows": len(task.labels),
        "features": len(columns),
        "classes": [{"label": names[k], "count": int(counts[k])} for k in order],
        "imbalance": float(counts.max() / counts.min()),
        "warnings": [*task.notes, *_warnings(task, columns, codes, names)],
        "columns": [column.to_dict() for column in columns],
    }


def copies_across(features: pd.DataFrame, held: NDArray[np.bool_]) -> int:
    """Count the held-out rows that have an exact copy among the others.

    Parameters
    ----------
    features : DataFrame
        The columns of all rows.
    held : ndarray of bool
        ``(N,)``: which rows are held out.

    Returns
    -------
    int
        Number of held-out rows with a copy.

    Examples
    --------
    >>> frame = pd.DataFrame({"x": [1, 2, 1, 3]})
    >>> copies_across(frame, np.array([False, False, True, True]))
    1
    """
    hashes = pd.util.hash_pandas_object(features, index=False).to_numpy()
    return int(np.isin(hashes[held], hashes[~held]).sum())


def _warnings(
    task: Task, columns: list[Column], codes: NDArray[np.intp], names: list[str]
) -> Iterator[str]:
    yield from _rare_classes(codes, names)
    told = {c.name: _mistakes_alone(task.features[c.name], codes, task.target) for c in columns}
    yield from (_leak(name, task.target, n) for name, n in told.items() if n is not None)
    others = [column for column in columns if told[column.name] is None]
    first = ~_row_hashes(task.features).duplicated().to_numpy()
    remarks = [_remark(task.features[column.name], column, first) for column in others]
    for kind, sentence in GROUPED.items():
        names = [c.name for c, remark in zip(others, remarks, strict=True) if remark == kind]
        if names and not (kind == "date" and task.times is not None):
            shown = ", ".join(map(repr, names[:6])) + (
                f" and {len(names) - 6} more" if len(names) > 6 else ""
            )
            yield sentence.format(shown)
    yield from (remark for remark in remarks if remark and remark not in GROUPED)
    ids = [c.name for c, remark in zip(others, remarks, strict=True) if remark == "id"]
    yield from _copies(task.features.drop(columns=ids), codes)


def _leak(name: str, target: str, mistakes: int) -> str:
    share = f"with {mistakes:,} mistake{'s' * (mistakes > 1)}" if mistakes else "without a mistake"
    return (
        f"{name!r} alone tells {target!r} {share}: is it known before the answer is? "
        f"If not, leave it out (--ignore {name!r})"
    )


def _row_hashes(features: pd.DataFrame) -> pd.Series:
    return pd.util.hash_pandas_object(features, index=False)


def _rare_classes(codes: NDArray[np.intp], names: list[str]) -> Iterator[str]:
    counts = np.bincount(codes)
    rare = [f"{names[k]} ({counts[k]})" for k in np.flatnonzero(counts < FEW_ROWS)]
    if rare:
        shown = ", ".join(rare[:6]) + (f" and {len(rare) - 6} more" if len(rare) > 6 else "")
        yield f"few rows of {shown}: what is measured on so few is uncertain"


def _mistakes_alone(series: pd.Series, codes: NDArray[np.intp], target: str) -> int | None:
    """Count the mistakes of a rule from one column to classes, if it is suspiciously good; else None.

    A rule is suspicious if it corrects all but 2 % of the mistakes of always predicting the largest class. Its values
    must occur often enough to rule out chance.
    """
    values = pd.factorize(series, use_na_sentinel=False)[0]
    kinds = int(values.max()) + 1
    counts = np.bincount(codes)
    otherwise = len(codes) - int(counts.max())
    allowed = max(1, round(LEAK_MISTAKES * otherwise)) if otherwise >= ID_ROWS else 0
    if kinds < 2 or kinds > max(2, len(values) // ID_ROWS):
        if str(series.name) == f"{target}.1":
            return 0
        if otherwise < ID_ROWS or not pd.api.types.is_numeric_dtype(series):
            return None
        mistakes = _mistakes_of_a_threshold(series, codes)
        return mistakes if mistakes <= allowed else None
    table = np.zeros((kinds, len(counts)), dtype=np.int64)
    np.add.at(table, (values, codes), 1)
    mistakes = len(codes) - int(table.max(axis=1).sum())
    return mistakes if mistakes <= allowed and otherwise else None


def _mistakes_of_a_threshold(series: pd.Series, codes: NDArray[np.intp]) -> int:
    """Count the mistakes of the best rule that takes one class up to a number and another one above it."""
    ranks = series.rank(method="dense").fillna(0).to_numpy(dtype=np.float64)
    order = np.argsort(ranks, kind="stable")
    below = np.cumsum(np.eye(int(codes.max()) + 1, dtype=np.int64)[codes[order]], axis=0)
    right = below.max(axis=1) + (below[-1] - below).max(axis=1)
    ends = np.append(np.diff(ranks[order]) > 0, True)  # a threshold never separates equal numbers
    return len(codes) - int(right[ends].max())


def _remark(series: pd.Series, column: Column, first: NDArray[np.bool_]) -> str:
    """Return a remark on a conspicuous column: a key of ``GROUPED``, a sentence, or nothing.

    ``first`` marks the rows that are not copies of earlier ones, because an id is copied with its row.
    """
    name, known = column.name, series.dropna()
    missing = 1 - len(known) / len(series)
    distinct = known.nunique()
    if distinct <= 1 and missing in {0, 1}:
        return "constant" if distinct else "empty"
    if missing > MOSTLY_MISSING:
        return f"{name!r} is missing in {missing:.1%} of the rows"
    if column.kind == "date":
        return "date"
    if _looks_like_an_id(series[first].dropna(), column, distinct):
        return "id"
    is_free_text = column.kind in {"category", "text"} and column.format is None
    return _nearly_one_kind(known, name) if is_free_text else ""


def _looks_like_an_id(known: pd.Series, column: Column, distinct: int) -> bool:
    if len(known) < ID_ROWS or distinct < ID_SHARE * len(known):
        return False
    if column.kind == "text":
        # Sentences also differ from row to row, but an id is one word.
        return not known.head(1000).str.strip().str.contains(r"\s").any()
    if column.kind == "number" and pd.api.types.is_integer_dtype(known):
        # 1, 2, 3 … without large gaps, in any order, are row numbers and not amounts.
        return int(known.max()) - int(known.min()) < 2 * len(known)
    return False


def _nearly_one_kind(known: pd.Series, name: str) -> str:
    """Explain why a column that is nearly all numbers or dates was read as text."""
    sample = known.head(10_000)
    sample = sample[~sample.str.strip().isin(MISSING_WORDS)]
    numbers = pd.to_numeric(sample, errors="coerce").notna()
    for decimal, thousands in (".,", ",."):
        numbers |= NumberFormat(decimal, thousands).parse(sample).notna()
    if numbers.mean() >= NUMBERS_IN_TEXT:
        return _odd_one_out(sample, numbers, name, "numbers")
    few = sample.head(MOST_DATES)
    dates = looks_like_a_date(few)
    return _odd_one_out(few, dates, name, "dates") if dates.mean() >= NUMBERS_IN_TEXT else ""


def _odd_one_out(sample: pd.Series, known: pd.Series, name: str, kind: str) -> str:
    others = sample[~known]
    if len(others):
        what = f"mixed types: {kind}, but also {others.iloc[0]!r} (row {int(others.index[0]) + 1})"
    elif kind == "numbers":
        pair = written_differently(sample)
        if pair is None:
            return ""
        what = f"numbers written in several ways, such as {pair[0]!r} and {pair[1]!r}"
    else:
        what = f"dates written in several ways, such as {sample.iloc[0]!r}"
    return f"{name!r} has {what}; it is read as text until that is corrected"


def _copies(features: pd.DataFrame, codes: NDArray[np.intp]) -> Iterator[str]:
    if not features.shape[1]:
        return
    hashes = _row_hashes(features).to_numpy()
    order = np.argsort(hashes, kind="stable")
    same = hashes[order][1:] == hashes[order][:-1]
    copies = int(same.sum())
    if not copies:
        return
    other = int((same & (codes[order][1:] != codes[order][:-1])).sum())
    subject = (
        "1 row is a copy"
        if copies == 1
        else f"{copies:,} rows ({copies / len(codes):.1%}) are copies"
    )
    yield (
        f"{subject} of others"
        + (f", {other:,} of them with another label" if other else "")
        + ": copies on both sides of a split make scores look better than they are"
    )
