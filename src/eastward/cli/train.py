"""`eastward train`: preprocessing and model, saved as one folder with a report."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from eastward.cli import options
from eastward.cli.errors import going_on
from eastward.cli.folders import REPORT, check_folder
from eastward.cli.options import command_line
from eastward.cli.output import emit_json, note, result_console, say, wants_json
from eastward.cli.recommended import compare_command, defaults_from, is_recommended

__all__ = ["train"]

# Decoded columns beyond this size are streamed even if they come from a single file.
MEMORY_BYTES = 2 << 30
# Wider layers fit into no memory, and torch does not say so in a sentence.
WIDEST_LAYER = 100_000

Out = Annotated[
    Path,
    typer.Option(
        "--out",
        "-o",
        parser=options.named_path,
        metavar="DIR",
        help="Folder for the model and its report.",
    ),
]
Method = Annotated[
    str,
    typer.Option(
        "--method",
        metavar="NAME",
        help="auto: the ensemble of networks and trees, whose votes follow held-out rows where they are many; "
        "ensemble, network, boosting, or any method of `eastward compare`, such as random_forest_tuned.",
    ),
]
From = Annotated[
    Path | None,
    typer.Option(
        "--from",
        callback=defaults_from,
        is_eager=True,
        metavar="DIR",
        help="The folder of `eastward compare --out`: train what it recommends, on the same data.",
    ),
]
Resume = Annotated[
    bool, typer.Option("--resume", help="Continue a network's run that was stopped.")
]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Replace a model that is in the folder.")
]
Holdout = Annotated[
    float,
    typer.Option(
        "--holdout", metavar="SHARE", help="Share of rows to judge by; 0 trains on everything."
    ),
]
Epochs = Annotated[
    int | None,
    typer.Option("--epochs", min=1, help="At most so many in each stage of a network."),
]
Hidden = Annotated[
    str | None,
    typer.Option("--hidden", metavar="WIDTHS", help="Layers of networks, such as 512,256,128."),
]
Recipe = Annotated[
    str | None,
    typer.Option(
        "--recipe",
        help="For --method network. auto: cross-entropy, then the metric itself; paper: EAST from scratch; "
        "cross_entropy; btg.",
    ),
]
Folds = Annotated[
    str | None,
    typer.Option(
        "--folds",
        help="For --method network: how many are cross-fitted; auto is 5 up to 50 000 rows.",
    ),
]
Prior = Annotated[
    str | None,
    typer.Option(
        "--prior",
        metavar="balanced|LABEL=SHARE,…",
        help="For --method network: the class frequencies that it will be judged by, if not those of the data; "
        "balanced: all classes alike.",
    ),
]
Devices = Annotated[
    int,
    typer.Option(
        "--devices",
        min=1,
        help="For --method network: processes that train together, with the steps of one.",
    ),
]
Verbose = Annotated[
    bool | None,
    typer.Option(
        "--verbose/--quiet",
        "-v/-q",
        help="A line for each epoch, or nothing; if not given, a bar in a terminal.",
    ),
]


def train(
    context: typer.Context,
    data: options.Data,
    target: options.Target,
    out: Out,
    metric: options.MetricName = "f1_macro",
    method: Method = "auto",
    comparison: From = None,
    prefer: options.Prefer = None,
    cost: options.Cost = None,
    subject_to: options.SubjectTo = None,
    abstain_cost: options.AbstainCost = None,
    coverage: options.Coverage = None,
    ignore: options.Ignore = None,
    weight: options.Weight = None,
    group: options.Group = None,
    time: options.Time = None,
    decimal: options.Decimal = None,
    text: options.AsText = None,
    drop_missing_target: options.DropMissing = False,
    drop_rare_classes: options.DropRare = False,
    min_class_rows: options.MinClassRows = None,
    merge_rare: options.MergeRare = None,
    merge_labels: options.MergeLabels = False,
    holdout: Holdout = 0.2,
    epochs: Epochs = None,
    hidden: Hidden = None,
    recipe: Recipe = None,
    folds: Folds = None,
    prior: Prior = None,
    devices: Devices = 1,
    seed: options.Seed = 0,
    resume: Resume = False,
    overwrite: Overwrite = False,
    encoding: options.Encoding = "utf-8",
    verbose: Verbose = None,
    json: options.Json = False,
) -> None:
    """Train a model for one metric, and write it with a report into one folder.

    By default that is an ensemble of networks and trees; `eastward compare` says what suits your data. Strings,
    dates, missing values and categories are taken care of. A fifth of the rows is held out to judge the model by.
    Nothing in the folder is executed when the model is loaded.

    \b
    Examples:
      eastward train claims.csv --target fraud --out fraud-model
      eastward train --from comparison --out fraud-model           (after `compare --out comparison`)
      eastward train claims.csv -t fraud --method random_forest_tuned -o forest
      eastward train claims.csv -t fraud --prefer recall:yes=5 -o careful
      eastward train claims.csv -t fraud --cost costs.csv -o cheapest
      eastward train claims.csv -t fraud --subject-to "recall[yes] >= 0.9" -o sure
      eastward train claims.csv -t fraud --coverage 0.9 -o with-a-person
      eastward train claims.csv -t fraud --prior no=0.98,yes=0.02 -o for-the-field
      eastward train visits.csv -t outcome --group patient -o fair
      eastward train claims.xlsx -t fraud --time filed -o later
      eastward train claims.csv -t fraud -o fraud-model --resume   (after a crash)
      eastward train parquet-folder -t fraud -o big --devices 2    (larger than memory)
    """
    from eastward.data import describe_task, load_task

    check_folder(out, resume=resume, overwrite=overwrite)
    parameters = network_options(hidden, epochs) | {
        "recipe": recipe,
        "n_folds": None if folds is None else fold_count(folds),
        "prior": prior,
        "devices": None if devices == 1 else devices,
        "verbose": _shown(verbose),
    }
    parameters = {name: value for name, value in parameters.items() if value is not None}
    asked = check_method(method, parameters)
    decision = {"subject_to": subject_to, "abstain_cost": abstain_cost, "coverage": coverage}
    decision = {name: value for name, value in decision.items() if value is not None}
    commands = _commands(context, data, out)
    if is_streamed(data):
        given = {"--group": group, "--time": time, "--min-class-rows": min_class_rows}
        check_not_streamed({**given, "--merge-rare": merge_rare, "--merge-labels": merge_labels})
        check_not_streamed(
            {"--method": None if asked in ("auto", "ensemble", "eastward") else method}
        )
        chosen = (metric, prefer, cost)
        opened = {"ignore": ignore or (), "weight": weight, "holdout": holdout, "seed": seed}
        opened |= {"decimal": decimal, "text": text or ()}
        again = command_line(context, resume=True, overwrite=None)
        wanted = StreamPlan(asked, chosen, parameters, decision)
        with going_on(f"Continue with:  {again}"):
            _train_on_stream(data, target, opened, wanted, out, commands)
        return
    task = load_task(
        data,
        target,
        drop_missing_target=drop_missing_target,
        drop_rare_classes=drop_rare_classes,
        min_class_rows=min_class_rows,
        merge_rare=merge_rare,
        merge_labels=merge_labels,
        ignore=ignore or (),
        weight=weight,
        group=group,
        time=time,
        decimal=decimal,
        text=text or (),
        encoding=encoding,
    )
    # Only now: a mistake in the data is told before torch is loaded.
    from eastward.cli.preferences import metric_choice

    name, bound = metric_choice(metric, prefer, cost, task.classes)
    facts = describe_task(task)
    _introduce(facts, target)
    from eastward.cli.fit_model import FitPlan, chosen_for, fit_model

    parameters = with_prior(parameters, task.classes)
    plan = FitPlan(name, bound, parameters, holdout, seed, decision=decision)
    plan = chosen_for(task, plan, asked)
    if is_recommended(context):
        plan = replace(plan, reason="recommended by the comparison")
    say(f"method   {plan.label}: {plan.reason}")
    # Only networks write checkpoints to go on from.
    again = command_line(context, resume=plan.is_network or None, overwrite=None)
    with going_on(f"Continue with:  {again}"):
        summary = fit_model(task, facts, plan, out, commands=commands)
    _conclude(summary, out)


def check_method(method: str, parameters: dict[str, Any]) -> str:
    """The method as `compare` calls it, or "auto"; options of a network make it a network."""
    from eastward import _messages

    named = {"network": "eastward"}.get(method, method)
    own = {"recipe": "--recipe", "n_folds": "--folds", "prior": "--prior", "devices": "--devices"}
    given = [option for name, option in own.items() if name in parameters]
    if named in ("auto", "eastward"):
        return "eastward" if given else named
    if named not in ("ensemble", "boosting"):
        from eastward.comparison import method_names

        _messages.one_of("train", "--method", named, ("auto", "network", *method_names()))
    if given:
        advice = "It describes a network: leave it out, or take --method network."
        _messages.fail("train", given[0], f"left out for {method}", "a value", advice)
    return named


def is_streamed(data: Path) -> bool:
    """Whether ``data`` is a folder, or a Parquet file too large to be held in memory."""
    if not data.is_file() or data.suffix.lower() not in (".parquet", ".pq"):
        return data.is_dir()
    import pyarrow.parquet

    try:
        footer = pyarrow.parquet.read_metadata(data)
    except (pyarrow.ArrowInvalid, OSError):
        return False  # whoever reads it into memory will say what is wrong with it
    sizes = (footer.row_group(k).total_byte_size for k in range(footer.num_row_groups))
    return bool(sum(sizes) > MEMORY_BYTES)


def check_not_streamed(options_given: dict[str, Any]) -> None:
    """Refuse options that need all rows at once."""
    from eastward import _messages

    given = [name for name, value in options_given.items() if value]
    if given:
        advice = "Give a single file that fits into memory."
        expected = "left out for a table that is streamed"
        _messages.fail("train", given[0], expected, options_given[given[0]], advice)


class StreamPlan(NamedTuple):
    """What was asked for besides the data: the method, the metric, and parameters of networks and of the decision."""

    method: str
    metric: tuple[str, list[str] | None, Path | None]
    parameters: dict[str, Any]
    decision: dict[str, Any]


def _train_on_stream(
    data: Path,
    target: str,
    opened: dict[str, Any],
    asked: StreamPlan,
    out: Path,
    commands: dict[str, str],
) -> None:
    """Train on a table that is larger than memory, reading it block by block."""
    from eastward.cli.fit_model import FitPlan
    from eastward.cli.preferences import metric_choice
    from eastward.cli.stream_model import chosen_for_stream, fit_stream_model, open_stream

    task = open_stream(data, target, **opened)
    name, bound = metric_choice(*asked.metric, task.classes)
    _introduce(task.facts, target)
    parameters = with_prior(asked.parameters, task.classes)
    plan = FitPlan(
        name,
        bound,
        parameters,
        opened["holdout"],
        opened["seed"],
        decision=asked.decision,
    )
    plan = chosen_for_stream(plan, asked.method)
    say(f"method   {plan.label}: {plan.reason}")
    _conclude(fit_stream_model(task, plan, out, commands=commands), out)


def network_options(hidden: str | None, epochs: int | None) -> dict[str, Any]:
    """Parameters of networks, as far as they were given; the others keep the defaults of their method."""
    widths = {} if hidden is None else {"hidden": layer_widths(hidden)}
    return widths | ({} if epochs is None else {"max_epochs": epochs})


def layer_widths(text: str) -> tuple[int, ...]:
    """Widths of layers from "512,256,128"."""
    from eastward import _messages

    words = [word for word in text.replace("x", ",").split(",") if word.strip()]
    if not words or not all(word.strip().isdigit() for word in words):
        _messages.fail("train", "--hidden", "widths such as 512,256,128", repr(text))
    if not all(0 < int(word) <= WIDEST_LAYER for word in words):
        expected = f"widths from 1 to {WIDEST_LAYER:,}"
        _messages.fail("train", "--hidden", expected, repr(text))
    return tuple(int(word) for word in words)


def with_prior(parameters: dict[str, Any], classes: Any) -> dict[str, Any]:
    """The parameters with class frequencies as numbers in the order of the classes."""
    if parameters.get("prior") in (None, "balanced"):
        return parameters
    from eastward.cli.predict import prior_of
    from eastward.data import label_names

    names = label_names(classes)
    found = prior_of(parameters["prior"], names, caller="train", word="balanced")
    return {**parameters, "prior": found}


def fold_count(text: str) -> int | str:
    """A number of folds, or "auto"."""
    from eastward import _messages

    if text == "auto":
        return text
    if not text.isdigit() or int(text) < 1:
        _messages.fail("train", "--folds", "auto or a number", repr(text))
    return int(text)


def _shown(verbose: bool | None) -> int:
    """The classifier's level: 1 is a bar for whoever watches a terminal; lines need a handler besides."""
    if verbose:
        import logging

        lines = logging.StreamHandler(sys.stderr)
        logger = logging.getLogger("eastward")
        logger.setLevel(logging.INFO)
        logger.handlers = [lines]
    return int(verbose is not False and not wants_json())


