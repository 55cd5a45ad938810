r"""Metrics that are sums of quotients of counts: one formula, its value by PyTorch, its slope in closed form.

F-beta, precision, recall, specificity, Jaccard, informedness, markedness and Fowlkes-Mallows of a class are

.. math::
    v = \text{offset} + \text{factor} \sum_q \frac{a_q \cdot t}{D_q}, \qquad
    D_q = \Big(\prod_{j=1}^m b_{qj} \cdot t\Big)^{1/m}, \qquad t = (tp, fp, fn, tn)

with m = 1 but for the last, and differ in the coefficients a and b alone. They are written down here once.
:mod:`eastward.metrics.rates` evaluates them in PyTorch; :class:`ClosedForm` gives the value and its derivative

.. math::
    \frac{\partial v}{\partial t} = \text{factor} \sum_q \Big(\frac{a_q}{D_q}
    - \frac{a_q \cdot t}{D_q}\,\frac1m \sum_j \frac{b_{qj}}{b_{qj} \cdot t}\Big)

in a tenth of the time that autograd takes for so small a table.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from eastward import _checks
from eastward._numerics import VANISHED, safe_divide, safe_sqrt
from eastward.confusion import Counts

__all__ = [
    "AVERAGES",
    "FOWLKES_MALLOWS",
    "INFORMEDNESS",
    "JACCARD",
    "MARKEDNESS",
    "PRECISION",
    "RECALL",
    "SMALLEST_FACTOR",
    "SPECIFICITY",
    "ClosedForm",
    "Quotients",
    "f_beta_quotients",
    "linear_form",
]


@dataclass(frozen=True)
class Quotients:
    """A value of each class: ``offset + factor * sum of quotients``.

    Attributes
    ----------
    terms : tuple of (numerator, denominator) or (numerator, denominator, denominator)
        Each four coefficients, of tp, fp, fn and tn: numbers, or one number for each class. Two denominators stand for
        their geometric mean.
    factor, offset : float
        As above.

    Examples
    --------
    >>> import torch
    >>> from eastward.confusion import counts_from_confusion
    >>> PRECISION(counts_from_confusion(torch.tensor([[3.0, 1.0], [2.0, 4.0]])))
    tensor([0.6000, 0.8000])
    """

    terms: tuple[tuple[tuple[Any, ...], ...], ...]
    factor: float = 1.0
    offset: float = 0.0

    def __call__(self, counts: Counts) -> Tensor:
        """Values ``(C,)``, differentiable in the counts; a quotient 0/0 is 0."""
        rows = (counts.tp, counts.fp, counts.fn, counts.tn)
        total = torch.full_like(counts.tp, self.offset)
        for numerator, *denominators in self.terms:
            lower = [linear_form(denominator, rows) for denominator in denominators]
            whole = lower[0] if len(lower) == 1 else safe_sqrt(lower[0]) * safe_sqrt(lower[1])
            quotient = safe_divide(linear_form(numerator, rows), whole)
            total = total + self.factor * quotient
        return total


def linear_form(coefficients: tuple[Any, ...], rows: tuple[Tensor, ...]) -> Tensor:
    """The sum of rows times coefficients; rows without a part in it do not enter, so that nothing of theirs spoils it.

    Examples
    --------
    >>> import torch
    >>> linear_form((1, 0, 2, 0), (torch.ones(2),) * 4)
    tensor([3., 3.])
    """
    parts = [
        row * c.to(row) if isinstance(c, Tensor) else row if c == 1 else row * c
        for c, row in zip(coefficients, rows, strict=True)
        if isinstance(c, Tensor) or c
    ]
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


_PRECISION = ((1, 0, 0, 0), (1, 1, 0, 0))
_RECALL = ((1, 0, 0, 0), (1, 0, 1, 0))
_SPECIFICITY = ((0, 0, 0, 1), (0, 1, 0, 1))
_NEGATIVE_VALUE = ((0, 0, 0, 1), (0, 0, 1, 1))

PRECISION = Quotients((_PRECISION,))
RECALL = Quotients((_RECALL,))
SPECIFICITY = Quotients((_SPECIFICITY,))
JACCARD = Quotients((((1, 0, 0, 0), (1, 1, 1, 0)),))
INFORMEDNESS = Quotients((_RECALL, _SPECIFICITY), offset=-1.0)
MARKEDNESS = Quotients((_PRECISION, _NEGATIVE_VALUE), offset=-1.0)
FOWLKES_MALLOWS = Quotients((((1, 0, 0, 0), (1, 1, 0, 0), (1, 0, 1, 0)),))
# Of one label among several, both of its classes have a recall.
TWO_SIDED_RECALL = Quotients((_RECALL, _SPECIFICITY), factor=0.5)
# Of pooled counts, where each class has the whole mass: the share that is right.
RIGHT = Quotients((((1, 0, 0, 1), (1, 1, 1, 1)),))


def f_beta_quotients(beta: Any, num_classes: int) -> Quotients:
    r""":math:`(1 + \beta^2) tp / ((1 + \beta^2) tp + fp + \beta^2 fn)`, with one beta or one for each class.

    Examples
    --------
    >>> numerator, denominator = f_beta_quotients(2, 3).terms[0]
    >>> [float(c) for c in denominator]
    [5.0, 1.0, 4.0, 0.0]
    """
    square = _checks.beta("f_beta", beta, num_classes)
    square = square * square
    return Quotients((((1 + square, 0, 0, 0), (1 + square, 1, square, 0)),))


class ClosedForm:
    """Value and slope of an average of quotients, at R tables at once.

    Parameters
    ----------
    quotients : Quotients
        Of one class.
    average : {"binary", "macro", "micro", "weighted", "geometric"}
        How classes become one number.
    absent : {"skip", "observed", "zero", "one"}
        Classes without true samples, as in :mod:`eastward.metrics.rates`.

    Examples
    --------
    >>> recall = ClosedForm(RECALL, "macro", "skip")
    >>> value, slope, _, _ = recall(np.array([[[3.0, 1.0], [1.0, 1.0], [1.0, 1.0], [1.0, 3.0]]]))
    >>> value, slope[0, 0, 1]
    (array([0.625]), np.float64(0.125))
    """

    def __init__(self, quotients: Quotients, average: str, absent: str) -> None:
        self.average, self.absent = average, absent
        self._evaluate = _fastest()
        upper = np.broadcast_arrays(*(_column(numerator) for numerator, *_ in quotients.terms))
        lower = np.broadcast_arrays(*(_columns(term[1:]) for term in quotients.terms))
        self._given = (
            np.stack(upper),
            np.stack(lower),
            float(quotients.factor),
            float(quotients.offset),
            AVERAGES.index(average),
            _POLICIES.index(absent),
        )

    def __call__(
        self, tables: np.ndarray, scale: float = 1.0
    ) -> tuple[np.ndarray, np.ndarray, float, bool]:
        """Values ``(R,)`` of counts ``(R, 4, C)``, derivatives times ``scale``, the mean value, and if one is empty.

        The masses of true classes do not depend on the model: what tp and fn, or fp and tn, have in common in their
        derivatives is left out.
        """
        values, slope = np.empty(len(tables)), np.empty(tables.shape)
        mean, empty = self._evaluate(tables, *self._given, scale, values, slope)
        return values, slope, mean, empty


AVERAGES = ("binary", "macro", "micro", "weighted", "geometric")
_POLICIES = ("skip", "observed", "zero", "one")
_BINARY, _MACRO, _MICRO, _WEIGHTED, _GEOMETRIC = range(5)
_SKIP, _OBSERVED, _ZERO, _ONE = range(4)
# Below this factor the slope of a geometric mean, G / (K r), is taken as zero: at r = 0 it is infinite.
SMALLEST_FACTOR = 1e-12


def _value_and_slope(
    tables: np.ndarray,
    upper: np.ndarray,
    lower: np.ndarray,
    factor: float,
    offset: float,
    average: int,
    absent: int,
    scale: float,
    value: np.ndarray,
    derivative: np.ndarray,
) -> tuple[float, bool]:
    """The closed form, in terms that both NumPy and numba know; results go into the last two arguments.

    Mean value, and whether a table is empty.
    """
    number, size = tables.shape[0], tables.shape[2]
    masses = tables.sum(axis=2).sum(axis=1)
    counts = tables.sum(axis=2).reshape(number, 4, 1) if average == _MICRO else tables
    # Of the mass of one class's table: as in :func:`~eastward.metrics._averaging.normalised_counts`.
    floor = (masses * (VANISHED / size)).reshape(number, 1)
    values, slope = np.full((number, counts.shape[2]), offset), np.zeros_like(counts)
    power = 1.0 / lower.shape[1]
    for term in range(len(upper)):
        inverse, pulled = np.full_like(values, factor), np.zeros_like(counts)
        for j in range(lower.shape[1]):
            below = (counts * lower[term, j]).sum(axis=1)
            gone = below <= floor
            below = np.where(gone, 1.0, below)
            inverse = np.where(gone, 0.0, inverse / below**power)
            pulled = pulled + lower[term, j] * (power / below).reshape(number, 1, -1)
        ratio = (counts * upper[term]).sum(axis=1) * inverse
        values = values + ratio
        slope = slope + inverse.reshape(number, 1, -1) * upper[term]
        slope = slope - ratio.reshape(number, 1, -1) * pulled
    true, predicted = counts[:, 0] + counts[:, 2], counts[:, 0] + counts[:, 1]
    missing = true <= floor
    if absent == _ONE and average not in (_BINARY, _MICRO):
        values = np.where(missing, 1.0, values)
        slope = slope * (1.0 - missing).reshape(number, 1, -1)
    weights = np.ones_like(true)
    if average == _WEIGHTED:
        weights = true.copy()
    elif average == _BINARY:
        weights[:, 0] = 0.0
    elif average != _MICRO and absent in (_SKIP, _OBSERVED):
        unseen = np.where(predicted <= floor, 1.0, 1.0 if absent == _SKIP else 0.0)
        weights = 1.0 - missing * unseen
    total = weights.sum(axis=1).reshape(number, 1)
    none = total <= (floor if average == _WEIGHTED else VANISHED * np.ones_like(floor))
    weights = weights * np.where(none, 0.0, 1.0 / np.where(none, 1.0, total))
    value[:] = (values * weights).sum(axis=1)
    if average == _GEOMETRIC:
        # A class that is lost makes the mean zero; no class at all, too.
        lost = ((values <= VANISHED) * (weights > 0.0)).sum(axis=1).reshape(number, 1) + none
        steep, factors = values >= SMALLEST_FACTOR, np.maximum(values, SMALLEST_FACTOR)
        logs = (np.log(factors) * weights).sum(axis=1)
        value[:] = np.where(lost.reshape(-1) > 0, 0.0, np.exp(logs))
        weights = weights * value.reshape(number, 1) / factors * steep
    derivative[:] = slope * (weights * scale).reshape(number, 1, -1)
    return value.mean(), bool((masses == 0.0).any())


@functools.cache
def _fastest() -> Any:
    """The closed form, compiled where there is a compiler: a tenth of the time for a table of a few classes."""
    if importlib.util.find_spec("numba") is None:
        return _value_and_slope
    numba = importlib.import_module("numba")
    return numba.njit(cache=True, nogil=True, error_model="numpy")(_value_and_slope)


def _columns(forms: tuple[Any, ...]) -> np.ndarray:
    """Forms as ``(m, 4, 1)``, or ``(m, 4, C)`` where classes differ."""
    return np.stack(np.broadcast_arrays(*(_column(form) for form in forms)))


def _column(coefficients: tuple[Any, ...]) -> np.ndarray:
    """Four coefficients as ``(4, 1)``, or ``(4, C)`` where classes differ."""
    rows = [np.atleast_1d(np.asarray(c, dtype=np.float64)) for c in coefficients]
    return np.stack(np.broadcast_arrays(*rows))
