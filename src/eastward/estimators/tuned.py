"""Any classifier, with the decision rule that a metric wants."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils import check_random_state, get_tags, indexable
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import (
    _check_sample_weight,
    check_consistent_length,
    check_is_fitted,
)

from eastward import _checks
from eastward.decisions._merit import Merit
from eastward.decisions.calibration import KINDS
from eastward.decisions.constraints import parse_constraints
from eastward.decisions.costs import abstention_label, costs_of
from eastward.decisions.cross_fitting import (
    Array,
    check_two_classes,
    class_labels,
    cross_fitted_scores,
    estimator_params,
    label_codes,
    log_scores,
    partition,
    response_method,
)
from eastward.decisions.guard import checked_shrinkage
from eastward.decisions.predicting import MatrixDecisionMixin
from eastward.decisions.report import report_text
from eastward.decisions.solving import Objective
from eastward.decisions.tuning import (
    TunedDecision,
    cost_decision,
    decision_table,
    matrix_decision,
    offset_decision,
)
from eastward.metrics import Metric, as_metric

__all__ = ["TunedDecisionClassifierCV"]

_FIT = "TunedDecisionClassifierCV.fit"


def _has_probabilities(model: Any) -> bool:
    return hasattr(getattr(model, "estimator_", model.estimator), "predict_proba")


class TunedDecisionClassifierCV(
    MatrixDecisionMixin,
    ClassifierMixin,  # type: ignore[misc]  # scikit-learn is untyped
    MetaEstimatorMixin,  # type: ignore[misc]
    BaseEstimator,  # type: ignore[misc]
):
    r"""Any classifier, deciding by the metric it is judged by.

    .. math:: \hat y(x) = \arg\max_j \sum_i p_i(x)\,G_{ij}

    The decision is tuned on cross-fitted predictions: each sample is predicted by a copy of the classifier that
    was fitted without it; on request, these calibrate the probabilities first. By default the matrix :math:`G` is
    a diagonal, offsets of log-probabilities that are averaged over bootstraps, shrunk, and kept at zero where
    cross-validation does not favour a change. With constraints or rows left undecided it is that of
    :func:`eastward.tune_decision`. The classifier itself is then fitted on all data.

    Parameters
    ----------
    estimator : classifier
        With ``predict_proba`` or ``decision_function``. A ``FrozenEstimator`` is not fitted again.
    metric : str, Metric or callable, default="f1_macro"
        A name from :func:`eastward.metrics.names`, or a callable from a confusion matrix to a number. Metrics of one
        class ("f1", "precision", ...) mean ``classes_[1]``.
    cv : int, splitter, iterable of splits or "prefit", default=5
        How to cross-fit; the splits must be a partition. An integer means stratified folds. "prefit": the estimator is
        fitted already, on other data than those given to :meth:`fit`.
    method : {"auto", "scan", "surrogate"}, default="auto"
        How offsets are searched; see :func:`eastward.decisions.tune_offsets`.
    n_bags : int, default=15
        Bootstraps over which offsets are averaged.
    shrinkage : "auto" or float in [0, 1], default="auto"
        Factor for the offsets. "auto" shrinks them as far as the bootstraps disagree.
    guard : float or None, default=0.5
        How many standard errors the cross-validated gain has to exceed, or else the plain argmax stays. None: no guard.
    max_offset : float, default=6.0
        Offsets are searched within plus or minus this many nats.
    cost : array-like of shape (n_classes, n_classes), optional
        Cost of deciding for the column when the row is true, in the order of ``classes_``. With it :meth:`predict`
        gives the cheapest decision under the estimator's probabilities, and ``metric`` is the expected cost.
    subject_to : str or sequence of str, optional
        Constraints such as ``"recall[fraud] >= 0.9"``; see :func:`eastward.tune_decision`.
    confidence : float, default=0.95
        Of the one-sided bounds by which constraints are kept.
    abstain_cost : float, optional
        Cost of not deciding: in units of ``cost`` if that is given, else of the metric.
    abstain_label : object, optional
        What :meth:`predict` returns for "no decision". None means -1 for numbers, "abstain" for strings and None (in an
        object array) for booleans.
    calibrate : {"none", "auto", "temperature", "vector", "isotonic"}, default="none"
        How probabilities are calibrated. ``"auto"`` takes what held-out log-loss prefers, and wants a ``cv`` whose
        folds are shuffled; see :func:`eastward.decisions.fit_calibration`.
    random_state : int, RandomState or None, default=None
        For the bootstraps.
    n_jobs : int, optional
        Processes for cross-fitting.

    Attributes
    ----------
    estimator_ : classifier
        The fitted estimator.
    classes_ : ndarray of shape (n_classes,)
        Labels.
    calibration_ : Calibration
        From the estimator's probabilities to those of :meth:`predict_proba`.
    decision_ : Decision
        From :meth:`predict_proba` to :meth:`predict`; ``print`` says in words what it does.
    offsets_ : ndarray of shape (n_classes,)
        The decision as offsets of log-probabilities, with mean zero; None where it is more than that.
    offsets_by_fold_ : ndarray of shape (n_folds, n_classes)
        Offsets tuned and shrunk without each of the folds on which the gain is judged: their spread says how sure
        ``offsets_`` are. None with constraints.
    baseline_score_, tuned_score_ : float
        The metric of plain decisions (the most probable class after calibration) and of tuned ones on cross-fitted
        predictions. The tuned ones use the offsets that were found without their fold, so the comparison is fair; with
        constraints, they are those of the rows tuned on.
    gain_ : float
        From the first to the second; positive is better whichever direction the metric has.
    gain_interval_ : tuple of float
        95 % bootstrap interval of the gain.
    report_ : dict
        All of this as plain data; :meth:`summary` is its text.
    n_features_in_, feature_names_in_
        Those of ``estimator_``, if it has them.

    See Also
    --------
    sklearn.model_selection.TunedThresholdClassifierCV : One threshold, two classes.

    Notes
    -----
    :meth:`predict_proba` returns probabilities (calibrated, with ``calibrate``) and :meth:`predict` the decision,
    so the two need not agree, as with scikit-learn's ``TunedThresholdClassifierCV``;
    ``decision_.decide(predict_proba(X))`` is the decision. The estimator's own probabilities are in
    :meth:`raw_predict_proba`.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from sklearn.linear_model import LogisticRegression
    >>> X, y = make_classification(1000, weights=[0.9], flip_y=0.1, class_sep=0.7, random_state=0)
    >>> model = TunedDecisionClassifierCV(LogisticRegression(), "f1", random_state=0).fit(X, y)
    >>> print(f"{model.baseline_score_:.2f} to {model.tuned_score_:.2f}")
    0.54 to 0.58
    """

    def __init__(
        self,
        estimator: Any,
        metric: str | Metric | Callable[[Any], Any] = "f1_macro",
        *,
        cv: Any = 5,
        method: str = "auto",
        n_bags: int = 15,
        shrinkage: str | float = "auto",
        guard: float | None = 0.5,
        max_offset: float = 6.0,
        cost: Any = None,
        subject_to: Any = None,
        confidence: float = 0.95,
        abstain_cost: float | None = None,
        abstain_label: Any = None,
        calibrate: str = "none",
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.metric = metric
        self.cv = cv
        self.method = method
        self.n_bags = n_bags
        self.shrinkage = shrinkage
        self.guard = guard
        self.max_offset = max_offset
        self.cost = cost
        self.subject_to = subject_to
        self.confidence = confidence
        self.abstain_cost = abstain_cost
        self.abstain_label = abstain_label
        self.calibrate = calibrate
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any, sample_weight: Any = None, **fit_params: Any) -> Any:
        """Cross-fit the estimator, tune the decision, fit the estimator on all data.

        Parameters
        ----------
        X : array-like of shape (n_samples, ...)
            Whatever the estimator takes.
        y : array-like of shape (n_samples,)
            Labels.
        sample_weight : array-like of shape (n_samples,), optional
            Reaches the estimator and the tuning.
        **fit_params
            For the estimator's ``fit``.

        Returns
        -------
        self : TunedDecisionClassifierCV
            Itself.
        """
        X, y = indexable(X, y)
        y = class_labels(_FIT, y)
        weight = None if sample_weight is None else _check_sample_weight(sample_weight, X)
        check_two_classes(_FIT, y, weight)
        self._check_options(self._known_classes(y))
        params = estimator_params(self, sample_weight, fit_params)
        scores = self._cross_fit(X, y, params)
        codes = label_codes(_FIT, self.classes_, y)
        scores = self._calibrated(scores, codes, weight)
        decision = self._tuned_decision(scores, codes, weight)
        gain, self.report_, self.decision_ = decision.gain, decision.report, decision.decision
        self.offsets_, self.offsets_by_fold_ = decision.offsets, decision.by_fold
        self.baseline_score_, self.tuned_score_ = gain.before, gain.after
        self.gain_, self.gain_interval_ = gain.gain, (gain.low, gain.high)
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self.estimator_, name):
                setattr(self, name, getattr(self.estimator_, name))
        return self

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Array:
        """Calibrated probabilities.

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
        """The estimator's own probabilities.

        Parameters
        ----------
        X : array-like of shape (n_samples, ...)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            As ``estimator_.predict_proba`` gives them.
        """
        check_is_fitted(self)
        return np.asarray(self.estimator_.predict_proba(X))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The target metric of the decisions; negated if lower is better, so that more is always better.

        Parameters
        ----------
        X : array-like of shape (n_samples, ...)
            Samples.
        y : array-like of shape (n_samples,)
            True labels.
        sample_weight : array-like of shape (n_samples,), optional
            Weights.

        Returns
        -------
        float
            With costs, minus the mean cost of the decisions, abstentions included. Without, samples left undecided
            count as right, less ``abstain_cost`` times their share.
        """
        decisions = self.decision_.decide(self._probabilities(X))
        check_consistent_length(decisions, y)
        codes = label_codes("TunedDecisionClassifierCV.score", self.classes_, y)
        weight = np.ones(len(codes)) if sample_weight is None else np.asarray(sample_weight)
        if self.cost is not None:
            costs = costs_of(codes, decisions, self.cost, self.abstain_cost)
            return -float(np.average(costs, weights=weight))
        table = decision_table(codes, decisions, weight, len(self.classes_))
        return Objective(as_metric(self.metric), self.decision_.abstain_cost).value(table)

    def summary(self) -> str:
        """The report in words: what was changed, what it brings, and the offset of each class.

        Returns
        -------
        str
            A few lines of text.
        """
        check_is_fitted(self)
        return report_text(self.report_)

    def get_metadata_routing(self) -> MetadataRouter:
        """Where scikit-learn's metadata go: to the ``fit`` of the estimator.

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
        """Fit the estimator, unless it is fitted already, and predict each sample without it."""
        if not self._is_fitted_already():
            splits = partition(self.cv, X, y)
            scores = cross_fitted_scores(self.estimator, X, y, splits, params, self.n_jobs)
            self.estimator_ = clone(self.estimator).fit(X, y, **params)
            self.classes_ = self.estimator_.classes_
            return scores
        self.estimator_, self.classes_ = self.estimator, self.estimator.classes_
        return self._scores(X)

    def _is_fitted_already(self) -> bool:
        prefit = isinstance(self.cv, str) and self.cv == "prefit"
        return prefit or isinstance(self.estimator, FrozenEstimator)

    def _known_classes(self, y: Array) -> list[Any]:
        if not self._is_fitted_already():
            return list(np.unique(y).tolist())
        check_is_fitted(self.estimator)
        return list(self.estimator.classes_.tolist())

    def _check_options(self, classes: list[Any]) -> None:
        """Find what is wrong with the parameters before anything expensive begins."""
        checked_shrinkage(_FIT, self.shrinkage)
        _checks.one_of(_FIT, "calibrate", self.calibrate, ("auto", *KINDS))
        parse_constraints(_FIT, self.subject_to, len(classes), classes)
        if self.cost is None:
            Merit(self.metric, len(classes))
            return
        _checks.cost(_FIT, self.cost, len(classes))
        if self.subject_to is not None:
            advice = "Use metric=eastward.metrics.get('expected_cost', cost=cost)."
            _checks.fail(_FIT, "subject_to", "None with cost", repr(self.subject_to), advice)

    def _tuned_decision(self, scores: Array, codes: Array, weight: Array | None) -> TunedDecision:
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        if self.cost is not None:
            abstention_label(_FIT, self.classes_, self.abstain_label)
            costs = self.cost, self.abstain_cost, self.classes_.tolist()
            return cost_decision(scores, codes, *costs, sample_weight=weight, random_state=seed)
        rows = scores, codes, self.metric, self.classes_.tolist()
        if self.subject_to is not None or self.abstain_cost is not None:
            abstention_label(_FIT, self.classes_, self.abstain_label)
            return matrix_decision(
                *rows,
                subject_to=self.subject_to,
                confidence=self.confidence,
                abstain_cost=self.abstain_cost,
                sample_weight=weight,
                random_state=seed,
            )
        return offset_decision(
            *rows,
            guard=self.guard,
            shrinkage=self.shrinkage,
            sample_weight=weight,
            random_state=seed,
            n_bags=self.n_bags,
            max_offset=self.max_offset,
            method=self.method,
        )

    def _scores(self, X: Any) -> Array:
        check_is_fitted(self)
        method = response_method(self.estimator_)
        return log_scores(getattr(self.estimator_, method)(X), method)
