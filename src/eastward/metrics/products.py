r"""Metrics that are quotients of sums of products of counts: correlation and kappa.

.. math:: v = \frac{\sum_k q_0(t_k)}{\big(\prod_{j=1}^m \sum_k q_j(t_k)\big)^{1/m}}, \qquad t = (tp, fp, fn, tn)

Each :math:`q` is a sum of products of two linear forms, such as :math:`tp \cdot tn - fp \cdot fn`, and is written
only here. PyTorch evaluates it directly. Written as :math:`t^\top Q\, t` with a symmetric matrix Q, it has the
derivative :math:`2\, Q\, t`. The quotient then has the derivative

.. math:: \frac{\partial v}{\partial t} = \frac{2\,Q_0 t}{D} - \frac{v}{m} \sum_j \frac{2\,Q_j t}{\sum_k q_j(t_k)}
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from torch import Tensor

from eastward._numerics import VANISHED, safe_divide, safe_sqrt
from eastward.confusion import Counts
from eastward.metrics.quotients import linear_form

__all__ = ["CORRELATION", "KAPPA", "KAPPA_OF_LABEL", "Products"]

# The coefficients of tp, fp, fn and tn.
_Linear: TypeAlias = tuple[float, float, float, float]
_Quadratic: TypeAlias = tuple[tuple[_Linear, _Linear], ...]

_TP, _MINUS_FP, _FN, _TN = (1, 0, 0, 0), (0, -1, 0, 0), (0, 0, 1, 0), (0, 0, 0, 1)
_TRUE, _OTHERS, _PREDICTED, _LEFT = (1, 0, 1, 0), (0, 1, 0, 1), (1, 1, 0, 0), (0, 0, 1, 1)


@dataclass(frozen=True)
class Products:
    """A quotient of quadratic forms of counts; two denominators stand for their geometric mean.

    Attributes
    ----------
    above : tuple of (linear, linear)
        Pairs of linear forms, whose products are added up.
    below : tuple of tuples of (linear, linear)
        One or two denominators, each a sum of products.

    Examples
    --------
    >>> import torch
    >>> from eastward.confusion import counts_from_confusion
    >>> CORRELATION(counts_from_confusion(torch.tensor([[0.3, 0.1], [0.1, 0.5]])))
    tensor(0.5833)
    """

    above: _Quadratic
    below: tuple[_Quadratic, ...]

    def __call__(self, counts: Counts) -> Tensor:
        """Evaluate counts with a mass of one: a value for all classes, or one for each label ``(L,)``."""
        upper, *lower = (self._evaluated(form, counts) for form in (self.above, *self.below))
        if len(lower) == 1:
            return safe_divide(upper, lower[0])
        return safe_divide(upper, safe_sqrt(lower[0]) * safe_sqrt(lower[1]))

    def _evaluated(self, form: _Quadratic, counts: Counts) -> Tensor:
        rows = (counts.tp, counts.fp, counts.fn, counts.tn)
        products = [linear_form(one, rows) * linear_form(other, rows) for one, other in form]
        total = products[0] if len(products) == 1 else products[0] + products[1]
        return total.sum() if counts.exclusive else total

    @cached_property
    def _matrices(self) -> np.ndarray:
        """Return twice the symmetric matrices of the forms, ``(1 + m, 4, 4)``."""
        forms = (self.above, *self.below)
        twice = [sum(np.outer(a, b) + np.outer(b, a) for a, b in form) for form in forms]
        return np.array(twice, dtype=np.float64)

    def with_slope(
        self, tables: np.ndarray, scale: float = 1.0
    ) -> tuple[np.ndarray, np.ndarray, float, bool]:
        """Compute value and slope like :class:`~eastward.metrics.quotients.ClosedForm`, for exclusive classes."""
        number = len(tables)
        slopes = (self._matrices @ tables[:, None]).reshape(number, len(self._matrices), -1)
        forms = 0.5 * (slopes @ tables.reshape(number, -1, 1))[:, :, 0]
        masses = tables.sum(axis=(1, 2))
        # Relative to the squared mass of one class's table, as in normalised counts.
        floor = (VANISHED / tables.shape[2] ** 2) * masses * masses
        gone = (forms[:, 1:] <= floor[:, None]).any(axis=1)
        lower = np.where(gone[:, None], 1.0, forms[:, 1:])
        # One denominator twice, or two.
        inverse = np.where(gone, 0.0, 1.0 / np.sqrt(lower[:, 0] * lower[:, -1]))
        values = forms[:, 0] * inverse
        parts = np.empty_like(forms)
        parts[:, 0], parts[:, 1:] = inverse, (values / -lower.shape[1])[:, None] / lower
        slope = ((scale * parts)[:, None] @ slopes).reshape(tables.shape)
        return values, slope, float(values.mean()), bool((masses == 0).any())


_JOINT: Any = ((_TP, _TN), (_MINUS_FP, _FN))
CORRELATION = Products(_JOINT, (((_TRUE, _OTHERS),), ((_PREDICTED, _LEFT),)))
KAPPA = Products(_JOINT, (((_TRUE, _LEFT),),))
# For a single label, both of its classes disagree by chance: half of the two products.
_HALF: Any = ((0.5, 0, 0.5, 0), (0, 0.5, 0, 0.5))
KAPPA_OF_LABEL = Products(_JOINT, (((_HALF[0], _LEFT), (_HALF[1], _PREDICTED)),))
