"""The training rows and folds that all parts of the ensemble share."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from eastward import _checks
from eastward.training import assign_folds
from eastward.training.grouped_folds import grouped_folds

__all__ = ["Fitting", "split_into_folds"]

Array = NDArray[Any]

# With more rows, one share that every part holds out is as informative as five folds, at a fraction of the cost.
ROWS_FOR_FOLDS = 50_000
# Size of that share, which is used to stop training, weigh votes and tune the decision.
HELD_ROWS, HELD_SHARE = 50_000, 0.2
# At least this many rows of a class are used, because rows of rare classes matter most.
ROWS_OF_A_CLASS = 10_000


@dataclass(frozen=True)
class Fitting:
    """Training rows with their folds.

    Attributes
    ----------
    raw, filled : ndarray
        Encoded features ``(N, F)``, with NaN for missing values, and without gaps.
    codes : ndarray
        ``(N,)`` class indices; every class occurs.
    weights : ndarray or None
        ``(N,)``, positive.
    folds : ndarray
        ``(N,)``: the fold that holds the row out; -1 for a row that all train on.
    num_folds, num_classes, seed : int
        Numbers of folds and classes, and the seed of everything random.
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

    def at_most(self, rows: int) -> Fitting:
        """Return at most this many rows: all held-out rows, and a sample of the others.

        Rare classes are thinned last, and weights restore the frequencies.
        """
        if len(self.codes) <= rows:
            return self
        spare = np.flatnonzero(self.folds < 0)
        share = max(0.0, (rows - (len(self.codes) - len(spare))) / len(spare))
        there = np.bincount(self.codes[spare], minlength=self.num_classes)
        wanted = np.minimum(there, np.maximum(np.rint(share * there), ROWS_OF_A_CLASS)).astype(int)
        order = spare[np.random.default_rng(self.seed).permutation(len(spare))]
        by_class = [order[self.codes[order] == c][: wanted[c]] for c in range(self.num_classes)]
        kept = np.sort(np.concatenate([np.flatnonzero(self.folds >= 0), *by_class]))
        weights = None if self.weights is None else self.weights[kept]
        factors = share * there / np.maximum(wanted, 1)
        if (wanted > np.rint(share * there)).any():
            sampled = np.where(self.folds[kept] < 0, factors[self.codes[kept]], 1.0)
            weights = sampled if weights is None else weights * sampled
        return replace(
            self,
            raw=self.raw[kept],
            filled=self.filled[kept],
            codes=self.codes[kept],
            weights=weights,
            folds=self.folds[kept],
        )


def split_into_folds(codes: Array, wanted: int, seed: int, groups: Any = None) -> tuple[Array, int]:
    """Assign rows to stratified folds, as many as the rows allow; groups stay together.

    With many rows there is a single fold: a share that every part holds out, while all train on the rest.
    """
    if len(codes) > ROWS_FOR_FOLDS:
        pieces = int(max(1 / HELD_SHARE, np.ceil(len(codes) / HELD_ROWS)))
        folds, _ = _folds_of(codes, pieces, seed, groups)
        return np.where(folds == 0, 0, -1), 1
    return _folds_of(codes, max(2, min(wanted, len(codes) // 2)), seed, groups)


def _folds_of(codes: Array, count: int, seed: int, groups: Any) -> tuple[Array, int]:
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
