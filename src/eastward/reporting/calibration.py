"""Whether a stated confidence is met: bins of confidence against accuracy."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from eastward.comparison.calibration import expected_calibration_error, reliability

__all__ = ["calibration_summary"]


def calibration_summary(
    targets: NDArray[Any], log_probabilities: NDArray[Any], weight: NDArray[Any]
) -> dict[str, Any]:
    r"""Reliability of the most probable class, in the bins of :func:`eastward.comparison.calibration.reliability`.

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
    probabilities = np.exp(log_probabilities)
    number, mass, sure, right = reliability(probabilities, targets, weight)
    bins = [
        {
            "confidence": float(sure[b] / mass[b]),
            "accuracy": float(right[b] / mass[b]),
            "count": int(np.sum(number == b)),
        }
        for b in np.flatnonzero(mass)
    ]
    return {"bins": bins, "ece": expected_calibration_error(probabilities, targets, weight)}
