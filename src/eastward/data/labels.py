"""Turn a column into classes, and another table's column into the same classes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from eastward import _messages
from eastward.data.columns import TRUTH, column_kind

__all__ = ["check_one_type", "class_labels", "label_codes", "label_names"]

CALLER = "load_task"
# Numbers with more distinct values are amounts, not names of classes; the limit is lower for decimals.
MAX_NUMERIC_CLASSES = 100
MAX_DECIMAL_CLASSES = 20


def label_names(labels: NDArray[Any]) -> list[str]:
    """Format labels as people write them.

    Parameters
    ----------
    labels : ndarray
        Strings, integers or booleans.

    Returns
    -------
    list of str
        One string for each label.

    Examples
    --------
    >>> label_names(np.array([0, 1]))
    ['0', '1']
    """
    return [str(label) for label in labels.tolist()]


def class_labels(column: pd.Series, target: str) -> NDArray[Any]:
    """Convert a column without missing values to strings, integers or booleans."""
    kind = column_kind(column)
    if kind == "date":
        advice = "Convert it to a column of classes first."
        _messages.fail(
            CALLER, "target", "a column of classes", f"{target!r}, which has dates", advice
        )
    if kind != "number":
        return np.asarray(column, dtype=bool if kind == "boolean" else str)
    _check_not_regression(column, target)
    values: NDArray[Any] = np.asarray(column)
    whole = np.issubdtype(values.dtype, np.integer) or bool((values == np.floor(values)).all())
    return values.astype(np.int64) if whole else values.astype(str)


def label_codes(column: pd.Series, classes: NDArray[Any], target: str) -> NDArray[np.int64]:
    """Return the positions of ``column`` among ``classes``, in any spelling of the file; -1 if missing.

    Parameters
    ----------
    column : Series
        Labels as a file writes them.
    classes : ndarray
        The classes of training, sorted.
    target : str
        Name of the column, for messages.

    Returns
    -------
    ndarray
        ``(N,)`` integers.

    Examples
    --------
    >>> label_codes(pd.Series(["1", "0.0", None]), np.array([0, 1]), "fraud").tolist()
    [1, 0, -1]
    """
    if classes.dtype.kind in "iu":
        values = pd.to_numeric(column, errors="coerce")
    elif classes.dtype.kind == "b":
        values = column.astype(object).map(lambda value: TRUTH.get(str(value).lower()))
    else:
        values = column.map(str, na_action="ignore")
    codes = pd.Index(classes).get_indexer(pd.Index(values))
    unknown = column[(codes < 0) & column.notna().to_numpy()]
    if len(unknown):
        got = f"unknown {sorted({str(value) for value in unknown})[:5]} in {len(unknown):,} rows"
        expected = f"made of classes of the training data ({', '.join(label_names(classes)[:8])})"
        advice = "Leave those rows out, or train on data that has them."
        _messages.fail("evaluate", f"target {target!r}", expected, got, advice)
    return np.asarray(codes, dtype=np.int64)


def check_one_type(column: pd.Series, target: str) -> None:
    """Refuse a mixture of labels such as 1 and "1", which may or may not be one class."""
    if not pd.api.types.is_object_dtype(column):
        return
    held = column.dropna()
    examples = {type(value).__name__: value for value in held.unique()}
    if len(examples) > 1 and not set(examples) <= {"int", "float", "int64", "float64"}:
        got = ", ".join(f"{value!r} ({name})" for name, value in sorted(examples.items())[:4])
        advice = f"Convert the column: frame[{target!r}].astype(str)."
        _messages.fail(CALLER, f"target {target!r}", "of one type", got, advice)


def _check_not_regression(column: pd.Series, target: str) -> None:
    values = column.unique()
    if not np.isfinite(values.astype(float)).all():
        _messages.fail(CALLER, f"target {target!r}", "made of classes", "infinite numbers")
    whole = bool((values == np.floor(values)).all())
    if len(values) <= (MAX_NUMERIC_CLASSES if whole else MAX_DECIMAL_CLASSES):
        return
    got = f"{len(values):,} different numbers from {values.min():g} to {values.max():g}"
    advice = (
        "Predicting an amount is regression, which eastward does not do; bin the column into classes, "
        "or, if the numbers are names, write them as text (class_17)."
    )
    _messages.fail(CALLER, f"target {target!r}", "made of classes", got, advice)
