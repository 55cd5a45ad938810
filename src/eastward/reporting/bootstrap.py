"""A stratified bootstrap of the confusion matrix, for every metric at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from eastward.confusion import Counts, counts_from_confusion
from eastward.metrics import Metric

__all__ = ["bootstrap_confusions", "metric_intervals", "values_of"]

# Entries of a stack of tables, or of draws, in memory at one time (32 MB in float64).
NUMBERS_AT_ONCE = 4_000_000


def bootstrap_confusions(
    targets: NDArray[Any],
    decisions: NDArray[Any],
    weight: NDArray[Any],
    num_classes: int,
    *,
    n_bootstrap: int,
    random_state: int,
) -> Iterator[NDArray[Any]]:
    """Yield confusion matrices of resamples that keep the number of rows of each true class.

    Rows with the same true class, decision and weight are interchangeable, so their multiplicities are drawn together,
    by a multinomial per class. The distribution is that of drawing row by row, but the cost does not grow with the
    rows.

    If all rows of a class were decided alike, every resample would have the same counts, as if two correct rows out of
    two proved that the model never errs. So these classes share half a row that is decided differently (Jeffreys'
    prior). With k such classes, a class of n rows moves a share of its rows, drawn from Beta(½ / k, n + ½), evenly to
    the other decisions.

    Yields
    ------
    ndarray
        ``(b, C, C)``, rows true and columns decided; the b add up to ``n_bootstrap``.
    """
    kinds = np.stack([targets * num_classes + decisions, weight], axis=1)
    distinct, counts = np.unique(kinds, axis=0, return_counts=True)
    cells, masses = distinct[:, 0].astype(np.int64), distinct[:, 1]
    strata = [
        np.flatnonzero(cells // num_classes == label) for label in np.unique(cells // num_classes)
    ]
    alike = [rows for rows in strata if len(np.unique(cells[rows])) == 1]
    generator = np.random.default_rng(random_state)
    for size in _chunks(n_bootstrap, max(num_classes**2, len(cells))):
        tables = np.zeros((num_classes**2, size))
        for rows in strata:
            total = counts[rows].sum()
            draws = generator.multinomial(total, counts[rows] / total, size=size)
            np.add.at(tables, cells[rows], (draws * masses[rows]).T)
        for rows in alike:
            moved = generator.beta(0.5 / len(alike), counts[rows].sum() + 0.5, size=size)
            _decided_otherwise(tables, int(cells[rows[0]]), num_classes, moved)
        yield tables.T.reshape(size, num_classes, num_classes)


def _decided_otherwise(
    tables: NDArray[Any], cell: int, num_classes: int, share: NDArray[Any]
) -> None:
    """Move a share of ``cell`` evenly to the other decisions of its true class, in place; ``(C², B)`` and ``(B,)``."""
    first = cell // num_classes * num_classes
    others = [k for k in range(first, first + num_classes) if k != cell]
    moved = tables[cell] * share
    tables[cell] -= moved
    tables[others] += moved / len(others)


def metric_intervals(
    metrics: Sequence[Metric], tables: Iterator[NDArray[Any]], *, level: float = 0.95
) -> list[list[float] | None]:
    """Compute the percentile interval of each metric over a stream of confusion matrices; None for none."""
    values = [values_of(metrics, chunk) for chunk in tables]
    if not values:
        return [None for _ in metrics]
    tail = (1 - level) / 2
    return [np.quantile(row, [tail, 1 - tail]).tolist() for row in np.concatenate(values, axis=1)]


def values_of(metrics: Sequence[Metric], tables: NDArray[Any]) -> NDArray[np.float64]:
    """Evaluate M metrics at B confusion matrices: ``(B, C, C)`` to ``(M, B)``.

    Examples
    --------
    >>> from eastward.metrics import get
    >>> values_of([get("accuracy")], np.array([np.eye(2), np.ones((2, 2))])).tolist()
    [[1.0, 0.5]]
    """
    matrices, counts = _matrices_and_counts(tables)
    values: NDArray[np.float64] = torch.stack(
        [values_at(metric, matrices, counts) for metric in metrics]
    ).numpy()
    return values


def values_at(metric: Metric, matrices: Tensor, counts: Tensor) -> Tensor:
    """Evaluate the metric at B tables, ``(B,)``, at once if it can be vectorised."""

    def at_counts(table: Tensor) -> Tensor:
        return metric(Counts.unstack(table))

    function: Callable[[Tensor], Tensor] = metric if metric.needs_matrix else at_counts
    tables = matrices if metric.needs_matrix else counts
    try:
        return torch.func.vmap(function)(tables).double()
    except (RuntimeError, TypeError, ValueError):
        # A user's metric may branch on values, which vmap does not support.
        return torch.stack([torch.as_tensor(function(table)).double() for table in tables])


def _matrices_and_counts(tables: NDArray[Any]) -> tuple[Tensor, Tensor]:
    matrices = torch.from_numpy(tables)
    return matrices, torch.func.vmap(lambda matrix: counts_from_confusion(matrix).stack())(matrices)


def _chunks(count: int, numbers_each: int) -> Iterator[int]:
    size = max(1, NUMBERS_AT_ONCE // numbers_each)
    for start in range(0, count, size):
        yield min(size, count - start)
