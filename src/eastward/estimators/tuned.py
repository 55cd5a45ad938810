"""Any classifier, with the best decision for a metric."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import MetaEstimatorMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils import check_random_state, get_tags, indexable
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from eastward import _checks, metrics
from eastward.decisions.tuning import DecisionOptions, HeldOut
from eastward.estimators import saved_tuned
from eastward.estimators.base import Array, DecidingClassifier
from eastward.estimators.cross_fitting import (
    check_two_classes,
    class_labels,
    cross_fitted_scores,
    estimator_params,
    label_codes,
    log_scores,
    partition,
    response_method,
)
from eastward.estimators.frames import (
    Encoder,
    checked_table,
    needs_numbers,
    refuse_repeated_columns,
)
from eastward.metrics import Metric

__all__ = ["TunedDecisionClassifierCV"]

_FIT = "TunedDecisionClassifierCV.fit"


def _has_probabilities(model: TunedDecisionClassifierCV) -> bool:
    return hasattr(getattr(model, "estimator_", model.estimator), "predict_proba")


class TunedDecisionClassifierCV(MetaEstimatorMixin, DecidingClassifier):  # type: ignore[misc]  # untyped
    r"""Any classifier, with a decision tuned for the metric that judges it.

    .. math:: \hat y(x) = \arg\max_j \sum_i p_i(x)\,G_{ij}

    Each sample is predicted by a copy of the classifier that was fitted without it. These predictions calibrate the
    probabilities and tune the decision (:func:`eastward.tune_decision`), one small matrix :math:`G`. The classifier
    itself is then fitted on all data.

    Parameters
    ----------
    estimator : classifier
        A classifier with ``predict_proba`` or ``decision_function``. A ``FrozenEstimator`` is not fitted again.
    metric : str, Metric or callable, default="f1_macro"
        A name from :func:`eastward.metrics.names`, or a callable from a confusion matrix to a number. Metrics of one
        class ("f1", "precision", ...) mean ``classes_[1]``.
    cv : int, splitter, iterable of splits or "prefit", default=5
        How to cross-fit; the splits must be a partition. An integer means stratified, shuffled folds; pass a splitter
        if the order of rows matters. "prefit" means that the estimator is already fitted, on other data than those
        passed to :meth:`fit`.
    guard : float, optional
        Keep the most probable class unless the cross-validated gain exceeds this many standard errors. By default, it
        is kept only if the folds show no difference at all, or (with at least 30 rows of every class) a loss of more
        than two standard errors.
    n_bags : int, default=5
        Bootstraps over which the decision is averaged.
    cost : array-like of shape (n_classes, n_classes), optional
        Cost of deciding for the column when the row is true, in the order of ``classes_``; short for the metric
        "expected_cost". :meth:`predict` then returns the decision with the lowest expected cost.
    subject_to : str or sequence of str, optional
        Constraints such as ``"recall[fraud] >= 0.9"``; see :func:`eastward.tune_decision`.
    confidence : float, default=0.95
        Confidence of the one-sided bounds on constraints.
    on_infeasible : {"raise", "best"}, default="raise"
        What happens if no rule satisfies the constraints: an error, or a warning and the rule that comes closest.
    abstain_cost : float, optional
        Cost of not deciding: in units of ``cost`` if that is given, else of the metric.
    coverage : float, optional
        Share of the samples that must be decided, in (0, 1); the least certain ones may stay undecided.
    abstain_label : object, optional
        What :meth:`predict` returns for "no decision". None means -1 for numbers, "abstain" for strings and None (in
        an object array) for booleans.
    calibrate : {"auto", "none", "temperature", "vector", "isotonic"}, default="auto"
        How probabilities are calibrated; "auto" takes the simplest map whose held-out log-loss is close to the best.
        See :func:`eastward.decisions.fit_calibration`.
    random_state : int, RandomState or None, default=None
        Seed of folds and bootstraps.
    n_jobs : int, optional
        Number of processes for cross-fitting; None means one, -1 all cores.

    Attributes
    ----------
    estimator_ : classifier
        The fitted estimator.
    classes_ : ndarray of shape (n_classes,)
        Labels, sorted.
    metric_ : Metric
        The metric with its options.
    calibration_ : Calibration
        Turns the estimator's probabilities into those of :meth:`predict_proba`.
    decision_ : Decision
        Turns :meth:`predict_proba` into :meth:`predict`; ``print`` describes it in words.
    offsets_ : ndarray of shape (n_classes,)
        The decision as offsets of log-probabilities with mean zero; None if it is not that simple.
    held_out_ : HeldOut
        Cross-fitted predictions, for :meth:`decide_by` and :meth:`predict_set`.
    report_ : dict
        The gain of calibration and decision on these predictions, as plain data; :meth:`summary` describes it in
        words.
    encoder_ : Encoder or None
        Turns the columns of a frame into numbers; None if the estimator takes ``X`` as it is.
    n_features_in_, feature_names_in_
        The number and names of the features of ``estimator_``, if it has them.

    See Also
    --------
    sklearn.model_selection.TunedThresholdClassifierCV : One threshold, two classes.

    Notes
    -----
    :meth:`predict_proba` returns calibrated probabilities and :meth:`predict` the decision, so the two need not agree,
    as with scikit-learn's ``TunedThresholdClassifierCV``; ``decision_.decide(predict_proba(X))`` is the decision. The
    estimator's own probabilities are in :meth:`raw_predict_proba`.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from sklearn.linear_model import LogisticRegression
    >>> X, y = make_classification(1000, weights=[0.9], flip_y=0.1, class_sep=0.7, random_state=0)
    >>> model = TunedDecisionClassifierCV(LogisticRegression(), "f1", random_state=0).fit(X, y)
    >>> bool(model.report_["tuned"] > model.report_["baseline"])
    True
    """

    def __init__(
        self,
        estimator: Any,
        metric: str | Metric | Callable[[Any], Any] = "f1_macro",
        *,
        cv: Any = 5,
        guard: float | None = None,
        n_bags: int = 5,
        cost: Any = None,
        subject_to: Any = None,
        confidence: float = 0.95,
        on_infeasible: str = "raise",
        abstain_cost: float | None = None,
        coverage: float | None = None,
        abstain_label: Any = None,
        calibrate: str = "auto",
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.metric = metric
        self.cv = cv
        self.guard = guard
        self.n_bags = n_bags
        self.cost = cost
        self.subject_to = subject_to
        self.confidence = confidence
        self.on_infeasible = on_infeasible
        self.abstain_cost = abstain_cost
        self.coverage = coverage
        self.abstain_label = abstain_label
        self.calibrate = calibrate
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any, sample_weight: Any = None, **fit_params: Any) -> Self:
        """Cross-fit the estimator, tune the decision, and fit the estimator on all data.

        Parameters
        ----------
        X : array-like of shape (n_samples, ...)
            Samples, in any form that the estimator accepts. In a data frame for a classifier of scikit-learn, LightGBM
            or XGBoost that takes numbers only, words, dates and gaps become numbers, as in
            :class:`eastward.EASTBoostingClassifier`. A pipeline, and any other classifier, gets the frame as it is.
        y : array-like of shape (n_samples,)
            Labels.
        sample_weight : array-like of shape (n_samples,), optional
            Used by the estimator and the tuning.
        **fit_params
            Further arguments of the estimator's ``fit``.

        Returns
        -------
        self : TunedDecisionClassifierCV
            The fitted classifier.
        """
        refuse_repeated_columns(X, _FIT)
        X, y = indexable(X, y)
        y = class_labels(_FIT, y)
        weight = None if sample_weight is None else _check_sample_weight(sample_weight, X)
        check_two_classes(_FIT, y, weight)
        _checks.jobs(type(self).__name__, self.n_jobs)
        self._check_decision(self._known_classes(y))
        self._seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        params = estimator_params(self, sample_weight, fit_params)
        self.encoder_ = None
        if not self._is_fitted_already() and needs_numbers(self.estimator, X):
            X = checked_table(self, X, reset=True)
            self.encoder_ = Encoder.of_scaled(X)
            X = self.encoder_.scaled(X)
        scores = self._cross_fit(X, y, params)
        for name in ("n_features_in_", "feature_names_in_"):
            if self.encoder_ is None and hasattr(self.estimator_, name):
                setattr(self, name, getattr(self.estimator_, name))
        codes = label_codes(_FIT, self.classes_, y)
        used = slice(None) if weight is None else np.flatnonzero(weight > 0)
        mass = None if weight is None else weight[used]
        self.held_out_ = HeldOut(scores[used], codes[used], mass)
        self._decide(self.held_out_, _FIT)
        return self

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Array:
        """Predict calibrated probabilities; the decision need not be the most probable class.

        Parameters
        ----------
        X : array-like of shape (n_samples, ...)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Rows sum to one.
        """
        return self._probabilities(X)

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    def raw_predict_proba(self, X: Any) -> Array:
        """Predict the estimator's own probabilities.

        Parameters
        ----------
        X : array-like of shape (n_samples, ...)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            The result of ``estimator_.predict_proba``.
        """
        check_is_fitted(self)
        return np.asarray(self.estimator_.predict_proba(self._numbers(X)))

    @classmethod
    def load(cls, path: Any, *, trusted: Sequence[str] = ()) -> Self:
        """Load a classifier that :meth:`save` wrote.

        Parameters
        ----------
        path : path
            The folder.
        trusted : sequence of str
            Types outside scikit-learn that the estimator is made of, such as ``"lightgbm.sklearn.LGBMClassifier"``; a
            folder that needs others is refused, and the message names them.

        Returns
        -------
        TunedDecisionClassifierCV
            The classifier; it decides exactly like the saved one.
        """
        return saved_tuned.load(cls, _checks.path("load", "path", path), trusted)

    def _save(self, path: Path) -> None:
        saved_tuned.save(self, path)

    @property
    def baseline_score_(self) -> float:
        """The metric of the most probable class on cross-fitted predictions."""
        return float(self.report_["baseline"])

    @property
    def tuned_score_(self) -> float:
        """The metric of the decision on cross-fitted predictions; see ``report_`` for how it is judged."""
        return float(self.report_["tuned"])

    @property
    def gain_(self) -> float:
        """Gain of the decision over the most probable class; positive is better."""
        return float(self.report_["gain"])

    def get_metadata_routing(self) -> MetadataRouter:
        """Route scikit-learn's metadata to the ``fit`` of the estimator.

        Returns
        -------
        MetadataRouter
            The routes.
        """
        mapping = MethodMapping().add(caller="fit", callee="fit")
        router = MetadataRouter(owner=self).add_self_request(self)
        return router.add(estimator=self.estimator, method_mapping=mapping)

    def __sklearn_tags__(self) -> Any:
        tags, inner = super().__sklearn_tags__(), get_tags(self.estimator)
        tags.input_tags = inner.input_tags
        if inner.classifier_tags is not None:
            tags.classifier_tags.multi_class = inner.classifier_tags.multi_class
        return tags

    def _cross_fit(self, X: Any, y: Array, params: Any) -> Array:
        """Fit the estimator, unless it is fitted already, and predict each sample by a copy fitted without it."""
        if not self._is_fitted_already():
            splits = partition(self.cv, X, y, self._seed % 2**31)
            scores = cross_fitted_scores(self.estimator, X, y, splits, params, self.n_jobs)
            self.estimator_ = clone(self.estimator).fit(X, y, **params)
            self.classes_ = self.estimator_.classes_
            return scores
        self.estimator_, self.classes_ = self.estimator, self.estimator.classes_
        return self._log_probabilities(X)

    def _is_fitted_already(self) -> bool:
        prefit = isinstance(self.cv, str) and self.cv == "prefit"
        return prefit or isinstance(self.estimator, FrozenEstimator)

    def _known_classes(self, y: Array) -> list[Any]:
        if not self._is_fitted_already():
            return list(np.unique(y).tolist())
        check_is_fitted(self.estimator)
        return list(self.estimator.classes_.tolist())

    def _check_decision(self, classes: list[Any]) -> None:
        if self.cost is not None:
            _checks.cost(_FIT, self.cost, len(classes))
        super()._check_decision(classes)

    def _options(self, classes: list[Any], seed: int) -> DecisionOptions:
        return replace(super()._options(classes, seed), guard=self.guard, n_bags=self.n_bags)

    def _resolved_metric(self, classes: list[Any]) -> Metric:
        if self.cost is None:
            return super()._resolved_metric(classes)
        return metrics.get("expected_cost", cost=np.asarray(self.cost, dtype=float).tolist())

    def _log_probabilities(self, X: Any) -> Array:
        check_is_fitted(self)
        refuse_repeated_columns(X, type(self).__name__)
        method = response_method(self.estimator_)
        return log_scores(getattr(self.estimator_, method)(self._numbers(X)), method)

    def _numbers(self, X: Any) -> Any:
        """Encode samples for the estimator if it was fitted on encoded ones."""
        if self.encoder_ is None:
            return X
        return self.encoder_.scaled(checked_table(self, X, reset=False))
