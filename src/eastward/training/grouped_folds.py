"""Folds that keep groups of rows together, such as those of one patient or one week."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eastward import _checks

__all__ = ["grouped_folds", "periods"]

PERIODS = 20


def grouped_folds(
    codes: NDArray[Any], groups: Any, num_folds: int, seed: int, *, caller: str = "fit"
) -> NDArray[np.int64]:
    """Assign rows to folds: groups stay together, and classes are spread as evenly as possible.

    This is scikit-learn's ``StratifiedGroupKFold``. There are fewer folds if there are few groups, or if the largest
    class has few rows.

    Parameters
    ----------
    codes : ndarray
        ``(N,)`` class indices.
    groups : array-like
        ``(N,)`` group of each row; equal values stay together.
    num_folds : int
        Largest number of folds.
    seed : int
        Seed of the shuffle.
    caller : str
        Name of the caller, for error messages.

    Returns
    -------
    ndarray
        ``(N,)`` fold of each row, counted from 0.

    Examples
    --------
    >>> folds = grouped_folds(np.array([0, 1, 0, 1]), ["Ann", "Ann", "Bob", "Bob"], 5, seed=0)
    >>> bool(folds[0] == folds[1] != folds[2] == folds[3])
    True
    """
    from sklearn.model_selection import StratifiedGroupKFold  # noqa: PLC0415  # only groups need it

    names = np.asarray(groups)
    if names.shape != codes.shape:
        _checks.fail(caller, "groups", f"of shape {codes.shape}", f"shape {names.shape}")
    count = min(num_folds, len(np.unique(names)))
    if count < 2:
        advice = "A group is never split, so a single group leaves nothing to hold out."
        _checks.fail(caller, "groups", "at least two groups", f"{len(np.unique(names))}", advice)
    most = int(np.bincount(codes).max())
    splitter = StratifiedGroupKFold(min(count, most), shuffle=True, random_state=seed)
    folds = np.zeros(len(codes), dtype=np.int64)
    with warnings.catch_warnings():
        # A class with fewer rows than folds is missing from some folds, which is common with groups.
        warnings.filterwarnings("ignore", message="The least populated class")
        for fold, (_, held) in enumerate(splitter.split(np.zeros(len(codes)), codes, names)):
            folds[held] = fold
    return np.unique(folds, return_inverse=True)[1].astype(np.int64)


def periods(times: NDArray[Any], count: int = PERIODS) -> NDArray[np.int64]:
    """Split rows into consecutive periods of about equal size; equal times stay together.

    Examples
    --------
    >>> periods(np.array([5, 1, 2, 2, 9, 7]), count=3).tolist()
    [1, 0, 0, 0, 2, 2]
    """
    ranks = np.searchsorted(np.sort(times), times)
    return np.asarray(ranks * count // len(times), dtype=np.int64)
