"""A table with a target column, checked before anything is trained on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from eastward import _checks
from eastward.tables.formats import COMPRESSIONS
from eastward.tables.labels import check_one_type, class_labels, label_names
from eastward.tables.reading import fail_no_column, read_table, source_name

__all__ = ["Task", "load_task"]

CALLER = "load_task"


@dataclass(frozen=True)
class Task:
    """Features and labels of a classification task.

    Attributes
    ----------
    features : DataFrame
        ``(rows, columns)``, raw.
    labels : ndarray
        ``(rows,)`` of strings, integers or booleans.
    target : str
        The column that the labels come from.
    name : str
        For titles.
    notes : tuple of str
        What was done to the table on the way.
    weights : ndarray, optional
        ``(rows,)``: how much each row counts.
    """

    features: pd.DataFrame
    labels: NDArray[Any]
    target: str
    name: str
    notes: tuple[str, ...] = ()
    weights: NDArray[np.float64] | None = None

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
    ignore: Sequence[str] = (),
    weight: str | None = None,
    encoding: str = "utf-8",
) -> Task:
    """Features and labels from a file or frame; an error says what is wrong with it.

    Parameters
    ----------
    source : path or frame
        As in :func:`~eastward.tables.read_table`.
    target : str
        The column to predict.
    drop_missing_target : bool, default=False
        Leave rows without a label out instead of stopping.
    drop_rare_classes : bool, default=False
        Leave rows out whose class occurs only once, instead of stopping.
    ignore : sequence of str
        Columns to leave out, such as ids.
    weight : str, optional
        A column of non-negative numbers that say how much each row counts; not a feature then.
    encoding : str, default="utf-8"
        Of text files.

    Returns
    -------
    Task

    Examples
    --------
    >>> frame = pd.DataFrame({"amount": [9, 3, 8, 2], "fraud": ["yes", "no", "yes", "no"]})
    >>> task = load_task(frame, "fraud")
    >>> task.features.shape, task.classes.tolist()
    ((4, 1), ['no', 'yes'])
    """
    table, name = read_table(source, encoding=encoding), source_name(source)
    weighed = [] if weight is None else [weight]
    for argument, columns in (("target", [target]), ("ignore", ignore), ("weight", weighed)):
        for column in columns:
            if column not in table.columns:
                fail_no_column(CALLER, argument, column, table, name)
    if isinstance(source, pd.DataFrame):
        check_one_type(source[target], target)
    features = table.drop(columns=[target, *ignore, *weighed])
    if not features.shape[1]:
        _checks.fail(CALLER, "source", "a table with columns besides the target", name)
    known, notes = _labelled_rows(table[target], target, drop=drop_missing_target)
    labels = class_labels(table[target][known], target)
    kept, more_notes = _frequent_classes(labels, target, drop=drop_rare_classes)
    rows = np.flatnonzero(known)[kept]
    if len(rows) < len(table):
        features, labels = features.iloc[rows].reset_index(drop=True), labels[kept]
    weights = None if weight is None else _row_weights(table[weight].iloc[rows], weight)
    return Task(features, labels, target, _short_name(source), (*notes, *more_notes), weights)


def _row_weights(column: pd.Series, name: str) -> NDArray[np.float64]:
    numbers = pd.to_numeric(column, errors="coerce")
    values: NDArray[np.float64] = numbers.to_numpy(dtype=np.float64, na_value=np.nan)
    wrong = ~np.isfinite(values) | (values < 0)
    if wrong.any():
        got = f"{str(column[wrong].iloc[0])!r} among {int(wrong.sum()):,} such values"
        advice = "Fill them in, or leave those rows out."
        _checks.fail(CALLER, f"weight {name!r}", "a column of non-negative numbers", got, advice)
    if not values.any():
        _checks.fail(CALLER, f"weight {name!r}", "positive for some rows", "zero for all")
    return values


def _labelled_rows(
    column: pd.Series, target: str, *, drop: bool
) -> tuple[NDArray[np.bool_], tuple[str, ...]]:
    known = column.notna().to_numpy()
    missing = int((~known).sum())
    if not known.any():
        _checks.fail(CALLER, f"target {target!r}", "filled in", "a column without any value")
    if not missing:
        return known, ()
    if not drop:
        rows = ", ".join(str(row + 1) for row in np.flatnonzero(~known)[:3])
        got = f"{missing:,} missing values in {len(column):,} rows (row {rows}{', …' * (missing > 3)})"
        advice = "Fill them in, or leave those rows out with drop_missing_target=True (--drop-missing-target)."
        _checks.fail(CALLER, f"target {target!r}", "filled in for every row", got, advice)
    return known, (f"{missing:,} rows without a value of {target!r} were left out",)


def _frequent_classes(
    labels: NDArray[Any], target: str, *, drop: bool
) -> tuple[NDArray[np.bool_], tuple[str, ...]]:
    """The rows whose class occurs at least twice, and what was left out."""
    classes, codes, counts = np.unique(labels, return_inverse=True, return_counts=True)
    kept = (counts >= 2)[codes]
    single = label_names(classes[counts < 2])
    shown = ", ".join(repr(name[:30]) for name in single[:8])
    shown += f" and {len(single) - 8} more" if len(single) > 8 else ""
    if single and not drop:
        advice = "Add rows, merge classes, or leave such rows out with drop_rare_classes=True (--drop-rare-classes)."
        expected = "made of classes with at least two rows, one to learn from and one to check"
        _checks.fail(CALLER, f"target {target!r}", expected, f"a single row of {shown}", advice)
    if (counts >= 2).sum() < 2:
        got = f"{label_names(classes)[0]!r} in every row" if len(classes) == 1 else "one class"
        advice = "A classifier needs examples of what else there is."
        _checks.fail(CALLER, f"target {target!r}", "made of at least two classes", got, advice)
    notes = (f"classes with a single row were left out: {shown}",) if single else ()
    return kept, notes


def _short_name(source: Any) -> str:
    if not isinstance(source, str | Path):
        return "table"
    path = Path(source)
    return Path(path.stem).stem if path.suffix.lower() in COMPRESSIONS else path.stem
