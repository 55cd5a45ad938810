"""`eastward evaluate`: all metrics with intervals, and the confusion matrix."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from eastward.cli import options
from eastward.cli.output import emit_json, note, result_console, say, wants_json
from eastward.model_task import read_task

if TYPE_CHECKING:
    from eastward.model_folder import TableModel
    from eastward.reporting.model_importance import RowSample

__all__ = ["evaluate"]

ReportFile = Annotated[
    Path | None,
    typer.Option(
        "--report",
        parser=options.named_path,
        metavar="FILE",
        help="Also write a report (.html, .md or .json).",
    ),
]
Bootstrap = Annotated[
    int, typer.Option("--bootstrap", min=0, help="Resamples for the intervals; 0 for none.")
]


def evaluate(
    model: options.Model,
    data: options.Data,
    report: ReportFile = None,
    bootstrap: Bootstrap = 500,
    drop_missing_target: options.DropMissing = False,
    encoding: options.Encoding = "utf-8",
    seed: options.Seed = 0,
    json: options.Json = False,
) -> None:
    """Judge a model on labelled rows that it was not trained on.

    \b
    Examples:
      eastward evaluate fraud-model claims-of-may.parquet
      eastward evaluate fraud-model claims-of-may.parquet --report may.html --json
    """
    columns = _columns(model, data, encoding)
    from eastward.model_folder import load_model
    from eastward.reporting import evaluation_summary

    loaded = load_model(model)
    sample = None
    if report is not None:
        from eastward.reporting.model_importance import RowSample

        sample = RowSample(random_state=seed)
    logs, codes = _scores(loaded, data, columns, encoding, sample, drop_missing=drop_missing_target)
    summary = evaluation_summary(
        codes,
        logs,
        loaded.classes.tolist(),
        loaded.metric,
        decision=loaded.decision,
        n_bootstrap=bootstrap,
        random_state=seed,
    )
    if report is not None and sample is not None:
        _write(report, summary, loaded, sample, model, data)
    if wants_json():
        emit_json({key: value for key, value in summary.items() if key != "scores"})
        return
    from eastward.cli.tables_shown import confusion_table, metric_table

    say(f"{summary['rows']:,} rows of {data.name}, judged by the model in {model}")
    say(metric_table(summary["metrics"], loaded.metric.name))
    say(confusion_table(summary, width=result_console().width))
    if report is not None:
        say(f"report   {report}")


def _columns(model: Path, data: Path, encoding: str) -> list[str]:
    """Return the columns to read; loading the model takes seconds, so missing ones are reported first."""
    from eastward import _messages
    from eastward.cli.predict import checked_columns
    from eastward.data import table_columns

    task = read_task(model)
    target = task["target"]
    if target not in table_columns(data, encoding=encoding):
        advice = "To predict without labels: eastward predict."
        _messages.fail("evaluate", "data", f"a table with the target {target!r}", data.name, advice)
    return [*checked_columns(task, data, [], encoding), target]


def _scores(
    model: TableModel,
    data: Path,
    columns: list[str],
    encoding: str,
    sample: RowSample | None,
    *,
    drop_missing: bool,
) -> Any:
    """Return log-probabilities and true classes of all labelled rows, without loading all features at once."""
    import numpy as np

    from eastward import _messages
    from eastward.data import Column, iter_tables, label_codes
    from eastward.data.classes import renamed

    target = model.task["target"]
    kinds = [*model.columns, Column(target, "text")]
    logs, codes, missing = [], [], 0
    for part in iter_tables(
        data, model.batch_rows, columns=columns, kinds=kinds, encoding=encoding
    ):
        labels = renamed(part[target], model.task.get("renamed_labels", {}))
        found = label_codes(labels, model.classes, target)
        missing += int((found < 0).sum())
        logs.append(model.log_probabilities(part)[found >= 0])
        codes.append(found[found >= 0])
        if sample is not None:
            sample.add(part[found >= 0], codes[-1])
    if missing and not drop_missing:
        advice = "Fill them in, or leave those rows out with --drop-missing-target."
        got = f"{missing:,} missing values"
        _messages.fail("evaluate", f"target {target!r}", "filled in for every row", got, advice)
    if missing:
        note(f"note: {missing:,} rows without a value of {target!r} were left out")
    if not sum(map(len, codes)):
        _messages.fail("evaluate", "data", "a table with labelled rows", data.name)
    return np.concatenate(logs), np.concatenate(codes)


def _write(
    path: Path,
    evaluation: dict[str, Any],
    model: TableModel,
    sample: RowSample,
    folder: Path,
    data: Path,
) -> None:
    import shlex

    from eastward.reporting import report_summary, write_report
    from eastward.reporting.model_importance import model_importance
    from eastward.reporting.training_words import training_words

    summary = report_summary(
        f"{model.task['target']} in {data.name}",
        model.metric,
        evaluation=evaluation,
        importance=model_importance(model, *sample.rows()),
        training=training_words(model.classifier),
        commands={"evaluate": shlex.join(["eastward", "evaluate", str(folder), str(data)])},
    )
    write_report(summary, path)
