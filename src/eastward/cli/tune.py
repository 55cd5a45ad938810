"""`eastward tune`: search the best parameters by the metric, on one machine or several."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from eastward._files import write_whole
from eastward.cli import options
from eastward.cli.errors import advising
from eastward.cli.folders import check_place
from eastward.cli.options import command_line
from eastward.cli.output import emit_json, say, wants_json
from eastward.cli.stages import stage

__all__ = ["tune"]

SpaceName = Annotated[
    str,
    typer.Option(
        "--space",
        metavar="NAME",
        help="auto, or a grid of the EAST paper: east_tables, east_kaggle, east_cifar10, east_caltech256.",
    ),
]
Trials = Annotated[int, typer.Option("--trials", min=1, help="Number of finished trials.")]
Storage = Annotated[
    str | None,
    typer.Option(
        "--storage",
        metavar="FILE|URL",
        help="A journal file or a database, which several machines can share. "
        "Default: study.log in the folder of --out.",
    ),
]
Study = Annotated[
    str, typer.Option("--study", metavar="NAME", help="Name of the study in the storage.")
]
Seconds = Annotated[
    float | None, typer.Option("--seconds", min=1, help="No trial starts after this many seconds.")
]
Epochs = Annotated[
    int, typer.Option("--epochs", min=1, help="Largest number of epochs in each stage.")
]
Out = Annotated[
    Path,
    typer.Option(
        "--out",
        "-o",
        parser=options.named_path,
        metavar="DIR",
        help="Folder for the best parameters (best.json).",
    ),
]


def tune(
    context: typer.Context,
    data: options.Data,
    target: options.Target,
    out: Out,
    metric: options.MetricName = "f1_macro",
    space: SpaceName = "auto",
    trials: Trials = 20,
    storage: Storage = None,
    study: Study = "eastward",
    seconds: Seconds = None,
    epochs: Epochs = 200,
    ignore: options.Ignore = None,
    decimal: options.Decimal = None,
    text: options.AsText = None,
    drop_missing_target: options.DropMissing = False,
    drop_rare_classes: options.DropRare = False,
    min_class_rows: options.MinClassRows = None,
    merge_rare: options.MergeRare = None,
    merge_labels: options.MergeLabels = False,
    seed: options.Seed = 0,
    encoding: options.Encoding = "utf-8",
    json: options.Json = False,
) -> None:
    """Search learning rate, batch size, dropout and network by the metric you are judged by.

    Trials that fall behind are stopped. Repeat the command to continue. Run it on other machines with the same
    --storage to share the work.

    \b
    Examples:
      eastward tune claims.csv --target fraud --out search
      eastward tune claims.csv -t fraud -o search --space east_tables --trials 60
      eastward tune claims.csv -t fraud -o search --storage postgresql://host/studies
    """
    check_place("tune", out)
    from eastward.data import load_task, make_vectorizer

    task = load_task(
        data,
        target,
        drop_missing_target=drop_missing_target,
        drop_rare_classes=drop_rare_classes,
        min_class_rows=min_class_rows,
        merge_rare=merge_rare,
        merge_labels=merge_labels,
        ignore=ignore or (),
        decimal=decimal,
        text=text or (),
        encoding=encoding,
    )
    from eastward.tuning import tune as search

    out.mkdir(parents=True, exist_ok=True)
    with (
        advising(f"Continue with:  {command_line(context)}"),
        stage(f"searching in {trials} trials"),
    ):
        result = search(
            make_vectorizer().fit_transform(task.features),
            task.labels,
            metric,
            space=space,
            trials=trials,
            storage=storage or out / "study.log",
            study=study,
            parameters={"max_epochs": epochs},
            seconds=seconds,
            random_state=seed,
        )
    _conclude(result, metric, out)


def _conclude(result: Any, metric: str, out: Path) -> None:
    import json

    document = {"metric": metric, "score": result.score, "parameters": result.parameters}
    write_whole(out / "best.json", json.dumps(document, indent=1).encode())
    if wants_json():
        emit_json({**document, "trials": result.trials})
        return
    say(_table(result, metric))
    shown = ", ".join(f"{name}={value!r}" for name, value in result.parameters.items())
    say(
        f"\nbest     {metric} {abs(result.score):.4f} on held-out rows\nuse      EASTClassifier({shown})"
    )
    say(f"written  {out / 'best.json'}")


def _table(result: Any, metric: str) -> Any:
    from rich.table import Table

    finished = [trial for trial in result.trials if trial["score"] is not None]
    best = sorted(finished, key=lambda trial: -trial["score"])[:10]
    stopped = sum(trial["state"] == "pruned" for trial in result.trials)
    table = Table(
        title=f"{len(result.trials)} trials, {stopped} stopped early; the best of them", box=None
    )
    names = sorted({name for trial in best for name in trial["parameters"]})
    for heading in ("trial", metric, *names):
        table.add_column(heading)
    for trial in best:
        values = [f"{trial['parameters'].get(name)}"[:10] for name in names]
        table.add_row(str(trial["number"]), f"{abs(trial['score']):.4f}", *values)
    return table
