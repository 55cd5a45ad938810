"""An ensemble of networks and trees that decides by one metric, as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from eastward import _checks
from eastward.decisions.tuning import DecisionOptions
from eastward.estimators.base import DecidingClassifier
from eastward.estimators.ensemble import fitting, saving, streaming
from eastward.estimators.ensemble.votes import log_mean
from eastward.estimators.frames import Encoder, checked_table, refuse_repeated_columns
from eastward.estimators.network.streaming import is_stream

__all__ = ["EASTEnsembleClassifier"]

PREDICTION_ROWS = 16_384


class EASTEnsembleClassifier(DecidingClassifier):
    r"""Cross-fitted networks and trees, averaged, with one decision tuned for the metric.

    .. math:: \hat y(x) = \arg\max_j \sum_i p_i(x)\,G_{ij}, \qquad p(x) = \sum_m v_m\, p_m(x)

    Networks and trees make different mistakes, so their mean is better than either. Each predicts every training row
    by models that were not trained on it. These predictions calibrate the mean and tune the decision matrix :math:`G`
    for the metric (:func:`eastward.tune_decision`). On tables this is the library's strongest classifier, and the one
    to try first.

    Parameters
    ----------
    metric : str, Metric or callable, default="f1_macro"
        A name from :func:`eastward.metrics.names`, or any callable from a confusion matrix to a 0-d tensor. Metrics of
        one class ("f1", "precision", ...) mean ``classes_[1]``.
    parts : sequence of str, default=("networks", "lightgbm", "random_forest")
        The models that vote; "extra_trees" is also available. With few rows, networks have about half of the votes and
        trees share the rest. With more held-out rows, the votes depend on how well each part predicts them.
    n_folds : int, default=5
        Number of folds of networks and LightGBM; a forest holds out the rows that a tree did not draw. Above 50 000
        rows, all parts hold out one common share of the rows instead.
    aligned : bool, default=False
        Whether the metric is also the loss in a last stage of the networks, as in :class:`~eastward.EASTClassifier`.
    tune_decision : bool, default=True
        Whether the decision is tuned; otherwise it is the most probable class. A tuned decision still predicts every
        class that the metric counts (:func:`eastward.decisions.keep_classes`).
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
    label_share : float in [0, 1], optional
        Weight of the labels when the decision is tuned; the ensemble's probabilities have the rest of the weight. 1
        uses the labels alone, 0 the probabilities alone. The default is a quarter for two classes, and zero for more.
    n_bags : int, default=5
        Bootstraps over which the decision is averaged.
    network_options : mapping, optional
        Parameters of the networks' :class:`~eastward.EASTClassifier`, such as ``{"hidden": (512, 256, 128)}``.
    metric_options : mapping, optional
        Options of the metric, such as ``{"cost": table}``.
    n_jobs : int, optional
        Threads of the trees; None means one.
    random_state : int, RandomState or None, default=None
        Seed. Equal seeds and data give equal models on the same machine.

    Attributes
    ----------
    classes_ : ndarray
        Labels, sorted.
    calibration_ : Calibration
        Turns the models' probabilities into those of :meth:`predict_proba`.
    decision_ : Decision
        Turns :meth:`predict_proba` into :meth:`predict`; ``print`` describes it in words.
    offsets_ : ndarray of shape (n_classes,) or None
        The decision as offsets of log-probabilities with mean zero; None if it is not that simple.
    held_out_ : HeldOut
        Held-out predictions of training rows, for :meth:`decide_by` and :meth:`predict_set`.
    report_ : dict
        The metric on held-out rows: of each part, of their mean, and with the decision. :meth:`summary` describes it
        in words.
    parts_ : dict
        The fitted parts by name.
    votes_ : dict
        The share of each part in the mean, by name.
    folds_ : ndarray
        The fold that held out each training row of positive weight; -1 for a row that all models trained on, such as
        the only row of a class.
    metric_ : Metric
        The metric with its options.
    n_features_in_, feature_names_in_
        Number and names of the columns of ``X`` in :meth:`fit`; names only if all are strings.

    Notes
    -----
    Text columns (in a DataFrame) become indicators of their 30 most frequent values. Dates become days, weekday and
    hour. LightGBM's trees have a branch for missing values; for the other parts, a missing value becomes the column's
    median and an indicator.

    From a large table, each part learns from a sample: networks from at most 400 000 rows, LightGBM from 500 000, and
    forests from 100 000. A sample keeps up to 10 000 rows of every class, and weights restore the frequencies.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> quick = {"hidden": (16,), "max_epochs": 20}
    >>> model = EASTEnsembleClassifier("f1_macro", network_options=quick, random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.9)
    True
    """

    _fitted_part = "mean of the parts"

    def __init__(
        self,
        metric: Any = "f1_macro",
        *,
        parts: Sequence[str] = ("networks", "lightgbm", "random_forest"),
        n_folds: int = 5,
        aligned: bool = False,
        tune_decision: bool = True,
        subject_to: Any = None,
        confidence: float = 0.95,
        on_infeasible: str = "raise",
        abstain_cost: float | None = None,
        coverage: float | None = None,
        abstain_label: Any = None,
        calibrate: str = "auto",
        label_share: float | None = None,
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
        self.subject_to = subject_to
        self.confidence = confidence
        self.on_infeasible = on_infeasible
        self.abstain_cost = abstain_cost
        self.coverage = coverage
        self.abstain_label = abstain_label
        self.calibrate = calibrate
        self.label_share = label_share
        self.n_bags = n_bags
        self.network_options = network_options
        self.metric_options = metric_options
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, groups: Any = None) -> Self:
        """Fit all parts on ``X`` and ``y``, and tune the decision on held-out rows.

        Parameters
        ----------
        X : array-like, DataFrame or path
            ``(n_samples, n_features)``: numbers, or a frame that may have text columns; NaN is allowed. A path names a
            Parquet file, or a folder of them, which may be larger than memory. Then one network learns from all rows,
            trees from a sample.
        y : array-like or str
            ``(n_samples,)`` labels; the name of the target column with a path.
        sample_weight : array-like or str, optional
            ``(n_samples,)``; a row of weight zero is left out. With a path, the name of the column of weights.
        groups : array-like, optional
            ``(n_samples,)``: rows with the same value stay in one fold, such as rows of one patient.

        Returns
        -------
        self
            The fitted classifier.
        """
        fitting.check_parameters(self)
        refuse_repeated_columns(X, type(self).__name__)
        self._seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        if is_stream(X):
            return self._fit_stream(streaming.fit_stream(self, X, y, sample_weight, groups))
        table = checked_table(self, X, reset=True)
        rows = fitting.training_rows(table, y, sample_weight, groups, self._seed)
        self._check_decision(rows.classes.tolist())
        metric = self._resolved_metric(rows.classes.tolist())
        self._take(fitting.fit_parts(self, rows, metric), rows.classes, rows.encoder)
        return self

    def _fit_stream(self, done: streaming.StreamedFit) -> Self:
        """Fit on Parquet files, and store the names of their columns for scikit-learn."""
        self.n_features_in_ = done.encoder.width
        if done.names is not None:
            self.feature_names_in_ = done.names
        self._take(done.found, done.classes, done.encoder)
        return self

    def _take(self, found: fitting.FittedParts, classes: NDArray[Any], encoder: Encoder) -> None:
        """Store the fitted parts, and tune the decision on held-out rows."""
        self.classes_, self.encoder_ = classes, encoder
        self.parts_, self.folds_, self.held_out_ = found.parts, found.folds, found.held_out
        self._parts_held_out, self.votes_ = found.by_part, found.votes
        self._decide(self.held_out_, "EASTEnsembleClassifier.fit")

    @classmethod
    def load(cls, path: Any) -> Self:
        """Load a classifier that :meth:`save` wrote."""
        return saving.load(cls, _checks.path("load", "path", path))

    def _save(self, path: Path) -> None:
        saving.save(self, path)

    def __sklearn_is_fitted__(self) -> bool:
        """Whether the decision, the last step of fit, has been tuned."""
        return hasattr(self, "decision_")

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn that missing values and text columns are allowed."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        return tags

    def _options(self, classes: list[Any], seed: int) -> DecisionOptions:
        return replace(
            super()._options(classes, seed),
            tune=self.tune_decision,
            label_share=self.label_share,
            n_bags=self.n_bags,
            averaged=True,
        )

    def _full_report(self, decided: dict[str, Any]) -> dict[str, Any]:
        """Add the metric of each part to the report; a loaded model no longer has their held-out rows."""
        report = super()._full_report(decided)
        if self.held_out_ is not None and self._parts_held_out is not None:
            by_part = self._parts_held_out
            found = fitting.part_scores(self.metric_, self.held_out_, by_part, len(self.classes_))
            report["parts"] = found
            alone = [
                {"name": name.replace("_", " "), "argmax": value, "tuned": None}
                for name, value in found.items()
                if name != "mean"
            ]
            report["stages"] = [*alone, *report["stages"]]
            told = ", ".join(f"{name} {value:.4f}" for name, value in found.items())
            line = f"Held-out {self.metric_.name} of the most probable class: {told}."
            shares = ", ".join(f"{name} {share:.0%}" for name, share in self.votes_.items())
            report["sentences"] = [line, f"Votes: {shares}.", *decided["sentences"]]
        return report

    def _log_probabilities(self, X: Any) -> NDArray[Any]:
        """Compute logarithms of the mean probabilities, ``(n, C)``."""
        raw = self.encoder_.raw(checked_table(self, X, reset=False))
        blocks = []
        for start in range(0, len(raw), PREDICTION_ROWS):
            block = raw[start : start + PREDICTION_ROWS]
            filled = self.encoder_.filled(block)
            logs = {
                name: part.log_probabilities(block, filled) for name, part in self.parts_.items()
            }
            blocks.append(log_mean(logs, self.votes_))
        return np.concatenate(blocks)
