"""Which metrics have value and slope in closed form: those that are quotients of counts.

A metric that is not listed here, a user's callable above all, is differentiated by autograd, at the table.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import torch

from eastward.confusion import Counts
from eastward.metrics import agreement, rates
from eastward.metrics.quotients import (
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

__all__ = ["closed_form_of"]

_OF_CLASSES: Mapping[Callable[..., Any], Quotients] = MappingProxyType(
    {
        rates.precision: PRECISION,
        rates.recall: RECALL,
        rates.specificity: SPECIFICITY,
        rates.jaccard: JACCARD,
        rates.informedness: INFORMEDNESS,
        rates.markedness: MARKEDNESS,
    }
)


def closed_form_of(metric: Metric, num_classes: int, *, exclusive: bool) -> ClosedForm | None:
    """The metric's closed form for counts of so many classes, or None if it has none.

    Examples
    --------
    >>> from eastward.metrics import get
    >>> closed_form_of(get("f1_macro"), 3, exclusive=True).average
    'macro'
    >>> closed_form_of(get("matthews_corrcoef"), 3, exclusive=True) is None
    True
    """
    function, options = metric.function, metric.options
    average = options.get("average", "macro")
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
    if average not in ("binary", "macro", "micro", "weighted") or _learns(quotients):
        return None
    # The metric itself says what is wrong with its options.
    blank = torch.ones(num_classes, dtype=torch.float64)
    metric(Counts(blank, blank, blank, blank, exclusive))
    return ClosedForm(quotients, average, options.get("absent", _default_absent(metric)))


def _learns(quotients: Quotients) -> bool:
    parts = (c for term in quotients.terms for side in term for c in side)
    return any(isinstance(c, torch.Tensor) and c.requires_grad for c in parts)


def _default_absent(metric: Metric) -> str:
    """What the metric does with absent classes when nobody says: balanced accuracy has a way of its own."""
    parameter = inspect.signature(metric.function).parameters.get("absent")
    return "observed" if parameter is None else str(parameter.default)
