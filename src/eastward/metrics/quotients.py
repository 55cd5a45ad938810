r"""Metrics that are sums of quotients of counts, with value and slope from one formula.

F-beta, precision, recall, specificity, Jaccard, informedness, markedness and Fowlkes-Mallows of a class are

.. math::
    v = \text{offset} + \text{factor} \sum_q \frac{a_q \cdot t}{D_q}, \qquad
    D_q = \Big(\prod_{j=1}^m b_{qj} \cdot t\Big)^{1/m}, \qquad t = (tp, fp, fn, tn)

with m = 1 except for the last. They differ only in the coefficients a and b, which are written only here.
:mod:`eastward.metrics.rates` evaluates them in PyTorch; :class:`ClosedForm` gives the value and its derivative

.. math::
    \frac{\partial v}{\partial t} = \text{factor} \sum_q \Big(\frac{a_q}{D_q}
    - \frac{a_q \cdot t}{D_q}\,\frac1m \sum_j \frac{b_{qj}}{b_{qj} \cdot t}\Big)

in a tenth of the time that autograd takes for such a small table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from eastward import _checks
from eastward._numerics import safe_divide, safe_sqrt
from eastward.confusion import Counts
from eastward.metrics.averaged_quotients import AVERAGES, POLICIES, fastest

__all__ = [
    "FOWLKES_MALLOWS",
    "INFORMEDNESS",
    "JACCARD",
    "MARKEDNESS",
    "PRECISION",
    "RECALL",
    "SPECIFICITY",
    "ClosedForm",
    "Quotients",
    "f_beta_quotients",
    "linear_form",
]


@dataclass(frozen=True)
class Quotients:
    """A formula for the value of each class: ``offset + factor * sum of quotients``.

    Attributes
    ----------
    terms : tuple of (numerator, denominator) or (numerator, denominator, denominator)
        Each four coefficients, of tp, fp, fn and tn: numbers, or one number for each class. Two denominators stand for
        their geometric mean.
    factor, offset : float
        The sum of quotients is multiplied by ``factor``, and ``offset`` is added.

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
        """Compute values ``(C,)``, differentiable in the counts; a quotient 0/0 is 0."""
        rows = (counts.tp, counts.fp, counts.fn, counts.tn)
        total = torch.full_like(counts.tp, self.offset)
        for numerator, *denominators in self.terms:
            lower = [linear_form(denominator, rows) for denominator in denominators]
            whole = lower[0] if len(lower) == 1 else safe_sqrt(lower[0]) * safe_sqrt(lower[1])
            quotient = safe_divide(linear_form(numerator, rows), whole)
            total = total + self.factor * quotient
        return total


def linear_form(coefficients: tuple[Any, ...], rows: tuple[Tensor, ...]) -> Tensor:
    """Sum rows times coefficients; rows with coefficient 0 are skipped, so that their NaN or infinity cannot spoil it.

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
# A label among several has two classes, each with a recall.
TWO_SIDED_RECALL = Quotients((_RECALL, _SPECIFICITY), factor=0.5)
# For pooled counts, where each class has the whole mass: the share of correct predictions.
RIGHT = Quotients((((1, 0, 0, 1), (1, 1, 1, 1)),))


def f_beta_quotients(beta: Any, num_classes: int) -> Quotients:
    r"""Return F-beta as quotients, with one beta or one for each class.

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
        The value of one class.
    average : {"binary", "macro", "micro", "weighted", "geometric"}
        How classes become one number.
    absent : {"skip", "observed", "zero", "one"}
        Policy for classes without true samples; see :mod:`eastward.metrics.rates`.

    Examples
    --------
    >>> recall = ClosedForm(RECALL, "macro", "skip")
    >>> value, slope, _, _ = recall(np.array([[[3.0, 1.0], [1.0, 1.0], [1.0, 1.0], [1.0, 3.0]]]))
    >>> value, slope[0, 0, 1]
    (array([0.625]), np.float64(0.125))
    """

    def __init__(self, quotients: Quotients, average: str, absent: str) -> None:
        self.average, self.absent = average, absent
        self._evaluate = fastest()
        upper = np.broadcast_arrays(*(_column(numerator) for numerator, *_ in quotients.terms))
        lower = np.broadcast_arrays(*(_columns(term[1:]) for term in quotients.terms))
        self._given = (
            np.stack(upper),
            np.stack(lower),
            float(quotients.factor),
            float(quotients.offset),
            AVERAGES.index(average),
            POLICIES.index(absent),
        )

    def __call__(
        self, tables: np.ndarray, scale: float = 1.0
    ) -> tuple[np.ndarray, np.ndarray, float, bool]:
        """Compute values ``(R,)`` of counts ``(R, 4, C)``, slopes times ``scale``, the mean, and whether one is empty.

        The masses of true classes do not depend on the model. So the common part of the derivatives by tp and fn, and
        by fp and tn, is left out.
        """
        values, slope = np.empty(len(tables)), np.empty(tables.shape)
        mean, empty = self._evaluate(tables, *self._given, scale, values, slope)
        return values, slope, mean, empty


def _columns(forms: tuple[Any, ...]) -> np.ndarray:
    """Return forms as ``(m, 4, 1)``, or ``(m, 4, C)`` if classes differ."""
    return np.stack(np.broadcast_arrays(*(_column(form) for form in forms)))


def _column(coefficients: tuple[Any, ...]) -> np.ndarray:
    """Return four coefficients as ``(4, 1)``, or ``(4, C)`` if classes differ."""
    rows = [np.atleast_1d(np.asarray(c, dtype=np.float64)) for c in coefficients]
    return np.stack(np.broadcast_arrays(*rows))
