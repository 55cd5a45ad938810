"""Boosted trees trained, selected and decided by one metric, as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Self, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from sklearn.utils.validation import (
    _check_sample_weight,
    check_consistent_length,
    validate_data,
)

from eastward import _checks
from eastward.decisions.offsets import MOST_BAGS
from eastward.decisions.tuning import DecisionOptions, HeldOut
from eastward.estimators.base import DecidingClassifier
from eastward.estimators.boosting import saving
from eastward.estimators.boosting.backends import Backend, Task, make_backend
from eastward.estimators.boosting.columns import Columns
from eastward.estimators.boosting.fitting import Options, fit_trees
from eastward.estimators.boosting.folds import Problem, columns
from eastward.estimators.cross_fitting import (
    check_two_classes,
    class_labels,
    label_codes,
    partition,
)
from eastward.estimators.frames import refuse_repeated_columns

__all__ = ["EASTBoostingClassifier"]

Array: TypeAlias = NDArray[Any]
_FIT = "EASTBoostingClassifier.fit"
MOST_ROUNDS = 1_000_000


class EASTBoostingClassifier(DecidingClassifier):
    r"""Boosted trees whose last rounds and whose decision follow one metric.

    .. math:: \hat y(x) = \arg\max_j \sum_i p_i(x)\,G_{ij}, \qquad p = \operatorname{softmax}(f + a)

    Here f is the library's own cross-entropy model with equal class weights. Then *aligned* rounds of trees, a,
    minimise one minus the soft metric (EAST). The matrix G decides (:func:`eastward.tune_decision`); it is tuned on
    calibrated held-out predictions. Aligned rounds are kept only if cross-validation favours them. Class weights are
    used unless it favours the model without them.

    Parameters
    ----------
    metric : str, Metric or callable, default="f1_macro"
        A name from :func:`eastward.metrics.names`, or a callable from a confusion matrix to a 0-d tensor. Metrics of
        one class ("f1", "precision", ...) mean ``classes_[1]``.
    backend : {"lightgbm", "xgboost"}, default="lightgbm"
        The library that grows the trees.
    n_estimators : int, default=100
        Rounds of cross-entropy.
    learning_rate : float, default=0.1
        Learning rate of all rounds.
    balanced : "auto" or bool, default="auto"
        Whether the cross-entropy model gives classes equal weight. "auto" does so unless cross-validation favours the
        model without weights. For a metric such as accuracy, which counts correct decisions of all classes alike,
        "auto" does so only if cross-validation favours it.
    aligned : "auto" or bool, default="auto"
        Whether aligned rounds follow: True always, False never, "auto" if cross-validation favours them.
    aligned_rounds : int, default=50
        Largest number of aligned rounds; fractions of this number are tried as well.
    temperature : float, default=0.2
        Temperature of the metric's surrogate, in (0, 0.4].
    tune_decision : bool, default=True
        Whether the decision is tuned; otherwise it is the most probable class.
    subject_to : str or sequence of str, optional
        Constraints on the decision, such as ``"recall[fraud] >= 0.9"``; see :func:`eastward.tune_decision`.
    confidence : float, default=0.95
        Confidence of the one-sided bounds on constraints, in (0, 1).
    on_infeasible : {"raise", "best"}, default="raise"
        What happens if no rule satisfies the constraints: an error, or a warning and the rule that comes closest.
    abstain_cost : float, optional
        Cost of leaving a sample undecided, in units of the metric. By default every sample is decided.
    coverage : float, optional
        Share of the samples that must be decided, in (0, 1); the least certain ones may stay undecided.
    abstain_label : object, optional
        What :meth:`predict` returns for an undecided sample. None means -1 for numbers, "abstain" for text and None
        for booleans.
    calibrate : {"auto", "none", "temperature", "vector", "isotonic"}, default="auto"
        How probabilities are calibrated; "auto" takes the simplest map whose held-out log-loss is close to the best.
        See :func:`eastward.decisions.fit_calibration`.
    guard : float or None, default=1.0
        How many standard errors a cross-validated gain must exceed, for a change of weights and for aligned rounds.
        None always takes the better weights, and always keeps aligned rounds.
    cv : int, splitter or iterable of splits, default=5
        Folds for held-out predictions; an integer means stratified, shuffled folds.
    n_bags : int, default=5
        Bootstraps over which the decision is averaged.
    categorical_features : "from_dtype", list or None, default="from_dtype"
        Names or positions of categorical columns. "from_dtype" takes the columns of a data frame that hold categories
        or text.
    backend_params : mapping, optional
        Further parameters by the library's own names, for example ``{"num_leaves": 15}``.
    random_state : int, RandomState or None, default=None
        Seed of the library and of the bootstraps.
    n_jobs : int, optional
        Threads of the library; None means 1, -1 all.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Labels, sorted.
    booster_ : Booster
        The cross-entropy model.
    class_weights_ : ndarray of shape (n_classes,)
        The class weights of the cross-entropy model; ones if it has none.
    aligned_booster_ : Booster or None
        Aligned trees, if they were kept.
    aligned_rounds_ : int
        Number of aligned rounds.
    calibration_ : Calibration
        Turns the models' probabilities into those of :meth:`predict_proba`.
    decision_ : Decision
        Turns :meth:`predict_proba` into :meth:`predict`; ``print`` describes it in words.
    offsets_ : ndarray of shape (n_classes,) or None
        The decision as offsets of log-probabilities with mean zero; None if it is not that simple.
    held_out_ : HeldOut
        Held-out predictions of training rows, for :meth:`decide_by` and :meth:`predict_set`.
    metric_ : Metric
        The metric.
    report_ : dict
        The gain of each step on held-out rows; :meth:`summary` describes it in words.
    n_features_in_, feature_names_in_
        Number and names of the columns of ``X`` in :meth:`fit`; names only if all are strings.

    See Also
    --------
    eastward.TunedDecisionClassifierCV : The decision alone, for any classifier.
    lightgbm_objective, xgboost_objective : The objective alone, for the libraries' own interfaces.

    Notes
    -----
    Missing values are NaN, and trees learn where to send them. New categories count as missing. Aligned trees start at
    held-out scores, because a model is right about nearly all of its training rows, so the metric has no gradient
    there. For prediction they are added to the model of all rows.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(300, weights=[0.85], class_sep=0.7, random_state=0)
    >>> model = EASTBoostingClassifier("f1", n_estimators=20, random_state=0).fit(X, y)
    >>> bool((model.predict(X) == model.decision_.decide(model.predict_proba(X))).all())
    True
    """

    _fitted_part = "trees"

    def __init__(
        self,
        metric: Any = "f1_macro",
        backend: str = "lightgbm",
        *,
        n_estimators: int = 100,
        learning_rate: float = 0.1,
        balanced: bool | str = "auto",
        aligned: bool | str = "auto",
        aligned_rounds: int = 50,
        temperature: float = 0.2,
        tune_decision: bool = True,
        subject_to: Any = None,
        confidence: float = 0.95,
        on_infeasible: str = "raise",
        abstain_cost: float | None = None,
        coverage: float | None = None,
        abstain_label: Any = None,
        calibrate: str = "auto",
        guard: float | None = 1.0,
        cv: Any = 5,
        n_bags: int = 5,
        categorical_features: Any = "from_dtype",
        backend_params: Mapping[str, Any] | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.metric = metric
        self.backend = backend
        self.n_estimators = n_estimators
        self.learning_rate = learning_rate
        self.balanced = balanced
        self.aligned = aligned
        self.aligned_rounds = aligned_rounds
        self.temperature = temperature
        self.tune_decision = tune_decision
        self.subject_to = subject_to
        self.confidence = confidence
        self.on_infeasible = on_infeasible
        self.abstain_cost = abstain_cost
        self.coverage = coverage
        self.abstain_label = abstain_label
        self.calibrate = calibrate
        self.guard = guard
        self.cv = cv
        self.n_bags = n_bags
        self.categorical_features = categorical_features
        self.backend_params = backend_params
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Grow trees on ``X`` and ``y``.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            Numbers, with NaN where a value is missing; a data frame may have categories and text.
        y : array-like of shape (n_samples,)
            Labels.
        sample_weight : array-like of shape (n_samples,), optional
            Used by cross-entropy, the confusion matrix and the tuning; a row of weight zero is left out.

        Returns
        -------
        self
            The fitted classifier.
        """
        refuse_repeated_columns(X, _FIT)
        self._seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        options = self._tree_options()
        if y is None:
            # scikit-learn's checks look for these words.
            message = (
                f"y of {_FIT} must be given: it requires y to be passed, but the target y is None."
            )
            raise ValueError(message)
        features = self._learn_columns(X)
        labels = class_labels(_FIT, y)
        check_consistent_length(features, labels)
        weight = _row_weights(sample_weight, features)
        check_two_classes(_FIT, labels, weight)
        folds = _folds(self.cv, features, labels, weight, self._seed)
        rows = slice(None) if weight is None else np.flatnonzero(weight > 0)
        weight = None if weight is None else weight[rows]
        self._fit_rows(features[rows], labels[rows], weight, folds, options)
        return self

    def _fit_rows(
        self, features: Array, labels: Array, weight: Array | None, folds: Array, options: Options
    ) -> None:
        self.classes_ = np.unique(labels)
        self._check_decision(self.classes_.tolist())
        codes = label_codes(_FIT, self.classes_, labels)
        problem = Problem(
            self._backend(),
            features,
            codes,
            weight,
            folds,
            self._resolved_metric(self.classes_.tolist()),
            len(self.classes_),
        )
        fitted = fit_trees(problem, options)
        self.booster_, self.aligned_booster_ = fitted.base, fitted.aligned
        self.class_weights_, self.score_shifts_ = fitted.class_weights, fitted.shifts
        self.aligned_rounds_, self._steps = fitted.aligned_rounds, fitted.report
        self.held_out_ = HeldOut(fitted.held_out, codes, weight)
        self._decide(self.held_out_, _FIT)

    @classmethod
    def load(cls, path: Any) -> Self:
        """Load a classifier that :meth:`save` wrote."""
        return saving.load(cls, _checks.path("load", "path", path))

    def _save(self, path: Path) -> None:
        saving.save(self, self._backend(), path)

    def __sklearn_is_fitted__(self) -> bool:
        """Whether training has ended."""
        return hasattr(self, "decision_")

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn that missing values are allowed."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        return tags

    def _options(self, classes: list[Any], seed: int) -> DecisionOptions:
        options = super()._options(classes, seed)
        return replace(options, tune=self.tune_decision, n_bags=self.n_bags)

    def _full_report(self, decided: dict[str, Any]) -> dict[str, Any]:
        sentences = [*self._steps["sentences"], *decided["sentences"]]
        return {**super()._full_report(decided), **self._steps, "sentences": sentences}

    def _tree_options(self) -> Options:
        """Check the parameters before anything is trained."""
        caller = "EASTBoostingClassifier"
        for name in ("balanced", "aligned"):
            value = getattr(self, name)
            if not isinstance(value, bool):
                _checks.one_of(caller, name, value, ("auto",), otherwise="True, False")
        _checks.temperature(caller, self.temperature)
        _checks.positive(caller, "learning_rate", self.learning_rate)
        _checks.jobs(caller, self.n_jobs)
        params: Any = self.backend_params
        if params is not None and not isinstance(params, Mapping):
            got = _checks.describe(params)
            _checks.fail(caller, "backend_params", "a mapping, or None", got, error=TypeError)
        counts = {"n_estimators": MOST_ROUNDS, "aligned_rounds": MOST_ROUNDS, "n_bags": MOST_BAGS}
        rounds, aligned_rounds, bags = (
            _checks.whole_number(caller, name, getattr(self, name), at_least=1, at_most=most)
            for name, most in counts.items()
        )
        return Options(
            rounds,
            self.balanced,
            self.aligned,
            aligned_rounds,
            self.temperature,
            None if self.guard is None else _checks.not_negative(caller, "guard", self.guard),
            bags,
            self._seed,
        )

    def _learn_columns(self, X: Any) -> Array:
        if hasattr(X, "shape") and len(X.shape) == 2:
            self._columns = Columns.of(X, self.categorical_features)
        else:
            # For anything but a table, scikit-learn reports what is wrong, or converts nested lists.
            self._columns = Columns({})
        return self._checked(X, reset=True)

    def _features(self, X: Any) -> Array:
        return self._checked(X, reset=False)

    def _checked(self, X: Any, *, reset: bool) -> Array:
        encoded = self._columns.encode(X)
        table: Array = validate_data(
            self, encoded, reset=reset, dtype=np.float64, ensure_all_finite="allow-nan"
        )
        return table

    def _backend(self) -> Backend:
        task = Task(
            len(self.classes_),
            self._columns.categorical,
            float(self.learning_rate),
            self._seed,
            self.n_jobs,
            dict(self.backend_params or {}),
        )
        return make_backend(self.backend, task)

    def _log_probabilities(self, X: Any) -> Array:
        """Compute scores ``(N, C)`` of all trees, up to a constant for each row."""
        features, backend = self._features(X), self._backend()
        scores = columns(backend.raw_scores(self.booster_, features))
        if self.aligned_booster_ is not None:
            scores = scores + columns(backend.raw_scores(self.aligned_booster_, features))
        logs: Array = scores + self.score_shifts_
        return logs


