"""Average the values of classes into one number; all metrics share this code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from eastward import _checks
from eastward._numerics import VANISHED, at_least_float32, safe_divide
from eastward.confusion import Counts, counts_from_confusion

Average: TypeAlias = Literal["binary", "macro", "micro", "weighted", "none"] | int
Absent: TypeAlias = Literal["skip", "observed", "zero", "one"]

AVERAGES = ("binary", "macro", "micro", "weighted", "none")
ABSENT_POLICIES = ("skip", "observed", "zero", "one")


def averaged(
    caller: str,
    confusion: Tensor | Counts,
    formula: Callable[[Counts], Tensor],
    average: str | int,
    absent: str,
) -> Tensor:
    """Evaluate a per-class ``formula`` on the counts of ``confusion``; average it, or take one class."""
    single = isinstance(average, int) and not isinstance(average, bool)
    if not single:
        _checks.one_of(caller, "average", average, AVERAGES, otherwise="or the index of a class")
    _checks.one_of(caller, "absent", absent, ABSENT_POLICIES)
    counts = normalised_counts(caller, confusion)
    if average == "micro":
        return formula(_pooled(counts)).squeeze(0)
    if average == "binary" or single:
        return formula(counts)[_single_class(caller, counts, average)]
    values = formula(counts)
    if absent == "one":
        values = torch.where(counts.true <= VANISHED, 1.0, values)
    if average == "none":
        return values
    weights = counts.true if average == "weighted" else class_mask(counts, absent)
    return safe_divide((values * weights).sum(), weights.sum())


def class_mask(counts: Counts, absent: str) -> Tensor:
    """Return 1 for classes that count in a macro average under the policy ``absent``, else 0."""
    # Written so that NaN counts: an earlier mistake must not look like an absent class.
    if absent == "skip":
        left_out = counts.true <= VANISHED
    elif absent == "observed":
        left_out = (counts.true <= VANISHED) & (counts.predicted <= VANISHED)
    else:
        left_out = torch.zeros_like(counts.true, dtype=torch.bool)
    return (~left_out).to(counts.tp.dtype)


def normalised_counts(caller: str, confusion: Tensor | Counts) -> Counts:
    """Scale counts to a total mass of one, so that no metric depends on the scale of its input."""
    if isinstance(confusion, Counts):
        counts = confusion.map(at_least_float32)
    else:
        counts = counts_from_confusion(square_matrix(caller, confusion))
    total = (counts.tp + counts.fp + counts.fn + counts.tn).mean()
    # Small weights give a small mass; only an exact zero means an empty table.
    scale = torch.where(total <= 0, 1.0, total)
    return counts.map(lambda row: row / scale)


def square_matrix(caller: str, confusion: object) -> Tensor:
    """Return ``confusion`` as a floating ``(C, C)`` tensor; NumPy arrays and integer counts are allowed."""
    if isinstance(confusion, Counts):
        advice = "It needs the whole matrix; multilabel problems have none."
        _checks.fail(caller, "confusion", "a (C, C) matrix", "one-vs-rest Counts", advice)
    matrix = at_least_float32(_checks.numeric(caller, "confusion", confusion))
    if matrix.dim() != 2 or matrix.shape[0] != matrix.shape[1] or matrix.shape[0] < 2:
        expected = "a (C, C) matrix with C >= 2, rows true and columns predicted"
        _checks.fail(caller, "confusion", expected, _checks.describe(matrix))
    return matrix


def _pooled(counts: Counts) -> Counts:
    return counts.map(lambda row: row.sum().unsqueeze(0))


def _single_class(caller: str, counts: Counts, average: str | int) -> int:
    size = counts.tp.numel()
    if not isinstance(average, str):
        if not 0 <= average < size:
            _checks.fail(caller, "average", f"the index of one of {size} classes", average)
        return average
    if size != 2 or not counts.exclusive:
        kind = f"{size} classes" if counts.exclusive else f"{size} independent labels"
        advice = "Use 'macro', 'micro' or 'weighted' (in names: f1_macro and so on)."
        _checks.fail(caller, "average", "other than 'binary' here", kind, advice)
    return 1
