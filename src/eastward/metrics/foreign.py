"""Advice for metrics that need more than a confusion matrix, and for scikit-learn's functions."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from eastward import _checks

__all__ = ["advice_for_name", "check_takes_a_matrix"]

# Metrics that judge a ranking or probabilities; a confusion matrix contains only decisions.
RANKINGS = ("roc_auc", "auroc", "auc", "average_precision", "pr_auc", "auprc")
PROBABILITIES = ("log_loss", "logloss", "cross_entropy", "brier", "ece")
RANKING_LOSSES = {"auroc": "AUROCLoss", "roc_auc": "AUROCLoss", "auc": "AUROCLoss"}
# Functions of scikit-learn that have another name here.
NAMES = {
    "f1_score": "f1",
    "fbeta_score": "f_beta",
    "precision_score": "precision",
    "recall_score": "recall",
    "jaccard_score": "jaccard",
    "accuracy_score": "accuracy",
    "balanced_accuracy_score": "balanced_accuracy",
    "matthews_corrcoef": "matthews_corrcoef",
    "cohen_kappa_score": "cohen_kappa",
}
AVERAGED = ("f1", "precision", "recall", "jaccard")


def advice_for_name(name: object) -> str:
    """Say what to use instead of ``name``, if it judges probabilities or a ranking; otherwise return "".

    Examples
    --------
    >>> advice_for_name("neg_log_loss")[:60]
    'It judges probabilities; a metric here judges decisions. Cho'
    """
    plain = str(name).lower().removeprefix("neg_")
    if plain.startswith(RANKINGS):
        loss = next((RANKING_LOSSES[word] for word in RANKING_LOSSES if plain.startswith(word)), "")
        loss = loss or "AveragePrecisionLoss"
        return (
            "It judges an order of rows; a metric here judges decisions. Choose balanced_accuracy, f1_macro or "
            f"matthews_corrcoef; to train for the order itself, use eastward.{loss} in Python."
        )
    if plain.startswith(PROBABILITIES):
        return (
            "It judges probabilities; a metric here judges decisions. Choose the metric of your decisions, such as "
            "f1_macro: `eastward compare` shows the log-loss, Brier score and calibration of every method beside it."
        )
    return ""


def check_takes_a_matrix(metric: Callable[..., Any], caller: str) -> None:
    """Refuse callables that take labels or an estimator, as scikit-learn's metrics do."""
    name, options = _scikit_learns(metric)
    if name:
        advice = _own_name(name, options) or advice_for_name(name.removesuffix("_score"))
        _fail(caller, f"scikit-learn's {name}", advice or "See eastward.metrics.names().")
    needed = _required_arguments(metric)
    if needed > 1:
        called = getattr(metric, "__name__", type(metric).__name__)
        _fail(caller, f"{called}, which takes {needed} arguments", "See eastward.metrics.names().")


def _own_name(name: str, options: dict[str, Any]) -> str:
    """Return advice that names the counterpart of a scikit-learn function; "" if there is none."""
    known = NAMES.get(name, "")
    if known in AVERAGED and "average" not in options:
        return f"Use metric={known!r} for two classes, {known + '_macro'!r} for more."
    average = options.get("average") or "macro"
    known += f"_{average}" if known in AVERAGED and average != "binary" else ""
    return f"Use metric={known!r}." if known else ""


def _fail(caller: str, got: str, advice: str) -> None:
    expected = "a name, or a callable that takes a confusion matrix and returns a 0-d tensor"
    _checks.fail(caller, "metric", expected, got, advice, error=TypeError)


def _scikit_learns(metric: Any) -> tuple[str, dict[str, Any]]:
    """Return name and options of a scikit-learn metric or scorer; an empty name for anything else."""
    options: dict[str, Any] = {}
    if isinstance(metric, functools.partial):
        metric, options = metric.func, metric.keywords
    function = getattr(metric, "_score_func", metric)
    options = {**options, **getattr(metric, "_kwargs", {})}
    module = getattr(function, "__module__", "") or ""
    is_theirs = module.partition(".")[0] == "sklearn"
    return (getattr(function, "__name__", type(metric).__name__) if is_theirs else "", options)


def _required_arguments(metric: Callable[..., Any]) -> int:
    try:
        parameters = inspect.signature(metric).parameters.values()
    except (
        TypeError,
        ValueError,
    ):  # written in C, without a signature; a wrong call raises its own error
        return 1
    places = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(p.default is inspect.Parameter.empty and p.kind in places for p in parameters)
