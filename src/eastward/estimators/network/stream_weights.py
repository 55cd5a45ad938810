"""Weights of streamed rows: a column of the table, weights of the classes, or both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute
import torch
from numpy.typing import NDArray
from torch import Tensor

from eastward import _checks
from eastward.estimators.network.preparation import CALLER
from eastward.training.streams import ParquetTable

__all__ = ["Weighting", "class_codes", "weight_values", "weighting_of"]


@dataclass(frozen=True)
class Weighting:
    """Computes weights of rows, with mean one over all rows of positive weight.

    Attributes
    ----------
    column : str or None
        Column of weights; None means that every row has weight one.
    by_class : Tensor
        ``(C,)``: factor of the weight of a row, by its class.
    """

    column: str | None
    by_class: Tensor

    def __call__(self, rows: pa.Table, codes: Tensor) -> Tensor:
        """Compute the weights ``(n,)`` of rows with these class indices."""
        factors = self.by_class[codes]
        if self.column is None:
            return factors
        return factors * torch.from_numpy(weight_values(rows.column(self.column), self.column))


def weight_values(column: pa.ChunkedArray, name: str) -> NDArray[np.float32]:
    """Check a column of weights: finite numbers that are not negative."""
    expected = "a column of finite, non-negative numbers"
    if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        _checks.fail(CALLER, f"sample_weight ({name!r})", expected, f"{column.type}")
    values: NDArray[np.float32] = column.to_numpy().astype(np.float32)
    wrong = ~np.isfinite(values) | (values < 0)
    if wrong.any():
        got = f"{values[wrong][0]} among them"
        _checks.fail(CALLER, f"sample_weight ({name!r})", expected, got, "Leave those rows out.")
    return values


def class_codes(column: pa.ChunkedArray, classes: NDArray[Any]) -> Tensor:
    """Return the indices of a column's values among the classes; other values are an error."""
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    plain = column.cast(kind) if pa.types.is_dictionary(column.type) else column
    found = pa.compute.index_in(plain, value_set=pa.array(classes.tolist(), type=kind))
    if found.null_count:
        unknown = plain.filter(found.is_null()).unique().to_pylist()[:5]
        expected = "made of classes that occur in y"
        advice = "The files changed after their classes were counted."
        _checks.fail(CALLER, "y", expected, f"unknown {unknown}", advice)
    return torch.from_numpy(found.to_numpy().astype(np.int64))


def weighting_of(
    table: ParquetTable, target: str, column: str | None, class_weight: Any, classes: NDArray[Any]
) -> Weighting | None:
    """Compute the weighting in one pass over target and weights; None if all weights are one."""
    if column is None and class_weight is None:
        return None
    mass, rows = _class_mass(table, target, column, classes)
    by_class = _class_factors(class_weight, mass, classes)
    if not (mass * by_class > 0).all():
        without = classes[mass * by_class <= 0].tolist()[:5]
        expected = "positive for some rows of every class"
        advice = "Leave the rows of those classes out of the files."
        _checks.fail(CALLER, "sample_weight", expected, f"zero for all rows of {without}", advice)
    # As in memory, loss and gradient do not depend on the scale of weights.
    mean = float((mass * by_class).sum() / rows.sum())
    return Weighting(column, torch.from_numpy(by_class / mean).float())


def _class_mass(
    table: ParquetTable, target: str, column: str | None, classes: NDArray[Any]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Compute the weight of each class, and its number of rows with positive weight."""
    mass, rows = np.zeros(len(classes)), np.zeros(len(classes))
    for group in table.groups:
        read = table.read(group, [target] if column is None else [target, column])
        codes = class_codes(read.column(target), classes).numpy()
        weights = (
            np.ones(len(codes)) if column is None else weight_values(read.column(column), column)
        )
        mass += np.bincount(codes, weights, minlength=len(classes))
        rows += np.bincount(codes, weights > 0, minlength=len(classes))
    return mass, rows


def _class_factors(
    class_weight: Any, mass: NDArray[np.float64], classes: NDArray[Any]
) -> NDArray[np.float64]:
    if class_weight is None:
        return np.ones(len(classes))
    if isinstance(class_weight, Mapping):
        return np.asarray([float(class_weight.get(name, 1.0)) for name in classes.tolist()])
    _checks.one_of(CALLER, "class_weight", class_weight, ("balanced",), otherwise="a mapping, None")
    balanced: NDArray[np.float64] = mass.sum() / (
        len(mass) * np.maximum(mass, np.finfo(float).tiny)
    )
    return balanced
