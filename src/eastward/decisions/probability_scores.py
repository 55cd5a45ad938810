"""How good probabilities are: what a method may trade away for its metric."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["brier_score", "expected_calibration_error", "log_loss", "reliability"]

# Forests give probabilities of zero; scikit-learn cuts them at the same place.
_SMALLEST = float(np.finfo(np.float64).eps)
_BINS = 15


def log_loss(probabilities: NDArray[Any], targets: NDArray[Any], weight: NDArray[Any]) -> float:
    """Mean negative log-probability of the true class; ``(N, C)``, ``(N,)``, ``(N,)``; 0 is best.

    Examples
    --------
    >>> import numpy as np
    >>> log_loss(np.array([[0.5, 0.5]]), np.array([1]), np.ones(1))
    0.6931
    """
    chosen = probabilities[np.arange(len(targets)), targets].clip(_SMALLEST, 1.0)
    return float(np.average(-np.log(chosen), weights=weight))


def brier_score(probabilities: NDArray[Any], targets: NDArray[Any], weight: NDArray[Any]) -> float:
    """Mean squared distance of the probabilities to the truth, halved for two classes as in scikit-learn.

    Examples
    --------
    >>> import numpy as np
    >>> brier_score(np.array([[0.5, 0.5]]), np.array([1]), np.ones(1))
    0.25
    """
    truth = np.eye(probabilities.shape[1])[targets]
    distances = np.square(probabilities - truth).sum(axis=1)
    scale = 0.5 if probabilities.shape[1] == 2 else 1.0
    return float(np.average(distances, weights=weight) * scale)


def expected_calibration_error(
    probabilities: NDArray[Any], targets: NDArray[Any], weight: NDArray[Any]
) -> float:
    """Mean gap between confidence and accuracy over 15 bins of equal width; in [0, 1], 0 is best.

    References
    ----------
    Guo et al., *On calibration of modern neural networks*, ICML 2017.

    Examples
    --------
    >>> import numpy as np
    >>> expected_calibration_error(np.array([[0.3, 0.7]] * 2), np.array([1, 0]), np.ones(2))
    0.2
    """
    _, mass, sure, right = reliability(probabilities, targets, weight)
    return float(np.abs(right - sure).sum() / mass.sum())


def reliability(
    probabilities: NDArray[Any], targets: NDArray[Any], weight: NDArray[Any]
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Rows in 15 bins of equal width by the confidence in the most probable class.

    Returns
    -------
    tuple of ndarray
        The bin of each row ``(N,)``; and of each bin the weight of its rows, that weight times their confidence, and
        the weight of those that are right.

    Examples
    --------
    >>> import numpy as np
    >>> bins, mass, sure, right = reliability(
    ...     np.array([[0.3, 0.7]] * 2), np.array([1, 0]), np.ones(2)
    ... )
    >>> bins.tolist(), [float(of[10]) for of in (mass, sure, right)]
    ([10, 10], [2.0, 1.4, 1.0])
    """
    confidence = probabilities.max(axis=1)
    hit = (probabilities.argmax(axis=1) == targets).astype(float)
    bins = np.minimum((confidence * _BINS).astype(int), _BINS - 1)
    mass, sure, right = (
        np.bincount(bins, weights=weight * values, minlength=_BINS)
        for values in (np.ones_like(hit), confidence, hit)
    )
    return bins, mass, sure, right
