"""The steps of ``fit``: from a table or a loader to rows, and from rows to trained networks."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader

from eastward import _checks
from eastward.estimators.frames import Encoder
from eastward.estimators.network import construction, loaders, preparation, streaming
from eastward.estimators.network.rare_classes import Supply, batch_notes
from eastward.estimators.network.scaling import Scaler
from eastward.metrics import Metric
from eastward.training import LoaderBatches, Rows, TrainingResult, recipe_stages
from eastward.training.checkpoint import fingerprint
from eastward.training.launch import train_with_devices
from eastward.training.members import Members
from eastward.training.streams import StreamBatches

if TYPE_CHECKING:
    from eastward.estimators.network.classifier import EASTClassifier

__all__ = ["Prepared", "prepare", "train"]

logger = logging.getLogger("eastward")


@dataclass(frozen=True)
class Prepared:
    """Rows for the networks, and how they were made.

    Attributes
    ----------
    rows : Rows
        Inputs, targets, weights, and which network trains on which rows.
    labels : Labels
        Targets and their classes.
    scaler : Scaler or None
        Centre and scale of the features.
    encoder : Encoder or None
        How text, dates and gaps became numbers; None for a table of numbers without gaps.
    source : LoaderBatches or StreamBatches, optional
        Batches that are not in memory.
    supply : Supply, optional
        Rows of each class, if ``rows`` does not contain them.
    class_counts : dict, optional
        Rows of each class in the files.
    """

    rows: Rows
    labels: preparation.Labels
    scaler: Scaler | None = None
    encoder: Encoder | None = None
    source: LoaderBatches | StreamBatches | None = None
    supply: Supply | None = None
    class_counts: dict[Any, int] | None = None

    @property
    def n_folds(self) -> int:
        """Number of networks."""
        return len(self.rows.train)


def prepare(
    model: EASTClassifier,
    X: Any,
    y: Any,
    sample_weight: Any,
    validation: Any,
    groups: Any,
    generator: torch.Generator,
) -> Prepared:
    """Prepare rows from a table, a DataLoader or Parquet files."""
    if groups is not None and (streaming.is_stream(X) or isinstance(X, DataLoader)):
        preparation.fail_groups()
    if streaming.is_stream(X):
        return _from_stream(model, X, y, sample_weight, validation)
    if isinstance(X, DataLoader):
        return _from_loader(model, X, y, sample_weight, validation)
    return _from_table(model, X, y, sample_weight, validation, groups, generator)


def _from_table(
    model: EASTClassifier,
    X: Any,
    y: Any,
    sample_weight: Any,
    validation: Any,
    groups: Any,
    generator: torch.Generator,
) -> Prepared:
    features = construction.checked_features(model, X, reset=True)
    labels = preparation.encode_labels(y)
    _check_lengths(features, labels.codes, argument="y")
    weights, used = preparation.row_weights(sample_weight, model.class_weight, features, labels)
    if used is not None:
        features = construction.taken(features, used)
        weights = None if weights is None else weights[used]
        labels = preparation.encode_labels(np.asarray(y)[used.numpy()])
        groups = None if groups is None else np.asarray(groups)[used.numpy()]
    encoder = construction.fitted_encoder(model, features)
    features = construction.encoded(model, features, encoder)
    # Validation rows come after the others, and must not influence the scaler.
    scaler = fitted_scaler(model, features)
    held = None
    if validation is not None:
        inputs, targets = loaders.validation_pair(validation)
        extra = construction.encoded(
            model, construction.checked_features(model, inputs, reset=False), encoder
        )
        codes = preparation.known_labels(targets, labels.classes, argument="validation_data")
        _check_lengths(extra, codes, argument="validation_data")
        held = torch.arange(len(codes)) + len(labels.codes)
        if weights is not None:
            weights = torch.cat([weights, _validation_weights(model, labels, weights, codes)])
        joined = torch.cat([labels.codes, codes])
        labels = preparation.Labels(joined, labels.classes, labels.multilabel)
        features = construction.concatenated(features, extra)
    folds = 1 if held is not None else construction.num_folds(model, len(labels.codes))
    construction.check_one_network(model, folds, "" if held is None else "validation_data")
    rows = preparation.fold_rows(
        construction.network_inputs(features, scaler),
        labels,
        weights,
        num_folds=folds,
        validation_fraction=model.validation_fraction,
        validation_rows=held,
        generator=generator,
        groups=groups,
    )
    return Prepared(rows, labels, scaler, encoder)


def _from_loader(
    model: EASTClassifier, loader: Any, y: Any, sample_weight: Any, validation: Any
) -> Prepared:
    """Prepare a DataLoader, with validation rows in memory."""
    loaders.check_arguments(y, sample_weight, validation)
    loaders.check_parameters(model)
    held = loaders.validation_rows(validation)
    labels, supply = loaders.labels_of(loader, held.targets)
    construction.check_one_network(model, 1, "a DataLoader")
    source = LoaderBatches(loader, partial(loaders.encoded, labels=labels))
    return Prepared(loaders.rows_of(held, labels), labels, source=source, supply=supply)


def _from_stream(
    model: EASTClassifier, X: Any, y: Any, sample_weight: Any, validation: Any
) -> Prepared:
    """Prepare Parquet files that may be larger than memory."""
    if validation is not None:
        advice = "Read the files into memory for it, or pass a DataLoader."
        expected = "None with Parquet files"
        _checks.fail(preparation.CALLER, "validation_data", expected, "a value", advice)
    if sample_weight is not None and not isinstance(sample_weight, str):
        expected = "the name of a column with Parquet files"
        got = type(sample_weight).__name__
        _checks.fail(preparation.CALLER, "sample_weight", expected, got)
    if model.n_folds not in ("auto", 1):
        advice = "Streamed rows cannot be split into folds, so one network is trained."
        _checks.fail(
            preparation.CALLER, "n_folds", "'auto' or 1 with Parquet files", model.n_folds, advice
        )
    construction.check_one_network(model, 1, "Parquet files")
    found = streaming.prepared_stream(model, X, y, sample_weight)
    counts = torch.tensor(list(found.class_counts.values()))
    return Prepared(
        found.rows,
        found.labels,
        found.scaler,
        source=found.source,
        supply=Supply(int(counts.sum()), counts, "stream"),
        class_counts=found.class_counts,
    )


@dataclass(frozen=True)
class Trained:
    """Trained networks, the result of training, and sentences for the report."""

    members: Members
    result: TrainingResult
    notes: list[str]


def train(
    model: EASTClassifier,
    ready: Prepared,
    metric: Metric,
    seed: int,
    generator: torch.Generator,
) -> Trained:
    """Run the stages of the recipe over the networks."""
    rows, loader = ready.rows, ready.source
    _check_recipe(model, rows)
    # All networks train on nearly the same rows, so the rows of the first represent them all.
    supply = ready.supply or Supply.of_codes(rows.targets[rows.train[0]], rows.num_outputs)
    stages = recipe_stages(model.recipe, **_stage_options(model, supply, loader))
    classes = ready.labels.classes.tolist()
    notes = batch_notes(stages, supply, metric, classes, multilabel=rows.multilabel)
    for note in notes:
        logger.warning(note)
    width = rows.inputs.shape[1] if model.module is None else None
    members = construction.new_members(model, width, rows.num_outputs)
    _check_shift(members, rows)
    checkpoint = None if model.checkpoint is None else Path(model.checkpoint) / "training.ckpt"
    files = loader.table.identity if isinstance(loader, StreamBatches) else ""
    identity = ""
    if checkpoint is not None:
        identity = _identity(model, metric, members, rows, stages, seed) + files
    result = train_with_devices(
        construction.fabric_options(model),
        members,
        rows,
        stages,
        metric=metric,
        generator=generator,
        checkpoint=checkpoint,
        identity=identity,
        checkpoint_interval=float(os.environ.get("EASTWARD_CHECKPOINT_SECONDS", "10")),
        verbose=model.verbose,
        callbacks=model.callbacks or (),
        loader=loader,
    )
    return Trained(members, result, notes)


def fitted_scaler(model: EASTClassifier, features: Any) -> Scaler | None:
    """Fit the scaler of the features, if the options require one."""
    wanted = model.module is None if model.standardize == "auto" else bool(model.standardize)
    usable = isinstance(features, np.ndarray)
    if wanted and not usable:
        advice = "Scale such inputs yourself."
        _checks.fail(
            "EASTClassifier", "standardize", "False for inputs other than tables", True, advice
        )
    return (
        Scaler.of(features, bins=construction.num_bins(model, *features.shape)) if wanted else None
    )


def _validation_weights(
    model: EASTClassifier, labels: preparation.Labels, weights: Tensor, codes: Tensor
) -> Tensor:
    """Return validation weights: one for each row, or the average training weight of its class."""
    if model.class_weight is None:
        return torch.ones(len(codes))
    size = len(labels.classes)
    mass = torch.bincount(labels.codes, weights, minlength=size)
    return (mass / torch.bincount(labels.codes, minlength=size))[codes].float()


def _stage_options(model: EASTClassifier, supply: Supply, loader: Any) -> dict[str, Any]:
    if not isinstance(loader, StreamBatches):
        return construction.stage_options(model, supply.total)
    # The supply counts held-out rows, too; a stream cannot be stratified.
    return construction.stage_options(model, sum(loader.train_rows), supply.rarest)


def _identity(
    model: EASTClassifier, metric: Metric, members: Members, rows: Rows, stages: Any, seed: int
) -> str:
    """Compute a digest of all that determines training: settings, data, folds, initial weights."""
    inputs = rows.inputs.values() if isinstance(rows.inputs, dict) else (rows.inputs,)
    weights = () if rows.weights is None else (rows.weights,)
    if rows.frequencies is not None:
        weights = (*weights, rows.frequencies.judged)
    state = members.state_dict()
    settings = (
        stages,
        seed,
        metric.name,
        metric.options,
        _code_of(model.metric),
        model.dropout,
        model.precision,
        list(state),
    )
    return fingerprint(
        settings, *inputs, rows.targets, *weights, *rows.train, *rows.valid, *state.values()
    )


def _code_of(metric: Any) -> tuple[Any, ...]:
    """Return the code of a user's metric, because two functions may share a name."""
    code = getattr(metric, "__code__", None)
    if code is None:
        return ()
    # Nested functions are left out: their repr contains an address, which differs between processes.
    numbers = tuple(value for value in code.co_consts if isinstance(value, int | float | str))
    return code.co_code, numbers, code.co_names


def _check_recipe(model: EASTClassifier, rows: Rows) -> None:
    if model.recipe == "btg" and (rows.num_outputs != 2 or rows.multilabel):
        advice = "Use 'auto' or 'paper'."
        got = f"{rows.num_outputs} classes or labels"
        _checks.fail(
            "EASTClassifier",
            "recipe",
            "other than 'btg', which is made for two classes",
            got,
            advice,
        )


def _check_shift(members: Members, rows: Rows) -> None:
    """Check that a user's module has an output bias, because other class frequencies shift it."""
    if rows.frequencies is None or members.add_to_output_bias(torch.zeros(rows.num_outputs)):
        return
    advice = "Give its last layer a bias, or use eastward.align, which makes one."
    got = "class frequencies"
    _checks.fail(
        preparation.CALLER, "prior", "None for a module without an output bias", got, advice
    )


def _check_lengths(features: Any, codes: Tensor, *, argument: str) -> None:
    count = len(next(iter(features.values())) if isinstance(features, dict) else features)
    if count != len(codes):
        got = f"{len(codes)} labels for {count} rows of X"
        _checks.fail(preparation.CALLER, argument, "as long as X", got)
