"""`eastward compare`: find out whether metric-aligned training helps on your data."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any

import typer

from eastward import _messages
from eastward._names import METHODS
from eastward.cli import options
from eastward.cli.errors import advising
from eastward.cli.folders import REPORT, check_place
from eastward.cli.options import command_line
from eastward.cli.output import emit_json, result_console, say, status_console, wants_json
from eastward.cli.recommended import remember, train_command
from eastward.cli.stages import SECONDS_BETWEEN_LINES

if TYPE_CHECKING:
    from eastward.comparison import Comparison, Progress

__all__ = ["LogLines", "compare", "live_table"]

Out = Annotated[
    Path | None,
    typer.Option(
        "--out",
        "-o",
        parser=options.named_path,
        metavar="DIR",
        help="Folder for results and report; a comparison that was stopped continues there.",
    ),
]
Methods = Annotated[
    str | None,
    typer.Option(
        "--methods",
        metavar="NAMES",
        help="Names, separated by commas. Default: all without a star in the list below.",
    ),
]
Estimators = Annotated[
    list[str] | None,
    typer.Option(
        "--estimator",
        metavar="NAME=MODULE:OBJECT",
        help="Add a scikit-learn estimator of your own, such as svm=sklearn.svm:SVC. May be repeated.",
    ),
]
Splits = Annotated[int, typer.Option("--splits", min=2, help="Repetitions.")]
Thorough = Annotated[
    bool,
    typer.Option(
        "--thorough",
        help="Run every method on every split, even those that can no longer win.",
    ),
]
TestShare = Annotated[
    float, typer.Option("--test-share", metavar="SHARE", help="Share of test rows in each split.")
]
Jobs = Annotated[int, typer.Option("--jobs", "-j", help="Number of processes; -1 for all cores.")]
Budget = Annotated[
    float | None, typer.Option("--budget", metavar="SECONDS", help="Training time of each network.")
]
Epochs = Annotated[
    int | None,
    typer.Option("--epochs", min=1, help="Largest number of epochs in each stage of a network."),
]
Hidden = Annotated[
    str | None,
    typer.Option("--hidden", metavar="WIDTHS", help="Layers of all networks, such as 512,256,128."),
]


def compare(
    context: typer.Context,
    data: options.Data,
    target: options.Target,
    metric: options.MetricName = "f1_macro",
    prefer: options.Prefer = None,
    cost: options.Cost = None,
    subject_to: options.SubjectTo = None,
    abstain_cost: options.AbstainCost = None,
    coverage: options.Coverage = None,
    methods: Methods = None,
    estimator: Estimators = None,
    splits: Splits = 10,
    thorough: Thorough = False,
    test_share: TestShare = 0.2,
    out: Out = None,
    jobs: Jobs = -1,
    budget: Budget = None,
    epochs: Epochs = None,
    hidden: Hidden = None,
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
    seed: options.Seed = 0,
    encoding: options.Encoding = "utf-8",
    json: options.Json = False,
) -> None:
    """Compare metric-aligned training with the usual methods, and recommend one.

    All methods share splits, preprocessing and network. Differences are paired, with intervals corrected for rows that
    splits share. The answer may well be that there is no gain, and that cross-entropy with a tuned threshold is
    enough.

    \b
    Examples:
      eastward compare claims.csv --target fraud
      eastward compare claims.csv -t fraud -m matthews_corrcoef --splits 5 -o comparison
      eastward compare claims.csv -t fraud --methods cross_entropy,eastward,random_forest
      eastward compare claims.csv -t fraud --subject-to "recall[yes] >= 0.9"
      eastward compare claims.csv -t fraud -m accuracy --abstain-cost 0.1
      eastward compare claims.csv -t fraud --estimator svm=sklearn.svm:SVC

    Methods: cross_entropy, balanced_cross_entropy, focal, cross_entropy_tuned (the baseline), east_paper, eastward,
    random_forest, random_forest_tuned, gradient_boosting, gradient_boosting_tuned; and ensemble, if LightGBM is
    installed. Only by name: btg*, cross_entropy_ensemble*, cross_entropy_tuned_single*, boosting*, eastward_single*,
    extra_trees*, extra_trees_tuned*, logistic_regression*, logistic_regression_tuned*.
    """
    if out is not None:
        check_place("compare", out)
    for word in () if methods is None else methods.split(","):
        _messages.one_of("compare", "--methods", word.strip(), METHODS)
    from eastward.data import describe_task, load_task, make_vectorizer, profile_task

    task = load_task(data, target, **options.reading(context), weight=weight)
    # Imported only now, so that a mistake in the data is reported before torch is loaded.
    from eastward.cli.network_options import network_options
    from eastward.cli.preferences import metric_choice
    from eastward.cli.tables_shown import data_shown

    name, bound = metric_choice(metric, prefer, cost, task.classes)
    chosen = _chosen_methods(methods, estimator or [])
    facts = describe_task(task)
    say(data_shown(facts, target))
    from eastward.comparison import compare as run

    again = command_line(context)
    advice = "With --out DIR, finished parts are stored for the next run."
    if out is not None:
        advice = f"Continue with the same command:  {again}"
    with advising(advice), live_table() as progress:
        comparison = run(
            task.features,
            task.labels,
            name,
            methods=chosen,
            n_splits=splits,
            thorough=thorough,
            test_size=test_share,
            random_state=seed,
            n_jobs=jobs,
            store=None if out is None else out / "cells",
            budget=budget,
            preprocess=make_vectorizer(),
            progress=progress,
            sample_weight=task.weights,
            groups=task.groups,
            times=task.times,
            metric_options=bound,
            method_options=network_options(hidden, epochs, command="compare"),
            subject_to=subject_to,
            abstain_cost=abstain_cost,
            coverage=coverage,
        )
    facts = facts if out is None else {**facts, "profile": profile_task(task)}
    _conclude(comparison, facts, f"{target} in {task.name}", out, context)


def _chosen_methods(names: str | None, own: list[str]) -> list[Any]:
    """Return the methods for :func:`~eastward.compare`: names, and pairs of name and estimator."""
    from eastward.cli.own_estimators import own_estimators
    from eastward.comparison import DEFAULT_METHODS

    given = DEFAULT_METHODS if names is None else [word.strip() for word in names.split(",")]
    return [*given, *own_estimators(own)]


@contextmanager
def live_table() -> Iterator[Callable[[Progress], None]]:
    """Show progress: a growing table in a terminal, lines in a log, nothing for programs."""
    from rich.live import Live

    from eastward.cli.tables_shown import comparison_table

    console = status_console()
    if wants_json():
        yield _ignored
    elif not sys.stderr.isatty():
        yield LogLines(lambda line: console.print(line, style="dim", soft_wrap=True))
    else:
        with Live(console=console, transient=True, refresh_per_second=4) as live:

            def update(progress: Progress) -> None:
                title = f"{progress.done} of {progress.total} done"
                so_far = progress.comparison.to_dict()
                live.update(comparison_table(so_far, width=console.width, title=title))

            yield update


class LogLines:
    """Progress for a log: a line for the first cell, the last one, and one every half minute."""

    def __init__(self, show: Callable[[str], None], clock: Callable[[], float] = monotonic) -> None:
        self.show, self.clock = show, clock
        self.shown_at = float("-inf")

    def __call__(self, progress: Progress) -> None:
        """Print a line about the finished cells, if it is time for one."""
        now = self.clock()
        last = progress.done == progress.total
        if last or progress.cell is None or now - self.shown_at >= SECONDS_BETWEEN_LINES:
            self.show(_line(progress))
            self.shown_at = now


def _ignored(_: object) -> None:
    """Show nothing, for programs that read only the result."""


def _line(progress: Progress) -> str:
    cell = progress.cell
    if cell is None:
        return f"{progress.done}/{progress.total} loaded from an earlier run"
    score = "failed" if cell["score"] is None else f"{cell['score']:.3f}"
    return f"{progress.done}/{progress.total} {cell['method']}, split {cell['split'] + 1}: {score}"


def _conclude(
    comparison: Comparison, facts: Mapping[str, Any], title: str, out: Path | None, context: Any
) -> None:
    from eastward.cli.tables_shown import comparison_table, verdict_shown
    from eastward.comparison import method_names

    result = comparison.to_dict()
    recommended = result["verdict"]["recommended"]
    commands = {"compare": command_line(context)}
    if recommended in method_names():
        commands["train"] = train_command(context, recommended)
    if out is not None:
        from eastward.cli.fit_model import write_summary
        from eastward.reporting import report_summary

        summary = report_summary(
            title, comparison.metric, data=facts, comparison=result, commands=commands
        )
        write_summary(summary, out)
        remember(context, recommended, out, own="train" not in commands)
    if wants_json():
        emit_json({**result, "commands": commands})
        return
    say(comparison_table(result, width=result_console().width))
    say(verdict_shown(result["verdict"]))
    if out is not None:
        say(f"\nreport   {out / REPORT}")
    if "train" in commands:
        say(f"\ntrain it with:  {commands['train']}")
    elif recommended is not None:
        say(f"\n{recommended} is an estimator of your own: fit it with your own code.")
