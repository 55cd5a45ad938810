"""Metrics as objectives and as evaluation functions of LightGBM and XGBoost.

Neither library is imported. Both pass an object to an objective, of which only ``get_label`` and ``get_weight`` are
used.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from eastward import _checks
from eastward.boosting.gradients import metric_gradients, row_labels, row_weights, score_tensor
from eastward.confusion import counts_from_confusion, hard_confusion
from eastward.losses._at_table import prepare_metric
from eastward.metrics import Metric, as_metric

__all__ = [
    "lightgbm_metric",
    "lightgbm_objective",
    "sklearn_loss",
    "sklearn_metric",
    "sklearn_objective",
    "true_score",
    "xgboost_metric",
    "xgboost_objective",
]

Array: TypeAlias = NDArray[Any]
AnyMetric: TypeAlias = str | Metric | Callable[[Any], Tensor]
Derivatives: TypeAlias = tuple[Array, Array]


class LabelledData(Protocol):
    """The methods that a ``lightgbm.Dataset`` and an ``xgboost.DMatrix`` share."""

    def get_label(self) -> Any:
        """Class indices of the rows."""

    def get_weight(self) -> Any:
        """Weights of the rows; None or empty if there are none."""


def lightgbm_objective(
    metric: AnyMetric = "f1_macro", *, temperature: float = 0.2, **options: Any
) -> Callable[[Array, LabelledData], Derivatives]:
    """Make an objective for ``lightgbm.train``: ``params["objective"] = lightgbm_objective("f1_macro")``.

    Parameters
    ----------
    metric : str, Metric or callable, default="f1_macro"
        A name from :func:`eastward.metrics.names`, or a function from a confusion matrix to a 0-d tensor.
    temperature : float, default=0.2
        Width of the soft step, in (0, 0.4].
    **options
        Further options of :func:`metric_gradients`, which is called with all rows in every round.

    Returns
    -------
    callable
        ``(raw scores, Dataset) -> (gradient, curvature)``; ``(N,)`` for two classes and, with ``num_class``,
        ``(N, C)``. The weights of the data set count in the confusion matrix.

    Notes
    -----
    With a custom objective, LightGBM starts at zero and predicts raw scores. To start from another model, pass
    ``init_score``. Apply a sigmoid or softmax to what ``predict`` returns.

    Examples
    --------
    >>> import lightgbm
    >>> X, y = np.arange(60.0).reshape(-1, 1), np.arange(60) > 44
    >>> params = {"objective": lightgbm_objective("f1"), "verbose": -1, "min_data_in_leaf": 5}
    >>> booster = lightgbm.train(params, lightgbm.Dataset(X, y.astype(float)), 20)
    >>> true_score(booster.predict(X), y, "f1")
    0.9375
    """
    return _native_objective("lightgbm_objective", metric, temperature, options)


def xgboost_objective(
    metric: AnyMetric = "f1_macro", *, temperature: float = 0.2, **options: Any
) -> Callable[[Array, LabelledData], Derivatives]:
    """Make an objective for ``xgboost.train(..., obj=xgboost_objective("f1_macro"))``.

    Parameters
    ----------
    metric : str, Metric or callable, default="f1_macro"
        A name from :func:`eastward.metrics.names`, or a function from a confusion matrix to a 0-d tensor.
    temperature : float, default=0.2
        Width of the soft step, in (0, 0.4].
    **options
        Further options of :func:`metric_gradients`, which is called with all rows in every round.

    Returns
    -------
    callable
        ``(margins, DMatrix) -> (gradient, curvature)``; ``(N,)`` for two classes and, with ``num_class``, ``(N, C)``.

    Notes
    -----
    Also set XGBoost's own objective and a neutral start:
    ``params = {"objective": "binary:logistic" or "multi:softprob", "base_score": 0.5}``. Training does not use that
    objective, but ``predict`` then returns probabilities, and ``predict(..., output_margin=True)`` raw scores. To
    start from another model, pass ``base_margin``.

    Examples
    --------
    >>> import xgboost
    >>> X, y = np.arange(60.0).reshape(-1, 1), np.arange(60) > 44
    >>> params = {"objective": "binary:logistic", "base_score": 0.5}
    >>> booster = xgboost.train(params, xgboost.DMatrix(X, y), 20, obj=xgboost_objective("f1"))
    >>> true_score(booster.predict(xgboost.DMatrix(X)), y, "f1", probabilities=True)
    1.0
    """
    return _native_objective("xgboost_objective", metric, temperature, options)


def sklearn_objective(
    metric: AnyMetric = "f1_macro", *, temperature: float = 0.2, **options: Any
) -> Callable[..., Derivatives]:
    """Make an objective for ``LGBMClassifier(objective=...)`` and ``XGBClassifier(objective=...)``.

    Parameters
    ----------
    metric : str, Metric or callable, default="f1_macro"
        A name from :func:`eastward.metrics.names`, or a function from a confusion matrix to a 0-d tensor.
    temperature : float, default=0.2
        Width of the soft step, in (0, 0.4].
    **options
        Further options of :func:`metric_gradients`.

    Returns
    -------
    callable
        ``(y_true, y_pred, sample_weight=None) -> (gradient, curvature)``.

    Notes
    -----
    With this objective, ``predict_proba`` of both classifiers returns raw scores, and so does ``predict`` in some
    versions. :class:`EASTBoostingClassifier` takes care of that.

    Examples
    --------
    >>> gradient, curvature = sklearn_objective("f1")(np.array([1, 0]), np.array([0.5, 0.1]))
    >>> gradient.shape, curvature.shape
    ((2,), (2,))
    """
    check = _checked_metric("sklearn_objective", metric, temperature)

    def objective(y_true: Array, y_pred: Array, sample_weight: Any = None) -> Derivatives:
        return metric_gradients(
            y_pred,
            y_true,
            check,
            temperature=temperature,
            sample_weight=_weight_or_none(sample_weight),
            **options,
        )

    return objective


def lightgbm_metric(
    metric: AnyMetric = "f1_macro", *, probabilities: bool = False
) -> Callable[[Array, LabelledData], tuple[str, float, bool]]:
    """Make an evaluation function of the true metric for ``lightgbm.train(..., feval=...)``.

    Parameters
    ----------
    metric : str, Metric or callable, default="f1_macro"
        The metric that judges models.
    probabilities : bool, default=False
        Whether predictions are probabilities, as with LightGBM's own objectives; with ours they are raw scores.

    Returns
    -------
    callable
        ``(predictions, Dataset) -> (name, value, whether higher is better)``.

    Examples
    --------
    >>> import lightgbm
    >>> rows = lightgbm.Dataset(np.zeros((3, 1)), [1, 0, 0], params={"verbose": -1}).construct()
    >>> lightgbm_metric("f1")(np.array([2.0, -1.0, 0.5]), rows)
    ('f1', 0.6667, True)
    """
    chosen = as_metric(metric)

    def evaluate(predictions: Array, data: LabelledData) -> tuple[str, float, bool]:
        value = true_score(
            predictions,
            data.get_label(),
            chosen,
            probabilities=probabilities,
            sample_weight=_weight_or_none(data.get_weight()),
        )
        return chosen.name, value, chosen.higher_is_better

    return evaluate


def xgboost_metric(
    metric: AnyMetric = "f1_macro", *, probabilities: bool = False
) -> Callable[[Array, LabelledData], tuple[str, float]]:
    """Make an evaluation function of the true metric for ``xgboost.train(..., custom_metric=...)``.

    Parameters
    ----------
    metric : str, Metric or callable, default="f1_macro"
        The metric that judges models.
    probabilities : bool, default=False
        Whether predictions are probabilities. XGBoost passes margins with a custom objective, otherwise probabilities.

    Returns
    -------
    callable
        ``(predictions, DMatrix) -> (name, value)``. For early stopping, use
        ``xgboost.callback.EarlyStopping(rounds=..., maximize=True)``.

    Examples
    --------
    >>> import xgboost
    >>> rows = xgboost.DMatrix(np.zeros((3, 1)), [1, 0, 0])
    >>> xgboost_metric("f1")(np.array([2.0, -1.0, 0.5]), rows)
    ('f1', 0.6667)
    """
    evaluate = lightgbm_metric(metric, probabilities=probabilities)
    return lambda predictions, data: evaluate(predictions, data)[:2]


def sklearn_metric(
    metric: AnyMetric = "f1_macro", *, probabilities: bool = False
) -> Callable[..., tuple[str, float, bool]]:
    """Make an evaluation function of the true metric for ``LGBMClassifier.fit(..., eval_metric=...)``.

    Parameters
    ----------
    metric : str, Metric or callable, default="f1_macro"
        The metric that judges models.
    probabilities : bool, default=False
        Whether predictions are probabilities, as with the libraries' own objectives; with ours they are raw scores.

    Returns
    -------
    callable
        ``(y_true, y_pred, sample_weight) -> (name, value, whether higher is better)``.

    Examples
    --------
    >>> sklearn_metric("f1")(np.array([1, 0, 0]), np.array([2.0, -1.0, 0.5]))
    ('f1', 0.6667, True)
    """
    chosen = as_metric(metric)

    def evaluate(
        y_true: Array, y_pred: Array, sample_weight: Any = None
    ) -> tuple[str, float, bool]:
        weight = _weight_or_none(sample_weight)
        value = true_score(
            y_pred, y_true, chosen, probabilities=probabilities, sample_weight=weight
        )
        return chosen.name, value, chosen.higher_is_better

    return evaluate


def sklearn_loss(
    metric: AnyMetric = "f1_macro", *, probabilities: bool = False
) -> Callable[..., float]:
    """Make a function of one minus the true metric for ``XGBClassifier(eval_metric=...)``.

    Parameters
    ----------
    metric : str, Metric or callable, default="f1_macro"
        The metric that judges models.
    probabilities : bool, default=False
        Whether predictions are probabilities, as with the libraries' own objectives; with ours they are raw scores.

    Returns
    -------
    callable
        ``(y_true, y_pred, sample_weight=None) -> loss``: one minus the metric, or the metric itself if lower is
        better.

    Examples
    --------
    >>> sklearn_loss("f1")(np.array([1, 0, 0]), np.array([2.0, -1.0, 0.5]))
    0.3333
    """
    evaluate = sklearn_metric(metric, probabilities=probabilities)

    def loss(y_true: Array, y_pred: Array, sample_weight: Any = None) -> float:
        _, value, higher_is_better = evaluate(y_true, y_pred, sample_weight)
        return 1 - value if higher_is_better else value

    # XGBoost prints the function's name and stores results under it.
    loss.__name__ = f"{as_metric(metric).name}_loss"
    return loss


def true_score(
    predictions: Any,
    targets: Any,
    metric: AnyMetric = "f1_macro",
    *,
    probabilities: bool = False,
    sample_weight: Any = None,
) -> float:
    """Compute the metric of the decisions that scores imply.

    Parameters
    ----------
    predictions : array of shape (N,) or (N, C)
        Raw scores, or probabilities with ``probabilities=True``; one column is the positive class.
    targets : array of shape (N,)
        Class indices.
    metric : str, Metric or callable, default="f1_macro"
        The metric that judges the decisions.
    probabilities : bool, default=False
        Whether predictions are probabilities: the threshold of a single column is then 0.5 instead of 0.
    sample_weight : array of shape (N,), optional
        Weights of the rows.

    Returns
    -------
    float
        The metric, with scikit-learn's value if scikit-learn has the metric.

    Examples
    --------
    >>> true_score([2.0, -1.0, 0.5], [1, 0, 0], "f1")
    0.6667
    """
    caller = "true_score"
    chosen = as_metric(metric, caller)
    limit = 0.5 if _checks.boolean(caller, "probabilities", probabilities) else 0.0
    scores = score_tensor(caller, "predictions", predictions)
    if bool(scores.isnan().any()):
        _checks.fail(caller, "predictions", "free of NaN", f"{int(scores.isnan().sum())} NaN")
    truth = row_labels(caller, targets, scores)
    weight = row_weights(caller, sample_weight, scores)
    decisions = scores.argmax(1) if scores.dim() == 2 else (scores > limit).long()
    size = scores.shape[1] if scores.dim() == 2 else 2
    table = hard_confusion(decisions, truth, num_classes=size, sample_weight=weight)
    return float(chosen(table if chosen.needs_matrix else counts_from_confusion(table)))


def _native_objective(
    caller: str, metric: AnyMetric, temperature: float, options: dict[str, Any]
) -> Callable[[Array, LabelledData], Derivatives]:
    chosen = _checked_metric(caller, metric, temperature)

    def objective(predictions: Array, data: LabelledData) -> Derivatives:
        return metric_gradients(
            predictions,
            data.get_label(),
            chosen,
            temperature=temperature,
            sample_weight=_weight_or_none(data.get_weight()),
            **options,
        )

    return objective


def _checked_metric(caller: str, metric: AnyMetric, temperature: float) -> Metric:
    """Check the name before the first round, because libraries hide where an error came from."""
    _checks.temperature(caller, temperature)
    prepare_metric(caller, metric, None)
    return as_metric(metric)


def _weight_or_none(weight: Any) -> Any:
    """Return None for no weights: XGBoost has an empty array where LightGBM has None."""
    return None if weight is None or np.size(weight) == 0 else np.asarray(weight)