def _row_weights(sample_weight: Any, features: Array) -> Array | None:
    if sample_weight is None:
        return None
    weight: Array = _check_sample_weight(sample_weight, features, dtype=np.float64)
    _checks.weights(_FIT, torch.from_numpy(weight))
    return weight


def _folds(cv: Any, features: Array, labels: Array, weight: Array | None, seed: int) -> Array:
    """Return the fold of each row with positive weight; the folds must be a partition."""
    count = len(labels)
    rows = np.arange(count) if weight is None else np.flatnonzero(weight > 0)
    if isinstance(cv, int):
        features, labels = features[rows], labels[rows]
        count = _checks.whole_number(_FIT, "cv", cv, at_least=2)
        splits = partition(count, features, labels, seed)
        rows = np.arange(len(rows))
        count = len(rows)
    else:
        splits = partition(cv, features, labels)
    folds, times = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=int)
    for number, (_, inside) in enumerate(splits):
        folds[inside] = number
        times[inside] += 1
    if (times[rows] != 1).any():
        got = f"{int((times[rows] != 1).sum())} rows in no fold or in several"
        _checks.fail(
            _FIT, "cv", "a partition of the rows", got, "Use StratifiedKFold, for example."
        )
    numbers: Array = np.unique(folds[rows], return_inverse=True)[1].astype(np.int64)
    return numbers
