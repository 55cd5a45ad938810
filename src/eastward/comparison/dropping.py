"""Which methods need not be run on the next splits, because they cannot win any more."""

from __future__ import annotations

from collections.abc import Mapping

from eastward.comparison.verdict import Pairs

__all__ = ["FIRST_SPLITS", "beaten"]

# Splits that every method is judged on.
FIRST_SPLITS = 2
# A method is dropped if leaving it out costs less than this share of the margin on average.
SHARE = 1 / 3


def beaten(
    expected: Mapping[str, float], pairs: Pairs, baseline: str, margin: float
) -> dict[str, float]:
    """Methods that are not worth another split: on average, leaving them out costs next to nothing.

    What dropping a method costs is the positive part of its gain over the leader. The leader may change from split to
    split, and a method dropped by bad luck is lost, so the price was measured: by simulation in
    ``tests/comparison/test_dropping.py``, and on real tables in docs/compare.md.

    Parameters
    ----------
    expected : mapping
        Expected gain over the baseline of every method still in; higher is better.
    pairs : callable
        What to believe of the gain of one method over another.
    baseline : str
        Never dropped: the others are measured by it.
    margin : float
        What makes a practical difference.

    Returns
    -------
    dict
        What leaving it out costs on average, by the names of those to drop.

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
