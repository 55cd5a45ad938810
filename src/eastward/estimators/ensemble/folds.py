"""What every part of the ensemble is fitted on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from numpy.typing import NDArray

from eastward import _checks
from eastward.training import assign_folds
from eastward.training.grouped_folds import grouped_folds

__all__ = ["Fitting", "deal_folds"]

Array = NDArray[Any]


@dataclass(frozen=True)
class Fitting:
    """Training rows, dealt out to folds.

    Attributes
    ----------
    raw, filled : ndarray
        Encoded features, ``(N, F)`` with NaN for what is missing, and without gaps.
    codes : ndarray
        ``(N,)`` class indices; every class occurs.
    weights : ndarray or None
        ``(N,)``, positive.
    folds : ndarray
        ``(N,)``: who holds the row out; -1 for the only row of a class, which all train on.
    num_folds, num_classes, seed : int
        Seed of everything random.
    n_jobs : int or None
        Threads of the trees.
    """

    raw: Array
    filled: Array
    codes: Array
    weights: Array | None
    folds: Array
    num_folds: int
    num_classes: int
    seed: int
    n_jobs: int | None


def deal_folds(codes: Array, wanted: int, seed: int, groups: Any = None) -> tuple[Array, int]:
    """Stratified folds of rows, and how many; no more than the rows allow. Groups stay together."""
    count = max(2, min(wanted, len(codes) // 2))
    if groups is not None:
        together = grouped_folds(codes, groups, count, seed, caller="EASTEnsembleClassifier.fit")
        return together, int(together.max()) + 1
    generator = torch.Generator().manual_seed(seed)
    folds = assign_folds(torch.from_numpy(codes), count, generator).numpy()
    used = len(set(folds.tolist()) - {-1})
    if used < 2:
        advice = "Two classes need at least two rows each."
        got = f"{len(codes)} rows of {codes.max() + 1} classes"
        _checks.fail(
            "EASTEnsembleClassifier.fit", "y", "large enough to hold rows out", got, advice
        )
    return folds, used
