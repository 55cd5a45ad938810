"""Score samples by copies of a scikit-learn classifier that were fitted without them."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sized
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn import get_config
from sklearn.model_selection import StratifiedKFold, check_cv, cross_val_predict
from sklearn.utils.metadata_routing import process_routing
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import column_or_1d, has_fit_parameter

from eastward import _checks
from eastward.estimators.frames import refuse_odd_labels

Array: TypeAlias = NDArray[Any]
Splits: TypeAlias = list[tuple[Array, Array]]

# Forests predict many zeros; no offset can select a class that no tree voted for.
SMALLEST_PROBABILITY = 1e-12

# For classes missing in a fold, scikit-learn fills in the lowest float, whose sums overflow.
LOWEST_DECISION = -1e4


def class_labels(caller: str, y: Any) -> Array:
    """Return ``y`` as a one-dimensional array of class labels."""
    refuse_odd_labels(caller, y)
    check_classification_targets(y)
    if type_of_target(y).startswith("multi") and np.ndim(y) > 1 and np.shape(y)[1] > 1:
        advice = "For several labels per sample use eastward.decisions.multilabel_thresholds."
        _checks.fail(caller, "y", "one label per sample", f"shape {np.shape(y)}", advice)
    labels: Array = column_or_1d(y, warn=True)
    return labels


def estimator_params(model: Any, sample_weight: Any, fit_params: dict[str, Any]) -> Any:
    """Return the arguments for ``model.estimator.fit``: weights if it takes them, and routed metadata."""
    if get_config()["enable_metadata_routing"]:
        routed = process_routing(model, "fit", sample_weight=sample_weight, **fit_params)
        return routed.estimator.fit
    if sample_weight is None:
        return fit_params
    if has_fit_parameter(model.estimator, "sample_weight"):
        return {**fit_params, "sample_weight": sample_weight}
    warnings.warn(
        f"{type(model.estimator).__name__}.fit takes no sample_weight: only the tuning uses it. "
        "For a pipeline pass it by step, for example logisticregression__sample_weight.",
        stacklevel=3,
    )
    return fit_params


def check_two_classes(caller: str, y: Array, weight: Array | None) -> None:
    """Check that there are two classes of positive weight."""
    present = np.unique(y if weight is None else y[weight > 0])
    if len(present) < 2:
        got = f"{len(present)} class" + (f", {present[0]!r}" if len(present) else "")
        _checks.fail(caller, "y", "of two or more classes (with positive weight)", got)


def partition(cv: Any, X: Any, y: Array, seed: int = 0) -> Splits:
    """Return the splits of ``cv``; an integer means that many stratified folds, or as many as possible.

    Folds are shuffled, because rows of a table may be sorted, and neighbouring rows would not represent new ones.
    """
    if not isinstance(cv, int):
        return _given_splits(cv, X, y)
    _checks.whole_number("fit", "cv", cv, at_least=2)
    labels, counts = np.unique(y, return_counts=True)
    if counts.max() < 2:
        _checks.fail("fit", "y", "of classes with at least two samples", "one of each class")
    if counts.min() < 2:
        lonely = ", ".join(repr(label) for label in labels[counts < 2][:5].tolist())
        warnings.warn(
            f"only one sample each of class {lonely}: copies of the estimator fitted without it never saw the class, "
            "so its offset is estimated from samples of other classes",
            stacklevel=3,
        )
    with warnings.catch_warnings():
        # A class with fewer samples than folds is missing in some folds, which the tuning tolerates.
        warnings.filterwarnings("ignore", message="The least populated class")
        folds = StratifiedKFold(min(cv, counts.max()), shuffle=True, random_state=seed)
        return list(folds.split(np.zeros(len(y)), y))


def _given_splits(cv: Any, X: Any, y: Array) -> Splits:
    """Return the splits of a splitter, or the given splits."""
    expected = "an integer, a splitter of scikit-learn, or splits of row numbers"
    try:
        splits = list(check_cv(cv, y, classifier=True).split(X, y))
    except (TypeError, ValueError) as error:
        reason = " ".join(str(error).split())
        _checks.fail("fit", "cv", expected, f"{_checks.describe(cv)} ({reason})", error=type(error))
    if not splits:
        _checks.fail("fit", "cv", expected, _checks.describe(cv))
    return splits


def cross_fitted_scores(
    estimator: Any, X: Any, y: Array, splits: Splits, params: Any, n_jobs: int | None
) -> Array:
    """Compute log-scores ``(N, C)`` of samples by copies of the estimator that were fitted without them."""
    method = response_method(estimator)
    with warnings.catch_warnings():
        # `partition` has warned about it already.
        warnings.filterwarnings("ignore", message="Number of classes in training fold")
        response = cross_val_predict(
            estimator, X, y, cv=splits, method=method, params=params, n_jobs=n_jobs
        )
    return log_scores(response, method)


def response_method(estimator: Any) -> str:
    """Return the name of the estimator's method for scores."""
    for method in ("predict_proba", "decision_function"):
        if hasattr(estimator, method):
            return method
    advice = "Wrap it in CalibratedClassifierCV, or use another classifier."
    expected = "a classifier with predict_proba or decision_function"
    got = type(estimator).__name__
    return _checks.fail("fit", "estimator", expected, got, advice, error=TypeError)


def log_scores(response: Any, method: str) -> Array:
    """Return log-probabilities ``(N, C)``; decision values get a log-softmax."""
    values = np.asarray(response, dtype=np.float64)
    if method == "predict_proba":
        logs: Array = np.log(np.maximum(values, SMALLEST_PROBABILITY))
        return logs
    if values.ndim == 1:
        values = np.stack([-values / 2, values / 2], axis=1)
    table = torch.from_numpy(np.maximum(values, LOWEST_DECISION))
    return table.log_softmax(1).numpy()


def label_codes(caller: str, classes: Array, y: Iterable[Any]) -> Array:
    """Return the positions of the labels ``y`` in the sorted ``classes``."""
    refuse_odd_labels(caller, y)
    labels = np.asarray(y)
    if labels.ndim != 1:
        _checks.fail(caller, "y", "one label for each row", f"shape {labels.shape}")
    if labels.dtype.kind in "OUS" and classes.dtype.kind not in "OUS":
        expected = f"labels as in fit, such as {classes.tolist()[0]!r}"
        _checks.fail(caller, "y", expected, _checks.describe(labels.tolist()[0]))
    codes = np.searchsorted(classes, labels).clip(max=len(classes) - 1)
    unknown = classes[codes] != labels
    if unknown.any():
        known = ", ".join(repr(label) for label in classes[:10].tolist())
        got = f"{int(unknown.sum())} others, for example {labels[unknown].tolist()[0]!r}"
        _checks.fail(caller, "y", f"made of the labels seen in fit ({known})", got)
    return codes


def check_length(caller: str, labels: Sized, rows: Sized) -> None:
    """Check that there is one label for each row."""
    if len(labels) != len(rows):
        expected = f"one label for each of the {len(rows)} rows of X"
        _checks.fail(caller, "y", expected, f"{len(labels)} labels")
