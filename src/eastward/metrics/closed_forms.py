"""The metrics whose value and slope have a closed form.

They are quotients of counts or of products of counts, means of those, and weighted cells of the matrix. Autograd
differentiates all other metrics at the table, such as a user's callable.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
import torch

from eastward.confusion import Counts
from eastward.metrics import agreement, rates
from eastward.metrics.averaged_quotients import AVERAGES
from eastward.metrics.products import CORRELATION, KAPPA, Products
from eastward.metrics.quotients import (
    FOWLKES_MALLOWS,
    INFORMEDNESS,
    JACCARD,
    MARKEDNESS,
    PRECISION,
    RECALL,
    RIGHT,
    SPECIFICITY,
    TWO_SIDED_RECALL,
    ClosedForm,
    Quotients,
    f_beta_quotients,
)
from eastward.metrics.registry import Metric

__all__ = ["Form", "closed_form_of"]

_OF_CLASSES: Mapping[Callable[..., Any], Quotients] = MappingProxyType(
    {
        rates.precision: PRECISION,
        rates.recall: RECALL,
        rates.specificity: SPECIFICITY,
        rates.jaccard: JACCARD,
        rates.informedness: INFORMEDNESS,
        rates.markedness: MARKEDNESS,
        rates.fowlkes_mallows: FOWLKES_MALLOWS,
        agreement.geometric_mean: RECALL,
    }
)
# Only for classes that exclude each other; for labels autograd differentiates them.
_OF_TABLES: Mapping[Callable[..., Any], Products] = MappingProxyType(
    {agreement.matthews_corrcoef: CORRELATION, agreement.cohen_kappa: KAPPA}
)
# Takes counts (R, 4, C) or matrices (R, C, C) and a factor. Returns values (R,), slopes times the factor, the mean of
# the values, and whether a table is empty.
Form: TypeAlias = Callable[..., tuple[np.ndarray, np.ndarray, float, bool]]


def closed_form_of(metric: Metric, num_classes: int, *, exclusive: bool) -> Form | None:
    """Return the metric's closed form for this number of classes, or None if it has none.

    Examples
    --------
    >>> from eastward.metrics import get
    >>> closed_form_of(get("f1_macro"), 3, exclusive=True).average
    'macro'
    >>> closed_form_of(get("matthews_corrcoef"), 3, exclusive=False) is None
    True
    """
    function, options = metric.function, metric.options
    if metric.needs_matrix:
        return _closed_form_of_cells(metric, num_classes) if exclusive else None
    if function in _OF_TABLES:
        has_one = exclusive and options.get("weights") is None
        return _OF_TABLES[function].with_slope if has_one else None
    if function is agreement.geometric_mean and not exclusive:
        return None
    return _closed_form_of_classes(metric, num_classes, exclusive=exclusive)


def _closed_form_of_cells(metric: Metric, num_classes: int) -> Form | None:
    function, options = metric.function, metric.options
    blank = torch.ones(num_classes, num_classes, dtype=torch.float64)
    if function is agreement.expected_cost:
        cells = agreement.cost_cells(num_classes, options.get("cost"), blank)
    elif function is agreement.cohen_kappa and options.get("weights") is not None:
        metric(blank)  # The metric itself reports bad options.
        cells = agreement.kappa_cells(num_classes, options["weights"], blank)
    else:
        return None
    return None if cells.weights.requires_grad else cells.with_slope


def _closed_form_of_classes(
    metric: Metric, num_classes: int, *, exclusive: bool
) -> ClosedForm | None:
    function, options = metric.function, metric.options
    average = (
        "geometric" if function is agreement.geometric_mean else options.get("average", "macro")
    )
    if function in (rates.f1, rates.f_beta):
        quotients = f_beta_quotients(options.get("beta", 1.0), num_classes)
    elif function in _OF_CLASSES:
        quotients = _OF_CLASSES[function]
    elif function is agreement.balanced_accuracy:
        quotients = RECALL if exclusive else TWO_SIDED_RECALL
    elif function is agreement.accuracy:
        quotients, average = RECALL if exclusive else RIGHT, "micro"
    else:
        return None
    if average not in AVERAGES or _learns(quotients):
        return None
    # The metric itself reports bad options.
    blank = torch.ones(num_classes, dtype=torch.float64)
    metric(Counts(blank, blank, blank, blank, exclusive))
    return ClosedForm(quotients, average, options.get("absent", _default_absent(metric)))


def _learns(quotients: Quotients) -> bool:
    parts = (c for term in quotients.terms for side in term for c in side)
    return any(isinstance(c, torch.Tensor) and c.requires_grad for c in parts)


def _default_absent(metric: Metric) -> str:
    """Return the metric's own default for absent classes, which differs for balanced accuracy."""
    parameter = inspect.signature(metric.function).parameters.get("absent")
    return "observed" if parameter is None else str(parameter.default)
