"""A network that is trained, selected and decided by one metric, as a scikit-learn estimator."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import torch
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from torch import Tensor

from eastward import _checks
from eastward._random_numbers import seeded
from eastward.decisions.tuning import DecisionOptions, HeldOut
from eastward.estimators.frames import refuse_repeated_columns
from eastward.estimators.network import construction, fitting, saving
from eastward.estimators.network.frequencies import frequency_sentence, with_frequencies
from eastward.estimators.network.multilabel import MultilabelDecisions
from eastward.estimators.network.stage_report import choose_stage, with_class_names
from eastward.training import (
    Callback,
    LoaderBatches,
    Rows,
    StackedMLP,
    TrainingResult,
)
from eastward.training.batches import take

__all__ = ["EASTClassifier"]

PREDICTION_ROWS = 65_536
# For this many rows, the activations of the default network fit the processor's cache, which saves a third of the
# time.
CACHED_ROWS = 1024


class EASTClassifier(MultilabelDecisions):
    """A neural network classifier whose loss, selection and decision are one metric.

    By default five networks are cross-fitted as one batched graph. They start with cross-entropy. In the next stage
    the metric itself is the loss (EAST), starting at the best decision for the metric. Held-out rows decide whether
    that stage is kept. Their predictions also calibrate the probabilities and tune the decision
    (:func:`eastward.tune_decision`). :meth:`predict` returns the decision and :meth:`predict_proba` the probabilities;
    the two need not agree.

    Parameters
    ----------
    metric : str, Metric or callable, default="f1_macro"
        A name from :func:`eastward.metrics.names`, or any callable from a confusion matrix to a 0-d tensor.
    module : None, class, callable or Module, default=None
        The network: None for an MLP with ``hidden`` widths; a class or factory ``(n_features, n_classes) -> Module``;
        or a module, which is copied and whose weights are the start. It returns logits. With a module, X may have any
        rank (images, sequences) or be a dictionary of tensors.
    hidden : sequence of int, default=(512, 256, 128)
        Hidden layers of the default network.
    recipe : {"auto", "paper", "btg", "cross_entropy", "focal"}, default="auto"
        The stages of training. "auto": cross-entropy, then the metric. "paper": EAST as published, from scratch and
        cooled on plateaus. "btg": Bridging the Gap, for two classes. "cross_entropy" and "focal": only that loss. See
        :func:`eastward.training.recipe_stages`.
    n_folds : int or "auto", default="auto"
        Number of cross-fitted networks; 1 uses a single validation split. "auto" is 5 for tables of up to 50 000 rows
        with ``recipe="auto"``, otherwise 1. With a module of your own "auto" is 1. Five such modules are trained one
        after the other and take five times as long, which is often worth it. A factory gives each its own initial
        weights.
    max_epochs : int, default=200
        Largest number of epochs in a stage.
    batch_size : int or "auto", default="auto"
        "auto" grows with the data, 32 to 4096.
    learning_rate : float, default=1e-3
        Learning rate of AdamW; the aligned stage uses a fifth.
    dropout : float, default=0.25
        Dropout of the default network.
    patience : int, default=15
        Epochs without a better validation loss before a network stops (or cools, under "paper").
    aligned : bool, default=True
        Whether ``recipe="auto"`` has its metric stage, which is kept if held-out rows prefer it.
    refit : bool, default=False
        For one network (``n_folds=1``) with ``recipe="auto"``. The held-out rows stop cross-entropy and tune the
        decision. Then training continues on all rows, first by cross-entropy and then by the metric. This takes half
        as long again. ``report_`` describes the network before that step: judge the final one by rows of your own.
    tune_decision : bool or "auto", default="auto"
        Whether the decision is tuned on held-out predictions; otherwise it is the most probable class. "auto" tunes it
        with ``recipe="auto"``, and if constraints or abstention need it. A tuned decision still predicts every class
        that the metric counts (:func:`eastward.decisions.keep_classes`).
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
    temperature, cooling_rate, max_cold_steps : float, float, int
        Annealing of ``recipe="paper"``: the first temperature (default 0.2), the factor of one cooling (0.8), and the
        number of coolings without a gain before training ends (3).
    validation_fraction : float, default=0.2
        Share of rows held out when ``n_folds`` is 1.
    class_weight : None, "balanced" or mapping, default=None
        Weights of classes in the loss and the confusion matrix.
    prior : None, "balanced", mapping or array-like, default=None
        Class frequencies that the model is meant for: those of training (None), equal ones ("balanced", the usual test
        of long-tailed learning), or a number for each class, by label or in the order of ``classes_``. Networks learn
        from unchanged rows and are then shifted (``+ log prior - log frequency``). The aligned stage, the held-out
        values, the decision and :meth:`predict_proba` are for these frequencies.
    standardize : bool or "auto", default="auto"
        Centre and scale features; "auto" does so for the default network.
    bins : int or "auto", default="auto"
        Number of pieces into which each feature is cut at its quantiles, as further inputs of the default network.
        They help it to fit curves to few rows. 0 means none; "auto" is 8 for tables of up to 5000 rows.
    metric_options : mapping, optional
        Options of the metric, such as ``{"beta": {"fraud": 5}}`` or ``{"cost": table}``.
    checkpoint : path, optional
        Folder for checkpoints; ``fit`` continues an unfinished run of the same data and parameters there.
    accelerator, devices, strategy, precision
        Options of Lightning Fabric. With ``devices=2`` or more (``strategy="ddp"``), that many processes train
        together, with the steps and the gradient of one; ``batch_size`` counts the rows of all. Inside ``torchrun``
        its processes are used. In a script, call ``fit`` below ``if __name__ == "__main__":``.
    accumulate : None or "exact", default=None
        With "exact", stages that minimise the metric take one step for ``effective_batch`` rows. These pass through
        the network twice, ``batch_size`` at a time, and the gradient is that of all rows together.
    effective_batch : int, optional
        Rows of one exact step; by default eight times the batch size.
    loggers : Logger or sequence, optional
        Fabric loggers (TensorBoard, CSV, MLflow).
    callbacks : sequence of Callback, optional
        Further callbacks of the training loop.
    random_state : int, RandomState or None, default=None
        Seed. Equal seeds and data give equal models on the same machine.
    verbose : int, default=0
        1 shows progress.

    Attributes
    ----------
    classes_ : ndarray
        Labels (label columns for multilabel targets).
    calibration_ : Calibration
        Turns the models' probabilities into those of :meth:`predict_proba`.
    decision_ : Decision
        Turns :meth:`predict_proba` into :meth:`predict`; ``print`` describes it in words.
    offsets_ : ndarray of shape (n_classes,) or None
        The decision as offsets of log-probabilities with mean zero; None if it is not that simple. For multilabel
        targets, the offsets of the log-odds of labels; they have no calibration and no decision matrix.
    held_out_ : HeldOut
        Held-out predictions of training rows, for :meth:`decide_by` and :meth:`predict_set`.
    report_ : dict
        The gain of each stage and of the decision on held-out rows; :meth:`summary` describes it in words.
    history_ : list of dict
        Losses and scores of every epoch.
    members_ : Module
        The fitted networks.
    metric_ : Metric
        The metric with its options.
    n_features_in_, feature_names_in_
        Number and names of the columns of ``X`` in :meth:`fit`; names only if all are strings.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = EASTClassifier("f1_macro", hidden=(16,), max_epochs=40, random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.7)
    True
    """

    def __init__(
        self,
        metric: Any = "f1_macro",
        module: Any = None,
        hidden: Sequence[int] = (512, 256, 128),
        recipe: str = "auto",
        n_folds: int | str = "auto",
        max_epochs: int = 200,
        batch_size: int | str = "auto",
        *,
        learning_rate: float = 1e-3,
        dropout: float = 0.25,
        patience: int = 15,
        aligned: bool = True,
        refit: bool = False,
        tune_decision: bool | str = "auto",
        subject_to: Any = None,
        confidence: float = 0.95,
        on_infeasible: str = "raise",
        abstain_cost: float | None = None,
        coverage: float | None = None,
        abstain_label: Any = None,
        calibrate: str = "auto",
        temperature: float = 0.2,
        cooling_rate: float = 0.8,
        max_cold_steps: int = 3,
        validation_fraction: float = 0.2,
        class_weight: Any = None,
        prior: Any = None,
        standardize: bool | str = "auto",
        bins: int | str = "auto",
        metric_options: Mapping[str, Any] | None = None,
        checkpoint: Any = None,
        accelerator: str = "cpu",
        devices: int = 1,
        strategy: str = "auto",
        precision: str = "32-true",
        accumulate: str | None = None,
        effective_batch: int | None = None,
        loggers: Any = None,
        callbacks: Sequence[Callback] | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.metric = metric
        self.module = module
        self.hidden = hidden
        self.recipe = recipe
        self.n_folds = n_folds
        self.max_epochs = max_epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.dropout = dropout
        self.patience = patience
        self.aligned = aligned
        self.refit = refit
        self.tune_decision = tune_decision
        self.subject_to = subject_to
        self.confidence = confidence
        self.on_infeasible = on_infeasible
        self.abstain_cost = abstain_cost
        self.coverage = coverage
        self.abstain_label = abstain_label
        self.calibrate = calibrate
        self.temperature = temperature
        self.cooling_rate = cooling_rate
        self.max_cold_steps = max_cold_steps
        self.validation_fraction = validation_fraction
        self.class_weight = class_weight
        self.prior = prior
        self.standardize = standardize
        self.bins = bins
        self.metric_options = metric_options
        self.checkpoint = checkpoint
        self.accelerator = accelerator
        self.devices = devices
        self.strategy = strategy
        self.precision = precision
        self.accumulate = accumulate
        self.effective_batch = effective_batch
        self.loggers = loggers
        self.callbacks = callbacks
        self.random_state = random_state
        self.verbose = verbose

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        validation_data: Any = None,
        groups: Any = None,
    ) -> Self:
        """Train on ``X`` and ``y``.

        Parameters
        ----------
        X : array-like, DataFrame, Tensor, dict of Tensor, DataLoader, or path
            ``(n_samples, n_features)`` numbers, or a frame with text, dates and gaps; any rank with a module of your
            own. A DataLoader yields ``(inputs, targets)`` or ``(inputs, targets, weights)``, and needs
            ``validation_data``. A path names a Parquet file, or a folder of them. Its numeric columns are streamed, so
            the table may be larger than memory.
        y : array-like or str
            ``(n_samples,)`` labels, or ``(n_samples, n_labels)`` indicators; None with a DataLoader; the name of the
            target column with a path.
        sample_weight : array-like or str, optional
            ``(n_samples,)``; a row of weight zero is left out. With a path, the name of the column of weights.
        validation_data : tuple (X, y) or DataLoader, optional
            Rows that are used to stop training and tune the decision, instead of a split. One network is trained then.
        groups : array-like, optional
            ``(n_samples,)``: rows with the same value are never on both sides of a split, such as rows of one patient.

        Returns
        -------
        self
        """
        construction.check_parameters(self)
        refuse_repeated_columns(X, type(self).__name__)
        self._seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        generator = torch.Generator().manual_seed(self._seed)
        # Training draws from torch's global generator (dropout, initial weights), so its state is restored afterwards.
        with seeded(self._seed):
            ready = fitting.prepare(self, X, y, sample_weight, validation_data, groups, generator)
            if isinstance(ready.source, LoaderBatches):
                inputs = ready.rows.inputs
                self.n_features_in_ = None if isinstance(inputs, dict) else inputs.shape[1]
            self._fit_prepared(ready, generator)
        return self

    def fit_prepared(self, ready: fitting.Prepared, n_features: int, seed: int) -> Self:
        """Train on rows that an ensemble has prepared.

        Parameters
        ----------
        ready : Prepared
            Rows, assigned to networks.
        n_features : int
            Number of columns before scaling.
        seed : int
            Seed of everything random.

        Returns
        -------
        self
        """
        self._seed, self.n_features_in_ = seed, n_features
        self._fit_prepared(ready, torch.Generator().manual_seed(seed))
        return self

    def _fit_prepared(self, ready: fitting.Prepared, generator: torch.Generator) -> None:
        """Train on prepared rows, keep the stage that held-out rows prefer, and tune the decision."""
        labels = ready.labels
        self.classes_, self.multilabel_ = labels.classes, labels.multilabel
        self.metric_ = self._resolved_metric(labels.classes.tolist())
        self._check_decision_options(labels.classes)
        self.scaler_, self.encoder_ = ready.scaler, ready.encoder
        self.n_folds_ = ready.n_folds
        ready = with_frequencies(self, ready)
        if ready.class_counts is not None:
            self.class_counts_ = ready.class_counts
        trained = fitting.train(self, ready, self.metric_, self._seed, generator)
        self.members_ = trained.members
        self.keep_preferred(trained.result, ready.rows, trained.notes)

    def keep_preferred(self, result: TrainingResult, rows: Rows, notes: list[str]) -> None:
        """Keep the stage that held-out rows prefer, and tune its decision."""
        rows = rows.as_judged()
        self.history_ = result.history
        self._stage = choose_stage(result, rows, self.metric_)
        if self._stage.name in result.weights:
            self.members_.load_state_dict(result.weights[self._stage.name])
        self.members_.eval().requires_grad_(requires_grad=False)
        self.n_iter_ = len(self.history_)
        names = self.classes_.tolist()
        told = (with_class_names(note, names) for note in result.notes)
        self._notes, self._interrupted = [*notes, *told], result.interrupted
        self._notes += frequency_sentence(rows, names)
        held = result.held_out[self._stage.name]
        weights = None if rows.weights is None else rows.weights[held.rows].double().numpy()
        codes = rows.targets[held.rows].numpy()
        logits = held.logits.double()
        # A network that continued on all rows has no held-out rows.
        self.held_out_ = None
        if not self.refit:
            scores = logits if self.multilabel_ else torch.log_softmax(logits, dim=1)
            self.held_out_ = HeldOut(scores.numpy(), codes, weights)
        self._decide(self.held_out_, "EASTClassifier.fit")

    @classmethod
    def load(cls, path: Any, *, module: Any = None) -> Self:
        """Load a classifier that :meth:`save` wrote; pass ``module`` if it was trained with your own."""
        return saving.load(cls, _checks.path("load", "path", path), module)

    def _save(self, path: Path) -> None:
        saving.save(self, path)

    def __sklearn_is_fitted__(self) -> bool:
        """Whether training has ended."""
        return hasattr(self, "report_")

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn that multilabel targets are allowed, and inputs of any rank with a module."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        tags.input_tags.three_d_array = self.module is not None
        tags.input_tags.allow_nan = tags.input_tags.categorical = self.module is None
        return tags

    def _options(self, classes: list[Any], seed: int) -> DecisionOptions:
        averaged = getattr(self, "n_folds_", 1) > 1
        options = replace(super()._options(classes, seed), averaged=averaged)
        if self.tune_decision == "auto":
            return replace(options, tune=self.recipe == "auto" or options.asks_for_more)
        return replace(options, tune=bool(self.tune_decision))

    def _full_report(self, decided: dict[str, Any]) -> dict[str, Any]:
        stage = self._stage
        found = {"stages": stage.stages, "notes": self._notes, "interrupted": self._interrupted}
        sentences = [*stage.sentences, *decided["sentences"]]
        if self.refit:
            sentences.append(
                "the network went on with all rows; what is said of stages is of the network before, on rows that it "
                "had not seen"
            )
        return {**decided, **found, "shipped": stage.name, "sentences": sentences}

    def _log_probabilities(self, X: Any) -> NDArray[Any]:
        """Compute log-probabilities (log-odds for independent labels), ``(n, C)``."""
        features = construction.checked_features(self, X, reset=False)
        features = construction.encoded(self, features, self.encoder_)
        count = len(next(iter(features.values())) if isinstance(features, dict) else features)
        size = CACHED_ROWS if isinstance(self.members_, StackedMLP) else PREDICTION_ROWS
        parts = []
        with torch.no_grad():
            for start in range(0, count, size):
                chosen = take(features, slice(start, start + size))
                parts.append(self._member_scores(construction.network_inputs(chosen, self.scaler_)))
        return torch.cat(parts).numpy()

    def _member_scores(self, inputs: Any) -> Tensor:
        # In float32, the last digit of a row's score would depend on the other rows of the batch.
        exact = isinstance(self.members_, StackedMLP)
        logits: Tensor = self.members_(inputs.double() if exact else inputs).double()
        if self.multilabel_:
            return torch.logit(torch.sigmoid(logits).mean(0), eps=1e-12)
        logs = torch.log_softmax(logits, dim=2)
        return torch.logsumexp(logs, dim=0) - math.log(len(logs))
