"""`eastward train`: preprocessing and model, saved as one folder with a report."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import typer

from eastward.cli import options, train_options
from eastward.cli.errors import advising
from eastward.cli.folders import check_folder
from eastward.cli.network_options import check_method, training_options, with_prior
from eastward.cli.options import command_line
from eastward.cli.output import say
from eastward.cli.recommended import compare_command, is_recommended
from eastward.cli.train_shown import conclude, introduce
from eastward.cli.train_stream import check_streamable, is_streamed, train_on_stream

__all__ = ["train"]


def train(
    context: typer.Context,
    data: options.Data,
    target: options.Target,
    out: train_options.Out,
    metric: options.MetricName = "f1_macro",
    method: train_options.Method = "auto",
    comparison: train_options.From = None,
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
    holdout: train_options.Holdout = 0.2,
    epochs: train_options.Epochs = None,
    hidden: train_options.Hidden = None,
    recipe: train_options.Recipe = None,
    folds: train_options.Folds = None,
    prior: train_options.Prior = None,
    devices: train_options.Devices = 1,
    seed: options.Seed = 0,
    resume: train_options.Resume = False,
    overwrite: train_options.Overwrite = False,
    encoding: options.Encoding = "utf-8",
    verbose: train_options.Verbose = None,
    json: options.Json = False,
) -> None:
    """Train a model for one metric, and write it with a report into one folder.

    By default, the model is an ensemble of networks and trees; `eastward compare` recommends a method for your data.
    Strings, dates, missing values and categories are handled. A fifth of the rows is held out to judge the model.
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
    # In context.params, paths and lists are still strings; here they have their types.
    given = {**context.params, "data": data, "prefer": prefer, "cost": cost}
    parameters = training_options(given)
    asked = check_method(method, parameters)
    decision = {"subject_to": subject_to, "abstain_cost": abstain_cost, "coverage": coverage}
    decision = {name: value for name, value in decision.items() if value is not None}
    commands = _commands(context, out)
    if is_streamed(data):
        check_streamable(given, asked)
        again = command_line(context, resume=True, overwrite=None)
        with advising(f"Continue with:  {again}"):
            train_on_stream(given, asked, parameters, decision, commands)
        return
    task = load_task(data, target, **options.reading(context), weight=weight)
    # Imported only now, so that a mistake in the data is reported before torch is loaded.
    from eastward.cli.preferences import metric_choice

    name, bound = metric_choice(metric, prefer, cost, task.classes)
    facts = describe_task(task)
    introduce(facts, target)
    from eastward.cli.fit_model import FitPlan, chosen_for, fit_model

    parameters = with_prior(parameters, task.classes)
    plan = FitPlan(name, bound, parameters, holdout, seed, decision=decision)
    plan = chosen_for(task, plan, asked)
    if is_recommended(context):
        plan = replace(plan, reason="recommended by the comparison", compared=True)
    say(f"method   {plan.label}: {plan.reason}")
    # Only networks write checkpoints.
    again = command_line(context, resume=plan.is_network or None, overwrite=None)
    with advising(f"Continue with:  {again}"):
        summary = fit_model(task, facts, plan, out, commands=commands)
    conclude(summary, out)


def _commands(context: typer.Context, out: Path) -> dict[str, str]:
    import shlex

    return {
        "train": command_line(context, resume=None, overwrite=None),
        "predict": shlex.join(
            ["eastward", "predict", str(out), "NEW_DATA", "-o", "predictions.csv"]
        ),
        "evaluate": shlex.join(["eastward", "evaluate", str(out), "NEW_DATA"]),
        "compare": compare_command(context),
    }
