"""Convert tables for trees: numbers, codes for categories, NaN for missing values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from eastward import _checks
from eastward.estimators.frames import date_numbers, is_date

__all__ = ["Columns"]

Array: TypeAlias = NDArray[Any]
CALLER = "EASTBoostingClassifier"


@dataclass(frozen=True)
class Columns:
    """The categorical columns and their values; the code of a value is its position.

    Attributes
    ----------
    categories : dict of int to list
        The values of each categorical column in training.
    """

    categories: dict[int, list[Any]]

    @classmethod
    def of(cls, X: Any, chosen: Any) -> Columns:
        """Learn the categories of ``X``; ``chosen`` is "from_dtype", None, or names or positions of columns."""
        found = {}
        for column in _positions(X, chosen):
            found[column] = _values(_column(X, column))
        return cls(found)

    @property
    def categorical(self) -> tuple[int, ...]:
        """Positions of the categorical columns."""
        return tuple(sorted(self.categories))

    def encode(self, X: Any) -> Any:
        """Replace categories in ``X`` by codes; unknown ones become NaN, which trees treat as missing."""
        if hasattr(X, "iloc"):
            coded = {X.columns[k]: self._codes(X.iloc[:, k], k) for k in self.categorical}
            # Days since 1970; any unit works for the splits of a tree.
            times = [k for k, kind in enumerate(X.dtypes) if is_date(kind)]
            coded |= {X.columns[k]: date_numbers(X.iloc[:, k])[:, 0] for k in times}
            return X.assign(**coded) if coded else X
        if not self.categories:
            return X
        table = np.array(X, dtype=object)
        codes = {k: self._codes(table[:, k], k) for k in self.categorical if k < table.shape[1]}
        for column, values in codes.items():
            table[:, column] = values
        return table

    def _codes(self, values: Any, column: int) -> NDArray[np.float64]:
        position = {value: code for code, value in enumerate(self.categories[column])}
        known = [position.get(_plain(value), np.nan) for value in values]
        return np.array(known, dtype=np.float64)


def _positions(X: Any, chosen: Any) -> list[int]:
    frame = hasattr(X, "iloc")
    if chosen is None:
        return []
    if isinstance(chosen, str):
        _checks.one_of(
            CALLER, "categorical_features", chosen, ("from_dtype",), otherwise="a list, None"
        )
        return [k for k, kind in enumerate(X.dtypes) if _is_categorical(kind)] if frame else []
    if not isinstance(chosen, Iterable):
        expected, got = "'from_dtype', a list of columns, or None", _checks.describe(chosen)
        _checks.fail(CALLER, "categorical_features", expected, got, error=TypeError)
    return [_position(X, name) for name in chosen]


def _position(X: Any, name: Any) -> int:
    width = X.shape[1] if hasattr(X, "shape") else len(X[0])
    if isinstance(name, int | np.integer) and not isinstance(name, bool) and 0 <= name < width:
        return int(name)
    names: Sequence[Any] = list(X.columns) if hasattr(X, "columns") else []
    if name in names:
        return names.index(name)
    expected = f"made of names of columns or positions in [0, {width})"
    return _checks.fail(
        CALLER, "categorical_features", expected, repr(name), _checks.near_misses(name, names)
    )


def _is_categorical(dtype: Any) -> bool:
    """Whether a column holds categories or text, which trees treat alike."""
    return str(dtype) in {"category", "object", "str", "string"} or dtype == "string"


def _column(X: Any, column: int) -> Any:
    return X.iloc[:, column] if hasattr(X, "iloc") else np.array(X, dtype=object)[:, column]


def _values(column: Any) -> list[Any]:
    """Return the distinct values in order; a categorical type has its own order."""
    if str(getattr(column, "dtype", "")) == "category":
        return [_plain(value) for value in column.cat.categories]
    seen = {_plain(value) for value in column} - {None}
    return sorted(seen, key=lambda value: (isinstance(value, str), value))


def _plain(value: Any) -> Any:
    """Convert a value for JSON: a number or a string, or None if it is missing."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return None if np.isnan(value) else value
    # pandas has several missing values; none of them equals itself or is true.
    missing = value is None or str(value) in {"<NA>", "NaT"}
    return None if missing else str(value)
