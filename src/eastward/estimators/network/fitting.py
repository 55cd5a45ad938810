"""What happens in ``fit``: from a table or a loader to trained members, offsets and a report."""

from __future__ import annotations

import logging
import os
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from eastward import _checks
from eastward.estimators.network import construction, loaders, preparation, streaming
from eastward.estimators.network.rare_classes import Supply, batch_notes
from eastward.estimators.network.scaling import Scaler
from eastward.estimators.network.stage_report import stage_report
from eastward.training import LoaderBatches, Rows, TrainingResult, recipe_stages
from eastward.training.batches import take
from eastward.training.checkpoint import fingerprint
from eastward.training.launch import train_with_devices
from eastward.training.runner import tune_decision
from eastward.training.streams import StreamBatches

logger = logging.getLogger("eastward")


def fit_table(
    model: Any,
    X: Any,
    y: Any,
    sample_weight: Any,
    validation: Any,
    seed: int,
    groups: Any = None,
) -> None:
    """Fit ``model`` on rows in memory."""
    features = construction.checked_features(model, X, reset=True)
    labels = preparation.encode_labels(y)
    _check_lengths(features, labels.codes, argument="y")
    weights, used = preparation.row_weights(sample_weight, model.class_weight, features, labels)
    if used is not None:
        features = take(features, used)
        weights = None if weights is None else weights[used]
        labels = preparation.encode_labels(np.asarray(y)[used.numpy()])
        groups = None if groups is None else np.asarray(groups)[used.numpy()]
    _set_labels(model, labels)
    features, labels, weights, held = _with_validation(model, features, labels, weights, validation)
    _fit_rows(model, features, labels, weights, held, seed, groups)


def fit_loader(
    model: Any, loader: Any, y: Any, sample_weight: Any, validation: Any, seed: int
) -> None:
    """Fit ``model`` on a DataLoader as it comes; validation rows are kept in memory."""
    loaders.check_arguments(y, sample_weight, validation)
    loaders.check_parameters(model)
    held = loaders.validation_rows(validation)
    labels, supply = loaders.labels_of(loader, held.targets)
    model.n_features_in_ = None if isinstance(held.inputs, dict) else held.inputs.shape[1]
    _set_labels(model, labels)
    model.scaler_, model.n_folds_ = None, 1
    construction.check_one_network(model, "a DataLoader")
    source = LoaderBatches(loader, partial(loaders.encoded, labels=labels))
    generator = torch.Generator().manual_seed(seed)
    run_stages(model, loaders.rows_of(held, labels), seed, generator, source, supply)


def fit_stream(model: Any, X: Any, y: Any, sample_weight: Any, validation: Any, seed: int) -> None:
    """Fit ``model`` on Parquet files that may be larger than memory."""
    if validation is not None:
        advice = "Read the files into memory for it, or pass a DataLoader."
        expected = "None with Parquet files"
        _checks.fail(preparation.CALLER, "validation_data", expected, "a value", advice)
    if sample_weight is not None and not isinstance(sample_weight, str):
        expected = "the name of a column with Parquet files"
        got = type(sample_weight).__name__
        _checks.fail(preparation.CALLER, "sample_weight", expected, got)
    if model.n_folds not in ("auto", 1):
        advice = "Rows of a stream are not dealt out to folds: one network is trained."
        _checks.fail(
            preparation.CALLER, "n_folds", "'auto' or 1 with Parquet files", model.n_folds, advice
        )
    rows, source, labels = streaming.prepared_stream(model, X, y, sample_weight, seed)
    _set_labels(model, labels)
    model.n_folds_ = 1
    construction.check_one_network(model, "Parquet files")
    generator = torch.Generator().manual_seed(seed)
    counts = torch.tensor(list(model.class_counts_.values()))
    run_stages(model, rows, seed, generator, source, Supply(int(counts.sum()), counts, "stream"))


