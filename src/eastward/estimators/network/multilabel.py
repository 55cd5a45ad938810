"""Decisions for labels that do not exclude each other: one threshold for each."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from eastward import _checks
from eastward.decisions._inputs import row_weight
from eastward.decisions.multilabel import multilabel_thresholds
from eastward.decisions.tuning import HeldOut
from eastward.estimators.base import DecidingClassifier
from eastward.estimators.cross_fitting import check_length
from eastward.estimators.network import preparation
from eastward.metrics import Metric
from eastward.training import Rows
from eastward.training.scoring import hard_table

__all__ = ["MultilabelDecisions"]


class MultilabelDecisions(DecidingClassifier):
    """A classifier with a tuned decision, whose targets may be indicators of several labels.

    With ``multilabel_`` there is no decision matrix. Each label has its own threshold, stored as an offset of its
    log-odds. Everything else is as in :class:`~eastward.estimators.base.DecidingClassifier`.
    """

    multilabel_: bool
    recipe: str
    tune_decision: bool | str
    _label_offsets: NDArray[Any]

    def raw_predict_proba(self, X: Any) -> NDArray[Any]:
        """Predict the networks' mean probabilities before calibration.

        Returns
        -------
        ndarray
            ``(n_samples, n_classes)``.
        """
        check_is_fitted(self)
        scores = torch.from_numpy(self._log_probabilities(X))
        return (torch.sigmoid(scores) if self.multilabel_ else torch.softmax(scores, dim=1)).numpy()

    def predict_proba(self, X: Any) -> NDArray[Any]:
        """Predict calibrated probabilities; for multilabel targets, the networks' mean for each label.

        Returns
        -------
        ndarray
            ``(n_samples, n_classes)``.
        """
        check_is_fitted(self)
        return self.raw_predict_proba(X) if self.multilabel_ else self._probabilities(X)

    def decision_function(self, X: Any) -> NDArray[Any]:
        """Compute the value of each decision; for two classes the difference, positive for ``classes_[1]``.

        Returns
        -------
        ndarray
            ``(n_samples,)`` or ``(n_samples, n_classes)``. For multilabel targets, log-odds that are positive for a
            predicted label.
        """
        check_is_fitted(self)
        if self.multilabel_:
            return np.asarray(self._log_probabilities(X) + self._label_offsets)
        return super().decision_function(X)

    def predict(self, X: Any, prior: Any = None) -> NDArray[Any]:
        """Predict the labels of ``X``.

        Parameters
        ----------
        X : array-like
            Samples.
        prior : array-like of shape (n_classes,), mapping or "auto", optional
            Class frequencies of these samples, if they differ from those of training.

        Returns
        -------
        ndarray
            ``(n_samples,)``, or ``(n_samples, n_labels)`` indicators.
        """
        check_is_fitted(self)
        if self.multilabel_:
            return (self.decision_function(X) > 0).astype(int)
        return super().predict(X, prior)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Compute the metric of the predictions, negated if lower is better.

        Parameters
        ----------
        X : array-like
            Samples.
        y : array-like
            ``(n_samples,)`` true labels, or ``(n_samples, n_labels)`` indicators.
        sample_weight : array-like of shape (n_samples,), optional
            Weights of the samples.

        Returns
        -------
        float
            The metric. Undecided samples count as correct, minus ``abstain_cost`` times their share.
        """
        check_is_fitted(self)
        if not self.multilabel_:
            return super().score(X, y, sample_weight)
        caller = f"{type(self).__name__}.score"
        scores = torch.from_numpy(self.decision_function(X))
        targets = preparation.known_labels(y, self.classes_, argument="y")
        check_length(caller, targets, scores)
        weights = row_weight(caller, sample_weight, scores)
        rows = Rows(None, targets, None, [], [], len(self.classes_), multilabel=True)
        value = float(self.metric_(hard_table(scores, targets, weights, rows)))
        return value if self.metric_.higher_is_better else -value

    @property
    def offsets_(self) -> NDArray[Any] | None:
        """The decision as offsets of log-probabilities or log-odds; None if it is not that simple."""
        return self._label_offsets if self.multilabel_ else self.decision_.offsets_

    def _check_decision_options(self, classes: NDArray[Any]) -> None:
        """Check the options of the decision before anything is trained."""
        if not self.multilabel_:
            self._check_decision(classes.tolist())
            return
        for name in ("subject_to", "abstain_cost", "coverage"):
            if getattr(self, name) is not None:
                advice = "Tune one label alone with eastward.tune_decision."
                got = repr(getattr(self, name))
                _checks.fail("EASTClassifier.fit", name, "None for multilabel targets", got, advice)

    def _decide(self, held: HeldOut | None, caller: str) -> None:
        if not self.multilabel_:
            super()._decide(held, caller)
            return
        self.metric_ = self._resolved_metric(self.classes_.tolist())
        size = len(self.classes_)
        tune = self.recipe == "auto" if self.tune_decision == "auto" else bool(self.tune_decision)
        self._label_offsets = np.zeros(size)
        words = "Each label is predicted if its probability is above one half."
        rows = 0 if held is None else len(held.codes)
        if tune and held is not None:
            self._label_offsets = _label_thresholds(held, self.metric_)
            words = "Each label has a threshold of its own, tuned on held-out rows."
        found = {"metric": self.metric_.name, "held_out_rows": rows, "sentences": [words]}
        self.report_ = self._full_report(found)


def _label_thresholds(held: HeldOut, metric: Metric) -> NDArray[Any]:
    """Tune offsets of the log-odds of labels that do not exclude each other."""
    found: NDArray[Any] = multilabel_thresholds(
        held.scores, held.codes, metric, sample_weight=held.weight
    ).numpy()
    return found
