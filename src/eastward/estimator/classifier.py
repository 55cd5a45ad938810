"""A network trained, selected and decided by one metric, as a scikit-learn estimator."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

from eastward import _checks
from eastward.estimator import construction, preparation, saving
from eastward.estimator.stage_report import stage_report
from eastward.training import Callback, Rows, StackedMLP, recipe_stages, train_members
from eastward.training.batches import take
from eastward.training.checkpoint import fingerprint
from eastward.training.loop import hard_table
from eastward.training.runner import tune_decision

__all__ = ["EASTClassifier"]

PREDICTION_ROWS = 65_536


class EASTClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn is untyped
    """Neural network classifier whose loss, selection and decision are one metric.

    By default five networks are cross-fitted as one batched graph: a cross-entropy start, offsets per class tuned
    for the metric on held-out predictions, a stage in which the metric itself is the loss (EAST) started at that
    decision, and the offsets tuned again. ``predict`` is the arg max of ``predict_proba``.

    Parameters
    ----------
    metric : str, Metric or callable, default="f1_macro"
        A name from :func:`eastward.metrics.names`, or any callable from a confusion matrix to a 0-d tensor.
    module : None, class, callable or Module, default=None
        The network: None for an MLP of the ``hidden`` widths; a class or factory ``(n_features, n_classes) ->
        Module``; or a module, which is copied. It returns logits. With a module, X may have any rank (images,
        sequences) or be a dictionary of tensors.
    hidden : sequence of int, default=(512, 256, 128)
        Hidden layers of the default network.
    recipe : {"auto", "paper", "btg", "cross_entropy"}, default="auto"
        See :func:`eastward.training.recipe_stages`. "paper" is EAST as published: from scratch, cooled on plateaus.
    n_folds : int or "auto", default="auto"
        Cross-fitted networks; 1 uses a single validation split. "auto": 5 for tables of up to 50 000 rows under
        ``recipe="auto"``, else 1.
    max_epochs : int, default=200
        Upper limit of epochs in a stage.
    batch_size : int or "auto", default="auto"
        "auto" grows with the data, 128 to 4096.
    learning_rate : float, default=1e-3
        Of AdamW; the aligned stage uses a fifth.
    dropout : float, default=0.25
        In the default network.
    patience : int, default=15
        Epochs without a better validation loss before a network stops (or cools, under "paper").
    aligned : bool, default=True
        Whether ``recipe="auto"`` has its metric stage.
    tune_decision : bool or "auto", default="auto"
        Whether offsets per class are tuned on held-out predictions at the end; "auto" under ``recipe="auto"``.
    temperature, cooling_rate, max_cold_steps : float, float, int
        Annealing of ``recipe="paper"``: start, factor, and coolings without gain before the end.
    validation_fraction : float, default=0.2
        Rows held out when ``n_folds`` is 1.
    class_weight : None, "balanced" or mapping, default=None
        Weights of classes; they reach the loss and the confusion matrix.
    standardize : bool or "auto", default="auto"
        Centre and scale features; "auto" does so for the default network.
    metric_options : mapping, optional
        Options of the metric, such as ``{"beta": {"fraud": 5}}`` or ``{"cost": table}``.
    checkpoint : path, optional
        Folder for checkpoints; ``fit`` continues an unfinished run of the same data and parameters there.
    accelerator, devices, strategy, precision
        Passed to Lightning Fabric.
    loggers : Logger or sequence, optional
        Fabric loggers (TensorBoard, CSV, MLflow).
    callbacks : sequence of Callback, optional
        Further callbacks of the training loop.
    random_state : int, RandomState or None, default=None
        Same value, data and machine: same model.
    verbose : int, default=0
        1 shows progress.

    Attributes
    ----------
    classes_ : ndarray
        Labels (label columns for multilabel targets).
    offsets_ : ndarray
        Added to the log-probabilities before the arg max.
    report_ : dict
        What each stage brought on held-out rows, in numbers and sentences.
    history_ : list of dict
        Numbers of every epoch.
    members_ : Module
        The fitted networks.
    metric_ : Metric
        The metric with its options.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = EASTClassifier("f1_macro", hidden=(16,), max_epochs=20, random_state=0).fit(X, y)
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
        tune_decision: bool | str = "auto",
        temperature: float = 0.2,
        cooling_rate: float = 0.8,
        max_cold_steps: int = 3,
        validation_fraction: float = 0.2,
        class_weight: Any = None,
        standardize: bool | str = "auto",
        metric_options: Mapping[str, Any] | None = None,
        checkpoint: Any = None,
        accelerator: str = "cpu",
        devices: int = 1,
        strategy: str = "auto",
        precision: str = "32-true",
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
        self.tune_decision = tune_decision
        self.temperature = temperature
        self.cooling_rate = cooling_rate
        self.max_cold_steps = max_cold_steps
        self.validation_fraction = validation_fraction
        self.class_weight = class_weight
        self.standardize = standardize
        self.metric_options = metric_options
        self.checkpoint = checkpoint
        self.accelerator = accelerator
        self.devices = devices
        self.strategy = strategy
        self.precision = precision
        self.loggers = loggers
        self.callbacks = callbacks
        self.random_state = random_state
        self.verbose = verbose

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        validation_data: tuple[Any, Any] | None = None,
    ) -> Self:
        """Train on ``X`` and ``y``.

        Parameters
        ----------
        X : array-like, DataFrame, Tensor or dict of Tensor
            ``(n_samples, n_features)`` numbers; any rank with a module of your own.
        y : array-like
            ``(n_samples,)`` labels, or ``(n_samples, n_labels)`` indicators.
        sample_weight : array-like, optional
            ``(n_samples,)``; a row of weight zero does not exist.
        validation_data : tuple (X, y), optional
            Rows to stop and tune by, instead of a split; one network is trained then.

        Returns
        -------
        self
        """
        construction.check_parameters(self)
        features = self._features(X, reset=True)
        labels = preparation.encode_labels(y)
        self._check_lengths(features, labels)
        weights, used = preparation.row_weights(sample_weight, self.class_weight, features, labels)
        if used is not None:
            features, weights = take(features, used), weights[used] if weights is not None else None
            kept = np.asarray(y)[used.numpy()]
            labels = preparation.encode_labels(kept)
        self.metric_ = preparation.resolve_metric(self.metric, self.metric_options, labels)
        self.classes_, self.multilabel_ = labels.classes, labels.multilabel
        features, labels, weights, held = self._with_validation(
            features, labels, weights, validation_data
        )
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        # Training draws from torch's global generator (dropout, initial weights); the user's stays as it was.
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self._train(features, labels, weights, held, seed)
        return self

    def _train(
        self,
        features: Any,
        labels: preparation.Labels,
        weights: Tensor | None,
        held: Any,
        seed: int,
    ) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.scaler_ = self._fitted_scaler(features)
        inputs = self._inputs(features)
        self.n_folds_ = 1 if held is not None else construction.num_folds(self, len(labels.codes))
        rows = preparation.fold_rows(
            inputs,
            labels,
            weights,
            num_folds=self.n_folds_,
            validation_fraction=self.validation_fraction,
            validation_rows=held,
            generator=generator,
        )
        self._check_recipe(rows)
        stages = recipe_stages(self.recipe, **construction.stage_options(self, len(rows.train[0])))
        self.members_ = construction.new_members(self, rows)
        checkpoint = None if self.checkpoint is None else Path(self.checkpoint) / "training.ckpt"
        identity = "" if checkpoint is None else self._identity(rows, stages, seed)
        result = train_members(
            self.members_,
            rows,
            stages,
            metric=self.metric_,
            fabric=construction.make_fabric(self),
            generator=generator,
            checkpoint=checkpoint,
            identity=identity,
            checkpoint_interval=float(os.environ.get("EASTWARD_CHECKPOINT_SECONDS", "10")),
            verbose=self.verbose,
            callbacks=self.callbacks or (),
        )
        self.history_ = result.history
        self.members_.eval().requires_grad_(requires_grad=False)
        self.offsets_ = np.zeros(len(self.classes_), dtype=np.float32)
        if self._tunes_decision():
            last = list(result.held_out.values())[-1]
            self.offsets_ = tune_decision(last, rows, self.metric_, random_state=seed).numpy()
        self.report_ = stage_report(result, rows, self.metric_)
        self.n_iter_ = len(self.history_)

    def predict_proba(self, X: Any) -> NDArray[Any]:
        """Class probabilities with the decision folded in: their arg max is :meth:`predict`.

        ``softmax(log p + offsets)``, where p is the mean of the networks' probabilities. Multilabel targets:
        ``(n_samples, n_labels)``, and 0.5 is the decision.

        Returns
        -------
        ndarray
            ``(n_samples, n_classes)``.
        """
        scores = self._scores(X)
        if self.multilabel_:
            return torch.sigmoid(scores).numpy()
        return torch.softmax(scores, dim=1).numpy()

    def raw_predict_proba(self, X: Any) -> NDArray[Any]:
        """Mean probabilities of the networks, without the tuned offsets.

        Returns
        -------
        ndarray
            ``(n_samples, n_classes)``.
        """
        scores = self._scores(X) - torch.from_numpy(self.offsets_)
        return (torch.sigmoid(scores) if self.multilabel_ else torch.softmax(scores, dim=1)).numpy()

    def decision_function(self, X: Any) -> NDArray[Any]:
        """Scores whose largest one is the decision; for two classes one number, positive for the second.

        Returns
        -------
        ndarray
            ``(n_samples,)`` or ``(n_samples, n_classes)``.
        """
        scores = self._scores(X)
        if len(self.classes_) == 2 and not self.multilabel_:
            return (scores[:, 1] - scores[:, 0]).numpy()
        return scores.numpy()

    def predict(self, X: Any) -> NDArray[Any]:
        """Labels of ``X``.

        Returns
        -------
        ndarray
            ``(n_samples,)``, or ``(n_samples, n_labels)`` indicators.
        """
        probabilities = self.predict_proba(X)
        if self.multilabel_:
            return (probabilities > 0.5).astype(int)
        chosen: NDArray[Any] = self.classes_[probabilities.argmax(axis=1)]
        return chosen

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The target metric of the predictions; negative for metrics where lower is better.

        Returns
        -------
        float
        """
        probabilities = torch.from_numpy(self.predict_proba(X))
        scores = probabilities - 0.5 if self.multilabel_ else probabilities
        targets = preparation.known_labels(y, self.classes_, argument="y")
        weights = None if sample_weight is None else torch.as_tensor(np.asarray(sample_weight))
        rows = Rows(None, targets, None, [], [], len(self.classes_), self.multilabel_)
        value = float(self.metric_(hard_table(scores, targets, weights, rows)))
        return value if self.metric_.higher_is_better else -value

    def save(self, path: Any) -> None:
        """Write the fitted classifier to the folder ``path``: safetensors and JSON, nothing that executes."""
        saving.save(self, Path(path))

    @classmethod
    def load(cls, path: Any, *, module: Any = None) -> Self:
        """A classifier that :meth:`save` wrote; ``module`` is needed if it was trained with one of your own."""
        return saving.load(cls, Path(path), module)

    def __sklearn_is_fitted__(self) -> bool:
        """Whether training has ended."""
        return hasattr(self, "offsets_")

    def __sklearn_tags__(self) -> Any:
        """Multilabel targets are welcome; inputs of any rank with a module."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        tags.input_tags.three_d_array = self.module is not None
        return tags

    def _scores(self, X: Any) -> Tensor:
        """Log-probabilities (log-odds for independent labels) plus offsets, ``(n, C)``."""
        check_is_fitted(self)
        features = self._features(X, reset=False)
        count = len(next(iter(features.values())) if isinstance(features, dict) else features)
        parts = []
        with torch.no_grad():
            for start in range(0, count, PREDICTION_ROWS):
                chosen = torch.arange(start, min(count, start + PREDICTION_ROWS))
                parts.append(self._member_scores(self._inputs(take(features, chosen))))
        return torch.cat(parts) + torch.from_numpy(self.offsets_)

    def _member_scores(self, inputs: Any) -> Tensor:
        # In float32 a row's score would depend, in its last digit, on the rows beside it.
        exact = isinstance(self.members_, StackedMLP)
        logits: Tensor = self.members_(inputs.double() if exact else inputs).double()
        if self.multilabel_:
            return torch.logit(torch.sigmoid(logits).mean(0), eps=1e-12)
        logs = torch.log_softmax(logits, dim=2)
        return torch.logsumexp(logs, dim=0) - math.log(len(logs))

    def _features(self, X: Any, *, reset: bool) -> Any:
        """Checked features: a NumPy table, or tensors as they are for a user's module."""
        if self.module is not None and (isinstance(X, dict) or getattr(X, "ndim", 2) != 2):
            if reset:
                self.n_features_in_ = None if isinstance(X, dict) else X.shape[1]
            return construction.as_tensors(X)
        table = validate_data(self, X, reset=reset, dtype=np.float32, ensure_all_finite=False)
        preparation.check_finite(table, getattr(self, "feature_names_in_", None))
        return table

    def _fitted_scaler(self, features: Any) -> preparation.Scaler | None:
        wanted = self.module is None if self.standardize == "auto" else bool(self.standardize)
        usable = isinstance(features, np.ndarray)
        if wanted and not usable:
            advice = "Scale such inputs yourself."
            _checks.fail(
                "EASTClassifier", "standardize", "False for inputs other than tables", True, advice
            )
        return preparation.Scaler.of(features) if wanted else None

    def _inputs(self, features: Any) -> Any:
        if isinstance(features, np.ndarray):
            tensor = torch.from_numpy(np.ascontiguousarray(features))
            return tensor if self.scaler_ is None else self.scaler_(tensor)
        return features

    def _tunes_decision(self) -> bool:
        return self.recipe == "auto" if self.tune_decision == "auto" else bool(self.tune_decision)

    def _identity(self, rows: Rows, stages: Any, seed: int) -> str:
        inputs = rows.inputs.values() if isinstance(rows.inputs, dict) else (rows.inputs,)
        weights = () if rows.weights is None else (rows.weights,)
        settings = (
            stages,
            seed,
            self.metric_.name,
            tuple(self.hidden),
            self.dropout,
            self.n_folds_,
        )
        return fingerprint(settings, *inputs, rows.targets, *weights)

    def _with_validation(
        self, features: Any, labels: preparation.Labels, weights: Tensor | None, validation: Any
    ) -> tuple[Any, preparation.Labels, Tensor | None, Tensor | None]:
        """Append validation rows, if the user brought some, and say which they are."""
        if validation is None:
            return features, labels, weights, None
        extra = self._features(validation[0], reset=False)
        codes = preparation.known_labels(validation[1], labels.classes, argument="validation_data")
        held = torch.arange(len(codes)) + len(labels.codes)
        joined = preparation.Labels(
            torch.cat([labels.codes, codes]), labels.classes, labels.multilabel
        )
        if weights is not None:
            weights = torch.cat([weights, torch.ones(len(codes))])
        return construction.concatenated(features, extra), joined, weights, held

    def _check_recipe(self, rows: Rows) -> None:
        if self.recipe == "btg" and (rows.num_outputs != 2 or rows.multilabel):
            advice = "Use 'auto' or 'paper'."
            got = f"'btg' for {rows.num_outputs} classes"
            _checks.fail("EASTClassifier", "recipe", "made for more than two classes", got, advice)

    def _check_lengths(self, features: Any, labels: preparation.Labels) -> None:
        count = len(next(iter(features.values())) if isinstance(features, dict) else features)
        if count != len(labels.codes):
            got = f"{len(labels.codes)} labels for {count} rows of X"
            _checks.fail(preparation.CALLER, "y", "as long as X", got)
