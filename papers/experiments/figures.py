"""A published or measured figure, and how far two of them are apart."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

__all__ = ["Figure", "figure_of", "parse_figures", "pooled_distance", "verdict"]

# A figure printed with two digits is off by up to 0.005, which is a standard deviation of 0.01 / sqrt(12).
ROUNDING = 0.01 / math.sqrt(12)
# Two figures within this many pooled standard deviations count as the same.
TOLERANCE = 2.0


@dataclass(frozen=True)
class Figure:
    """A mean over trials and its standard deviation; ``trials`` is 0 where it is a paper's."""

    mean: float
    spread: float
    trials: int = 0

    def __str__(self) -> str:
        digits = 3 if self.trials or round(self.mean, 2) != round(self.mean, 3) else 2
        return f"{self.mean:.{digits}f} ± {self.spread:.{digits if self.trials else 2}f}"


def figure_of(values: Sequence[float]) -> Figure:
    """Mean and sample standard deviation of finished trials.

    Examples
    --------
    >>> str(figure_of([0.5, 0.7]))
    '0.600 ± 0.141'
    """
    spread = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
    return Figure(float(np.mean(values)), spread, len(values))


def parse_figures(text: str, scores: Sequence[str]) -> dict[str, dict[str, Figure]]:
    """A paper's table as it is printed: a method, then mean and deviation of each score.

    Examples
    --------
    >>> parse_figures("bce .70 .02 .85 .01", ["f1", "accuracy"])["bce"]["f1"]
    Figure(mean=0.7, spread=0.02, trials=0)
    """
    table = {}
    for line in text.strip().splitlines():
        method, *numbers = line.split()
        pairs = zip(map(float, numbers[0::2]), map(float, numbers[1::2]), strict=True)
        table[method] = {
            score: Figure(mean, spread) for score, (mean, spread) in zip(scores, pairs, strict=True)
        }
    return table


def pooled_distance(ours: Figure, theirs: Figure) -> float:
    r"""How far apart two figures are, in pooled standard deviations.

    .. math:: (m_1 - m_2) / \sqrt{(s_1^2 + s_2^2) / 2}

    No deviation counts as less than the rounding of a printed figure.

    Examples
    --------
    >>> round(pooled_distance(Figure(0.8, 0.02), Figure(0.75, 0.01)), 2)
    3.16
    """
    spreads = [max(figure.spread, ROUNDING) for figure in (ours, theirs)]
    return (ours.mean - theirs.mean) / math.sqrt(sum(s * s for s in spreads) / 2)


def verdict(distance: float | None) -> str:
    """A word for a distance: reproduced within two pooled deviations, else better or worse.

    Examples
    --------
    >>> verdict(0.5), verdict(-3.0), verdict(None)
    ('reproduced', 'worse', 'not run here')
    """
    if distance is None:
        return "not run here"
    if abs(distance) <= TOLERANCE:
        return "reproduced"
    return "better" if distance > 0 else "worse"
