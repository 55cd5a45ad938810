"""Collect the whole report in one plain dictionary, ready for JSON."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from eastward import _checks, metrics
from eastward._version import __version__
from eastward.metrics import Metric

__all__ = ["plain", "read_as_summary", "report_summary"]

CALLER = "report_summary"
TRAINING_KEYS = ("stages", "sentences", "notes", "history")
# Keys that describe a tuned decision.
DECISION_KEYS = (
    "decision",
    "constraints",
    "constraint_curves",
    "coverage_curve",
    "abstained",
    "calibration",
)
HISTORY_KEYS = ("stage", "epoch", "temperature", "train_loss", "valid_loss", "valid_score")


def report_summary(
    title: str,
    metric: Any,
    *,
    data: Mapping[str, Any] | None = None,
    comparison: Mapping[str, Any] | None = None,
    evaluation: Mapping[str, Any] | None = None,
    importance: Mapping[str, Any] | None = None,
    training: Mapping[str, Any] | None = None,
    verdict: Mapping[str, Any] | None = None,
    commands: Mapping[str, str] | None = None,
    created: str | None = None,
) -> dict[str, Any]:
    """Make the summary of a report, which every rendering starts from.

    Parameters
    ----------
    title : str
        The title of the report.
    metric : str, Metric, callable or mapping
        The metric that judges everything.
    data : mapping, optional
        Rows, features, classes and warnings of the table.
    comparison : mapping, optional
        ``Comparison.to_dict()``; its single cells are left out.
    evaluation : mapping, optional
        The result of :func:`evaluation_summary`.
    importance : mapping, optional
        The result of :func:`importance_summary`.
    training : mapping, optional
        ``{**model.report_, "history": model.history_}`` of a fitted classifier.
    verdict : mapping, optional
        ``sentence``, ``detail``, ``recommended``; by default the comparison's.
    commands : mapping, optional
        Command lines to copy, by name. The explorer of operating points varies the one called "train".
    created : str, optional
        ISO date; today by default.

    Returns
    -------
    dict
        The summary: only dictionaries, lists, strings, numbers and None. NaN and infinity become None.

    Examples
    --------
    >>> report_summary("Claims", "f1_macro", created="2026-01-31")["metric"]["high"]
    1.0
    """
    if not isinstance(title, str):
        _checks.fail(CALLER, "title", "a string", _checks.describe(title), error=TypeError)
    chosen = verdict if verdict is not None or comparison is None else comparison.get("verdict")
    facts = metric if isinstance(metric, Mapping) else _metric_facts(metric)
    summary = {
        "title": title,
        "created": created or datetime.now(tz=UTC).date().isoformat(),
        "version": __version__,
        "metric": facts,
        "data": data,
        "verdict": chosen,
        "comparison": _without_cells(comparison),
        "evaluation": evaluation,
        "importance": importance,
        "training": _training(training, facts),
        "commands": commands or {},
    }
    cleaned: dict[str, Any] = plain(summary)
    return cleaned


@contextmanager
def read_as_summary(caller: str, summary: object) -> Iterator[None]:
    """Turn any error about the entries of a summary into one sentence."""
    expected, advice = "what report_summary returned", "Make it again with report_summary."
    if not isinstance(summary, Mapping):
        got = _checks.describe(summary)
        _checks.fail(caller, "summary", expected, got, advice, error=TypeError)
    try:
        _ = summary["title"], summary["metric"]["name"]
        yield
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        words = " ".join(str(error).split())[:200]
        got = f"a mapping with an unfit entry ({type(error).__name__}: {words})"
        _checks.fail(caller, "summary", expected, got, advice)


def plain(value: Any) -> Any:
    """Convert ``value`` for JSON: arrays become lists, keys strings, and NaN or infinity None.

    Examples
    --------
    >>> import numpy as np
    >>> plain({1: np.array([1.5, np.inf]), "count": np.int64(3)})
    {'1': [1.5, None], 'count': 3}
    """
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(entry) for entry in value]
    if hasattr(value, "tolist"):  # arrays, NumPy's scalars and tensors
        return plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


def _metric_facts(metric: Any) -> dict[str, Any]:
    chosen: Metric = metrics.as_metric(metric)
    return {
        "name": chosen.name,
        "formula": chosen.formula,
        "higher_is_better": chosen.higher_is_better,
        "low": chosen.low,
        "high": chosen.high,
    }


def _without_cells(comparison: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if comparison is None:
        return None
    return {key: entry for key, entry in comparison.items() if key != "cells"}


def _training(
    training: Mapping[str, Any] | None, metric: Mapping[str, Any]
) -> dict[str, Any] | None:
    if training is None:
        return None
    kept = {key: training.get(key, []) for key in TRAINING_KEYS}
    kept.update({key: training[key] for key in DECISION_KEYS if training.get(key)})
    kept["history"] = [_epoch(row, metric) for row in kept["history"]]
    return kept


def _epoch(row: Mapping[str, Any], metric: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a record of training to units of the metric, because training negates a cost."""
    kept = {key: row.get(key) for key in HISTORY_KEYS}
    if kept["valid_score"] is not None and metric.get("higher_is_better") is False:
        kept["valid_score"] = -kept["valid_score"]
    return kept
