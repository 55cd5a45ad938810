"""Summarise a model's decisions on held-out rows, for the part "evaluation" of a report."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from eastward import _checks, metrics
from eastward.confusion import counts_from_confusion
from eastward.decisions import ABSTAIN, Decision
from eastward.decisions._inputs import float_array
from eastward.decisions.gain import MOST_RESAMPLES
from eastward.metrics import Metric
from eastward.reporting.bootstrap import bootstrap_confusions, metric_intervals
from eastward.reporting.calibration import calibration_summary
from eastward.reporting.scores import stored_scores

__all__ = ["evaluation_summary"]

CALLER = "evaluation_summary"
# The number of most frequent classes that are tried as a constant answer.
MAX_ANSWERS = 20


def evaluation_summary(
    targets: Any,
    log_probabilities: Any,
    classes: Sequence[Any],
    metric: str | Metric | Callable[..., Tensor],
    *,
    offsets: Any = None,
    decision: Decision | None = None,
    sample_weight: Any = None,
    max_scores: int = 2000,
    n_bootstrap: int = 500,
    random_state: int = 0,
) -> dict[str, Any]:
    r"""Summarise decisions :math:`\arg\max_j (\log p_{nj} + b_j)` on held-out rows for a report.

    Parameters
    ----------
    targets : array-like
        ``(N,)`` true class indices.
    log_probabilities : array-like
        ``(N, C)``; the exponentials of a row sum to one. Zero probabilities (minus infinity) are allowed.
    classes : sequence
        C labels, in the order of the columns.
    metric : str, Metric or callable
        The metric that judges the model; it comes first in the report.
    offsets : array-like, optional
        ``(C,)``, the b of the decision; zero by default.
    decision : Decision, optional
        A decision to use instead of offsets. Undecided rows are not judged.
    sample_weight : array-like, optional
        ``(N,)``; a row of weight zero is left out.
    max_scores : int, default=2000
        Largest number of rows whose scores are stored in the report.
    n_bootstrap : int, default=500
        Number of resamples within the true classes for the 95 % intervals, at most a million; 0 for no intervals.
    random_state : int, default=0
        Seed of the bootstrap and of the sample.

    Returns
    -------
    dict
        ``rows``, ``classes``, ``confusion``, ``only_class`` (the class that all rows are decided as, or None),
        ``constant`` (the best constant answer: ``label`` and ``value``), ``per_class``, ``metrics`` (every registered
        one that applies), ``calibration``, ``scores``, ``cost`` (the cost table of the metric, if it has one),
        ``decision`` (in words) and ``coverage`` (the share of rows that are decided). All values are ready for JSON.

    Examples
    --------
    >>> logs = np.log([[0.9, 0.1], [0.6, 0.4], [0.2, 0.8]])
    >>> summary = evaluation_summary([0, 1, 1], logs, ["no", "yes"], "f1_macro")
    >>> summary["confusion"]
    [[1, 0], [1, 1]]
    >>> summary["metrics"][0]["name"], summary["metrics"][0]["value"]
    ('f1_macro', 0.6667)
    """
    _check_options(decision, n_bootstrap, max_scores, random_state)
    labels = _labels(classes)
    shape = None if decision is None else decision.scales_and_shifts()
    if shape is not None:
        offsets = shape[0]
    rows = _checked_rows(targets, log_probabilities, labels, offsets, sample_weight)
    if max_scores < len(labels):
        _checks.fail(CALLER, "max_scores", f"at least the {len(labels)} classes", max_scores)
    wanted = metrics.as_metric(metric, CALLER, labels)
    size, decisions = len(labels), (rows.logs + rows.offsets).argmax(axis=1)
    if decision is not None:
        decisions = decision.decide(np.exp(rows.logs) / np.exp(rows.logs).sum(1, keepdims=True))
    coverage = float(np.average(decisions != ABSTAIN, weights=rows.weight))
    rows, decisions = _decided(rows, decisions)
    confusion = np.bincount(
        rows.targets * size + decisions, weights=rows.weight, minlength=size * size
    ).reshape(size, size)
    tables = bootstrap_confusions(
        rows.targets,
        decisions,
        rows.weight,
        size,
        n_bootstrap=n_bootstrap,
        random_state=random_state,
    )
    return {
        "rows": len(rows.targets),
        "classes": [str(label) for label in labels],
        "confusion": _numbers(confusion),
        "only_class": _only_class(decisions, labels),
        "constant": _constant_answer(confusion, labels, wanted),
        "per_class": _per_class(confusion, labels),
        "metrics": _metric_rows(applicable_metrics(wanted, size), confusion, tables),
        "calibration": calibration_summary(rows.targets, rows.logs, rows.weight),
        "scores": _adjustable_scores(decision, shape, rows, max_scores, random_state),
        "cost": _cost_table(wanted),
        "decision": None if decision is None else str(decision),
        "coverage": coverage,
    }


def _check_options(
    decision: Any, n_bootstrap: object, max_scores: object, random_state: object
) -> None:
    if decision is not None and not isinstance(decision, Decision):
        got = _checks.describe(decision)
        _checks.fail(CALLER, "decision", "a Decision or None", got, error=TypeError)
    _checks.whole_number(CALLER, "n_bootstrap", n_bootstrap, at_least=0, at_most=MOST_RESAMPLES)
    _checks.whole_number(CALLER, "max_scores", max_scores, at_least=0)
    _checks.seed(CALLER, random_state)


def _labels(classes: Any) -> list[Any]:
    if isinstance(classes, str) or not isinstance(classes, Iterable):
        got = _checks.describe(classes)
        _checks.fail(CALLER, "classes", "a sequence of labels", got, error=TypeError)
    return list(classes)


def _decided(rows: _Rows, decisions: NDArray[Any]) -> tuple[_Rows, NDArray[Any]]:
    """Select the decided rows."""
    there = decisions != ABSTAIN
    if there.all():
        return rows, decisions
    if not there.any():
        _checks.fail(CALLER, "decision", "one that decides some rows", "one that decides none")
    kept = _Rows(rows.targets[there], rows.logs[there], rows.offsets, rows.weight[there])
    return kept, decisions[there]


def _adjustable_scores(
    decision: Decision | None, shape: Any, rows: _Rows, max_scores: int, random_state: int
) -> dict[str, Any] | None:
    """Return scores with which readers can move the decision; None if it needs more than scales and shifts."""
    if decision is not None and shape is None:
        return None
    shifts = None if shape is None else shape[1]
    return stored_scores(*rows, shifts=shifts, max_scores=max_scores, random_state=random_state)


def applicable_metrics(wanted: Metric, num_classes: int) -> list[Metric]:
    """Return ``wanted`` and then every other registered metric that is defined for this many classes."""
    others = [
        metrics.get(name)
        # expected_cost needs a table that only the user knows.
        for name in metrics.names()
        if name not in {wanted.name, "expected_cost"}
    ]
    return [
        wanted,
        *(m for m in others if num_classes == 2 or m.options.get("average") != "binary"),
    ]


class _Rows(NamedTuple):
    """Checked rows of positive weight, in the order of :func:`stored_scores`."""

    targets: NDArray[Any]
    logs: NDArray[Any]
    offsets: NDArray[Any]
    weight: NDArray[Any]


def _checked_rows(
    targets: Any, log_probabilities: Any, classes: Sequence[Any], offsets: Any, weight: Any
) -> _Rows:
    logs = float_array(CALLER, "log_probabilities", log_probabilities)
    if logs.ndim != 2 or logs.shape[1] != len(classes) or len(classes) < 2 or not len(logs):
        expected = f"of shape (N, {max(len(classes), 2)}), one column per class and N > 0"
        _checks.fail(CALLER, "log_probabilities", expected, f"shape {logs.shape}")
    sums = np.exp(logs).sum(axis=1)
    if not np.all(np.abs(sums - 1) < 1e-3):
        worst = float(sums[np.argmax(np.abs(np.nan_to_num(sums, nan=np.inf) - 1))])
        advice = "Pass log-probabilities, not logits: torch.log_softmax(logits, 1)."
        expected = "logarithms whose exponentials sum to 1 in each row"
        _checks.fail(CALLER, "log_probabilities", expected, f"a sum of {worst:g}", advice)
    labels = _checks.numeric(CALLER, "targets", targets).cpu()
    _checks.class_targets(CALLER, labels, len(classes), None)
    shift = np.zeros(len(classes)) if offsets is None else float_array(CALLER, "offsets", offsets)
    mass = np.ones(len(logs)) if weight is None else float_array(CALLER, "sample_weight", weight)
    for name, given, length in (
        ("targets", labels, len(logs)),
        ("offsets", shift, len(classes)),
        ("sample_weight", mass, len(logs)),
    ):
        if tuple(given.shape) != (length,):
            _checks.fail(CALLER, name, f"of shape ({length},)", f"shape {tuple(given.shape)}")
    _checks.weights(CALLER, torch.from_numpy(mass))
    _checks.finite(CALLER, "offsets", torch.from_numpy(shift))
    there = mass > 0
    if not there.any():
        _checks.fail(CALLER, "sample_weight", "positive for some row", "zero for all")
    return _Rows(labels.long().numpy()[there], logs[there], shift, mass[there])


def _per_class(confusion: NDArray[Any], classes: Sequence[Any]) -> list[dict[str, Any]]:
    counts = counts_from_confusion(torch.from_numpy(confusion))
    columns = [
        function(counts, average="none").tolist()
        for function in (metrics.precision, metrics.recall, metrics.f1)
    ]
    support = _numbers(confusion.sum(axis=1))
    return [
        {"label": str(label), "precision": p, "recall": r, "f1": f, "support": mass}
        for label, p, r, f, mass in zip(classes, *columns, support, strict=True)
    ]


def _metric_rows(
    chosen: Sequence[Metric], confusion: NDArray[Any], tables: Any
) -> list[dict[str, Any]]:
    matrix = torch.from_numpy(confusion)
    values = [float(metric(matrix)) for metric in chosen]
    return [
        {"name": metric.name, "value": value, "interval": _around(interval, value)}
        for metric, value, interval in zip(
            chosen, values, metric_intervals(chosen, tables), strict=True
        )
    ]


def _around(interval: list[float] | None, value: float) -> list[float] | None:
    """Stretch the interval to include the value, because resamples may all lie on one side of it."""
    return interval and [min(interval[0], value), max(interval[1], value)]


def _only_class(decisions: NDArray[Any], classes: Sequence[Any]) -> str | None:
    """Return the class that every row is decided as, if there is one."""
    decided = np.unique(decisions)
    return str(classes[decided[0]]) if len(decided) == 1 else None


def _constant_answer(
    confusion: NDArray[Any], classes: Sequence[Any], metric: Metric
) -> dict[str, Any]:
    """Find the class that scores best as the answer to every row, which any model must beat."""
    totals = confusion.sum(axis=1)
    found = []
    for label in np.argsort(-totals, kind="stable")[:MAX_ANSWERS]:
        table = np.zeros_like(confusion)
        table[:, label] = totals
        found.append((float(metric(torch.from_numpy(table))), int(label)))
    direction = 1 if metric.higher_is_better else -1
    value, best = max(found, key=lambda pair: direction * pair[0])
    return {"label": str(classes[best]), "value": value}


def _cost_table(metric: Metric) -> list[list[float]] | None:
    cost = metric.options.get("cost")
    return None if cost is None else float_array(CALLER, "metric", cost).tolist()


def _numbers(table: NDArray[Any]) -> Any:
    """Convert to a list of integers if all entries are whole, else of floats."""
    whole = bool(np.all(table == np.round(table)))
    return table.astype(np.int64).tolist() if whole else table.tolist()
