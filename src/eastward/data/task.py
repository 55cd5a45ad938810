"""A table with a target column, checked before anything is trained on it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from eastward import _messages
from eastward.data.classes import ClassRules, settled_labels
from eastward.data.formats import COMPRESSIONS, file_and_part
from eastward.data.labels import check_one_type, class_labels
from eastward.data.order import row_order
from eastward.data.reading import fail_no_column, read_table, source_name
from eastward.data.tidying import tidied

__all__ = ["Task", "check_roles", "load_task"]

CALLER = "load_task"


@dataclass(frozen=True)
class Task:
    """Features and labels of a classification task.

    Attributes
    ----------
    features : DataFrame
        ``(rows, columns)``, before preprocessing.
    labels : ndarray
        ``(rows,)`` of strings, integers or booleans.
    target : str
        The column that the labels come from.
    name : str
        Name of the data, for titles.
    notes : tuple of str
        What was done to the table while reading it.
    weights : ndarray, optional
        ``(rows,)``: how much each row counts.
    formats : mapping
        How the file writes the numbers and dates of some columns; see :class:`~eastward.data.Column`.
    renamed : mapping
        Labels of the file that were renamed: merged spellings and rare classes.
    groups, times : ndarray, optional
        ``(rows,)``: which rows stay together in splits, and the order of rows in time.

    Examples
    --------
    :func:`load_task` makes one from a file or a frame.

    >>> frame = pd.DataFrame({"age": [31, 40, 52, 23], "fraud": ["no", "yes", "yes", "no"]})
    >>> task = load_task(frame, "fraud")
    >>> task.features.columns.tolist(), task.classes.tolist()
    (['age'], ['no', 'yes'])
    """

    features: pd.DataFrame
    labels: NDArray[Any]
    target: str
    name: str
    notes: tuple[str, ...] = ()
    weights: NDArray[np.float64] | None = None
    formats: Mapping[str, str] = field(default_factory=dict)
    renamed: Mapping[str, str] = field(default_factory=dict)
    groups: NDArray[np.int64] | None = None
    times: NDArray[np.int64] | None = None

    @property
    def classes(self) -> NDArray[Any]:
        """The classes, sorted."""
        return np.unique(self.labels)


def load_task(
    source: Any,
    target: str,
    *,
    drop_missing_target: bool = False,
    drop_rare_classes: bool = False,
    min_class_rows: int | None = None,
    merge_rare: str | None = None,
    merge_labels: bool = False,
    ignore: Sequence[str] = (),
    weight: str | None = None,
    group: str | None = None,
    time: str | None = None,
    decimal: str | None = None,
    text: Sequence[str] = (),
    encoding: str = "utf-8",
) -> Task:
    """Load features and labels from a file or frame, and check them.

    Parameters
    ----------
    source : path or frame
        A file or table in any form that :func:`~eastward.data.read_table` reads.
    target : str
        The column to predict.
    drop_missing_target : bool, default=False
        Leave out rows without a label, instead of stopping.
    drop_rare_classes : bool, default=False
        Leave out rows whose class occurs only once, instead of stopping.
    min_class_rows : int, optional
        Leave out rows whose class has fewer rows than this.
    merge_rare : str, optional
        Merge classes with fewer than ``min_class_rows`` (ten by default) into one of this name.
    merge_labels : bool, default=False
        Merge labels that differ only in case or spaces; otherwise they are reported.
    ignore : sequence of str
        Columns to leave out, such as ids.
    weight : str, optional
        A column of non-negative numbers that say how much each row counts; it is not a feature.
    group : str, optional
        A column whose equal values stay on one side of every split, such as a patient; it is not a feature.
    time : str, optional
        A column of dates or numbers: models are judged by later rows than they are trained on.
    decimal : {".", ","}, optional
        The decimal sign, if a column could be read both ways; by default all columns together decide.
    text : sequence of str
        Columns to read as text, although they look like numbers or dates.
    encoding : str, default="utf-8"
        Encoding of text files.

    Returns
    -------
    Task
        Features, labels, and notes on what was changed.

    Examples
    --------
    >>> frame = pd.DataFrame({"amount": [9, 3, 8, 2], "fraud": ["yes", "no", "yes", "no"]})
    >>> task = load_task(frame, "fraud")
    >>> task.features.shape, task.classes.tolist()
    ((4, 1), ['no', 'yes'])
    """
    for argument, flag in (
        ("drop_missing_target", drop_missing_target),
        ("drop_rare_classes", drop_rare_classes),
        ("merge_labels", merge_labels),
    ):
        _messages.boolean("load_task", argument, flag)
    _check_class_name(merge_rare)
    _check_names(target, ignore=ignore, text=text, weight=weight, group=group, time=time)
    raw, name = read_table(source, encoding=encoding), source_name(source)
    weighed, grouped, timed = ([] if c is None else [c] for c in (weight, group, time))
    named = {"target": [target], "ignore": ignore, "weight": weighed, "group": grouped}
    _check_columns(raw, {**named, "text": text, "time": timed}, name)
    check_roles(named)
    check_roles({"target": [target], "group": grouped, "weight": weighed, "time": timed})
    if isinstance(source, pd.DataFrame):
        check_one_type(source[target], target)
    raw = read_table(source, encoding=encoding, as_text=text) if text else raw
    tidy = tidied(
        raw.drop(columns=[column for column in ignore if column != time]),
        source=source,
        target=target,
        decimal=decimal,
        text=[column for column in text if column not in {*ignore, time}],
        encoding=encoding,
    )
    table = tidy.table
    left_out = [target, *weighed, *grouped, *(column for column in timed if column in ignore)]
    features = table.drop(columns=left_out)
    _check_features(features, name)
    known, notes = _labelled_rows(table[target], target, drop=drop_missing_target)
    rules = ClassRules(merge_labels, min_class_rows, drop_rare_classes, merge_rare)
    settled = settled_labels(class_labels(table[target][known], target), target, rules)
    rows = np.flatnonzero(known)[settled.kept]
    if len(rows) < len(table):
        features = features.iloc[rows].reset_index(drop=True)
    weights = None if weight is None else _row_weights(table[weight].iloc[rows], weight)
    order = row_order(table.iloc[rows], group, time)
    return Task(
        features,
        settled.labels,
        target,
        _short_name(source),
        (*tidy.notes, *notes, *settled.notes, *order.notes),
        weights,
        tidy.formats,
        settled.renamed,
        order.groups,
        order.times,
    )


def check_roles(named: Mapping[str, Sequence[str]]) -> None:
    """Check that no column has two roles.

    Examples
    --------
    >>> check_roles({"target": ["fraud"], "ignore": ["fraud"]})
    Traceback (most recent call last):
        ...
    ValueError: ignore of load_task must be another column than target; got 'fraud'. A column has one role.
    """
    roles: dict[str, str] = {}
    for argument, columns in named.items():
        for column in columns:
            first = roles.setdefault(column, argument)
            if first != argument:
                expected = f"another column than {first}"
                _messages.fail(CALLER, argument, expected, repr(column), "A column has one role.")


def _check_class_name(merge_rare: object) -> None:
    if merge_rare is not None and not isinstance(merge_rare, str):
        got = _messages.describe(merge_rare)
        _messages.fail("load_task", "merge_rare", "the name of a class", got, error=TypeError)


def _check_names(target: object, **given: object) -> None:
    """Check that columns are named by something that can be a name, before a file is read."""
    for argument, value in given.items():
        if argument in ("ignore", "text") and (
            isinstance(value, str) or not isinstance(value, Iterable)
        ):
            got = _messages.describe(value)
            expected = "a sequence of columns"
            _messages.fail("load_task", argument, expected, got, error=TypeError)
    alone = {name: value for name, value in given.items() if name not in ("ignore", "text")}
    for argument, value in {"target": target, **alone}.items():
        try:
            hash(value)
        except TypeError:
            got = _messages.describe(value)
            _messages.fail("load_task", argument, "a column", got, error=TypeError)


def _check_columns(table: pd.DataFrame, named: Mapping[str, Sequence[str]], name: str) -> None:
    """Check that every named column exists."""
    for argument, columns in named.items():
        for column in columns:
            if column not in table.columns:
                fail_no_column(CALLER, argument, column, table, name)


def _check_features(features: pd.DataFrame, name: str) -> None:
    """Check that there is a column besides the target that is not constant."""
    if not features.shape[1]:
        _messages.fail(CALLER, "source", "a table with columns besides the target", name)
    # The first rows nearly always suffice to find one.
    if len(features.head(100).drop_duplicates()) == len(features.drop_duplicates()) == 1:
        expected = "a table with a column that differs from row to row"
        got = f"{name}, where all {features.shape[1]} are constant"
        _messages.fail(CALLER, "source", expected, got, "There is nothing to learn from.")


def _row_weights(column: pd.Series, name: str) -> NDArray[np.float64]:
    numbers = pd.to_numeric(column, errors="coerce")
    values: NDArray[np.float64] = numbers.to_numpy(dtype=np.float64, na_value=np.nan)
    wrong = ~np.isfinite(values) | (values < 0)
    if wrong.any():
        got = f"{str(column[wrong].iloc[0])!r} among {int(wrong.sum()):,} such values"
        advice = "Fill them in, or leave those rows out."
        _messages.fail(CALLER, f"weight {name!r}", "a column of non-negative numbers", got, advice)
    if not values.any():
        _messages.fail(CALLER, f"weight {name!r}", "positive for some rows", "zero for all")
    return values


def _labelled_rows(
    column: pd.Series, target: str, *, drop: bool
) -> tuple[NDArray[np.bool_], tuple[str, ...]]:
    known = column.notna().to_numpy()
    missing = int((~known).sum())
    if not known.any():
        _messages.fail(CALLER, f"target {target!r}", "filled in", "a column without any value")
    if not missing:
        return known, ()
    if not drop:
        rows = ", ".join(str(row + 1) for row in np.flatnonzero(~known)[:3])
        got = f"{missing:,} missing values in {len(column):,} rows (row {rows}{', …' * (missing > 3)})"
        advice = "Fill them in, or leave those rows out with drop_missing_target=True (--drop-missing-target)."
        _messages.fail(CALLER, f"target {target!r}", "filled in for every row", got, advice)
    return known, (f"{missing:,} rows without a value of {target!r} were left out",)


def _short_name(source: Any) -> str:
    if not isinstance(source, str | Path):
        return "table"
    path, part = file_and_part(Path(source))
    if part is not None:
        return Path(part).stem
    inner = path.suffix.lower() in (*COMPRESSIONS, ".zip")
    return Path(path.stem).stem if inner else path.stem
