"""What a classifier with a tuned decision predicts: labels, sets, and the worth of each class."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted

from eastward import _checks
from eastward.decisions.calibration import Calibration, fit_calibration
from eastward.decisions.conformal import sets_from
from eastward.decisions.costs import labels_or_abstention
from eastward.decisions.cross_fitting import SMALLEST_PROBABILITY, Array
from eastward.decisions.matrix import Decision
from eastward.decisions.shifting import estimate_prior

__all__ = ["MatrixDecisionMixin"]


class MatrixDecisionMixin:
    """Predictions by a calibration and a decision matrix, for estimators that have scores.

    An estimator gives ``_scores(X)``, log-probabilities ``(N, C)``, and calls ``_calibrated`` in ``fit``.
    """

    classes_: Array
    calibration_: Calibration
    decision_: Decision
    offsets_: Array | None
    held_out_: tuple[Array, Array]
    calibrate: str
    cost: Any
    abstain_label: Any

    if TYPE_CHECKING:

        def _scores(self, X: Any) -> Array: ...

    def predict(self, X: Any, prior: Any = None) -> Array:
        """Decisions: ``decision_`` applied to :meth:`predict_proba`.

        Parameters
        ----------
        X : array-like of shape (n_samples, ...)
            Samples.
        prior : array-like of shape (n_classes,), mapping or "auto", optional
            Class frequencies of these samples, in the order of ``classes_`` or by label, if they differ from those of
            training; "auto" estimates them (:func:`eastward.decisions.estimate_prior`).

        Returns
        -------
        ndarray of shape (n_samples,)
            Labels; where nothing is decided, the abstention label.
        """
        probabilities, decision = self._probabilities(X), self.decision_
        if prior is not None:
            decision = decision.with_prior(self._frequencies(prior, probabilities))
        decisions = decision.decide(probabilities)
        if self.decision_.matrix.shape[1] == len(self.classes_):
            return np.asarray(self.classes_[decisions])
        return labels_or_abstention("predict", self.classes_, decisions, self.abstain_label)

    def predict_set(self, X: Any, coverage: float = 0.9, *, by_class: bool = False) -> Array:
        """Sets of classes that hold the true one as often as asked for.

        Parameters
        ----------
        X : array-like of shape (n_samples, ...)
            Samples.
        coverage : float, default=0.9
            How often a set has to hold the true class.
        by_class : bool, default=False
            Whether the samples of every class are covered so often, or all samples together.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Whether each class is in the set.
        """
        check_is_fitted(self)
        level = _checks.in_unit_interval("predict_set", "coverage", coverage)
        size = len(self.classes_)
        sets = sets_from(*self.held_out_, size, level, by_class=by_class)
        return sets.sets(self._probabilities(X))

    def decision_function(self, X: Any) -> Array:
        """What each decision is worth; for two classes the difference, positive for ``classes_[1]``.

        Parameters
        ----------
        X : array-like of shape (n_samples, ...)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            ``log p + b`` where the decision is one of offsets, else ``p @ matrix``; higher means more likely to be
            chosen.
        """
        probabilities = self._probabilities(X)
        size = len(self.classes_)
        if self.offsets_ is None or self.cost is not None:
            worth = probabilities @ self.decision_.matrix[:, :size]
        else:
            worth = np.log(np.maximum(probabilities, SMALLEST_PROBABILITY)) + self.offsets_
        return np.asarray(worth[:, 1] - worth[:, 0] if size == 2 else worth)

    def _calibrated(self, scores: Array, codes: Array, weight: Array | None) -> Array:
        """Calibrate held-out scores, and remember the probabilities of the true classes for prediction sets."""
        raw = torch.from_numpy(scores).softmax(1)
        self.calibration_ = fit_calibration(raw, codes, self.calibrate, sample_weight=weight)
        probabilities = self.calibration_.apply(raw).numpy()
        self.held_out_ = probabilities[np.arange(len(codes)), codes], codes
        if self.calibration_.kind == "none":
            return scores
        return np.asarray(np.log(np.maximum(probabilities, SMALLEST_PROBABILITY)))

    def _probabilities(self, X: Any) -> Array:
        """Calibrated probabilities, from whatever scores the estimator has."""
        scores = torch.from_numpy(self._scores(X))
        return np.asarray(self.calibration_.apply(scores.softmax(1)))

    def _frequencies(self, prior: Any, probabilities: Array) -> Any:
        if isinstance(prior, str):
            _checks.one_of("predict", "prior", prior, ("auto",), otherwise="or frequencies")
            return estimate_prior(probabilities, self.decision_.prior)
        if not isinstance(prior, Mapping):
            return prior
        labels = self.classes_.tolist()
        if set(prior) != set(labels):
            _checks.fail("predict", "prior", f"given for the classes {labels}", list(prior))
        return [prior[label] for label in labels]
