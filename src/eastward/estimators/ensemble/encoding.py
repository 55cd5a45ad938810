"""From a user's table to numbers: indicators for categories, medians for what is missing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import _check_feature_names, _check_n_features, validate_data

from eastward import _checks

__all__ = ["Encoder", "checked_table"]

# Rarer categories than these of a column share the row of zeros with those never seen.
MOST_CATEGORIES = 30

Array = NDArray[Any]


def checked_table(model: Any, X: Any, *, reset: bool) -> Any:
    """``X`` as a float32 array, or as the frame it is if it has columns of words; NaN may stay."""
    if not _has_words(X):
        return validate_data(model, X, reset=reset, dtype=np.float32, ensure_all_finite="allow-nan")
    _check_feature_names(model, X, reset=reset)
    _check_n_features(model, X, reset=reset)
    if len(X) == 0:
        _checks.fail("EASTEnsembleClassifier", "X", "of one row at least", "an empty frame")
    return X


def _has_words(X: Any) -> bool:
    return hasattr(X, "dtypes") and hasattr(X, "iloc") and not all(map(_is_number, X.dtypes))


def _is_number(dtype: Any) -> bool:
    return getattr(dtype, "kind", "O") in "biuf"


@dataclass(frozen=True)
class Encoder:
    """How columns become numbers; made by :meth:`of`, and written to JSON as it is.

    Attributes
    ----------
    categories : list
        For each column the categories that have an indicator, or None for a column of numbers.
    medians : list of float
        What stands for a missing value of each encoded column, where one has to.
    incomplete : list of int
        Encoded columns that missed values in training; they get an indicator of that.
    """

    categories: list[list[str] | None]
    medians: list[float]
    incomplete: list[int]

    @classmethod
    def of(cls, table: Any) -> Encoder:
        """The encoder of training rows."""
        categories = [_categories(column) for column in _columns(table)]
        raw = _numbers(table, categories)
        missing = np.isnan(raw)
        known = [column[~gaps] for column, gaps in zip(raw.T, missing.T, strict=True)]
        medians = [float(np.median(values)) if len(values) else 0.0 for values in known]
        return cls(categories, medians, np.flatnonzero(missing.any(axis=0)).tolist())

    def raw(self, table: Any) -> Array:
        """Float32 ``(n, encoded columns)``; what is missing is NaN."""
        return _numbers(table, self.categories)

    def filled(self, raw: Array) -> Array:
        """:meth:`raw` without gaps: medians, and indicators of what was missing."""
        missing = np.isnan(raw)
        complete = np.where(missing, np.asarray(self.medians, dtype=np.float32), raw)
        return np.hstack([complete, missing[:, self.incomplete]]).astype(np.float32, copy=False)


def _columns(table: Any) -> list[Any]:
    if isinstance(table, np.ndarray):
        return list(table.T)
    return [table.iloc[:, position] for position in range(table.shape[1])]


def _categories(column: Any) -> list[str] | None:
    if isinstance(column, np.ndarray) or _is_number(column.dtype):
        return None
    counts = column.dropna().astype(str).value_counts()
    # By frequency, then by name: the order of rows must not matter.
    ordered = sorted(counts.index, key=lambda name: (-int(counts[name]), name))
    return ordered[:MOST_CATEGORIES]


def _numbers(table: Any, categories: list[list[str] | None]) -> Array:
    if isinstance(table, np.ndarray):
        return table.astype(np.float32, copy=False)
    parts = []
    for position, (column, names) in enumerate(zip(_columns(table), categories, strict=True)):
        if names is None:
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
        _checks.fail("EASTEnsembleClassifier", "X", "made of numbers there", got, advice)
    if np.isinf(values).any():
        got = f"infinity in column {position}"
        _checks.fail("EASTEnsembleClassifier", "X", "free of infinity", got, "NaN is allowed.")
    return values
