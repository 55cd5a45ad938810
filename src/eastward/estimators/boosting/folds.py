"""Training rows in folds, and the gain of a change on held-out rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from eastward.decisions._search import Merit
from eastward.estimators.boosting.backends import Backend
from eastward.metrics import Metric

__all__ = ["Problem", "columns", "fold_gain", "fold_tables", "margins"]

Array: TypeAlias = NDArray[Any]


@dataclass(frozen=True)
class Problem:
    """The training rows, and their folds."""

    backend: Backend
    features: Array
    codes: Array
    weight: Array | None
    folds: Array
    metric: Metric
    num_classes: int

    def rows(self, chosen: Array) -> tuple[Array, Array, Array | None]:
        """Return features, codes and weights of some rows."""
        weight = None if self.weight is None else self.weight[chosen]
        return self.features[chosen], self.codes[chosen], weight

    @property
    def every(self) -> Array:
        """Mask of all rows."""
        return np.arange(len(self.codes))

    @property
    def parts(self) -> list[tuple[Array, Array]]:
        """Yield the rows outside and inside each fold."""
        return [
            (np.flatnonzero(self.folds != k), np.flatnonzero(self.folds == k))
            for k in range(int(self.folds.max()) + 1)
        ]


def columns(raw: Array) -> Array:
    """Return scores ``(N, C)``; a single margin becomes the second of two columns, the first is zero."""
    return raw if raw.ndim == 2 else np.stack([np.zeros_like(raw), raw], axis=1)


def margins(scores: Array) -> Array:
    """Undo :func:`columns`, for the start of a library."""
    return scores if scores.shape[1] > 2 else scores[:, 1] - scores[:, 0]


def fold_tables(problem: Problem, staged: Array) -> Tensor:
    """Compute tables of each candidate on each fold, ``(R, K, ...)``."""
    merit = Merit(problem.metric, problem.num_classes)
    codes, folds = torch.from_numpy(problem.codes), torch.from_numpy(problem.folds)
    mass = torch.ones(len(codes)) if problem.weight is None else torch.from_numpy(problem.weight)
    weights = torch.nn.functional.one_hot(folds) * mass.double().unsqueeze(1)
    decisions = torch.from_numpy(staged.argmax(2))
    return torch.stack([merit.tables(codes, each, weights) for each in decisions])


def fold_gain(merit: Merit, before: Tensor, after: Tensor) -> tuple[float, float]:
    """Compute the gain of the metric over all folds, given tables ``(K, ...)``, and its jackknife error."""
    every = torch.arange(len(before))

    def gain(keep: Tensor) -> Tensor:
        values = merit(torch.stack([after[keep].sum(0), before[keep].sum(0)]))
        return values[0] - values[1]

    size = len(every)
    left_out = torch.stack([gain(every[every != k]) for k in range(size)])
    error = ((size - 1) / size * (left_out - left_out.mean()).square().sum()).sqrt()
    return float(gain(every)), float(error)