def _set_labels(model: Any, labels: preparation.Labels) -> None:
    model.classes_, model.multilabel_ = labels.classes, labels.multilabel
    model.metric_ = preparation.resolve_metric(model.metric, model.metric_options, labels)


def _fit_rows(
    model: Any,
    features: Any,
    labels: preparation.Labels,
    weights: Tensor | None,
    held: Any,
    seed: int,
    groups: Any = None,
) -> None:
    """Scale, deal rows out to members, and run the recipe."""
    generator = torch.Generator().manual_seed(seed)
    # Validation rows stand after the others; their scale is not for the network to know.
    known = features if held is None else take(features, slice(0, int(held[0])))
    model.scaler_ = fitted_scaler(model, known)
    inputs = construction.network_inputs(model, features)
    model.n_folds_ = 1 if held is not None else construction.num_folds(model, len(labels.codes))
    construction.check_one_network(model, "" if held is None else "validation_data")
    rows = preparation.fold_rows(
        inputs,
        labels,
        weights,
        num_folds=model.n_folds_,
        validation_fraction=model.validation_fraction,
        validation_rows=held,
        generator=generator,
        groups=groups,
    )
    model.n_folds_ = len(rows.train)
    run_stages(model, rows, seed, generator)


def run_stages(
    model: Any,
    rows: Rows,
    seed: int,
    generator: torch.Generator,
    loader: LoaderBatches | StreamBatches | None = None,
    supply: Supply | None = None,
) -> None:
    """Train the members, tune the decision, and say what each stage brought."""
    _check_recipe(model, rows)
    # Members train on nearly the same rows.
    supply = supply or Supply.of_codes(rows.targets[rows.train[0]], rows.num_outputs)
    stages = recipe_stages(model.recipe, **_stage_options(model, supply, loader))
    notes = batch_notes(
        stages, supply, model.metric_, model.classes_.tolist(), multilabel=rows.multilabel
    )
    for note in notes:
        logger.warning(note)
    width = rows.inputs.shape[1] if model.module is None else None
    model.members_ = construction.new_members(model, width, rows.num_outputs)
    checkpoint = None if model.checkpoint is None else Path(model.checkpoint) / "training.ckpt"
    files = loader.table.identity if isinstance(loader, StreamBatches) else ""
    identity = "" if checkpoint is None else _identity(model, rows, stages, seed) + files
    result = train_with_devices(
        construction.fabric_options(model),
        model.members_,
        rows,
        stages,
        metric=model.metric_,
        generator=generator,
        checkpoint=checkpoint,
        identity=identity,
        checkpoint_interval=float(os.environ.get("EASTWARD_CHECKPOINT_SECONDS", "10")),
        verbose=model.verbose,
        callbacks=model.callbacks or (),
        loader=loader,
    )
    _conclude(model, rows, result, notes, seed)


def _conclude(model: Any, rows: Rows, result: TrainingResult, notes: list[str], seed: int) -> None:
    """What the model keeps of its training: the report, and the decision."""
    model.history_ = result.history
    model.members_.eval().requires_grad_(requires_grad=False)
    model.report_ = stage_report(result, rows, model.metric_, model.classes_.tolist(), notes)
    model.offsets_ = np.zeros(len(model.classes_), dtype=np.float32)
    if _tunes_decision(model):
        last = list(result.held_out.values())[-1]
        model.offsets_ = tune_decision(
            last, rows, model.metric_, random_state=seed, keeps_classes=True
        ).numpy()
    model.report_["sentences"].append(_decision_sentence(model))
    model.n_iter_ = len(model.history_)


def fitted_scaler(model: Any, features: Any) -> Scaler | None:
    """Centre and scale of the features, if they are wanted."""
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


