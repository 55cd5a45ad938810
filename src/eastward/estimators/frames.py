"""Turn a user's table into numbers: indicators for categories, numbers for dates, medians for gaps."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags
from sklearn.utils.validation import _check_feature_names, _check_n_features, validate_data

from eastward import _checks

__all__ = [
    "Encoder",
    "checked_table",
    "date_numbers",
    "is_date",
    "needs_numbers",
    "refuse_odd_labels",
    "refuse_repeated_columns",
]

# A column gets at most this many indicators; rarer categories get zeros, like new ones.
MOST_CATEGORIES = 30

Array = NDArray[Any]


def checked_table(model: BaseEstimator, X: Any, *, reset: bool) -> Any:
    """Return ``X`` as a float32 array, or unchanged if it is a frame with text; NaN is allowed."""
    refuse_repeated_columns(X, type(model).__name__)
    if not _has_words(X):
        table = validate_data(model, X, reset=reset, dtype=np.float32, ensure_all_finite=False)
        refuse_infinity(table, getattr(model, "feature_names_in_", None), type(model).__name__)
        return table
    _check_feature_names(model, X, reset=reset)
    _check_n_features(model, X, reset=reset)
    if len(X) == 0:
        _checks.fail(type(model).__name__, "X", "of at least one row", "an empty frame")
    return X


def refuse_repeated_columns(X: Any, caller: str) -> None:
    """Refuse frames with repeated column names, because models find columns by name."""
    names = list(getattr(X, "columns", ()))
    if repeated := [name for name in dict.fromkeys(names) if names.count(name) > 1]:
        shown = ", ".join(repr(name) for name in repeated[:5])
        got = f"{shown} more than once"
        _checks.fail(caller, "X", "a frame with unique column names", got, "Rename or drop one.")


def refuse_odd_labels(caller: str, y: Any) -> None:
    """Refuse labels that cannot be sorted: missing ones, or text mixed with numbers.

    scikit-learn reports everything else that is wrong with ``y``, because its estimator checks expect its own
    messages.
    """
    try:
        labels = np.asarray(y)
    except (TypeError, ValueError):
        return
    if labels.dtype != object or labels.ndim != 1:
        return
    if missing := sum(map(_is_missing, labels)):
        advice = "Fill them in, or leave those rows out."
        _checks.fail(caller, "y", "filled in for every row", f"{missing:,} missing labels", advice)
    kinds = sorted({type(label).__name__ for label in labels})
    if len(kinds) > 1 and "str" in kinds:
        advice = "Make all of them text, for example with y.astype(str)."
        _checks.fail(caller, "y", "of one type", f"labels of {' and '.join(kinds)}", advice)


def _is_missing(label: object) -> bool:
    if isinstance(label, float):
        return bool(np.isnan(label))
    return label is None or type(label).__name__ in {"NAType", "NaTType"}


def refuse_infinity(table: Array, names: Any, caller: str, *, gaps: bool = True) -> None:
    """Refuse columns with infinity, and without ``gaps`` also those with NaN."""
    # Column by column, because the table may take half of the memory.
    columns = [
        c
        for c in range(table.shape[1])
        if (np.isinf(table[:, c]).any() if gaps else not np.isfinite(table[:, c]).all())
    ]
    if not columns:
        return
    shown = [str(names[c]) if names is not None else f"column {c}" for c in columns[:5]]
    more = f" and {len(columns) - 5} more" if len(columns) > 5 else ""
    what = "inf" if gaps else "NaN or inf"
    advice = "Impute them first, for example with sklearn.impute.SimpleImputer in a pipeline."
    if gaps:
        advice = "Put NaN where a value is not known."
    _checks.fail(caller, "X", "finite", f"{what} in {', '.join(shown)}{more}", advice)


def _has_words(X: Any) -> bool:
    return hasattr(X, "columns") and hasattr(X, "iloc") and not all(map(_is_number, X.dtypes))


# Packages whose classifiers take numbers only; others may have their own way with text.
NUMBERS_ONLY = ("sklearn", "lightgbm", "xgboost")


def needs_numbers(estimator: Any, X: Any) -> bool:
    """Whether ``X`` is a frame with words, dates or gaps that a classifier does not take.

    Pipelines, and classifiers of other packages, get a frame as it is.

    Examples
    --------
    >>> import pandas as pd
    >>> from sklearn.linear_model import LogisticRegression
    >>> needs_numbers(LogisticRegression(), pd.DataFrame({"city": ["Linz", "Graz"]}))
    True
    """
    inner = estimator
    while hasattr(inner, "estimator"):
        inner = inner.estimator
    if not (hasattr(X, "columns") and hasattr(X, "iloc")) or isinstance(inner, Pipeline):
        return False
    if type(inner).__module__.partition(".")[0] not in NUMBERS_ONLY:
        return False
    takes = get_tags(inner).input_tags
    known = [
        _is_number(dtype) or (takes.categorical and dtype.name == "category") for dtype in X.dtypes
    ]
    return not all(known) or (not takes.allow_nan and bool(X.isna().any(axis=None)))


def is_date(dtype: Any) -> bool:
    """Whether a column of this type holds dates.

    Examples
    --------
    >>> import pandas as pd
    >>> is_date(pd.Series(pd.to_datetime(["2024-05-01"])).dtype)
    True
    """
    return getattr(dtype, "kind", "O") == "M"


def date_numbers(column: Any) -> Array:
    """Turn dates into days since 1970, weekday and hour, ``(n, 3)``; NaN for missing dates.

    Examples
    --------
    >>> import pandas as pd
    >>> date_numbers(pd.Series(pd.to_datetime(["1970-01-02 12:00"])))
    array([[ 1.5,  4. , 12. ]], dtype=float32)
    """
    times = column.dt.tz_convert(None) if getattr(column.dt, "tz", None) is not None else column
    days = (times - np.datetime64("1970-01-01")).dt.total_seconds() / 86_400
    hours = times.dt.hour + times.dt.minute / 60
    parts = [np.asarray(part, dtype=np.float32) for part in (days, times.dt.day_of_week, hours)]
    return np.stack(parts, axis=1)


def _is_number(dtype: Any) -> bool:
    return getattr(dtype, "kind", "O") in "biuf"


@dataclass(frozen=True)
class Encoder:
    """Turns columns into numbers; :meth:`of` fits one, and JSON can store it.

    Attributes
    ----------
    categories : list
        For each column, the categories with an indicator, or None for a column of numbers.
    medians : list of float
        The replacement for a missing value of each encoded column.
    incomplete : list of int
        Encoded columns with missing values in training; they get an indicator of missing values.
    dates : list of int
        Columns of dates.
    centres, scales : list of float
        Mean and standard deviation of the columns of :meth:`filled` in training, for :meth:`scaled`; empty without.
    """

    categories: list[list[str] | None]
    medians: list[float]
    incomplete: list[int]
    dates: list[int] = field(default_factory=list)
    centres: list[float] = field(default_factory=list)
    scales: list[float] = field(default_factory=list)

    @classmethod
    def of_scaled(cls, table: Any) -> Encoder:
        """Fit the encoder on training rows, with means and deviations for :meth:`scaled`."""
        found = cls.of(table)
        filled = found.filled(found.raw(table)).astype(np.float64)
        spread = filled.std(axis=0)
        scales = np.where(spread > 0, spread, 1.0)
        return replace(found, centres=filled.mean(axis=0).tolist(), scales=scales.tolist())

    def scaled(self, table: Any) -> Array:
        """Encode without gaps, with mean 0 and deviation 1 in training, as linear models need it."""
        filled = self.filled(self.raw(table)).astype(np.float64)
        return ((filled - self.centres) / self.scales).astype(np.float32)

    @classmethod
    def of(cls, table: Any) -> Encoder:
        """Fit the encoder on training rows."""
        columns = _columns(table)
        categories = [_categories(column) for column in columns]
        dates = [k for k, column in enumerate(columns) if is_date(column.dtype)]
        raw = _numbers(table, categories, dates)
        missing = np.isnan(raw)
        known = [column[~gaps] for column, gaps in zip(raw.T, missing.T, strict=True)]
        medians = [float(np.median(values)) if len(values) else 0.0 for values in known]
        return cls(categories, medians, np.flatnonzero(missing.any(axis=0)).tolist(), dates)

    @property
    def width(self) -> int:
        """Number of columns of :meth:`filled`."""
        return len(self.medians) + len(self.incomplete)

    def raw(self, table: Any) -> Array:
        """Encode to float32 ``(n, encoded columns)``; missing values are NaN."""
        return _numbers(table, self.categories, self.dates)

    def filled(self, raw: Array) -> Array:
        """Encode without gaps: medians, and indicators of missing values."""
        missing = np.isnan(raw)
        complete = np.where(missing, np.asarray(self.medians, dtype=np.float32), raw)
        return np.hstack([complete, missing[:, self.incomplete]]).astype(np.float32, copy=False)


def _columns(table: Any) -> list[Any]:
    if isinstance(table, np.ndarray):
        return list(table.T)
    return [table.iloc[:, position] for position in range(table.shape[1])]


def _categories(column: Any) -> list[str] | None:
    if isinstance(column, np.ndarray) or _is_number(column.dtype) or is_date(column.dtype):
        return None
    counts = column.dropna().astype(str).value_counts()
    # By frequency, then by name, so that the order of rows does not matter.
    ordered = sorted(counts.index, key=lambda name: (-int(counts[name]), name))
    return ordered[:MOST_CATEGORIES]


def _numbers(table: Any, categories: list[list[str] | None], dates: list[int]) -> Array:
    if isinstance(table, np.ndarray):
        return table.astype(np.float32, copy=False)
    parts = []
    for position, (column, names) in enumerate(zip(_columns(table), categories, strict=True)):
        if position in dates:
            parts.append(date_numbers(column))
        elif names is None:
            parts.append(_number_column(column, position)[:, None])
        else:
            words = column.astype(object).where(column.notna(), None)
            text = np.asarray([None if word is None else str(word) for word in words], dtype=object)
            parts.append(text[:, None] == np.asarray(names, dtype=object)[None, :])
    return np.hstack(parts).astype(np.float32)


def _number_column(column: Any, position: int) -> Array:
    try:
        values = np.asarray(column.to_numpy(dtype=np.float32, na_value=np.nan))
    except (TypeError, ValueError):
        got = f"{column.dtype} in column {column.name!r}"
        advice = "It held numbers in fit."
        _checks.fail("fit or predict", "X", "made of numbers there", got, advice)
    if np.isinf(values).any():
        got = f"infinity in column {position}"
        _checks.fail("fit or predict", "X", "free of infinity", got, "NaN is allowed.")
    return values
