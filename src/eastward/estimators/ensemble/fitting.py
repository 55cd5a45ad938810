"""What happens in ``fit``: encode, deal out folds, fit the parts, tune one decision on what they held out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils.validation import check_consistent_length

from eastward import _checks
from eastward.confusion import hard_confusion
from eastward.decisions import keep_classes, smoothed_offsets
from eastward.estimators.ensemble.encoding import Encoder, checked_table
from eastward.estimators.ensemble.folds import Fitting, deal_folds
from eastward.estimators.ensemble.networks import Networks
from eastward.estimators.ensemble.trees import ExtraTrees, LightBoosting, RandomForest
from eastward.estimators.network import EASTClassifier, preparation
from eastward.metrics import Metric

__all__ = ["PARTS", "check_parameters", "decide", "fit", "log_mean"]

CALLER = "EASTEnsembleClassifier"
Array = NDArray[Any]

PARTS: Mapping[str, Any] = MappingProxyType(
    {
        "networks": Networks,
        "lightgbm": LightBoosting,
        "extra_trees": ExtraTrees,
        "random_forest": RandomForest,
    }
)
# Five of these cost about as much as one network of EASTClassifier's default size.
# No pieces of features: networks that bend like trees have less to add to trees.
NETWORK = MappingProxyType(
    {"hidden": (128, 64), "max_epochs": 100, "learning_rate": 2e-3, "patience": 12, "bins": 0}
)
_OWN = (
    "metric",
    "metric_options",
    "aligned",
    "refit",
    "n_folds",
    "random_state",
    "tune_decision",
    "module",
)


def check_parameters(model: Any) -> None:
    """Parameters that make no sense are refused before anything is fitted."""
    parts = model.parts
    if isinstance(parts, str) or not isinstance(parts, Sequence) or not parts:
        got = _checks.describe(parts)
        _checks.fail(CALLER, "parts", "a sequence of one name or more", got, error=TypeError)
    for name in parts:
        _checks.one_of(CALLER, "parts", name, tuple(PARTS))
    if len(set(parts)) < len(parts):
        _checks.fail(CALLER, "parts", "without repetition", list(parts))
    _checks.whole_number(CALLER, "n_folds", model.n_folds, at_least=2)
    _checks.whole_number(CALLER, "n_bags", model.n_bags, at_least=1)
    if not 0 <= _checks.real(CALLER, "label_share", model.label_share) <= 1:
        _checks.fail(CALLER, "label_share", "in [0, 1]", model.label_share)
    for name in ("aligned", "tune_decision"):
        if not isinstance(getattr(model, name), bool | np.bool_):
            _checks.fail(CALLER, name, "True or False", _checks.describe(getattr(model, name)))
    _check_network_options(model.network_options)


def _check_network_options(options: Any) -> None:
    if options is None:
        return
    if not isinstance(options, Mapping):
        got = _checks.describe(options)
        _checks.fail(CALLER, "network_options", "a mapping, or None", got, error=TypeError)
    allowed = [name for name in EASTClassifier().get_params() if name not in _OWN]
    for name in options:
        _checks.one_of(CALLER, "network_options", name, allowed)


def fit(model: Any, X: Any, y: Any, sample_weight: Any, seed: int, groups: Any = None) -> None:
    """Fit ``model``."""
    table = checked_table(model, X, reset=True)
    codes, weights, used = _targets(model, table, y, sample_weight)
    table = table if used is None else _rows(table, used)
    model.encoder_ = Encoder.of(table)
    raw = model.encoder_.raw(table)
    if groups is not None and used is not None:
        groups = np.asarray(groups)[used]
    folds, count = deal_folds(codes, int(model.n_folds), seed, groups)
    model.folds_ = folds
    data = Fitting(
        raw,
        model.encoder_.filled(raw),
        codes,
        weights,
        folds,
        count,
        len(model.classes_),
        seed,
        model.n_jobs,
    )
    model.metric_ = _metric(model)
    model.parts_ = {name: _fitted(model, name, data) for name in model.parts}
    _keep_held_out(model, data)
    decide(model)


def decide(model: Any) -> None:
    """Tune the offsets for the model's metric on held-out predictions, and say what they bring."""
    model.metric_ = _metric(model)
    scores, codes, weights = model.held_out_["mean"], model.held_out_codes_, model.held_out_weights_
    offsets = np.zeros(len(model.classes_))
    if model.tune_decision and len(codes):
        offsets = _tuned_offsets(model, scores, codes, weights)
    model.offsets_ = offsets
    judge = _judge(model.metric_, codes, weights, len(offsets))
    model.report_ = {
        "metric": model.metric_.name,
        "rows": len(codes),
        "parts": {name: judge(table) for name, table in model.held_out_.items()},
        "tuned": judge(scores + offsets),
    }


