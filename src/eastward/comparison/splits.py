"""Repeated stratified splits, each determined by its number alone."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["split_seed", "stratified_split"]


def split_seed(random_state: int, split: int) -> int:
    """Seed of everything random in one split; it does not depend on how many splits there are.

    Examples
    --------
    >>> split_seed(0, 1) == split_seed(0, 2)
    False
    """
    return int(np.random.SeedSequence([random_state, split]).generate_state(1)[0] >> 1)


def stratified_split(
    codes: NDArray[Any], test_size: float, seed: int
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Training and test rows, with every class in its proportion on both sides.

    A class of two rows or more has one at least on each side; the only row of a class is trained on, because a
    class that was never seen cannot be predicted.

    Parameters
    ----------
    codes : ndarray
        ``(N,)`` class indices.
    test_size : float
        Share of test rows, in (0, 1).
    seed : int
        Same seed, same rows.

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
    # Largest remainders are rounded up, in an order drawn at random where they are equal.
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
