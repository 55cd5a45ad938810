"""Drop methods that can no longer win from the next splits."""

from __future__ import annotations

from collections.abc import Mapping

from eastward.comparison.recommending import Pairs

__all__ = ["SPLITS_BETWEEN_LOOKS", "beaten"]

# Methods are dropped after every second split: with one split at a time, processors would wait for its last cell.
SPLITS_BETWEEN_LOOKS = 2
# A method is dropped if that costs less than this share of the margin on average.
SHARE = 1 / 2


def beaten(
    expected: Mapping[str, float], pairs: Pairs, baseline: str, margin: float
) -> dict[str, float]:
    """Find methods that are not worth another split, because dropping them costs almost nothing.

    The cost of dropping a method is the positive part of its gain over the leader. The leader may change from split to
    split, and a method dropped by bad luck is lost. So the cost was measured, by simulation in
    ``tests/comparison/test_dropping.py`` and on real tables in docs/compare.md.

    Parameters
    ----------
    expected : mapping
        Expected gain over the baseline of every remaining method; higher is better.
    pairs : callable
        Returns the estimated gain of one method over another.
    baseline : str
        Never dropped, because the others are measured against it.
    margin : float
        The smallest practical difference.

    Returns
    -------
    dict
        Average cost of dropping, by the names of methods to drop.

    Examples
    --------
    >>> from eastward.comparison.belief import Belief
    >>> behind = Belief(-0.05, -0.08, -0.02, better=0.001, equal=0.01, upside=0.0001)
    >>> beaten({"forest": -0.04, "ensemble": 0.01}, lambda one, other: behind, "tuned", 0.005)
    {'forest': 0.0001}
    """
    leader = max(expected, key=expected.__getitem__, default=baseline)
    if expected.get(leader, 0.0) < 0:
        leader = baseline
    found = {}
    for name in expected:
        gain = None if name in (leader, baseline) else pairs(name, leader)
        if gain is not None and gain.upside < SHARE * margin:
            found[name] = gain.upside
    return found