def _tuned_offsets(model: Any, scores: Array, codes: Array, weights: Array | None) -> Array:
    """What the metric wants, as far as no class is given up for it."""
    found = smoothed_offsets(
        scores,
        codes,
        model.metric_,
        label_share=float(model.label_share),
        n_bags=int(model.n_bags),
        sample_weight=weights,
    )
    kept: Array = keep_classes(found, scores, codes, model.metric_, sample_weight=weights).numpy()
    return kept


def log_mean(parts: Mapping[str, Array]) -> Array:
    """Logarithm of the mean of the parts' probabilities, which are given as logarithms.

    Networks and trees have equal say, however many kinds of trees there are: they err in different places.

    Examples
    --------
    >>> import numpy as np
    >>> parts = {"networks": np.log([[0.2, 0.8]]), "lightgbm": np.log([[0.6, 0.4]])}
    >>> np.exp(log_mean(parts)).round(3)
    array([[0.4, 0.6]])
    """
    trees = len(parts) - ("networks" in parts)
    shares = [float(trees or 1) if name == "networks" else 1.0 for name in parts]
    logs = np.log(np.asarray(shares) / sum(shares))
    mean: Array = np.logaddexp.reduce(np.stack(list(parts.values())) + logs[:, None, None], axis=0)
    return mean


def _targets(
    model: Any, table: Any, y: Any, sample_weight: Any
) -> tuple[Array, Array | None, Array | None]:
    """Class indices and weights of the rows that exist, and which those are (None: all)."""
    labels = preparation.encode_labels(y)
    if labels.multilabel:
        advice = "Use EASTClassifier."
        _checks.fail(f"{CALLER}.fit", "y", "one label per row", "indicators of several", advice)
    check_consistent_length(table, labels.codes)
    weights, used = preparation.row_weights(sample_weight, None, table, labels)
    if used is not None:
        labels = preparation.encode_labels(np.asarray(y)[used.numpy()])
        weights = None if weights is None else weights[used]
    model.classes_ = labels.classes
    given = None if weights is None else weights.double().numpy()
    return labels.codes.numpy(), given, None if used is None else used.numpy()


def _rows(table: Any, rows: Array) -> Any:
    return table[rows] if isinstance(table, np.ndarray) else table.iloc[rows]


def _metric(model: Any) -> Metric:
    labels = preparation.Labels(torch.empty(0), model.classes_, False)
    return preparation.resolve_metric(model.metric, model.metric_options, labels)


def _fitted(model: Any, name: str, data: Fitting) -> Any:
    if name != "networks":
        return PARTS[name].fitted(data)
    options = {**NETWORK, **(model.network_options or {})}
    # The ensemble decides, not its networks.
    own = {"aligned": bool(model.aligned), "tune_decision": False}
    return Networks.fitted(data, model.metric_, {**options, **own})


def _keep_held_out(model: Any, data: Fitting) -> None:
    """Held-out log-probabilities of every part and of their mean, for rows that have them."""
    held = np.all([np.isfinite(part.held_out).all(1) for part in model.parts_.values()], axis=0)
    held &= data.folds >= 0
    model.held_out_ = {name: part.held_out[held] for name, part in model.parts_.items()}
    model.held_out_["mean"] = log_mean(model.held_out_)
    model.held_out_codes_ = data.codes[held]
    model.held_out_weights_ = None if data.weights is None else data.weights[held]


def _judge(
    metric: Metric, codes: Array, weights: Array | None, num_classes: int
) -> Callable[[Array], float]:
    def judged(scores: Array) -> float:
        table = hard_confusion(
            torch.from_numpy(scores.argmax(1)),
            torch.from_numpy(codes),
            num_classes=num_classes,
            sample_weight=None if weights is None else torch.from_numpy(weights),
        )
        return float(metric(table))

    return judged
