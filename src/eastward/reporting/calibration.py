"""Compare stated confidence with accuracy in bins."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from eastward.decisions.calibration import expected_calibration_error

__all__ = ["calibration_summary"]

# A bin with fewer rows is hardly informative: with 20 rows its interval is up to 0.4 wide.
ROWS_PER_BIN, MOST_BINS = 20, 10
# Simulations of a perfectly calibrated model on these rows; fewer if there are many probabilities.
CHANCE_DRAWS, CHANCE_NUMBERS = 200, 20_000_000


def calibration_summary(
    targets: NDArray[Any],
    log_probabilities: NDArray[Any],
    weight: NDArray[Any],
    *,
    random_state: int = 0,
) -> dict[str, Any]:
    r"""Summarise the reliability of the most probable class.

    .. math:: ECE = \sum_b \frac{n_b}{n}\,|accuracy_b - confidence_b|

    The error is :func:`eastward.decisions.calibration.expected_calibration_error`. The curve has its own bins: at
    most ten with equally many rows, at least twenty each, so that every point has enough evidence.

    Parameters
    ----------
    targets : ndarray
        ``(N,)`` class indices.
    log_probabilities : ndarray
        ``(N, C)``, without offsets: a tuned decision changes the decision, not the confidence.
    weight : ndarray
        ``(N,)``, positive.
    random_state : int, default=0
        Seed of the draws for ``chance``.

    Returns
    -------
    dict
        ``bins``, each with ``low`` and ``high`` (its least and greatest confidence), ``confidence`` and ``accuracy``
        (means), ``interval`` (95 %, Wilson) and ``count``. ``ece`` in [0, 1]. ``chance``: the error that a perfectly
        calibrated model would show on as many rows, which is above zero because the number of rows is finite.

    References
    ----------
    Guo et al. (2017), "On calibration of modern neural networks".

    Examples
    --------
    >>> logs = np.log([[0.8, 0.2], [0.8, 0.2]])
    >>> summary = calibration_summary(np.array([0, 1]), logs, np.ones(2))
    >>> summary["ece"], summary["bins"][0]["accuracy"]
    (0.3, 0.5)
    """
    probabilities = np.exp(log_probabilities)
    confidence = probabilities.max(axis=1)
    hit = (probabilities.argmax(axis=1) == targets).astype(float)
    return {
        "bins": [
            _bin(confidence[rows], hit[rows], weight[rows]) for rows in _supported_bins(confidence)
        ],
        "ece": expected_calibration_error(probabilities, targets, weight),
        "chance": _error_by_chance(probabilities, weight, random_state),
    }


def _supported_bins(confidence: NDArray[Any]) -> list[NDArray[np.int64]]:
    """Sort rows into bins, from low to high confidence; equal confidences stay in one bin.

    >>> [len(rows) for rows in _supported_bins(np.repeat([0.5, 0.9], [20, 45]))]
    [20, 45]
    """
    order = np.argsort(confidence, kind="stable")
    count = min(MOST_BINS, max(1, len(order) // ROWS_PER_BIN))
    starts = np.searchsorted(
        confidence[order], confidence[order][np.arange(1, count) * len(order) // count]
    )
    return [rows for rows in np.split(order, np.unique(starts)) if len(rows)]


def _bin(confidence: NDArray[Any], hit: NDArray[Any], weight: NDArray[Any]) -> dict[str, Any]:
    accuracy = float(np.average(hit, weights=weight))
    return {
        "low": float(confidence.min()),
        "high": float(confidence.max()),
        "confidence": float(np.average(confidence, weights=weight)),
        "accuracy": accuracy,
        "interval": _wilson(accuracy, float(weight.sum() ** 2 / np.square(weight).sum())),
        "count": len(hit),
    }


def _wilson(share: float, rows: float) -> list[float]:
    """Compute the 95 % interval of a share seen on this many rows, which need not be a whole number.

    >>> [round(end, 3) for end in _wilson(1.0, 20)]
    [0.839, 1.0]
    """
    reach = float(stats.norm.ppf(0.975)) ** 2 / rows
    middle = (share + reach / 2) / (1 + reach)
    half = np.sqrt(reach * (share * (1 - share) + reach / 4)) / (1 + reach)
    return [max(0.0, float(middle - half)), min(1.0, float(middle + half))]


def _error_by_chance(probabilities: NDArray[Any], weight: NDArray[Any], random_state: int) -> float:
    """Simulate the mean error if labels were drawn from the probabilities themselves."""
    generator = np.random.default_rng(random_state)
    cumulated = probabilities.cumsum(axis=1)
    cumulated /= cumulated[:, -1:]
    errors = []
    for _ in range(max(3, min(CHANCE_DRAWS, CHANCE_NUMBERS // probabilities.size))):
        labels = (generator.random((len(probabilities), 1)) > cumulated).sum(axis=1)
        errors.append(expected_calibration_error(probabilities, labels, weight))
    return float(np.mean(errors))
