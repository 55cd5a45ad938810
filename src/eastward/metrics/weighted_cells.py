r"""Metrics that weigh the cells of the confusion matrix: expected cost and weighted kappa.

With the matrix P of shares, which sum to one, the mean weight of a sample and the one expected by chance are

.. math:: m = \sum_{ij} W_{ij} P_{ij}, \qquad e = \sum_{ij} W_{ij}\, r_i\, c_j, \qquad r = P 1, \quad c = P^\top 1

An expected cost is m, a weighted kappa :math:`1 - m / e`. Class masses r do not depend on the model. So their terms are
left out of the slopes, which are

.. math::
    \frac{\partial m}{\partial P_{ij}} = W_{ij}, \qquad
    \frac{\partial (1 - m/e)}{\partial P_{ij}} = -\frac1e \Big(W_{ij} - \frac me\, (W^\top r)_j\Big)
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from eastward._numerics import VANISHED, safe_divide

__all__ = ["WeightedCells"]


class WeightedCells:
    """The mean weight of a sample, or one minus its ratio to the mean weight expected by chance.

    Parameters
    ----------
    weights : Tensor
        ``(C, C)``, rows true and columns predicted.
    by_chance : bool
        Whether to compare with chance, as kappa does.

    Examples
    --------
    >>> import torch
    >>> wrong = 1 - torch.eye(2)
    >>> WeightedCells(wrong, by_chance=True)(torch.tensor([[3.0, 1.0], [1.0, 3.0]]))
    tensor(0.5000)
    """

    def __init__(self, weights: Tensor, *, by_chance: bool) -> None:
        self.weights, self.by_chance = weights, by_chance

    @cached_property
    def _array(self) -> np.ndarray:
        return np.ascontiguousarray(self.weights.double().numpy())

    def __call__(self, matrix: Tensor) -> Tensor:
        """Evaluate a matrix ``(C, C)``; 0 for an empty one, and where chance has no weight."""
        total = matrix.sum()
        shares = matrix / torch.where(total <= 0, 1.0, total)
        mean = (self.weights * shares).sum()
        if not self.by_chance:
            return mean
        chance = shares.sum(1, keepdim=True) * shares.sum(0, keepdim=True)
        return 1 - safe_divide(mean, (self.weights * chance).sum(), default=1.0)

    def with_slope(
        self, tables: np.ndarray, scale: float = 1.0
    ) -> tuple[np.ndarray, np.ndarray, float, bool]:
        """Compute value and slope of matrices ``(R, C, C)``, like :class:`~eastward.metrics.quotients.ClosedForm`."""
        weights, masses = self._array, tables.sum(axis=(1, 2))
        empty = masses == 0.0
        whole = np.where(empty, 1.0, masses)[:, None, None]
        shares = tables / whole
        values = shares.reshape(len(tables), -1) @ weights.ravel()
        slopes = weights
        if self.by_chance:
            expected = shares.sum(axis=2) @ weights
            chance = (expected * shares.sum(axis=1)).sum(axis=1)
            gone = chance <= VANISHED
            # Divided by infinity, slopes are zero.
            chance = np.where(gone, np.inf, chance)[:, None, None]
            ratio = values[:, None, None] / chance
            slopes = (ratio * expected[:, None] - weights) / chance
            values = np.where(gone, 0.0, 1.0 - ratio[:, 0, 0])
        return values, slopes * (scale / whole), float(values.mean()), bool(empty.any())
