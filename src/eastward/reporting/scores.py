"""Scores stored in a report, so that readers can move the decision."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["stored_scores"]

DIGITS = 4
# exp(-30) is 1e-13: no sensible offset brings back a class that improbable.
LOWEST = -30.0
# About 2 MB of text; a page must stay well under 5 MB.
MAX_NUMBERS = 250_000
MAX_CLASSES = 100


def stored_scores(
    targets: NDArray[Any],
    log_probabilities: NDArray[Any],
    offsets: NDArray[Any],
    weight: NDArray[Any],
    *,
    shifts: NDArray[Any] | None = None,
    max_scores: int,
    random_state: int,
) -> dict[str, Any] | None:
    """Select at most ``max_scores`` rows of scores, with weights that account for the other rows.

    Every class gets an equal share, as far as it has rows, because a rare class would nearly vanish from a plain
    sample. Weights make up for that. Within each true class they sum to the mass of the class, so tables of the sample
    estimate those of all rows.

    Returns
    -------
    dict or None
        ``log_probabilities`` (four digits), ``targets``, ``offsets`` and ``shifts`` of the decision (the largest
        :math:`e^{b_j} p_j + s_j`; None without shifts), ``sampled_from``, and ``weights``: None where every row counts
        once. The result is None for more than 100 classes, which no page can explore.
    """
    size = log_probabilities.shape[1]
    if size > MAX_CLASSES:
        return None
    limit = min(max_scores, MAX_NUMBERS // size)
    rows = _chosen_rows(targets, size, limit, random_state)
    weights = _weights(targets, weight, rows, size)
    plain = bool(np.all(weights == 1))
    rounded = np.maximum(log_probabilities[rows], LOWEST).round(DIGITS)
    return {
        # Adding zero turns -0.0 into 0.0.
        "log_probabilities": (rounded + 0.0).tolist(),
        "targets": targets[rows].tolist(),
        "offsets": offsets.tolist(),
        "shifts": None if shifts is None else shifts.tolist(),
        "sampled_from": len(targets),
        "weights": None if plain else [float(f"{value:.8g}") for value in weights],
    }


def _chosen_rows(
    targets: NDArray[Any], size: int, limit: int, random_state: int
) -> NDArray[np.int64]:
    """Return the indices of the sample, in the order of the rows."""
    if len(targets) <= limit:
        return np.arange(len(targets))
    generator = np.random.default_rng(random_state)
    counts = np.bincount(targets, minlength=size)
    chosen = [
        generator.choice(np.flatnonzero(targets == label), share, replace=False)
        for label, share in enumerate(_shares(counts, limit))
    ]
    return np.sort(np.concatenate(chosen))


def _shares(counts: NDArray[Any], limit: int) -> NDArray[np.int64]:
    """Compute how many rows of each class are stored: equal shares; larger classes get what small ones do not need."""
    shares = np.zeros_like(counts)
    left = limit
    for position, label in enumerate(np.argsort(counts, kind="stable")):
        shares[label] = min(counts[label], left // (len(counts) - position))
        left -= shares[label]
    return shares


def _weights(
    targets: NDArray[Any], weight: NDArray[Any], rows: NDArray[np.int64], size: int
) -> NDArray[np.float64]:
    mass = np.bincount(targets, weights=weight, minlength=size)
    kept = np.bincount(targets[rows], weights=weight[rows], minlength=size)
    scale = np.divide(mass, kept, out=np.ones(size), where=kept > 0)
    scaled: NDArray[np.float64] = weight[rows] * scale[targets[rows]]
    return scaled
