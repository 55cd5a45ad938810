"""Train on Parquet files larger than memory, and write a model folder with a report: `eastward train FOLDER`."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from eastward import metrics
from eastward.cli.fit_model import FitPlan, judging_weights, write_card, write_summary
from eastward.cli.folders import CHECKPOINT
from eastward.cli.stages import stage
from eastward.comparison.cells import pass_interruption_on
from eastward.comparison.choosing import choose_method
from eastward.comparison.methods import BUILT_IN, Settings
from eastward.data import (
    Column,
    Task,
    conform,
    describe_task,
    frame_columns,
    label_names,
    make_vectorizer,
)
from eastward.data.columns import names_as_text
from eastward.data.reading import to_frame
from eastward.data.task import check_roles
from eastward.data.tidying import tidied
from eastward.estimators.network import EASTClassifier
from eastward.estimators.network.stream_weights import weight_values
from eastward.estimators.network.streaming import TableStream, draw_shares, plain_values, rows_for
from eastward.model_folder import TableModel, save_model
from eastward.reporting import evaluation_summary, finding, report_summary
from eastward.reporting.model_importance import model_importance
from eastward.reporting.training_words import training_words
from eastward.saved_folder import metric_document
from eastward.training.streams import ParquetTable

__all__ = ["StreamedTask", "chosen_for_stream", "fit_stream_model", "open_stream"]


@dataclass(frozen=True)
class FrameVectors:
    """The vectorizer of a stream: Arrow rows to float32. It can be sent to other processes."""

    vectorizer: Any
    columns: Sequence[Column]

    def __call__(self, rows: pa.Table) -> NDArray[np.float32]:
        """Return vectors ``(n, F)``."""
        vectors: NDArray[np.float32] = self.vectorizer.transform(
            conform(to_frame(rows), self.columns)
        )
        return vectors


@dataclass(frozen=True)
class StreamedTask:
    """A table on disk, with preprocessing fitted on a sample, and a description of the table."""

    name: str
    stream: TableStream
    vectorizer: Any
    facts: dict[str, Any]
    classes: NDArray[Any]


def open_stream(
    data: Path,
    target: str,
    *,
    ignore: Sequence[str],
    holdout: float,
    seed: int,
    weight: str | None = None,
    decimal: str | None = None,
    text: Sequence[str] = (),
) -> StreamedTask:
    """Inspect the files: fit preprocessing on a bounded sample, count classes and unknown categories."""
    table = ParquetTable(data)
    weighed = [] if weight is None else [weight]
    named = {"target": [target], "ignore": ignore, "weight": weighed}
    check_roles(named)
    for argument, names in {**named, "text": text}.items():
        for name in names:
            table.check_column(name, argument=argument)
    columns = table.columns_without([target, *ignore, *weighed])
    shares = draw_shares(table, seed, held=0.1, test=holdout)
    raw = TableStream(table, target, columns, shares)
    sample = rows_for(raw, "sample", [*columns, target])
    kept = [name for name in text if name in columns]
    read = names_as_text(to_frame(sample.select(columns)), kept)
    tidy = tidied(read, decimal=decimal, text=kept)
    frame = tidy.table
    kinds = frame_columns(frame, tidy.formats)
    vectorizer = make_vectorizer().fit(frame)
    labels = plain_values(sample.column(target))
    counts = table.value_counts(target)
    counts.pop(None, None)
    facts = _facts(
        Task(frame, labels, target, data.stem, tidy.notes, formats=tidy.formats), counts, table
    )
    facts["warnings"] += unknown_categories(table, vectorizer, kinds)
    stream = TableStream(table, target, columns, shares, FrameVectors(vectorizer, kinds), weight)
    return StreamedTask(data.stem, stream, vectorizer, facts, np.unique(np.asarray(list(counts))))


def _facts(task: Task, counts: Mapping[Any, int], table: ParquetTable) -> dict[str, Any]:
    """Describe the columns from a sample, and the classes from a pass over the target."""
    facts = describe_task(task)
    order = sorted(counts, key=lambda label: -counts[label])
    names = label_names(np.asarray(order))
    facts["rows"] = table.rows
    facts["classes"] = [
        {"label": name, "count": counts[label]} for name, label in zip(names, order, strict=True)
    ]
    facts["imbalance"] = max(counts.values()) / min(counts.values())
    sentence = (
        f"the table is streamed; columns were described from a sample of {len(task.labels):,} rows"
    )
    facts["warnings"] = [sentence, *facts["warnings"]]
    return facts


def unknown_categories(
    table: ParquetTable, vectorizer: Any, columns: Sequence[Column]
) -> Iterator[str]:
    """Describe values that the sample did not contain; they are encoded as none of the known ones."""
    encoders = vectorizer.named_steps["columns"].transformers_
    for column in columns:
        known = getattr(encoders.get(column.name), "categories_", None)
        if column.kind not in ("category", "text") or known is None or column.format is not None:
            continue
        counts = table.value_counts(column.name)
        counts.pop(None, None)
        new = {value: count for value, count in counts.items() if str(value) not in set(known[0])}
        if new:
            shown = ", ".join(repr(str(value)) for value in list(new)[:5])
            yield (
                f"{column.name!r}: {sum(new.values()):,} rows have one of {len(new)} values that the sample "
                f"does not contain ({shown})"
            )


ALL_ROWS = "a network that learns from all rows of the stream"


def chosen_for_stream(plan: FitPlan, asked: str) -> FitPlan:
    """Return ``plan`` with a method for streams: the ensemble, unless ``asked`` is a network or LightGBM is missing."""
    if asked == "eastward":
        return replace(plan, method="eastward", reason=ALL_ROWS)
    choice = choose_method(0)
    if choice.name == "ensemble":
        sample = "trees that see a sample, and votes that follow held-out rows"
        return replace(plan, method="ensemble", reason=f"{ALL_ROWS}, {sample}")
    return replace(plan, method=choice.name, reason=choice.reason)


def _unfitted(plan: FitPlan, checkpoint: Path) -> Any:
    """Make the classifier of ``plan``; its network writes checkpoints."""
    common = {"metric_options": plan.metric_options, "random_state": plan.seed, **plan.decision}
    if plan.method == "eastward":
        return EASTClassifier(plan.metric, checkpoint=checkpoint, **common, **plan.parameters)
    network = {"checkpoint": checkpoint, **plan.parameters}
    made = BUILT_IN["ensemble"].make(Settings(metrics.get("f1_macro")))
    return made.set_params(metric=plan.metric, n_jobs=-1, network_options=network, **common)


def fit_stream_model(
    task: StreamedTask, plan: FitPlan, folder: Path, *, commands: Mapping[str, str]
) -> dict[str, Any]:
    """Train on the stream, save and judge the model; return the summary of its report."""
    classifier = _unfitted(plan, folder / CHECKPOINT)
    with stage("training on the stream", quiet=not plan.parameters.get("verbose")):
        classifier.fit(task.stream, None)
    pass_interruption_on(classifier)
    if plan.method == "ensemble":
        # The checkpoint is deleted, so a model that is loaded elsewhere must not look for it.
        classifier.set_params(network_options=dict(plan.parameters))
    remembered = {
        "target": task.stream.target,
        "columns": task.facts["columns"],
        "method": plan.method,
        "metric": classifier.metric_.name,
        "judged_by": metric_document(classifier.metric_, "Take a metric that has a name."),
        "trained_rows": task.facts["rows"],
        "data": dict(task.facts),
    }
    model = TableModel(classifier, task.vectorizer, remembered)
    save_model(model, folder)
    judged = importance = None
    if task.stream.shares.test:
        with stage("judging by held-out rows", quiet=not plan.parameters.get("verbose")):
            judged, importance = _judged(model, task)
    training = training_words(classifier)
    training["sentences"] = [f"{plan.label}: {plan.reason}", *training["sentences"]]
    summary = report_summary(
        f"{task.stream.target} in {task.name}",
        classifier.metric_,
        data=task.facts,
        evaluation=judged,
        importance=importance,
        training=training,
        verdict=finding(judged, training, classifier.metric_),
        commands=commands,
    )
    summary["method"] = {"name": plan.method, "label": plan.label, "reason": plan.reason}
    write_summary(summary, folder)
    write_card(summary, classifier, folder)
    shutil.rmtree(folder / CHECKPOINT, ignore_errors=True)
    return summary


def _judged(model: TableModel, task: StreamedTask) -> tuple[dict[str, Any], dict[str, Any]]:
    """Evaluate the model on held-out rows, and find the columns that matter."""
    rows = rows_for(task.stream, "test", task.stream.names)
    codes = np.searchsorted(model.classes, plain_values(rows.column(task.stream.target)))
    frame = to_frame(rows.select(list(task.stream.columns)))
    weight = judging_weights(model.classifier, codes, _weights(rows, task.stream.weight))
    evaluation = evaluation_summary(
        codes,
        model.log_probabilities(frame),
        model.classes.tolist(),
        model.metric,
        decision=model.decision,
        sample_weight=weight,
    )
    return evaluation, model_importance(model, frame, codes, sample_weight=weight)


def _weights(rows: pa.Table, column: str | None) -> NDArray[np.float32] | None:
    return None if column is None else weight_values(rows.column(column), column)
