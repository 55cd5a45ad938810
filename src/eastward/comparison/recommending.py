"""Recommend one of several methods: the highest expected score, or a simpler one that is as good."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eastward.comparison.belief import Belief, Prior, believed_gain
from eastward.metrics import Metric

__all__ = ["MOSTLY", "WORTH_EFFORT", "Pairs", "pair_belief", "recommended"]

# Two methods are practically equal if more than this probability lies within the margin.
MOSTLY = 0.5
# A method of more effort has to be expected to gain at least this share of the margin.
WORTH_EFFORT = 0.5

# (one method, another) -> the estimated gain of the first over the second
Pairs = Callable[[str, str], Belief | None]


def recommended(
    expected: Mapping[str, float],
    efforts: Mapping[str, int],
    pairs: Pairs,
    baseline: str,
    margin: float,
) -> str:
    """Return the method with the highest expected score, or the simplest one that is as good for practical purposes.

    A simpler method is as good if the difference most probably lies within the margin, or if the best method is
    expected to gain less than half of the margin.

    Gains over the reference share its luck: where it does badly, every method seems to gain, and those that experience
    says little about seem to gain most. So a method that gains, too, and is expected to beat the highest one directly
    takes its place.

    Parameters
    ----------
    expected : mapping
        Expected gain of each method over a common reference; higher is better.
    efforts : mapping
        Effort of each.
    pairs : callable
        Returns the estimated gain of one method over another; None if they share too few splits.
    baseline : str
        Preferred among equal methods of equal effort.
    margin : float
        Differences up to this do not matter.

    Returns
    -------
    str
        A name.

    Examples
    --------
    >>> equal = Belief(0.001, -0.002, 0.004, better=0.7, equal=0.97, upside=0.001)
    >>> expected, efforts = {"forest": 0.020, "ensemble": 0.021}, {"forest": 1, "ensemble": 6}
    >>> recommended(expected, efforts, lambda one, other: equal, baseline="ensemble", margin=0.005)
    'forest'
    """

    def trouble(name: str) -> tuple[int, bool]:
        return efforts[name], name != baseline

    best = _unbeaten(expected, pairs)
    close = [best]
    for name in expected:
        gain = pairs(best, name) if trouble(name) < trouble(best) else None
        if gain is None:
            continue
        if gain.equal > MOSTLY or gain.expected < WORTH_EFFORT * margin:
            close.append(name)
    return min(close, key=lambda name: (*trouble(name), -expected[name]))


def _unbeaten(expected: Mapping[str, float], pairs: Pairs) -> str:
    """Start from the highest gain over the reference, and move on to whoever beats it by most, until nobody does."""
    best, seen = max(expected, key=expected.__getitem__), set[str]()
    while best not in seen:
        seen.add(best)
        rivals = [name for name in expected if expected[name] > 0 and name not in seen]
        gains = {name: pairs(name, best) for name in rivals}
        ahead = {name: gain.expected for name, gain in gains.items() if gain is not None}
        rival = max(ahead, key=ahead.__getitem__, default=best)
        if ahead.get(rival, 0.0) > 0:
            best = rival
    return best


def pair_belief(
    one: NDArray[Any],
    other: NDArray[Any],
    *,
    names: tuple[str, str],
    metric: Metric,
    test_ratio: float,
    margin: float,
    prior: Prior | None,
) -> Belief | None:
    """Estimate the gain of one method over another from their scores on the same splits.

    Parameters
    ----------
    one, other : ndarray
        ``(J,)`` scores in units of the metric; NaN if a method failed.
    names : tuple of str
        Names of the two, for prior experience.
    metric : Metric
        Its direction says what is better.
    test_ratio, margin
        As in :func:`~eastward.comparison.belief.believed_gain`.
    prior : Prior or None
        Prior experience.

    Returns
    -------
    Belief or None
        None if they share fewer than two splits.
    """
    direction = 1.0 if metric.higher_is_better else -1.0
    gains = direction * (one - other)
    gains = gains[np.isfinite(gains)]
    if len(gains) < 2:
        return None
    if prior is None:
        return believed_gain(gains, test_ratio, margin)
    known = prior.expected(*names, metric, float(np.nanmean(np.abs(other))))
    noise = prior.noise_of(metric, float(np.nanmean(np.abs(other))))
    return believed_gain(gains, test_ratio, margin, expected=known, noise=noise)
