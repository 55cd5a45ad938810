"""Find the columns that matter for the metric, and how decisions depend on them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse
from sklearn.inspection import permutation_importance

from eastward.metrics import Metric
from eastward.reporting.bootstrap import NUMBERS_AT_ONCE, values_of

__all__ = ["importance_summary"]

# Rows to shuffle, and rows whose decisions are followed while one column changes.
MAX_ROWS, MAX_FOLLOWED = 500, 200
# A table with many columns gets fewer shuffles of each, so that a few hundred predictions suffice.
MOST_REPEATS, SHUFFLES = 10, 300
N_BOOTSTRAP, FEWEST_DRAWS = 300, 20
# The most columns with an effect, points of a curve, values of a category, and classes of a picture.
MAX_FOLLOWED_COLUMNS, CURVE_POINTS, MAX_VALUES, MAX_CURVES = 6, 15, 8, 4
# A column with fewer distinct numbers is shown value by value.
FEW_VALUES = 5

Decide = Callable[[NDArray[Any]], NDArray[Any]]


class _Rows(NamedTuple):
    """Held-out rows as input of the classifier."""

    vectors: NDArray[Any]
    targets: NDArray[Any]
    weight: NDArray[Any]


def importance_summary(
    decide: Decide,
    vectors: NDArray[Any],
    origins: Sequence[str],
    frame: pd.DataFrame,
    targets: NDArray[Any],
    classes: Sequence[Any],
    metric: Metric,
    *,
    sample_weight: NDArray[Any] | None = None,
    random_state: int = 0,
) -> dict[str, Any]:
    """Measure how much the metric drops when a column is shuffled among held-out rows.

    The columns are those of the table, before preprocessing. All numbers that come from one column are shuffled
    together, by scikit-learn's :func:`~sklearn.inspection.permutation_importance`. Intervals come from a bootstrap of
    the rows within their true classes, each with a random shuffle, so they cover both sources of randomness. For
    columns that clearly matter, the summary shows how often each class is decided as the column takes one value after
    another and all else stays.

    Parameters
    ----------
    decide : callable
        Turns vectors ``(n, F)`` into class indices ``(n,)``.
    vectors : ndarray
        ``(N, F)``, the input of the classifier.
    origins : sequence of str
        F names: the column of ``frame`` that each of the F numbers comes from.
    frame : DataFrame
        ``(N, K)``, the columns before preprocessing.
    targets : ndarray
        ``(N,)`` class indices.
    classes : sequence
        C labels.
    metric : Metric
        The metric that judges decisions.
    sample_weight : ndarray, optional
        Weights of the rows, ``(N,)``.
    random_state : int, default=0
        Seed of sample, shuffles and bootstrap.

    Returns
    -------
    dict
        ``rows`` and ``repeats``. ``columns`` has the ``name``, ``mean``, ``interval`` and ``matters`` of each column,
        most important first, in units of the metric; positive means that shuffling lowers the score. ``effects`` has
        ``name``, ``kind``, ``values``, ``classes`` and ``shares`` (a list for each class) of the columns that matter
        most.

    References
    ----------
    Breiman (2001), "Random forests", section 10.

    Examples
    --------
    >>> from eastward import metrics
    >>> judge = metrics.get("accuracy")
    >>> x = np.repeat([[0.0, 1.0], [1.0, 0.0]], 20, axis=0)
    >>> frame = pd.DataFrame(x, columns=["used", "ignored"])
    >>> y = x[:, 0].astype(int)
    >>> first = lambda vectors: vectors[:, 0].astype(int)
    >>> summary = importance_summary(first, x, ["used", "ignored"], frame, y, "ab", judge)
    >>> [(column["name"], column["matters"]) for column in summary["columns"]]
    [('used', True), ('ignored', False)]
    """
    weight = np.ones(len(targets)) if sample_weight is None else np.asarray(sample_weight)
    generator = np.random.default_rng(random_state)
    chosen = np.sort(generator.permutation(len(targets))[:MAX_ROWS])
    rows = _Rows(vectors[chosen], targets[chosen], weight[chosen])
    names = [str(name) for name in frame.columns if name in set(origins)]
    blocks = [np.flatnonzero(np.asarray(origins) == name) for name in names]
    repeats = max(1, min(MOST_REPEATS, SHUFFLES // max(1, len(names))))
    model = _ShuffledColumns(decide, rows.vectors, blocks)
    means = _mean_losses(model, rows, len(classes), metric, repeats, random_state)
    intervals = _intervals(model.seen, repeats, rows, len(classes), metric, generator)
    columns: list[dict[str, Any]] = [
        {"name": name, "mean": mean, "interval": interval, "matters": interval[0] > 0}
        for name, mean, interval in zip(names, means, intervals, strict=True)
    ]
    order = sorted(range(len(columns)), key=lambda k: -columns[k]["mean"])
    followed = [k for k in order if columns[k]["matters"]][:MAX_FOLLOWED_COLUMNS]
    raw = frame.iloc[chosen].reset_index(drop=True)
    return {
        "rows": len(chosen),
        "repeats": repeats,
        "columns": [columns[k] for k in order],
        "effects": [_effect(model, rows, raw[names[k]], k, classes) for k in followed],
    }


class _ShuffledColumns:
    """A classifier whose input gives, for each column, the number of the row that its value comes from.

    Shuffling one column of row numbers then shuffles every number made from that column, and nothing is vectorised
    twice.
    """

    def __init__(
        self, decide: Decide, vectors: NDArray[Any], blocks: Sequence[NDArray[Any]]
    ) -> None:
        self.decide, self.vectors, self.blocks = decide, vectors, blocks
        self.seen: list[NDArray[Any]] = []

    def fit(self, X: Any, y: Any = None) -> _ShuffledColumns:  # noqa: ARG002 - scikit-learn's signature
        """Do nothing, because the classifier is fitted already."""
        return self

    def sources(self) -> NDArray[np.int64]:
        """Return the row numbers ``(N, K)`` of the unchanged table."""
        return np.tile(np.arange(len(self.vectors))[:, None], len(self.blocks))

    def decisions(self, sources: NDArray[np.int64]) -> NDArray[Any]:
        """Decide the table whose values come from these rows."""
        moved = self.vectors.copy()
        for k in np.flatnonzero((sources != self.sources()).any(axis=0)).tolist():
            moved[:, self.blocks[k]] = self.vectors[sources[:, k]][:, self.blocks[k]]
        return self.decide(moved)


def _mean_losses(
    model: _ShuffledColumns,
    rows: _Rows,
    size: int,
    metric: Metric,
    repeats: int,
    random_state: int,
) -> list[float]:
    """Compute the mean importance of each column; the model keeps its decisions."""
    direction = 1 if metric.higher_is_better else -1

    def merit(model: _ShuffledColumns, sources: Any, y: Any, sample_weight: Any) -> float:
        model.seen.append(model.decisions(sources))
        tables = _tables(sample_weight[None, :], y, model.seen[-1], size)
        return direction * float(values_of([metric], tables)[0, 0])

    found = permutation_importance(
        model,
        model.sources(),
        rows.targets,
        scoring=merit,
        n_repeats=repeats,
        random_state=random_state,
        sample_weight=rows.weight,
    )
    means: list[float] = found.importances_mean.tolist()
    return means


def _intervals(
    seen: Sequence[NDArray[Any]],
    repeats: int,
    rows: _Rows,
    size: int,
    metric: Metric,
    generator: np.random.Generator,
) -> list[list[float]]:
    """Compute a 95 % interval for each column from decisions: those of the table first, then of shuffles."""
    direction = 1 if metric.higher_is_better else -1
    draws = _resamples(rows, size, generator)
    before = values_of([metric], _tables(draws, rows.targets, seen[0], size))[0]
    found = []
    for first in range(1, len(seen), repeats):
        after = np.empty(len(draws))
        for shuffle in range(repeats):
            mine = slice(shuffle, None, repeats)
            tables = _tables(draws[mine], rows.targets, seen[first + shuffle], size)
            after[mine] = values_of([metric], tables)[0]
        found.append(np.quantile(direction * (before - after), [0.025, 0.975]).tolist())
    return found


def _resamples(rows: _Rows, size: int, generator: np.random.Generator) -> NDArray[np.float64]:
    """Draw masses ``(B, N)`` of rows in resamples that keep the number of rows of each true class."""
    count = max(FEWEST_DRAWS, min(N_BOOTSTRAP, NUMBERS_AT_ONCE // size**2))
    draws = np.zeros((count, len(rows.targets)))
    for label in np.unique(rows.targets):
        own = np.flatnonzero(rows.targets == label)
        draws[:, own] = generator.multinomial(len(own), np.full(len(own), 1 / len(own)), size=count)
    masses: NDArray[np.float64] = draws * rows.weight
    return masses


def _tables(
    masses: NDArray[Any], targets: NDArray[Any], decisions: NDArray[Any], size: int
) -> NDArray[np.float64]:
    """Compute confusion matrices ``(B, C, C)`` of rows with masses ``(B, N)``."""
    cells = targets * size + decisions
    rows = np.arange(len(cells))
    cell_of_row = sparse.csr_array((np.ones(len(cells)), (cells, rows)), (size**2, len(cells)))
    tables: NDArray[np.float64] = (cell_of_row @ masses.T).T.reshape(-1, size, size)
    return tables


def _effect(
    model: _ShuffledColumns, rows: _Rows, column: pd.Series, k: int, classes: Sequence[Any]
) -> dict[str, Any]:
    """Compute how often each class is decided when all rows have the same value of a column."""
    kind, shown, examples = _values_of(column)
    followed = np.arange(min(len(rows.targets), MAX_FOLLOWED))
    vectors = np.tile(model.vectors[followed], (len(examples), 1))
    block = model.blocks[k]
    vectors[:, block] = np.repeat(model.vectors[examples][:, block], len(followed), axis=0)
    decided = model.decide(vectors).reshape(len(examples), len(followed))
    shares = np.stack(
        [
            np.average(decided == label, axis=1, weights=rows.weight[followed])
            for label in range(len(classes))
        ]
    )
    told = _classes_shown(shares)
    return {
        "name": str(column.name),
        "kind": kind,
        "values": shown,
        "classes": [str(classes[label]) for label in told],
        "shares": [shares[label].tolist() for label in told],
    }


def _classes_shown(shares: NDArray[Any]) -> list[int]:
    """Choose the classes to show: the second of two, or those that depend on the column most."""
    if len(shares) == 2:
        return [1]
    reach = np.ptp(shares, axis=1)
    return [int(k) for k in np.argsort(-reach, kind="stable")[:MAX_CURVES] if reach[k] > 0]


def _values_of(column: pd.Series) -> tuple[str, list[Any], NDArray[np.int64]]:
    """Return the kind of a column, the values to try, and a row with each value.

    >>> _values_of(pd.Series(["b", None, "b", "a"]))[:2]
    ('category', ['b', 'missing', 'a'])
    """
    is_date = pd.api.types.is_datetime64_any_dtype(column)
    is_number = pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column)
    if (is_date or is_number) and column.nunique() >= FEW_VALUES:
        ordered = column.dropna().sort_values(kind="stable")
        places = np.linspace(0.02, 0.98, CURVE_POINTS) * (len(ordered) - 1)
        picked = ordered.iloc[np.unique(places.round().astype(int))]
        picked = picked[~picked.duplicated().to_numpy()]
        values = [str(day) for day in picked] if is_date else [float(value) for value in picked]
        return "date" if is_date else "number", values, picked.index.to_numpy()
    names = column.astype(object).where(column.notna(), "missing").astype(str)
    frequent = names.value_counts().index[:MAX_VALUES]
    first = names[~names.duplicated()]
    rows = {name: row for row, name in first.items()}
    return "category", list(frequent), np.array([rows[name] for name in frequent])
