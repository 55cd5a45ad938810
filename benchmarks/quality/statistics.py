"""Statistics over data sets: ranks, wins, signed-rank tests, and the probability of practical equivalence."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from eastward.comparison.statistics import average_ranks, holm, wins_ties_losses

Array = NDArray[Any]

MARGIN = 0.005
DRAWS = 20_000


class Versus(NamedTuple):
    """One method against another over data sets."""

    name: str
    sets: int
    gain: float
    low: float
    high: float
    wins: int
    ties: int
    losses: int
    p_value: float
    p_holm: float
    better: float
    equal: float
    worse: float


def signed_rank_p(gains: Array) -> float:
    """Two-sided Wilcoxon signed-rank test; 1 where nothing differs."""
    return float(stats.wilcoxon(gains).pvalue) if np.any(gains != 0) else 1.0


def bayesian_signed_rank(
    gains: Array, margin: float = MARGIN, seed: int = 0
) -> tuple[float, float, float]:
    r"""Probabilities that one method is better, practically equal, and worse.

    .. math:: \theta_r = \sum_{i,j} w_i w_j\, 1[z_i + z_j > 2 m],\quad w \sim \text{Dirichlet}(s, 1, \dots, 1)

    A Dirichlet process over the sets' gains with a pseudo-observation of zero and strength one half; of each draw the
    region with the largest mass counts.

    Returns
    -------
    tuple of float
        Better, practically equal, worse; they sum to one.

    References
    ----------
    Benavoli et al., *Time for a change: a tutorial for comparing multiple classifiers through Bayesian analysis*,
    JMLR 2017.

    Examples
    --------
    >>> import numpy as np
    >>> better, equal, worse = bayesian_signed_rank(np.full(20, 0.03))
    >>> better > 0.99
    True
    """
    points = np.concatenate([[0.0], np.asarray(gains, dtype=float)])
    strength = np.ones(len(points))
    strength[0] = 0.5
    sums = points[:, None] + points[None, :]
    regions = [sums > 2 * margin, np.abs(sums) <= 2 * margin, sums < -2 * margin]
    weights = np.random.default_rng(seed).dirichlet(strength, DRAWS)
    masses = np.stack(
        [np.einsum("di,ij,dj->d", weights, region, weights, optimize=True) for region in regions]
    )
    counts = np.bincount(masses.argmax(axis=0), minlength=3) / DRAWS
    return float(counts[0]), float(counts[1]), float(counts[2])


def critical_difference(methods: int, sets: int, level: float = 0.05) -> float:
    r"""Nemenyi's difference of average ranks, :math:`q_\alpha \sqrt{k(k+1)/(6N)}`.

    References
    ----------
    Demšar, *Statistical comparisons of classifiers over multiple data sets*, JMLR 2006.

    Examples
    --------
    >>> round(critical_difference(5, 30), 2)
    1.11
    """
    quantile = float(stats.studentized_range.ppf(1 - level, methods, np.inf)) / np.sqrt(2)
    return quantile * float(np.sqrt(methods * (methods + 1) / (6 * sets)))


def mean_table(cells: list[dict[str, Any]], metric: str) -> tuple[list[str], list[str], Array]:
    """Methods, sets and mean scores ``(methods, sets)`` over splits; NaN where a method was not run."""
    chosen = [cell for cell in cells if cell["metric"] == metric]
    methods = list(dict.fromkeys(cell["method"] for cell in chosen))
    sets = sorted({cell["set"] for cell in chosen})
    values: dict[tuple[str, str], list[float]] = {}
    for cell in chosen:
        values.setdefault((cell["method"], cell["set"]), []).append(cell["score"])
    table = [[np.mean(values.get((method, name), [np.nan])) for name in sets] for method in methods]
    return methods, sets, np.array(table)


def paired(cells: list[dict[str, Any]], metric: str, one: str, other: str) -> Array:
    """Mean difference of two methods on each set, over the splits that both were run on."""
    scores: dict[str, dict[tuple[str, int], float]] = {one: {}, other: {}}
    for cell in cells:
        if cell["metric"] == metric and cell["method"] in scores:
            scores[cell["method"]][cell["set"], cell["split"]] = cell["score"]
    by_set: dict[str, list[float]] = {}
    for key in scores[one].keys() & scores[other].keys():
        by_set.setdefault(key[0], []).append(scores[one][key] - scores[other][key])
    return np.array([np.mean(by_set[name]) for name in sorted(by_set)])


def versus_all(
    cells: list[dict[str, Any]], metric: str, one: str, others: list[str]
) -> list[Versus]:
    """One method against each of the others, with Holm's correction over them."""
    gains = [paired(cells, metric, one, other) for other in others]
    raw = np.array([signed_rank_p(each) if len(each) else 1.0 for each in gains])
    adjusted = holm(raw) if len(raw) else raw
    return [
        _versus(name, each, float(p), float(q))
        for name, each, p, q in zip(others, gains, raw, adjusted, strict=True)
        if len(each) > 1
    ]


def _versus(name: str, gains: Array, p_value: float, p_holm: float) -> Versus:
    mean = float(gains.mean())
    reach = float(stats.t.ppf(0.975, len(gains) - 1) * gains.std(ddof=1) / np.sqrt(len(gains)))
    counts = wins_ties_losses(gains, MARGIN)
    sizes = (mean, mean - reach, mean + reach)
    return Versus(name, len(gains), *sizes, *counts, p_value, p_holm, *bayesian_signed_rank(gains))


def ranks(table: Array) -> Array:
    """Average rank of each method over sets, 1 is best."""
    return average_ranks(table)
