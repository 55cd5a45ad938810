"""Summarise cells in one row of numbers for each method."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eastward.comparison.belief import Belief, Prior
from eastward.comparison.recommending import pair_belief
from eastward.comparison.statistics import (
    average_ranks,
    corrected_mean,
    holm,
    wins_ties_losses,
)
from eastward.metrics import Metric

__all__ = ["absolute_margin", "method_rows", "score_table"]

_MEASURED = ("log_loss", "brier", "ece", "seconds")
# With fewer splits, the interval of a mean would span most of the metric's range.
LEAST_SPLITS = 3
_UNKNOWN = {
    "mean": None,
    "interval": [None, None],
    "expected": None,
    "probability": None,
    "equal": None,
    "adjusted_p": None,
}


def method_rows(
    names: Sequence[str],
    labels: Sequence[str],
    cells: Sequence[dict[str, Any]],
    *,
    metric: Metric,
    baseline: str,
    test_ratio: float,
    tie_margin: float,
    prior: Prior | None = None,
) -> list[dict[str, Any]]:
    """Compute the numbers of each method, and of its paired differences to the baseline.

    Parameters
    ----------
    names, labels : sequence of str
        Names and labels of the methods, in order.
    cells : sequence of dict
        As :func:`~eastward.comparison.cells.run_cell` returns them; some may still be missing.
    metric : Metric
        The metric; its direction says what is better.
    baseline : str
        One of the names.
    test_ratio : float
        Test rows over training rows.
    tie_margin : float
        Largest difference without practical relevance; see :func:`absolute_margin`.
    prior : Prior, optional
        Experience for ``expected``, ``probability`` and ``equal``. Means, intervals and adjusted p-values use only the
        splits.

    Returns
    -------
    list of dict
        ``name, label, mean, sd, interval, difference, wins, ties, losses, rank, splits, log_loss, brier, ece, seconds,
        failures, errors``; None where there are too few results. Differences are method minus baseline in units of the
        metric; probabilities are those of being *better*, whichever direction the metric has.
    """
    scores = score_table(names, cells)
    reference = scores[list(names).index(baseline)]
    direction = 1.0 if metric.higher_is_better else -1.0
    margin = absolute_margin(metric, tie_margin, reference)
    known = {(cell["method"], cell["split"]) for cell in cells}
    ran = np.array([[(name, split) in known for split in _splits(cells)] for name in names])
    ranks = average_ranks(np.where(ran, direction * scores, -np.inf))
    rows = []
    for name, label, own, rank in zip(names, labels, scores, ranks, strict=True):
        gains = direction * (own - reference)[np.isfinite(own - reference)]
        wins, ties, losses = wins_ties_losses(gains, margin)
        rows.append(
            {
                "name": name,
                "label": label,
                **_level(own[np.isfinite(own)], test_ratio, metric),
                "difference": _difference(gains, direction, test_ratio)
                | _believed(
                    pair_belief(
                        own,
                        reference,
                        names=(name, baseline),
                        metric=metric,
                        test_ratio=test_ratio,
                        margin=margin,
                        prior=prior,
                    ),
                    direction,
                ),
                "wins": wins,
                "ties": ties,
                "losses": losses,
                "rank": float(rank),
                "splits": sum(cell["method"] == name for cell in cells),
                **_means([cell for cell in cells if cell["method"] == name]),
            }
        )
    _adjust([row["difference"] for row in rows if row["name"] != baseline])
    return rows


def absolute_margin(metric: Metric, tie_margin: float, reference: NDArray[Any]) -> float:
    """Return the margin for a metric of known range, else that share of the baseline's mean."""
    if math.isfinite(metric.high) and math.isfinite(metric.low):
        return tie_margin
    known = reference[np.isfinite(reference)]
    return tie_margin * abs(float(known.mean())) if len(known) else tie_margin


def score_table(names: Sequence[str], cells: Sequence[dict[str, Any]]) -> NDArray[Any]:
    """Return scores ``(methods, splits)``, NaN for a missing result; splits without results are left out."""
    splits = _splits(cells)
    table = np.full((len(names), len(splits)), np.nan)
    for cell in cells:
        if cell["score"] is not None:
            table[list(names).index(cell["method"]), splits.index(cell["split"])] = cell["score"]
    return table


def _splits(cells: Sequence[dict[str, Any]]) -> list[int]:
    return sorted({cell["split"] for cell in cells})


def _level(scores: NDArray[Any], test_ratio: float, metric: Metric) -> dict[str, Any]:
    mean = float(scores.mean()) if len(scores) else None
    sd = float(scores.std(ddof=1)) if len(scores) > 1 else None
    if len(scores) < LEAST_SPLITS:
        return {"mean": mean, "sd": sd, "interval": [None, None]}
    level = corrected_mean(scores, test_ratio)
    interval = np.clip([level.low, level.high], metric.low, metric.high).tolist()
    return {"mean": mean, "sd": sd, "interval": interval}


def _difference(gains: NDArray[Any], direction: float, test_ratio: float) -> dict[str, Any]:
    if len(gains) < 2:
        return dict(_UNKNOWN)
    gain = corrected_mean(gains, test_ratio)
    ends = sorted([direction * gain.low, direction * gain.high])
    known = len(gains) >= LEAST_SPLITS
    return {
        "mean": direction * gain.mean + 0.0,  # minus zero is zero
        "interval": [end + 0.0 for end in ends] if known else [None, None],
        "adjusted_p": 1 - gain.probability,
    }


def _believed(belief: Belief | None, direction: float) -> dict[str, Any]:
    if belief is None:
        return {}
    expected = direction * belief.expected + 0.0
    return {"expected": expected, "probability": belief.better, "equal": belief.equal}


def _adjust(differences: list[dict[str, Any]]) -> None:
    """Add one-sided p-values of being better, adjusted for the number of methods."""
    known = [difference for difference in differences if difference["adjusted_p"] is not None]
    adjusted = holm(np.array([difference["adjusted_p"] for difference in known]))
    for difference, value in zip(known, adjusted.tolist(), strict=True):
        difference["adjusted_p"] = value


def _means(cells: list[dict[str, Any]]) -> dict[str, Any]:
    finished = [cell for cell in cells if cell["error"] is None]
    values = {name: [c[name] for c in finished if c[name] is not None] for name in _MEASURED}
    means = {name: float(np.mean(each)) if each else None for name, each in values.items()}
    errors = list(dict.fromkeys(cell["error"] for cell in cells if cell["error"] is not None))
    return {**means, "failures": len(cells) - len(finished), "errors": errors}
