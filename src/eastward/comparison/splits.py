"""Repeated splits, each determined by its number: stratified, by groups, or by time."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from eastward import _checks
from eastward.training.grouped_folds import grouped_folds

__all__ = ["grouped_split", "later_rows", "ordered_split", "split_seed", "stratified_split"]

# At least this share of the rows comes before the test rows of an ordered split.
EARLIEST = 0.5


def split_seed(random_state: int, split: int) -> int:
    """Return the seed of one split, which does not depend on the number of splits.

    Examples
    --------
    >>> split_seed(0, 1) == split_seed(0, 2)
    False
    """
    return int(np.random.SeedSequence([random_state, split]).generate_state(1)[0] >> 1)


def stratified_split(
    codes: NDArray[Any], test_size: float, seed: int
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Split rows into training and test rows, with classes in proportion on both sides.

    A class of two or more rows has at least one on each side. The only row of a class is a training row, because an
    unseen class cannot be predicted.

    Parameters
    ----------
    codes : ndarray
        ``(N,)`` class indices.
    test_size : float
        Share of test rows, in (0, 1).
    seed : int
        Seed of the split.

    Returns
    -------
    tuple of ndarray
        Training rows and test rows, each in ascending order.

    Examples
    --------
    >>> import numpy as np
    >>> train, test = stratified_split(np.repeat([0, 1], [80, 20]), 0.25, seed=0)
    >>> len(test), int((test >= 80).sum())
    (25, 5)
    """
    rng = np.random.default_rng(seed)
    counts = np.bincount(codes)
    shares = counts * test_size
    # The largest remainders are rounded up; ties are broken at random.
    test_counts = np.floor(shares).astype(int)
    order = np.lexsort((rng.random(len(counts)), test_counts - shares))
    test_counts[order[: round(shares.sum()) - test_counts.sum()]] += 1
    test_counts = np.clip(test_counts, np.minimum(1, counts - 1), np.maximum(counts - 1, 0))
    held = [
        rng.permutation(np.flatnonzero(codes == code))[:count]
        for code, count in enumerate(test_counts)
    ]
    test = np.sort(np.concatenate(held))
    return np.setdiff1d(np.arange(len(codes)), test), test


def grouped_split(
    codes: NDArray[Any], groups: NDArray[Any], test_size: float, seed: int
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Split rows into training and test rows, with each group on one side and classes as even as possible.

    Examples
    --------
    >>> groups = np.repeat(np.arange(10), 4)
    >>> train, test = grouped_split(np.tile([0, 1], 20), groups, 0.2, seed=0)
    >>> len(test), set(groups[train]) & set(groups[test])
    (8, set())
    """
    held = grouped_folds(codes, groups, max(2, round(1 / test_size)), seed, caller="compare") == 0
    return np.flatnonzero(~held), np.flatnonzero(held)


def ordered_split(
    times: NDArray[Any], test_size: float, split: int
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Split rows into training rows and later test rows.

    Split 0 tests on the latest rows. The others end earlier, spread evenly whatever their number, and leave out the
    rows after their test rows.

    Examples
    --------
    >>> train, test = ordered_split(np.arange(100), 0.2, split=0)
    >>> int(train.max()), int(test.min()), int(test.max())
    (79, 80, 99)
    >>> train, test = ordered_split(np.arange(100), 0.2, split=1)
    >>> int(train.max()), int(test.min()), int(test.max())
    (64, 65, 84)
    """
    latest = 1 - test_size
    cut = latest - _spread(split) * max(0.0, latest - min(EARLIEST, latest))
    test = later_rows(times, cut)
    stop = np.sort(times)[min(len(times) - 1, round((cut + test_size) * len(times)))]
    if split and cut + test_size < 1:
        test &= (times < stop) | (times == times[test].min())
    return np.flatnonzero(~later_rows(times, cut)), np.flatnonzero(test)


def later_rows(times: NDArray[Any], share: float) -> NDArray[np.bool_]:
    """Return the rows after the first ``share`` of them; equal times stay together.

    Examples
    --------
    >>> later_rows(np.array([3, 1, 2, 2]), 0.5).tolist()
    [True, False, True, True]
    """
    ordered = np.sort(times)
    later: NDArray[np.bool_] = times >= ordered[min(len(times) - 1, round(share * len(times)))]
    if later.all():
        advice = "Rows of one time stay together, so that none would be left to train on."
        got = f"{int((times == ordered[0]).sum()):,} of {len(times):,} rows at the first time"
        _checks.fail("compare", "times", "spread over time", got, advice)
    return later


def _spread(number: int) -> float:
    """Return Van der Corput's sequence 0, 1/2, 1/4, 3/4, ..., which fills the unit interval evenly."""
    digits = f"{number:b}"[::-1]
    return float(int(digits, 2) / 2 ** len(digits))
