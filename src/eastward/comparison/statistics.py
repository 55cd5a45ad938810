"""Paired statistics of repeated splits, corrected for the rows that splits share."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

__all__ = ["CorrectedMean", "average_ranks", "corrected_mean", "holm", "wins_ties_losses"]

CONFIDENCE = 0.95


class CorrectedMean(NamedTuple):
    """A mean over splits, its interval, and the probability that the true mean is positive."""

    mean: float
    low: float
    high: float
    probability: float


def corrected_mean(values: NDArray[Any], test_ratio: float) -> CorrectedMean:
    r"""Average over repeated splits, with the interval of Nadeau and Bengio.

    .. math:: \bar d \pm t_{J-1} \sqrt{\left(\tfrac1J + \tfrac{n_\text{test}}{n_\text{train}}\right) s^2}

    Splits of one data set share training rows, so their results are not independent, and the variance :math:`s^2 / J`
    would be far too small. The second term corrects for that.

    Parameters
    ----------
    values : ndarray
        ``(J,)`` values, one for each split; J >= 2.
    test_ratio : float
        Test rows over training rows.

    Returns
    -------
    CorrectedMean
        The probability comes from the corrected t distribution (flat prior); one half if nothing differs.

    References
    ----------
    Nadeau and Bengio, *Inference for the generalization error*, Machine Learning 2003.

    Examples
    --------
    >>> import numpy as np
    >>> result = corrected_mean(np.array([0.02, 0.03, 0.01, 0.02]), test_ratio=0.25)
    >>> [round(number, 3) for number in result]
    [0.02, 0.002, 0.038, 0.98]
    """
    count, mean = len(values), float(np.mean(values))
    deviation = math.sqrt((1 / count + test_ratio) * float(np.var(values, ddof=1)))
    # Splits that agree to the last digit have no spread.
    if deviation <= 1e-12 * max(1.0, abs(mean)):
        return CorrectedMean(mean, mean, mean, 0.5 + 0.5 * float(np.sign(round(mean, 12))))
    reach = float(stats.t.ppf(0.5 + CONFIDENCE / 2, count - 1)) * deviation
    probability = float(stats.t.cdf(mean / deviation, count - 1))
    return CorrectedMean(mean, mean - reach, mean + reach, probability)


def holm(p_values: NDArray[Any]) -> NDArray[Any]:
    """Adjust p-values for their number (Holm's step-down method), in the given order.

    Examples
    --------
    >>> import numpy as np
    >>> holm(np.array([0.01, 0.04, 0.03])).tolist()
    [0.03, 0.06, 0.06]
    """
    order = np.argsort(p_values)
    factors = np.arange(len(p_values), 0, -1)
    adjusted = np.empty(len(p_values))
    adjusted[order] = np.maximum.accumulate(np.minimum(1.0, p_values[order] * factors))
    return adjusted


def average_ranks(merits: NDArray[Any]) -> NDArray[Any]:
    """Compute the mean rank of each method over splits; 1 is best, ties share ranks, failures come last.

    Parameters
    ----------
    merits : ndarray
        ``(methods, splits)``, higher is better. NaN stands for a failure, minus infinity for a split on which a method
        was not run; that split does not count for it.

    Returns
    -------
    ndarray
        ``(methods,)``.

    Examples
    --------
    >>> import numpy as np
    >>> average_ranks(np.array([[0.9, 0.8], [0.7, 0.8], [np.nan, 0.1]])).tolist()
    [1.25, 1.75, 3.0]
    """
    ran = ~np.isneginf(merits)
    losses = np.where(np.isnan(merits), np.finfo(np.float64).max, -merits)
    # Methods that were not run come last, so that they change no other rank.
    total = np.where(ran, stats.rankdata(losses, axis=0), 0.0).sum(axis=1)
    ranks: NDArray[Any] = total / np.maximum(1, ran.sum(axis=1))
    return ranks


def wins_ties_losses(gains: NDArray[Any], margin: float) -> tuple[int, int, int]:
    """Count gains above the margin, within it, and below it.

    Examples
    --------
    >>> import numpy as np
    >>> wins_ties_losses(np.array([0.02, 0.004, -0.01]), margin=0.005)
    (1, 1, 1)
    """
    wins, losses = int((gains > margin).sum()), int((gains < -margin).sum())
    return wins, len(gains) - wins - losses, losses
