"""Which method to train when nobody says: the ensemble, and beyond its reach what held-out rows recommend."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import _safe_indexing

from eastward.comparison.runner import compare
from eastward.comparison.splits import stratified_split

__all__ = ["CANDIDATES", "ENSEMBLE_ROWS", "Choice", "choose_method"]

# A fit of the ensemble took 196 s at this size on a made-up table; where another method pays was not measured.
ENSEMBLE_ROWS = 100_000
# Larger tables: these grow slowest with the rows, and a sample says which of them suits the data.
CANDIDATES = ("boosting", "gradient_boosting_tuned", "cross_entropy_tuned")
SAMPLE_ROWS, SPLITS = 20_000, 2


class Choice(NamedTuple):
    """A method and the reason for it.

    Attributes
    ----------
    name : str
        As :func:`~eastward.compare` calls it.
    reason : str
        A sentence without a full stop.
    """

    name: str
    reason: str


def choose_method(
    X: Any,
    y: Any,
    metric: Any = "f1_macro",
    *,
    metric_options: Mapping[str, Any] | None = None,
    preprocess: Any = None,
    groups: Any = None,
    times: Any = None,
    random_state: int = 0,
    n_jobs: int | None = None,
) -> Choice:
    """The method to train on a table.

    Up to 100 000 rows that is the ensemble of networks and trees, which did best on average on the tables of
    docs/quality.md. Beyond, the methods of :data:`CANDIDATES` are compared on a stratified sample, and the one with the
    highest mean on its held-out rows is taken.

    Parameters
    ----------
    X, y, metric, metric_options, preprocess, groups, times, n_jobs
        As in :func:`~eastward.compare`.
    random_state : int, default=0
        Of the sample and of its splits.

    Returns
    -------
    Choice
        Name and reason.

    Examples
    --------
    >>> import numpy as np
    >>> choose_method(np.zeros((100, 2)), np.arange(100) % 2).name
    'ensemble'
    """
    rows = len(y)
    if find_spec("lightgbm") is None:
        return Choice(
            "eastward", "the ensemble needs LightGBM, which is not installed (eastward[boost])"
        )
    if rows <= ENSEMBLE_ROWS:
        reason = f"up to {ENSEMBLE_ROWS:,} rows the ensemble of networks and trees is the default"
        return Choice("ensemble", reason)
    codes = np.unique(np.asarray(y), return_inverse=True)[1]
    sample = stratified_split(codes, SAMPLE_ROWS / rows, random_state)[1]
    result = compare(
        _safe_indexing(X, sample),
        np.asarray(y)[sample],
        metric,
        methods=CANDIDATES,
        n_splits=SPLITS,
        random_state=random_state,
        n_jobs=n_jobs,
        preprocess=preprocess,
        groups=None if groups is None else np.asarray(groups)[sample],
        times=None if times is None else np.asarray(times)[sample],
        metric_options=metric_options,
    )
    judged = [row for row in result.methods if row["mean"] is not None]
    direction = 1 if result.metric.higher_is_better else -1
    best = max(judged, key=lambda row: direction * row["mean"])
    reason = (
        f"with more than {ENSEMBLE_ROWS:,} rows, {len(CANDIDATES)} methods were compared on a sample of "
        f"{len(sample):,}, and it had the best {result.metric.name} on held-out rows, {best['mean']:.3f}"
    )
    return Choice(best["name"], reason)
