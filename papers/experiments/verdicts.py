"""Whether a claim of a paper holds here: a paired difference, its interval, and a word.

One rule serves the papers' differences and ours. A 95 % interval above zero is *higher*, one below zero *lower*, one
within ±0.02 *level*; an interval that is none of these cannot tell.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from eastward.comparison.statistics import corrected_mean
from papers.experiments.figures import ROUNDING, Figure

__all__ = [
    "FEWEST",
    "MARGIN",
    "Gap",
    "claim_verdict",
    "mean_gap",
    "paired_gap",
    "printed_gap",
    "sides",
]

# Smaller differences do not matter in practice.
MARGIN = 0.02
# With fewer pairs, an interval is meaningless.
FEWEST = 3
# The papers' trials; their deviations are over initial weights.
PRINTED_TRIALS = 10
# Test rows over all others: 20 % and 80 %.
TEST_RATIO = 0.25


@dataclass(frozen=True)
class Gap:
    """A difference of two scores with its 95 % interval; ``pairs`` is 0 where a paper printed it."""

    mean: float
    low: float
    high: float
    pairs: int = 0


def paired_gap(method: Mapping[int, float], rival: Mapping[int, float] | float) -> Gap | None:
    """The mean difference over trials that both have, with Nadeau and Bengio's interval.

    Parameters
    ----------
    method : mapping
        Score of each trial.
    rival : mapping or float
        Score of each trial of the other row, or a number to compare with.

    Returns
    -------
    Gap or None
        The difference; None if there are fewer than three pairs.

    Examples
    --------
    >>> gap = paired_gap({0: 0.8, 1: 0.7, 2: 0.75}, {0: 0.7, 1: 0.62, 2: 0.66})
    >>> round(gap.mean, 3), round(gap.low, 3), gap.pairs
    (0.09, 0.057, 3)
    """
    trials = sorted(method if isinstance(rival, float) else set(method) & set(rival))
    if len(trials) < FEWEST:
        return None
    others = [rival if isinstance(rival, float) else rival[trial] for trial in trials]
    values = np.array([method[trial] for trial in trials]) - np.array(others)
    found = corrected_mean(values, TEST_RATIO)
    return Gap(found.mean, found.low, found.high, len(trials))


def mean_gap(gaps: list[float]) -> Gap | None:
    """The mean of differences on several tables, with the usual interval: tables are independent."""
    if len(gaps) < FEWEST:
        return None
    found = corrected_mean(np.array(gaps), 0.0)
    return Gap(found.mean, found.low, found.high, len(gaps))


def printed_gap(method: Figure, rival: Figure) -> Gap:
    """A paper's difference, with the interval that its printed deviations and their rounding allow.

    Examples
    --------
    >>> gap = printed_gap(Figure(0.765, 0.01), Figure(0.755, 0.01))
    >>> round(gap.low, 4), round(gap.high, 4)
    (0.0011, 0.0189)
    """
    variances = [max(figure.spread, ROUNDING) ** 2 / PRINTED_TRIALS for figure in (method, rival)]
    reach = 2 * math.sqrt(sum(variances))
    mean = method.mean - rival.mean
    return Gap(mean, mean - reach, mean + reach)


def sides(gap: Gap) -> tuple[str, ...]:
    """Return the statements that hold for a gap; none if its interval is inconclusive.

    Examples
    --------
    >>> sides(Gap(0.05, 0.02, 0.08)), sides(Gap(0.008, 0.002, 0.014)), sides(Gap(0.03, -0.02, 0.08))
    (('higher',), ('higher', 'level'), ())
    """
    words = []
    if gap.low > 0:
        words.append("higher")
    if gap.high < 0:
        words.append("lower")
    if gap.low >= -MARGIN and gap.high <= MARGIN:
        words.append("level")
    return tuple(words)


def claim_verdict(expected: str, theirs: Gap | None, ours: Gap | None) -> str:
    """Return one word for a claim.

    Parameters
    ----------
    expected : str
        What the paper says; see :class:`~papers.experiments.design.Claim`.
    theirs : Gap or None
        The paper's difference, where it printed both figures.
    ours : Gap or None
        Our difference.

    Returns
    -------
    str
        ``"reproduced"``, ``"better"`` (for the first row than in the paper), ``"worse"``, ``"unclear"`` or
        ``"not run here"``; of an open question ``"higher"``, ``"level"``, ``"lower"`` or ``"unclear"``.

    Examples
    --------
    >>> claim_verdict("as printed", Gap(0.1, 0.08, 0.12), Gap(0.05, 0.01, 0.09))
    'reproduced'
    >>> claim_verdict("as printed", Gap(0.1, 0.08, 0.12), Gap(0.05, -0.05, 0.15))
    'unclear'
    """
    if ours is None:
        return "not run here"
    found = sides(ours)
    if expected == "open":
        return found[0] if found else "unclear"
    if expected == "not lower":
        return _not_lower(ours)
    if expected == "as printed":
        told = () if theirs is None else sides(theirs)
        expected = told[0] if told else "untold"
    if expected in found:
        return "reproduced"
    if not found or expected == "untold":
        return "unclear"
    order = ("lower", "level", "higher")
    return "better" if order.index(found[0]) > order.index(expected) else "worse"


def _not_lower(ours: Gap) -> str:
    if ours.low > -MARGIN:
        return "reproduced"
    return "worse" if ours.high < 0 else "unclear"