def _with_validation(
    model: Any, features: Any, labels: preparation.Labels, weights: Tensor | None, validation: Any
) -> tuple[Any, preparation.Labels, Tensor | None, Tensor | None]:
    """Append validation rows, if the user brought some, and say which they are."""
    if validation is None:
        return features, labels, weights, None
    inputs, targets = loaders.validation_pair(validation)
    extra = construction.checked_features(model, inputs, reset=False)
    codes = preparation.known_labels(targets, labels.classes, argument="validation_data")
    _check_lengths(extra, codes, argument="validation_data")
    held = torch.arange(len(codes)) + len(labels.codes)
    joined = preparation.Labels(torch.cat([labels.codes, codes]), labels.classes, labels.multilabel)
    if weights is not None:
        weights = torch.cat([weights, _validation_weights(model, labels, weights, codes)])
    return construction.concatenated(features, extra), joined, weights, held


def _validation_weights(
    model: Any, labels: preparation.Labels, weights: Tensor, codes: Tensor
) -> Tensor:
    """One for each row; under class weights as much as the training rows of its class have on average."""
    if model.class_weight is None:
        return torch.ones(len(codes))
    size = len(labels.classes)
    mass = torch.bincount(labels.codes, weights, minlength=size)
    return (mass / torch.bincount(labels.codes, minlength=size))[codes].float()


def _tunes_decision(model: Any) -> bool:
    """Whether offsets are added: "auto" does so for our own recipe; those of one network have to show their worth."""
    if model.refit:
        return False
    if model.tune_decision != "auto":
        return bool(model.tune_decision)
    return model.recipe == "auto" and (model.n_folds_ > 1 or _offsets_help(model))


def _offsets_help(model: Any) -> bool:
    last = model.report_["stages"][-1]
    gain = float(last["tuned"] - last["argmax"])
    return gain > 0 if model.metric_.higher_is_better else gain < 0


def _decision_sentence(model: Any) -> str:
    if model.refit:
        return (
            "decision: arg max of a network that went on with all rows; "
            "what is said above is of the network before, on rows that it had not seen"
        )
    if model.offsets_.any():
        return "decision: tuned offsets, found on all held-out rows and averaged over bootstrap samples"
    if model.tune_decision == "auto" and model.recipe == "auto" and not _offsets_help(model):
        return "decision: arg max, because tuned offsets brought nothing on rows held out"
    return "decision: arg max"


def _stage_options(model: Any, supply: Supply, loader: Any) -> dict[str, Any]:
    if not isinstance(loader, StreamBatches):
        return construction.stage_options(model, supply.total)
    # Those held out are counted in the supply; a stream cannot be stratified.
    return construction.stage_options(model, sum(loader.train_rows), supply.rarest)


def _identity(model: Any, rows: Rows, stages: Any, seed: int) -> str:
    """A digest of all that decides how training goes: settings, data, who trains on what, initial weights."""
    inputs = rows.inputs.values() if isinstance(rows.inputs, dict) else (rows.inputs,)
    weights = () if rows.weights is None else (rows.weights,)
    state = model.members_.state_dict()
    settings = (
        stages,
        seed,
        model.metric_.name,
        model.metric_.options,
        _code_of(model.metric),
        model.dropout,
        model.precision,
        list(state),
    )
    return fingerprint(
        settings, *inputs, rows.targets, *weights, *rows.train, *rows.valid, *state.values()
    )


def _code_of(metric: Any) -> tuple[Any, ...]:
    """What a user's own metric computes, as far as it can be told: two functions may share a name."""
    code = getattr(metric, "__code__", None)
    if code is None:
        return ()
    # Nested functions are left out: what they print holds an address, which another process does not share.
    numbers = tuple(value for value in code.co_consts if isinstance(value, int | float | str))
    return code.co_code, numbers, code.co_names


def _check_recipe(model: Any, rows: Rows) -> None:
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


def _check_lengths(features: Any, codes: Tensor, *, argument: str) -> None:
    count = len(next(iter(features.values())) if isinstance(features, dict) else features)
    if count != len(codes):
        got = f"{len(codes)} labels for {count} rows of X"
        _checks.fail(preparation.CALLER, argument, "as long as X", got)
