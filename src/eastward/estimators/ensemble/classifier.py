"""Networks and trees that vote, and decide by one metric, as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from eastward import _checks
from eastward.confusion import hard_confusion
from eastward.estimators.ensemble import fitting, saving
from eastward.estimators.ensemble.encoding import checked_table
from eastward.estimators.network import preparation

__all__ = ["EASTEnsembleClassifier"]

PREDICTION_ROWS = 16_384


class EASTEnsembleClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn is untyped
    r"""Cross-fitted networks and trees, averaged, with one decision tuned for the metric.

    .. math:: \hat y(x) = \arg\max_j \Big(\log \sum_m v_m\, p_{mj}(x) + b_j\Big)

    Networks and trees err in different places, so their mean is better than either; and each predicts every training
    row by models that did not see it, so that the offsets :math:`b` can be tuned for the metric on honest predictions
    of all rows. A few rare rows decide what is best for the labels of one sample; so the labels are mixed with what the
    ensemble itself expects, which varies far less. On tables this is the strongest of the library's recipes, and the
    one to try first.

    Parameters
    ----------
    metric : str, Metric or callable, default="f1_macro"
        A name from :func:`eastward.metrics.names`, or any callable from a confusion matrix to a 0-d tensor. Metrics of
        one class ("f1", "precision", ...) mean ``classes_[1]``.
    parts : sequence of str, default=("networks", "lightgbm", "random_forest")
        Who votes; there are also "extra_trees". Networks have half of the votes, the kinds of trees share the rest.
    n_folds : int, default=5
        Folds of networks and of LightGBM; forests hold out what a tree did not draw.
    aligned : bool, default=False
        Whether the metric is also the loss in a last stage of the networks, as in :class:`~eastward.EASTClassifier`.
    tune_decision : bool, default=True
        Whether offsets are tuned; otherwise the most probable class is predicted. No class is given up that the metric
        counts (:func:`eastward.decisions.keep_classes`).
    label_share : float in [0, 1], default=0.25
        Share of the labels in what the offsets are tuned for; the rest is what the ensemble itself expects. 1 uses the
        labels alone, as :class:`~eastward.TunedDecisionClassifierCV` does; 0 trusts the probabilities.
    n_bags : int, default=5
        Bootstraps that the offsets are averaged over.
    network_options : mapping, optional
        Parameters of the networks' :class:`~eastward.EASTClassifier`, such as ``{"hidden": (512, 256, 128)}``.
    metric_options : mapping, optional
        Options of the metric, such as ``{"cost": table}``.
    n_jobs : int, optional
        Threads of the trees; None means one.
    random_state : int, RandomState or None, default=None
        Same value, data and machine: same model.

    Attributes
    ----------
    classes_ : ndarray
        Labels, sorted.
    offsets_ : ndarray
        Added to the log-probabilities before the arg max.
    report_ : dict
        The metric on held-out rows: of each part, of their mean, and with the tuned decision.
    parts_ : dict
        The fitted parts by name.
    folds_ : ndarray
        Who held each training row (of positive weight) out; -1 for the only row of a class.
    metric_ : Metric
        The metric with its options.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    Columns of words (in a DataFrame) become indicators of their 30 most frequent values. Missing values are a branch of
    LightGBM's trees; for the other parts they become the column's median and an indicator.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> quick = {"hidden": (16,), "max_epochs": 20}
    >>> model = EASTEnsembleClassifier("f1_macro", network_options=quick, random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.9)
    True
    """

    def __init__(
        self,
        metric: Any = "f1_macro",
        *,
        parts: Sequence[str] = ("networks", "lightgbm", "random_forest"),
        n_folds: int = 5,
        aligned: bool = False,
        tune_decision: bool = True,
        label_share: float = 0.25,
        n_bags: int = 5,
        network_options: Mapping[str, Any] | None = None,
        metric_options: Mapping[str, Any] | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.metric = metric
        self.parts = parts
        self.n_folds = n_folds
        self.aligned = aligned
        self.tune_decision = tune_decision
        self.label_share = label_share
        self.n_bags = n_bags
        self.network_options = network_options
        self.metric_options = metric_options
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, groups: Any = None) -> Self:
        """Fit all parts on ``X`` and ``y``, and tune the decision on what they held out.

        Parameters
        ----------
        X : array-like or DataFrame
            ``(n_samples, n_features)``: numbers, or a frame that also has columns of words; NaN is allowed.
        y : array-like
            ``(n_samples,)`` labels.
        sample_weight : array-like, optional
            ``(n_samples,)``; a row of weight zero does not exist.
        groups : array-like, optional
            ``(n_samples,)``: rows with the same value share a fold, such as rows of one patient.

        Returns
        -------
        self
        """
        fitting.check_parameters(self)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        fitting.fit(self, X, y, sample_weight, seed, groups)
        return self

    def decide_by(self, metric: Any, metric_options: Mapping[str, Any] | None = None) -> Self:
        """Tune the decision for another metric; nothing is fitted again.

        Returns
        -------
        self
            With ``metric``, ``metric_options``, ``offsets_`` and ``report_`` changed.
        """
        check_is_fitted(self)
        if self.held_out_ is None:
            advice = "Call decide_by before save, or fit again."
            caller = "EASTEnsembleClassifier.decide_by"
            _checks.fail(caller, "self", "a model that was fitted here", "a loaded one", advice)
        self.metric, self.metric_options = metric, metric_options
        fitting.decide(self)
        return self

    def predict_proba(self, X: Any) -> NDArray[Any]:
        """Class probabilities with the decision folded in: their arg max is :meth:`predict`.

        Returns
        -------
        ndarray
            ``(n_samples, n_classes)``, rows sum to one.
        """
        return torch.from_numpy(self._scores(X)).softmax(1).numpy()

    def raw_predict_proba(self, X: Any) -> NDArray[Any]:
        """Mean probabilities of the parts, without the tuned offsets.

        Returns
        -------
        ndarray
            ``(n_samples, n_classes)``, rows sum to one.
        """
        return torch.from_numpy(self._scores(X) - self.offsets_).softmax(1).numpy()

    def decision_function(self, X: Any) -> NDArray[Any]:
        """Scores whose largest one is the decision; for two classes one number, positive for the second.

        Returns
        -------
        ndarray
            ``(n_samples,)`` or ``(n_samples, n_classes)``.
        """
        scores = self._scores(X)
        return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(self, X: Any) -> NDArray[Any]:
        """Labels of ``X``.

        Returns
        -------
        ndarray
            ``(n_samples,)``.
        """
        chosen = self.predict_proba(X).argmax(axis=1)
        labels: NDArray[Any] = self.classes_[chosen]
        return labels

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The target metric of the predictions; negative for metrics where lower is better.

        Returns
        -------
        float
        """
        predicted = torch.from_numpy(self.predict_proba(X).argmax(axis=1))
        targets = preparation.known_labels(y, self.classes_, argument="y")
        weight = None if sample_weight is None else torch.as_tensor(np.asarray(sample_weight))
        size = len(self.classes_)
        table = hard_confusion(predicted, targets, num_classes=size, sample_weight=weight)
        value = float(self.metric_(table))
        return value if self.metric_.higher_is_better else -value

    def save(self, path: Any) -> None:
        """Write the fitted classifier to the folder ``path``: numbers, names and trees, nothing that executes."""
        saving.save(self, Path(path))

    @classmethod
    def load(cls, path: Any) -> Self:
        """A classifier that :meth:`save` wrote."""
        return saving.load(cls, Path(path))

    def __sklearn_is_fitted__(self) -> bool:
        """Whether the decision has been tuned, which comes last."""
        return hasattr(self, "offsets_")

    def __sklearn_tags__(self) -> Any:
        """Missing values and columns of words are welcome."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        return tags

    def _scores(self, X: Any) -> NDArray[Any]:
        """Logarithms of the mean probabilities plus offsets, ``(n, C)``."""
        check_is_fitted(self)
        raw = self.encoder_.raw(checked_table(self, X, reset=False))
        blocks = []
        for start in range(0, len(raw), PREDICTION_ROWS):
            block = raw[start : start + PREDICTION_ROWS]
            filled = self.encoder_.filled(block)
            logs = {
                name: part.log_probabilities(block, filled) for name, part in self.parts_.items()
            }
            blocks.append(fitting.log_mean(logs))
        scores: NDArray[Any] = np.concatenate(blocks) + self.offsets_
        return scores
