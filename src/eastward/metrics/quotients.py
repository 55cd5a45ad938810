r"""Metrics that are sums of quotients of counts: one formula, its value by PyTorch, its slope in closed form.

F-beta, precision, recall, specificity, Jaccard, informedness and markedness of a class are

.. math:: v = \text{offset} + \text{factor} \sum_q \frac{a_q \cdot t}{b_q \cdot t}, \qquad t = (tp, fp, fn, tn)

and differ in the coefficients a and b alone. They are written down here once. :mod:`eastward.metrics.rates` evaluates
them in PyTorch; :class:`ClosedForm` gives the value together with its derivative

.. math::
    \frac{\partial v}{\partial t} = \text{factor} \sum_q \frac{a_q - (a_q \cdot t / b_q \cdot t)\, b_q}{b_q \cdot t}

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
from eastward._numerics import VANISHED, safe_divide
from eastward.confusion import Counts

__all__ = [
    "INFORMEDNESS",
    "JACCARD",
    "MARKEDNESS",
    "PRECISION",
    "RECALL",
    "SPECIFICITY",
    "ClosedForm",
    "Quotients",
    "f_beta_quotients",
]


@dataclass(frozen=True)
class Quotients:
    """A value of each class: ``offset + factor * sum of quotients``.

    Attributes
    ----------
    terms : tuple of (numerator, denominator)
        Each four coefficients, of tp, fp, fn and tn: numbers, or one number for each class.
    factor, offset : float
        As above.

    Examples
    --------
    >>> import torch
    >>> from eastward.confusion import counts_from_confusion
    >>> PRECISION(counts_from_confusion(torch.tensor([[3.0, 1.0], [2.0, 4.0]])))
    tensor([0.6000, 0.8000])
    """

    terms: tuple[tuple[tuple[Any, ...], tuple[Any, ...]], ...]
    factor: float = 1.0
    offset: float = 0.0

    def __call__(self, counts: Counts) -> Tensor:
        """Values ``(C,)``, differentiable in the counts; a quotient 0/0 is 0."""
        rows = (counts.tp, counts.fp, counts.fn, counts.tn)
        total = torch.full_like(counts.tp, self.offset)
        for numerator, denominator in self.terms:
            quotient = safe_divide(_form(numerator, rows), _form(denominator, rows))
            total = total + self.factor * quotient
        return total


def _form(coefficients: tuple[Any, ...], rows: tuple[Tensor, ...]) -> Tensor:
    """The linear form; rows without a part in it do not enter, so that nothing of theirs can spoil it."""
    parts = [
        row * (c.to(row) if isinstance(c, Tensor) else c)
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
    average : {"binary", "macro", "micro", "weighted"}
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
        upper = np.broadcast_arrays(*(_column(numerator) for numerator, _ in quotients.terms))
        lower = np.broadcast_arrays(*(_column(denominator) for _, denominator in quotients.terms))
        self._given = (
            np.stack(upper),
            np.stack(lower),
            float(quotients.factor),
            float(quotients.offset),
            _AVERAGES.index(average),
            _POLICIES.index(absent),
        )

    def __call__(
        self, tables: np.ndarray, scale: float = 1.0
    ) -> tuple[np.ndarray, np.ndarray, float, bool]:
        """Values ``(R,)`` of counts ``(R, 4, C)``, derivatives times ``scale``, the mean value, and if a table is empty.

        The masses of true classes do not depend on the model: what tp and fn, or fp and tn, have in common in their
        derivatives is left out.
        """
        values, slope = np.empty(len(tables)), np.empty(tables.shape)
        mean, empty = self._evaluate(tables, *self._given, scale, values, slope)
        return values, slope, mean, empty


_AVERAGES = ("binary", "macro", "micro", "weighted")
_POLICIES = ("skip", "observed", "zero", "one")
_BINARY, _MACRO, _MICRO, _WEIGHTED = range(4)
_SKIP, _OBSERVED, _ZERO, _ONE = range(4)


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
    for term in range(len(upper)):
        below = (counts * lower[term]).sum(axis=1)
        gone = below <= floor
        inverse = np.where(gone, 0.0, factor / np.where(gone, 1.0, below))
        ratio = (counts * upper[term]).sum(axis=1) * inverse
        values = values + ratio
        pulled = (ratio / factor).reshape(number, 1, -1) * lower[term]
        slope = slope + inverse.reshape(number, 1, -1) * (upper[term] - pulled)
    true, predicted = counts[:, 0] + counts[:, 2], counts[:, 0] + counts[:, 1]
    missing = true <= floor
    if absent == _ONE and average in (_MACRO, _WEIGHTED):
        values = np.where(missing, 1.0, values)
        slope = slope * (1.0 - missing).reshape(number, 1, -1)
    weights = np.ones_like(true)
    if average == _WEIGHTED:
        weights = true.copy()
    elif average == _BINARY:
        weights[:, 0] = 0.0
    elif average == _MACRO and absent == _SKIP:
        weights = 1.0 - missing
    elif average == _MACRO and absent == _OBSERVED:
        weights = 1.0 - missing * (predicted <= floor)
    total = weights.sum(axis=1).reshape(number, 1)
    none = total <= (floor if average == _WEIGHTED else VANISHED * np.ones_like(floor))
    weights = weights * np.where(none, 0.0, 1.0 / np.where(none, 1.0, total))
    value[:] = (values * weights).sum(axis=1)
    derivative[:] = slope * (weights * scale).reshape(number, 1, -1)
    return value.mean(), bool((masses == 0.0).any())


@functools.cache
def _fastest() -> Any:
    """The closed form, compiled where there is a compiler: a tenth of the time for a table of a few classes."""
    if importlib.util.find_spec("numba") is None:
        return _value_and_slope
    numba = importlib.import_module("numba")
    return numba.njit(cache=True, nogil=True, error_model="numpy")(_value_and_slope)


def _column(coefficients: tuple[Any, ...]) -> np.ndarray:
    """Four coefficients as ``(4, 1)``, or ``(4, C)`` where classes differ."""
    rows = [np.atleast_1d(np.asarray(c, dtype=np.float64)) for c in coefficients]
    return np.stack(np.broadcast_arrays(*rows))
