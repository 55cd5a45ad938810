"""Convex calibrated surrogates for the multilabel F-measure, with a linear model (Zhang et al.)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from eastward import _checks
from eastward.baselines.adversarial_game import payoff_factors

__all__ = ["ConvexCalibratedFBeta"]

Array = NDArray[Any]


class ConvexCalibratedFBeta(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    r"""A linear classifier that is consistent for the F-beta of each sample's set of labels.

    With L labels, F-beta of a sample depends on only :math:`L^2 + 1` probabilities: that label j is present *and* k
    labels are, and that none is. A logistic regression, which is a convex surrogate, estimates each of them. The set
    of labels with the highest expected F-beta then follows in closed form.

    .. math::
        \hat y(x) = \arg\max_{\hat y} \sum_{j \in \hat y} \sum_k
        \frac{(1 + \beta^2)\, \Pr(y_j = 1, |y| = k \mid x)}{\beta^2 k + |\hat y|}

    Parameters
    ----------
    beta : float, default=1.0
        Below 1 favours precision, above 1 recall.
    regularization : float, default=1e-4
        Weight of the squared norm of the coefficients, beside the mean logistic loss.
    max_iter : int, default=200
        Iterations of each logistic regression.

    Attributes
    ----------
    classes_ : ndarray
        The classes, or the indices of the labels.
    multilabel_ : bool
        Whether the targets were an indicator matrix.
    n_iter_ : int
        Iterations of the slowest regression.
    problems_ : list
        A tuple ``(label, number of labels, LogisticRegression or constant probability)`` for each problem; label -1 is
        *no label*.

    Notes
    -----
    The F-measure here is that of a sample's labels, averaged over samples, not that of a class over samples. With
    class indices every sample has exactly one label, so the F-measure is 1 or 0 and only the problems for k = 1
    remain. The classifier is then one-vs-rest logistic regression, which is consistent for accuracy. The papers'
    tables report that classifier.

    References
    ----------
    Zhang, Ramaswamy and Agarwal, *Convex calibrated surrogates for the multi-label F-measure*, ICML 2020; Dembczynski
    et al., *An exact algorithm for F-measure maximization*, NeurIPS 2011.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> ConvexCalibratedFBeta().fit(X, [0, 0, 1, 1]).predict(X)
    array([0, 0, 1, 1])
    """

    def __init__(
        self, beta: float = 1.0, *, regularization: float = 1e-4, max_iter: int = 200
    ) -> None:
        self.beta = beta
        self.regularization = regularization
        self.max_iter = max_iter

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> ConvexCalibratedFBeta:
        """Fit one logistic regression for each label and number of labels that occur together.

        Parameters
        ----------
        X : array of shape (N, F)
            Features, of similar scale.
        y : array of shape (N,) or (N, L)
            Classes, or zeros and ones.
        sample_weight : array of shape (N,), optional
            Weights of the samples.

        Returns
        -------
        ConvexCalibratedFBeta
            The fitted classifier.
        """
        caller = "ConvexCalibratedFBeta"
        _checks.positive(caller, "beta", self.beta)
        _checks.positive(caller, "regularization", self.regularization)
        _checks.whole_number(caller, "max_iter", self.max_iter, at_least=1)
        X, y = validate_data(self, X, y, multi_output=True, dtype=np.float64)
        labels = self._labels(y)
        totals = labels.sum(1)
        self.problems_ = [(-1, 0, self._probability(X, totals == 0, sample_weight))]
        for count in np.unique(totals[totals > 0]):
            for label in range(labels.shape[1]):
                present = (labels[:, label] == 1) & (totals == count)
                self.problems_.append(
                    (label, int(count), self._probability(X, present, sample_weight))
                )
        models = [model for _, _, model in self.problems_ if not isinstance(model, float)]
        self.n_iter_ = max(int(model.n_iter_.max()) for model in models)
        return self

    def _labels(self, y: Array) -> Array:
        """Return zeros and ones ``(N, L)``; classes become one column each."""
        check_classification_targets(y)
        if y.ndim == 2 and y.shape[1] == 1:
            y = column_or_1d(y, warn=True)
        self.multilabel_ = y.ndim == 2
        if not self.multilabel_:
            self.classes_, index = np.unique(y, return_inverse=True)
            if len(self.classes_) < 2:
                got = f"one class, {self.classes_[0]!r}"
                _checks.fail("ConvexCalibratedFBeta", "y", "of two or more classes", got)
            return np.eye(len(self.classes_), dtype=int)[index]
        if not np.isin(y, (0, 1)).all():
            got = f"values {np.unique(y)[:5].tolist()}"
            _checks.fail("ConvexCalibratedFBeta", "y", "zeros and ones", got)
        self.classes_ = np.arange(y.shape[1])
        return y.astype(int)

    def _probability(self, X: Array, present: Array, sample_weight: Any) -> Any:
        """Model the probability of ``present``; a constant if it is always false or always true."""
        if present.all() or not present.any():
            return float(present[0])
        # scikit-learn adds half the squared norm to C times the sum of losses
        model = LogisticRegression(C=1 / (2 * self.regularization * len(X)), max_iter=self.max_iter)
        return model.fit(X, present, sample_weight=sample_weight)

    def joint_probabilities(self, X: Any) -> tuple[Array, Array]:
        """Estimate the probabilities of *no label*, ``(N,)``, and of *label j among k*, ``(N, L, L)`` from k = 1 on."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float64)
        size = len(self.classes_)
        none, joint = np.zeros(len(X)), np.zeros((len(X), size, size))
        for label, count, model in self.problems_:
            constant = isinstance(model, float)
            probability = np.full(len(X), model) if constant else model.predict_proba(X)[:, 1]
            if label < 0:
                none = probability
            else:
                joint[:, label, count - 1] = probability
        return none, joint

    def predict(self, X: Any) -> Array:
        """Predict classes ``(N,)``, or sets of labels as zeros and ones ``(N, L)``."""
        none, joint = self.joint_probabilities(X)
        if not self.multilabel_:
            chosen: Array = self.classes_[joint[:, :, 0].argmax(1)]
            return chosen
        return best_label_sets(none, joint, float(self.beta))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags


def best_label_sets(none: Array, joint: Array, beta: float) -> Array:
    """Find the sets of highest expected F-beta, as zeros and ones ``(N, L)``.

    Parameters
    ----------
    none : ndarray
        Probability that no label is present, ``(N,)``.
    joint : ndarray
        Probability that label j is present and that k labels are, ``(N, L, L)``, k from 1 on.
    beta : float
        The beta of F-beta, which is 1 if neither truth nor prediction has a label.

    Returns
    -------
    ndarray
        ``(N, L)``.

    Examples
    --------
    >>> import numpy as np
    >>> best_label_sets(np.zeros(1), np.array([[[0.5, 0.0], [0.5, 0.0]]]), 1.0)
    array([[1, 1]])
    """
    size = joint.shape[1]
    # gain[n, j, l]: what label j adds to the expected score of a set of l labels
    gain = joint @ payoff_factors(size, beta).T
    order = np.argsort(-gain, axis=1, kind="stable")
    descending = np.take_along_axis(gain, order, axis=1)
    sums = np.cumsum(descending, axis=1)
    expected = np.concatenate([none[:, None], np.diagonal(sums, axis1=1, axis2=2)], axis=1)
    lengths = expected.argmax(1)
    sets = np.zeros((len(none), size), dtype=int)
    for row, length in enumerate(lengths):
        if length:
            sets[row, order[row, :length, length - 1]] = 1
    return sets