def _introduce(facts: dict[str, Any], target: str) -> None:
    from eastward.cli.tables_shown import data_shown

    if wants_json():
        for warning in facts["warnings"]:
            note(f"look: {warning}")
    say(data_shown(facts, target))


def _commands(context: typer.Context, data: Path, out: Path) -> dict[str, str]:
    import shlex

    return {
        "train": command_line(context, resume=None, overwrite=None),
        "predict": shlex.join(
            ["eastward", "predict", str(out), "NEW_DATA", "-o", "predictions.csv"]
        ),
        "evaluate": shlex.join(["eastward", "evaluate", str(out), str(data)]),
        "compare": compare_command(context),
    }


def _conclude(summary: dict[str, Any], out: Path) -> None:
    from eastward.cli.tables_shown import confusion_table, verdict_shown

    if wants_json():
        kept = {key: summary[key] for key in ("title", "metric", "method", "verdict", "data")}
        scores = (summary["evaluation"] or {}).get("metrics")
        emit_json({"model": str(out), "report": str(out / REPORT), "metrics": scores, **kept})
        return
    for sentence in summary["training"]["notes"]:
        note(f"note: {sentence}")
    if summary["evaluation"] is not None:
        say(confusion_table(summary["evaluation"], width=result_console().width))
    say(verdict_shown(summary["verdict"]))
    say(f"\nreport   {out / REPORT}\nmodel    {out}\npredict  {summary['commands']['predict']}")
