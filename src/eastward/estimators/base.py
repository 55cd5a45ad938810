"""What all four estimators share: calibrated probabilities, one decision, and its report.

An estimator fits its models and stores held-out predictions: those of training rows by models that were not trained on
them. The rest is common to all estimators. The held-out predictions are calibrated, a decision for the metric is tuned
on them (:func:`eastward.tune_decision`), and ``report_`` shows the gain.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from eastward import _checks
from eastward._views import classifier_html
from eastward.decisions._inputs import row_weight
from eastward.decisions.calibration import Calibration
from eastward.decisions.conformal import prediction_sets
from eastward.decisions.deciding import checked_abstain_cost
from eastward.decisions.matrix import Decision
from eastward.decisions.rules import abstention_label, labels_or_abstention
from eastward.decisions.shifting import named_frequencies
from eastward.decisions.solving import Objective
from eastward.decisions.tuning import (
    DecisionOptions,
    HeldOut,
    decision_table,
    fit_decision,
    without_held_out,
)
from eastward.estimators.cross_fitting import check_length, label_codes
from eastward.estimators.metric_choice import resolve_metric
from eastward.metrics import Metric

__all__ = ["DecidingClassifier"]

Array = NDArray[Any]


class DecidingClassifier(ClassifierMixin, BaseEstimator, ABC):  # type: ignore[misc]  # scikit-learn is untyped
    """A classifier whose ``predict`` decides for a metric, and whose ``predict_proba`` gives probabilities.

    A subclass has the parameters below, implements ``_log_probabilities(X)``, and calls ``_conclude`` at the end of
    ``fit``.

    Attributes
    ----------
    classes_ : ndarray
        Labels, sorted.
    metric_ : Metric
        The metric with its options.
    calibration_ : Calibration
        Turns the models' probabilities into those of :meth:`predict_proba`.
    decision_ : Decision
        Turns :meth:`predict_proba` into :meth:`predict`; ``print`` describes it in words.
    held_out_ : HeldOut or None
        Predictions of training rows by models that were not trained on them; :meth:`decide_by` uses them.
    report_ : dict
        The gain of the decision on these predictions, as plain data; :meth:`summary` describes it in words.
    """

    metric: Any
    subject_to: Any
    confidence: float
    on_infeasible: str
    abstain_cost: float | None
    coverage: float | None
    abstain_label: Any
    calibrate: str
    metric_options: Mapping[str, Any] | None = None

    classes_: Array
    metric_: Metric
    calibration_: Calibration
    decision_: Decision
    held_out_: HeldOut | None
    report_: dict[str, Any]
    _seed: int = 0
    # The notebook view of a fitted classifier; scikit-learn looks for this name.
    _html_repr = classifier_html
    # The report's name for the models behind the decision.
    _fitted_part = "the model"

    @abstractmethod
    def _log_probabilities(self, X: Any) -> Array:
        """Compute log-probabilities ``(N, C)`` of the models, before calibration."""

    @property
    def offsets_(self) -> Array | None:
        """The decision as offsets ``(C,)`` of log-probabilities with mean zero; None if it is not that simple."""
        return self.decision_.offsets_

    def predict(self, X: Any, prior: Any = None) -> Array:
        """Predict labels: ``decision_`` applied to :meth:`predict_proba`.

        Parameters
        ----------
        X : array-like
            Samples.
        prior : array-like of shape (n_classes,), mapping or "auto", optional
            Class frequencies of these samples, in the order of ``classes_`` or by label, if they differ from those of
            training; "auto" estimates them (:func:`eastward.decisions.estimate_prior`).

        Returns
        -------
        ndarray of shape (n_samples,)
            Labels. Undecided samples get ``abstain_label``; by default it is -1 for numbers, "abstain" for text and
            None for booleans.
        """
        return self._decided(self._probabilities(X), prior)

    def labels_of(self, probabilities: Array) -> Array:
        """Decide rows whose probabilities are known.

        Parameters
        ----------
        probabilities : ndarray of shape (n_samples, n_classes)
            Probabilities that :meth:`predict_proba` returned.

        Returns
        -------
        ndarray of shape (n_samples,)
            Labels, as :meth:`predict` returns them.
        """
        return self._decided(probabilities, None)

    def with_prior(self, prior: Any, probabilities: Any = None) -> Self:
        """Copy the classifier for other class frequencies, with adjusted probabilities and decision.

        Parameters
        ----------
        prior : array-like of shape (n_classes,), mapping or "auto"
            The new class frequencies, in the order of ``classes_`` or by label; "auto" estimates them.
        probabilities : ndarray of shape (n_samples, n_classes), optional
            :meth:`predict_proba` of rows with those frequencies; "auto" estimates the frequencies from it.

        Returns
        -------
        DecidingClassifier
            A copy that shares the fitted models.
        """
        check_is_fitted(self)
        new = self._frequencies(prior, probabilities)
        moved = copy(self)
        moved.calibration_ = self.calibration_.with_prior(self.decision_.prior, new)
        decision = self.decision_.with_prior(new)
        # The decision expects the old probabilities; the new ones are p π' / π.
        ratio = np.asarray(new, dtype=float) / np.maximum(self.decision_.prior, 1e-300)
        safe = np.where(ratio > 0, ratio, 1.0)
        matrix = decision.matrix / safe[:, None]
        moved.decision_ = replace(decision, matrix=matrix, prior=np.asarray(new), reference=None)
        return moved

    def predict_proba(self, X: Any) -> Array:
        """Predict calibrated probabilities; the decision need not be the most probable class.

        Parameters
        ----------
        X : array-like
            Samples.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Rows sum to one.
        """
        return self._probabilities(X)

    def raw_predict_proba(self, X: Any) -> Array:
        """Predict the models' probabilities before calibration.

        Parameters
        ----------
        X : array-like
            Samples.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Rows sum to one.
        """
        check_is_fitted(self)
        scores = torch.from_numpy(np.asarray(self._log_probabilities(X), dtype=np.float64))
        return np.asarray(scores.softmax(1))

    def predict_set(self, X: Any, coverage: float = 0.9, *, by_class: bool = False) -> Array:
        """Predict sets of classes that contain the true class with a chosen probability.

        Parameters
        ----------
        X : array-like
            Samples.
        coverage : float, default=0.9
            Probability with which a set must contain the true class, in (0, 1).
        by_class : bool, default=False
            Whether the coverage holds for the samples of every class, or for all samples together.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Whether each class is in the set. See :func:`eastward.decisions.prediction_sets`.
        """
        held = self._known_held_out("predict_set")
        probabilities = self.calibration_.apply(held.probabilities)
        found = prediction_sets(
            probabilities,
            held.codes,
            coverage,
            by_class=by_class,
            sample_weight=self._shares(held),
        )
        return found.sets(self._probabilities(X))

    def decision_function(self, X: Any) -> Array:
        """Compute the value of each decision; for two classes the difference, positive for ``classes_[1]``.

        Parameters
        ----------
        X : array-like
            Samples.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            Probabilities times the decision matrix; higher means more likely to be chosen.
        """
        check_is_fitted(self)
        size = len(self.classes_)
        worth = self.decision_.worth(self._probabilities(X))[:, :size]
        return np.asarray(worth[:, 1] - worth[:, 0] if size == 2 else worth)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Compute the metric of the decisions, negated if lower is better, so that higher is always better.

        Parameters
        ----------
        X : array-like
            Samples.
        y : array-like of shape (n_samples,)
            True labels.
        sample_weight : array-like of shape (n_samples,), optional
            Weights of the samples.

        Returns
        -------
        float
            The metric. Undecided samples count as correct, minus ``abstain_cost`` times their share.
        """
        caller = f"{type(self).__name__}.score"
        decisions = self.decision_.decide(self._probabilities(X))
        codes = label_codes(caller, self.classes_, y)
        check_length(caller, codes, decisions)
        weight = row_weight(caller, sample_weight, torch.from_numpy(codes)).numpy()
        table = decision_table(codes, decisions, weight, len(self.classes_))
        return Objective(self.metric_, self.decision_.abstain_cost).value(table)

    def decide_by(
        self,
        metric: Any = None,
        *,
        subject_to: Any = None,
        metric_options: Any = None,
        **options: Any,
    ) -> Self:
        """Tune the decision again, for another metric or other constraints; no model is refitted.

        Parameters
        ----------
        metric : str, Metric or callable, optional
            The new metric; by default, the current one.
        subject_to : str or sequence of str, optional
            Constraints such as ``"recall[fraud] >= 0.9"``; by default there are none.
        metric_options : mapping, optional
            Options of the metric.
        **options
            New values of ``abstain_cost``, ``coverage``, ``confidence``, ``on_infeasible`` and ``calibrate``; the
            others keep their current value.

        Returns
        -------
        self
            The classifier with these parameters and a new ``decision_`` and ``report_``. An error leaves it unchanged.
        """
        check_is_fitted(self)
        caller = f"{type(self).__name__}.decide_by"
        held = self._known_held_out("decide_by")
        allowed = ("abstain_cost", "coverage", "confidence", "on_infeasible", "calibrate")
        for name in options:
            _checks.one_of(caller, "options", name, allowed)
        before = {**vars(self)}
        self.__dict__.update(options, subject_to=subject_to)
        if metric is not None:
            self.__dict__.update(metric=metric, metric_options=metric_options)
        try:
            self._decide(held, caller)
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise
        return self

    def summary(self) -> str:
        """Describe the report in words.

        Returns
        -------
        str
            A few lines of text.
        """
        check_is_fitted(self)
        return "\n".join([*self.report_["sentences"], *self.report_.get("notes", [])])

    def save(self, path: Any) -> None:
        """Save the fitted classifier to the folder ``path``, as numbers and names without code.

        Parameters
        ----------
        path : path
            A new folder, or one with a saved model, which is replaced.
        """
        check_is_fitted(self)
        self._save(_checks.path("save", "path", path))

    @abstractmethod
    def _save(self, path: Path) -> None:
        """Write the classifier to a folder."""

    def _probabilities(self, X: Any) -> Array:
        """Calibrate the estimator's scores to probabilities."""
        check_is_fitted(self)
        scores = torch.from_numpy(np.asarray(self._log_probabilities(X), dtype=np.float64))
        return np.asarray(self.calibration_.apply(scores.softmax(1)))

    def _decided(self, probabilities: Array, prior: Any) -> Array:
        decision = self.decision_
        if prior is not None:
            decision = decision.with_prior(self._frequencies(prior, probabilities))
        decisions = decision.decide(probabilities)
        if decision.matrix.shape[1] == len(self.classes_):
            return np.asarray(self.classes_[decisions])
        return labels_or_abstention("predict", self.classes_, decisions, self.abstain_label)

    def _frequencies(self, prior: Any, probabilities: Array) -> Any:
        """Return new class frequencies in the order of ``classes_``."""
        known = self.decision_.prior
        return named_frequencies(prior, self.classes_.tolist(), probabilities, known)

    def _options(self, classes: list[Any], seed: int) -> DecisionOptions:
        """Return the options of the decision step; a subclass adds its own."""
        return DecisionOptions(
            self._resolved_metric(classes),
            self.subject_to,
            self.confidence,
            self.on_infeasible,
            self.abstain_cost,
            self.coverage,
            self.calibrate,
            seed=seed,
        )

    def _resolved_metric(self, classes: list[Any]) -> Metric:
        """Return the metric with its options; beta may name classes by their labels."""
        return resolve_metric(type(self).__name__, self.metric, self.metric_options, classes)

    def _check_decision(self, classes: list[Any]) -> None:
        """Check the options of the decision before anything expensive begins."""
        caller = type(self).__name__
        options = self._options(classes, 0)
        constraints = options.checked(caller, classes)
        if checked_abstain_cost(caller, options.abstain_cost, constraints) is not None:
            abstention_label(caller, np.asarray(classes), self.abstain_label)

    def _decide(self, held: HeldOut | None, caller: str) -> None:
        """Fit calibration, decision and report on held-out predictions."""
        labels = self.classes_.tolist()
        options = self._options(labels, self._seed)
        self.metric_ = options.metric
        if held is None or not len(held.codes):
            self.calibration_, self.decision_, found = without_held_out(caller, labels, options)
        else:
            self.calibration_, self.decision_, found = fit_decision(caller, held, labels, options)
        self.report_ = self._full_report(found)

    def _full_report(self, decided: dict[str, Any]) -> dict[str, Any]:
        """Return the report of the decision, with the estimator's own entries."""
        stages = []
        if "tuned" in decided:
            values = {"argmax": decided["baseline"], "tuned": decided["tuned"]}
            stages = [{"name": self._fitted_part, **values}]
        return {**decided, "stages": stages, "notes": [], "interrupted": False}

    def _shares(self, held: HeldOut) -> Array:
        """Weigh held-out rows to the class frequencies that the decision is for, see :meth:`with_prior`."""
        weight = np.ones(len(held.codes)) if held.weight is None else np.asarray(held.weight, float)
        mass = np.bincount(held.codes, weight, minlength=len(self.classes_))
        ratio = np.asarray(self.decision_.prior) * mass.sum() / np.maximum(mass, 1e-300)
        # Frequencies that did not change differ by rounding only.
        ratio = np.where(np.isclose(ratio, 1.0), 1.0, ratio)
        return np.asarray(weight * ratio[held.codes])

    def _known_held_out(self, method: str) -> HeldOut:
        check_is_fitted(self)
        if self.held_out_ is None:
            expected = "a model with held-out predictions"
            got = "one without, saved by an older version or fitted without rows to hold out"
            caller = f"{type(self).__name__}.{method}"
            _checks.fail(caller, "self", expected, got, "Fit it again.")
        return self.held_out_
