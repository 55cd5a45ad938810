"""The ensemble for a table larger than memory: a network learns from all rows, trees from a sample."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from eastward import _checks
from eastward.estimators.ensemble.fitting import CALLER, PARTS, FittedParts, gathered
from eastward.estimators.ensemble.folds import Fitting
from eastward.estimators.ensemble.networks import Networks
from eastward.estimators.ensemble.trees import LightBoosting
from eastward.estimators.frames import Encoder
from eastward.estimators.network import EASTClassifier
from eastward.estimators.network.stream_weights import weighting_of
from eastward.estimators.network.streaming import (
    Prepare,
    TableStream,
    as_stream,
    rows_for,
    stream_labels,
)
from eastward.training.streams import PreparedRows

if TYPE_CHECKING:
    from eastward.estimators.ensemble.classifier import EASTEnsembleClassifier

__all__ = ["StreamedFit", "fit_stream"]

Array = NDArray[Any]


@dataclass(frozen=True)
class StreamedFit:
    """The fitted parts, with labels and columns."""

    found: FittedParts
    classes: Array
    encoder: Encoder
    names: Array | None


def fit_stream(
    model: EASTEnsembleClassifier, X: Any, y: Any, sample_weight: Any, groups: Any
) -> StreamedFit:
    """Fit all parts on Parquet files; every part holds out the rows that stop the network."""
    _check_arguments(sample_weight, groups)
    network = _network(model)
    stream = as_stream(network, X, y, sample_weight)
    labels, _ = stream_labels(stream)
    classes = labels.classes
    model._check_decision(classes.tolist())  # noqa: SLF001  # before anything expensive begins
    parts: dict[str, Any] = {}
    if "networks" in model.parts:
        network.fit(stream)
        if network.report_["interrupted"]:
            raise KeyboardInterrupt
        # The ensemble handles the names of columns, and passes plain numbers to its parts.
        names = network.__dict__.pop("feature_names_in_", None)
        parts["networks"] = Networks(network)
    elif stream.vectorize is None:
        names = np.asarray(stream.columns, dtype=object)
    else:
        names = None
    data = _sample(model, stream, classes)
    width = data.raw.shape[1]
    encoder = Encoder([None] * width, np.median(data.raw, axis=0).tolist(), [])
    tables = {}
    for name in model.parts:
        mine = data.at_most(PARTS[name].most_rows)
        held = mine.folds >= 0
        if name == "networks":
            tables[name] = parts[name].log_probabilities(mine.raw[held], mine.filled[held])
            continue
        parts[name] = PARTS[name].fitted(mine)
        tables[name] = parts[name].held_out[held]
    in_order = {name: parts[name] for name in model.parts}
    return StreamedFit(gathered(data, in_order, tables), classes, encoder, names)


def _check_arguments(sample_weight: Any, groups: Any) -> None:
    if groups is not None:
        advice = "Read the files into memory."
        _checks.fail(f"{CALLER}.fit", "groups", "None with Parquet files", "a value", advice)
    if sample_weight is not None and not isinstance(sample_weight, str):
        expected = "the name of a column with Parquet files"
        got = type(sample_weight).__name__
        _checks.fail(f"{CALLER}.fit", "sample_weight", expected, got)


def _network(model: EASTEnsembleClassifier) -> EASTClassifier:
    """Make one network with the defaults of streams; the ensemble decides, not the network."""
    network = EASTClassifier(
        model.metric,
        metric_options=model.metric_options,
        aligned=bool(model.aligned),
        tune_decision=False,
        calibrate="none",
        random_state=model._seed,  # noqa: SLF001
        **(model.network_options or {}),
    )
    network._seed = model._seed  # noqa: SLF001  # rows are held out by it
    return network


def _sample(model: EASTEnsembleClassifier, stream: TableStream, classes: Array) -> Fitting:
    """Sample the rows that all parts hold out, and training rows for the trees from all row groups."""
    weighting = weighting_of(stream.table, stream.target, stream.weight, None, classes)
    prepare = Prepare(stream.target, stream.columns, classes, None, stream.vectorize, weighting)
    held = prepare(rows_for(stream, "held", stream.names))
    share = LightBoosting.most_rows / stream.table.rows
    drawn = [
        prepare(rows)
        for rows in _drawn(stream, share, model._seed)  # noqa: SLF001
    ]
    every = [held, *drawn]
    raw = np.concatenate([rows.inputs.numpy() for rows in every])
    folds = np.repeat([0, -1], [len(held.targets), len(raw) - len(held.targets)])
    codes = np.concatenate([rows.targets.numpy() for rows in every])
    return Fitting(
        raw,
        raw,
        codes,
        _weights(every),
        folds,
        1,
        len(classes),
        model._seed,  # noqa: SLF001
        model.n_jobs,
    )


def _drawn(stream: TableStream, share: float, seed: int) -> Any:
    """Draw a share of the training rows, one row group at a time."""
    for position, group in enumerate(stream.table.groups):
        mine = stream.shares.drawn(position, group, "train")
        if share < 1:
            mine &= np.random.default_rng([seed, position]).random(group.rows) < share
        if mine.any():
            yield stream.table.read(group, stream.names).filter(pa.array(mine))


def _weights(every: list[PreparedRows]) -> Array | None:
    if every[0].weights is None:
        return None
    return np.concatenate([np.asarray(rows.weights, dtype=np.float64) for rows in every])
