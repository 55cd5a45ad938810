"""What a closed-form derivative has to know of a metric: numbers, no callables.

Most metrics are sums of quotients of linear forms in tp, fp, fn, tn of a class. F-beta, precision, recall,
specificity, Jaccard, informedness and markedness then differ in their coefficients alone, and one formula
differentiates them all. The few others have a code of their own. A metric that is not listed here, a
user's callable above all, is differentiated by autograd.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import torch

from eastward import _checks
from eastward.confusion import Counts
from eastward.metrics import Metric, agreement, rates

__all__ = ["Rule", "rule_of"]

RATIOS, FOWLKES_MALLOWS, PAIR_GEOMETRIC, ACCURACY, CORRELATION, KAPPA, GEOMETRIC = range(7)
AVERAGES = ("binary", "macro", "weighted", "micro")
ABSENT = ("skip", "observed", "zero", "one")
NO_VIRTUAL, VIRTUAL_CLASSES, VIRTUAL_LABELS, VIRTUAL_POOLED = range(4)

# Coefficients of (tp, fp, fn, tn) in numerator and denominator.
_PRECISION = ((1, 0, 0, 0), (1, 1, 0, 0))
_RECALL = ((1, 0, 0, 0), (1, 0, 1, 0))
_SPECIFICITY = ((0, 0, 0, 1), (0, 1, 0, 1))
_NEGATIVE_VALUE = ((0, 0, 0, 1), (0, 0, 1, 1))
_JACCARD = ((1, 0, 0, 0), (1, 1, 1, 0))

_QUOTIENTS: Mapping[Callable[..., Any], tuple[Any, ...]] = MappingProxyType(
    {
        rates.precision: (_PRECISION,),
        rates.recall: (_RECALL,),
        rates.specificity: (_SPECIFICITY,),
        rates.jaccard: (_JACCARD,),
        rates.informedness: (_RECALL, _SPECIFICITY),
        rates.markedness: (_PRECISION, _NEGATIVE_VALUE),
    }
)
_WHOLE = MappingProxyType(
    {
        rates.fowlkes_mallows: FOWLKES_MALLOWS,
        agreement.accuracy: ACCURACY,
        agreement.matthews_corrcoef: CORRELATION,
        agreement.cohen_kappa: KAPPA,
    }
)


class Rule(NamedTuple):
    """A metric as numbers.

    Attributes
    ----------
    code : int
        Which formula.
    average, absent : int
        Positions in ``AVERAGES`` and ``ABSENT``.
    exclusive : bool
        Whether the classes exclude each other.
    virtual : int
        What is added when a class is missing.
    higher_is_better : bool
        Whether the loss is one minus the value.
    numerators, denominators : ndarray
        ``(P, 4, C)``, float64: coefficients of the P quotients.
    factor, offset : float
        The value of a class is ``factor * sum of quotients + offset``.
    """

    code: int
    average: int
    absent: int
    exclusive: bool
    virtual: int
    higher_is_better: bool
    numerators: np.ndarray
    denominators: np.ndarray
    factor: float = 1.0
    offset: float = 0.0


class _RememberedRules:
    """Rules of the metrics seen last; a loss asks for the same one in every step."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.rules: dict[tuple[Any, ...], tuple[Metric, Rule | None]] = {}

    def __call__(
        self, metric: Metric, num_classes: int, *, exclusive: bool, virtual: bool
    ) -> Rule | None:
        """The metric as numbers, or None when it has no closed form here."""
        key = (id(metric), num_classes, exclusive, virtual)
        known = self.rules.get(key)
        # The metric is kept beside its rule: an id is only unique as long as its object lives.
        if known is not None and known[0] is metric:
            return known[1]
        if len(self.rules) >= self.size:
            self.rules.clear()
        rule = _build(metric, num_classes, exclusive=exclusive, virtual=virtual)
        self.rules[key] = (metric, rule)
        return rule


rule_of = _RememberedRules(64)


def _build(metric: Metric, num_classes: int, *, exclusive: bool, virtual: bool) -> Rule | None:
    if metric.needs_matrix and exclusive:
        return None
    found = _formula(metric, num_classes, exclusive=exclusive)
    if found is None:
        return None
    code, average, quotients, factor, offset = found
    # The metric itself says what is wrong with its options; its formulas are not repeated for that.
    blank = torch.ones(num_classes, dtype=torch.float64)
    metric(Counts(blank, blank, blank, blank, exclusive))
    table = np.ascontiguousarray(np.broadcast_to(quotients, (len(quotients), 2, 4, num_classes)))
    absent = metric.options.get("absent", _default_absent(metric))
    return Rule(
        code,
        AVERAGES.index(average),
        ABSENT.index(absent),
        exclusive,
        _virtual(metric, exclusive=exclusive) if virtual else NO_VIRTUAL,
        metric.higher_is_better,
        np.ascontiguousarray(table[:, 0]),
        np.ascontiguousarray(table[:, 1]),
        factor,
        offset,
    )


def _default_absent(metric: Metric) -> str:
    """What the metric does with absent classes when nobody says: balanced accuracy has a way of its own."""
    parameter = inspect.signature(metric.function).parameters.get("absent")
    return "observed" if parameter is None else str(parameter.default)


def _formula(
    metric: Metric, num_classes: int, *, exclusive: bool
) -> tuple[int, str, np.ndarray, float, float] | None:
    """Code, average, quotients ``(P, 2, 4, C or 1)``, factor and offset."""
    function, options = metric.function, metric.options
    average = options.get("average", "macro")
    if average not in AVERAGES:
        return None
    if function in (rates.f1, rates.f_beta):
        return RATIOS, average, _f_beta_quotients(options.get("beta", 1.0), num_classes), 1.0, 0.0
    if function in _QUOTIENTS:
        offset = -1.0 if len(_QUOTIENTS[function]) > 1 else 0.0
        return RATIOS, average, _as_table(_QUOTIENTS[function]), 1.0, offset
    both = (_RECALL, _SPECIFICITY)
    if function is agreement.balanced_accuracy:
        terms = both[:1] if exclusive else both
        return RATIOS, "macro", _as_table(terms), 1.0 / len(terms), 0.0
    codes = {**_WHOLE, agreement.geometric_mean: GEOMETRIC if exclusive else PAIR_GEOMETRIC}
    code = codes.get(function, RATIOS)
    return None if code == RATIOS else (code, average, _as_table(both), 1.0, 0.0)


def _as_table(terms: tuple[Any, ...]) -> np.ndarray:
    return np.asarray(terms, dtype=np.float64)[..., None]


def _f_beta_quotients(beta: Any, num_classes: int) -> np.ndarray:
    square = _checks.beta("f_beta", beta, num_classes).numpy().reshape(-1) ** 2
    one, nothing = np.ones_like(square), np.zeros_like(square)
    return np.asarray(
        [[[1 + square, nothing, nothing, nothing], [1 + square, one, square, nothing]]]
    )


def _virtual(metric: Metric, *, exclusive: bool) -> int:
    if exclusive:
        return VIRTUAL_CLASSES if metric.needs_two_classes else NO_VIRTUAL
    if not (metric.per_class or metric.needs_two_classes):
        return NO_VIRTUAL
    return VIRTUAL_POOLED if metric.options.get("average") == "micro" else VIRTUAL_LABELS
