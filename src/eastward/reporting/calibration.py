"""Whether a stated confidence is met: bins of confidence against accuracy."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["calibration_summary"]

N_BINS = 10


def calibration_summary(
    targets: NDArray[Any], log_probabilities: NDArray[Any], weight: NDArray[Any]
) -> dict[str, Any]:
    r"""Reliability of the most probable class, in bins of equal width.

    .. math:: ECE = \sum_b \frac{n_b}{n}\,|accuracy_b - confidence_b|

    Parameters
    ----------
    targets : ndarray
        ``(N,)`` class indices.
    log_probabilities : ndarray
        ``(N, C)``, without offsets: a tuned decision changes who wins, not how sure the model is.
    weight : ndarray
        ``(N,)``, positive.

    Returns
    -------
    dict
        ``bins`` (``confidence``, ``accuracy``, ``count`` of each bin that is not empty) and ``ece`` in [0, 1].

    References
    ----------
    Guo et al. (2017), "On calibration of modern neural networks".

    Examples
    --------
    >>> logs = np.log([[0.8, 0.2], [0.8, 0.2]])
    >>> calibration_summary(np.array([0, 1]), logs, np.ones(2))["ece"]
    0.3
    """
    confidence = np.exp(log_probabilities.max(axis=1))
    hit = (log_probabilities.argmax(axis=1) == targets).astype(np.float64)
    number = np.minimum((confidence * N_BINS).astype(np.int64), N_BINS - 1)
    mass, sure, right = (
        np.bincount(number, weights=weight * values, minlength=N_BINS)
        for values in (np.ones_like(hit), confidence, hit)
    )
    filled = np.flatnonzero(mass)
    bins = [
        {
            "confidence": float(sure[b] / mass[b]),
            "accuracy": float(right[b] / mass[b]),
            "count": int(np.sum(number == b)),
        }
        for b in filled
    ]
    ece = float(np.abs(right - sure).sum() / mass.sum())
    return {"bins": bins, "ece": ece}
