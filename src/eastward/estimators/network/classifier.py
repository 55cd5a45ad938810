"""A network trained, selected and decided by one metric, as a scikit-learn estimator."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted
from torch import Tensor
from torch.utils.data import DataLoader

from eastward.estimators.network import construction, fitting, preparation, saving, streaming
from eastward.training import (
    Callback,
    Rows,
    StackedMLP,
)
from eastward.training.batches import take
from eastward.training.scoring import hard_table

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
        Module``; or a module, which is copied, and whose weights are the start. It returns logits. With a module, X
        may have any rank (images, sequences) or be a dictionary of tensors.
    hidden : sequence of int, default=(512, 256, 128)
        Hidden layers of the default network.
    recipe : {"auto", "paper", "btg", "cross_entropy", "focal"}, default="auto"
        See :func:`eastward.training.recipe_stages`. "paper" is EAST as published: from scratch, cooled on plateaus.
    n_folds : int or "auto", default="auto"
        Cross-fitted networks; 1 uses a single validation split. "auto": 5 for tables of up to 50 000 rows under
        ``recipe="auto"``, else 1. With a module of your own "auto" is 1: five of them are called one after the other
        and take five times as long, and often they are worth it. A factory gives each its own initial weights.
    max_epochs : int, default=200
        Upper limit of epochs in a stage.
    batch_size : int or "auto", default="auto"
        "auto" grows with the data, 32 to 4096.
    learning_rate : float, default=1e-3
        Of AdamW; the aligned stage uses a fifth.
    dropout : float, default=0.25
        In the default network.
    patience : int, default=15
        Epochs without a better validation loss before a network stops (or cools, under "paper").
    aligned : bool, default=True
        Whether ``recipe="auto"`` has its metric stage.
    refit : bool, default=False
        For one network (``n_folds=1``) under ``recipe="auto"``: the rows that were held out stop cross-entropy and tune
        the decision, and are then trained on as well, first by cross-entropy and then by the metric. It takes half as
        long again. ``report_`` is of the network before: judge the last one by rows of your own.
    tune_decision : bool or "auto", default="auto"
        Whether offsets per class are tuned on held-out predictions at the end; "auto": under ``recipe="auto"``, for a
        single network only if offsets tuned without a fold's rows beat arg max on them. For cross-fitted networks,
        up to 10 000 held-out rows of equal weight, expectations stand for three quarters of the labels
        (:func:`eastward.decisions.smoothed_offsets`), and no class is given up that the metric counts
        (:func:`eastward.decisions.keep_classes`).
    temperature, cooling_rate, max_cold_steps : float, float, int
        Annealing of ``recipe="paper"``: start, factor, and coolings without gain before the end.
    validation_fraction : float, default=0.2
        Rows held out when ``n_folds`` is 1.
    class_weight : None, "balanced" or mapping, default=None
        Weights of classes; they reach the loss and the confusion matrix.
    standardize : bool or "auto", default="auto"
        Centre and scale features; "auto" does so for the default network.
    bins : int or "auto", default="auto"
        Show each feature to the default network a second time, cut into so many pieces at its quantiles: the bends
        that few rows do not teach. 0 for none; "auto": 8 for tables of up to 5000 rows.
    metric_options : mapping, optional
        Options of the metric, such as ``{"beta": {"fraud": 5}}`` or ``{"cost": table}``.
    checkpoint : path, optional
        Folder for checkpoints; ``fit`` continues an unfinished run of the same data and parameters there.
    accelerator, devices, strategy, precision
        Of Lightning Fabric. With ``devices=2`` (or more; ``strategy="ddp"``) so many processes train together, with the
        steps and the gradient of one: ``batch_size`` counts the rows of all. Inside ``torchrun`` its processes are
        used. In a script, protect the call by ``if __name__ == "__main__":``.
    accumulate : None or "exact", default=None
        "exact": stages that minimise the metric take one step for ``effective_batch`` rows, which pass through the
        network ``batch_size`` at a time, twice; the gradient is that of all rows together.
    effective_batch : int, optional
        Rows of such a step; default eight times the batch size.
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
        temperature: float = 0.2,
        cooling_rate: float = 0.8,
        max_cold_steps: int = 3,
        validation_fraction: float = 0.2,
        class_weight: Any = None,
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
        self.temperature = temperature
        self.cooling_rate = cooling_rate
        self.max_cold_steps = max_cold_steps
        self.validation_fraction = validation_fraction
        self.class_weight = class_weight
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
            ``(n_samples, n_features)`` numbers; any rank with a module of your own. A DataLoader yields
            ``(inputs, targets)`` or ``(inputs, targets, weights)``, is used as it is, and needs ``validation_data``.
            A path names a Parquet file, or a folder of them, whose numeric columns are streamed: the table may be
            larger than memory.
        y : array-like or str
            ``(n_samples,)`` labels, or ``(n_samples, n_labels)`` indicators; None with a DataLoader; the name of the
            target column with a path.
        sample_weight : array-like or str, optional
            ``(n_samples,)``; a row of weight zero does not exist. With a path, the name of the column of weights.
        validation_data : tuple (X, y) or DataLoader, optional
            Rows to stop and tune by, instead of a split; one network is trained then.
        groups : array-like, optional
            ``(n_samples,)``: rows with the same value are never on both sides of a split, such as rows of one patient.

        Returns
        -------
        self
        """
        construction.check_parameters(self)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        # Training draws from torch's global generator (dropout, initial weights); the user's stays as it was.
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            if groups is not None and (streaming.is_stream(X) or isinstance(X, DataLoader)):
                preparation.fail_groups()
            if streaming.is_stream(X):
                fitting.fit_stream(self, X, y, sample_weight, validation_data, seed)
            elif isinstance(X, DataLoader):
                fitting.fit_loader(self, X, y, sample_weight, validation_data, seed)
            else:
                fitting.fit_table(self, X, y, sample_weight, validation_data, seed, groups)
        return self

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
        features = construction.checked_features(self, X, reset=False)
        count = len(next(iter(features.values())) if isinstance(features, dict) else features)
        parts = []
        with torch.no_grad():
            for start in range(0, count, PREDICTION_ROWS):
                chosen = slice(start, start + PREDICTION_ROWS)
                parts.append(
                    self._member_scores(construction.network_inputs(self, take(features, chosen)))
                )
        return torch.cat(parts) + torch.from_numpy(self.offsets_)

    def _member_scores(self, inputs: Any) -> Tensor:
        # In float32 a row's score would depend, in its last digit, on the rows beside it.
        exact = isinstance(self.members_, StackedMLP)
        logits: Tensor = self.members_(inputs.double() if exact else inputs).double()
        if self.multilabel_:
            return torch.logit(torch.sigmoid(logits).mean(0), eps=1e-12)
        logs = torch.log_softmax(logits, dim=2)
        return torch.logsumexp(logs, dim=0) - math.log(len(logs))
