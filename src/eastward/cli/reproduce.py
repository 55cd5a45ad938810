"""`eastward reproduce`: the papers' tables and figures, run again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.table import Table

from eastward.cli import options
from eastward.cli.errors import going_on
from eastward.cli.options import command_line
from eastward.cli.output import emit_json, say, status_console, wants_json

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from eastward.experiments.design import Experiment

__all__ = ["reproduce"]

Name = Annotated[
    str | None, typer.Argument(metavar="NAME", help="A table, a figure or a check; see --list.")
]
Scale = Annotated[
    str,
    typer.Option(
        "--scale",
        metavar="SCALE",
        help="smoke: seconds, to see that it runs; cpu: reduced for one core; paper: the full protocol.",
    ),
]
Seeds = Annotated[
    int | None, typer.Option("--seeds", min=1, help="Trials; the scale's own number if not given.")
]
DataDir = Annotated[
    Path | None,
    typer.Option("--data-dir", metavar="DIR", help="Data folder; EASTWARD_DATA if not given."),
]
Out = Annotated[
    Path | None,
    typer.Option(
        "--out",
        "-o",
        metavar="DIR",
        help="Results; a run that was stopped there goes on. results, at scale smoke build/smoke, if not given.",
    ),
]
Only = Annotated[
    list[str] | None,
    typer.Option("--only", metavar="DATA", help="Run this data set only. May be repeated."),
]
SplitSeed = Annotated[
    int, typer.Option("--split", min=0, help="Another split: how much is the luck of this one?")
]
Jobs = Annotated[int, typer.Option("--jobs", "-j", help="Processes; -1 for all cores.")]
Download = Annotated[bool, typer.Option("--download", help="Fetch missing data from their owners.")]
Render = Annotated[
    bool, typer.Option("--render", help="Run nothing: write the pages from what is finished.")
]
List = Annotated[bool, typer.Option("--list", help="Show every name with its time at scale cpu.")]


def reproduce(
    context: typer.Context,
    name: Name = None,
    scale: Scale = "cpu",
    seeds: Seeds = None,
    data_dir: DataDir = None,
    out: Out = None,
    only: Only = None,
    split: SplitSeed = 0,
    jobs: Jobs = 1,
    download: Download = False,
    render: Render = False,
    listing: List = False,
    seed: options.Seed = 0,
    json: options.Json = False,
) -> None:
    """Run a table or figure of the papers again, and put our numbers beside theirs.

    Finished cells are kept, so a run may be stopped at any time. The scale is printed on every page: a reduced run is
    never shown as the paper's. With --scale smoke and no data folder, made-up data serve.

    \b
    Examples:
      eastward reproduce --list
      eastward reproduce btg-table4 --scale smoke -o /tmp/results
      eastward reproduce btg-table4 --data-dir data
    """
    if listing or name is None:
        _show_list()
        return
    from eastward.experiments import Run, get, run_experiment
    from eastward.experiments.overview import write_results
    from eastward.experiments.summary import summarise

    experiment = get(name)
    folder = _folder(data_dir, scale)
    # Figures of a test must not replace those that mean something.
    results = out or Path("build/smoke" if scale == "smoke" else "results")
    run = Run(scale, results, folder, seeds, seed, jobs, tuple(only or ()), split)
    run.effort(experiment.panels[0], experiment.panels[0].methods[0])  # a wrong scale is told now
    again = command_line(context, download=False, render=False, data_dir=None, jobs=None)
    if download:
        _fetch(experiment, folder, run.only)
    if not render:
        advice = f"Finished cells are kept; continue with the same command:  {again}"
        with going_on(advice), _progress() as progress:
            run_experiment(experiment, run, progress)
    summary = summarise(experiment, run, command=again)
    page = write_results(summary, results)
    if wants_json():
        emit_json(summary)
        return
    _show(summary)
    say(f"\npage     {page}")


def _folder(data_dir: Path | None, scale: str) -> Path | None:
    from eastward.datasets import data_folder

    if data_dir is not None:
        return data_dir
    # A smoke test uses made-up data unless a folder is asked for by name.
    return None if scale == "smoke" else data_folder()


def _show_list() -> None:
    from eastward.experiments import EXPERIMENTS

    rows = [
        {"name": e.name, "what": e.title, "source": e.source, "minutes": e.minutes}
        for e in EXPERIMENTS.values()
    ]
    if wants_json():
        emit_json(rows)
        return
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("name", no_wrap=True)
    table.add_column("what")
    table.add_column("minutes", justify="right", no_wrap=True)
    for e in EXPERIMENTS.values():
        table.add_row(e.name, f"{e.title} ({e.source})", f"{e.minutes:g}")
    say(table)
    say(
        "Minutes: estimated, scale cpu, one idle core. Scale smoke takes seconds; paper is for a GPU and days."
    )


def _fetch(experiment: Experiment, folder: Path | None, only: tuple[str, ...]) -> None:
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    from eastward.datasets import SOURCES, download
    from eastward.datasets.catalogue import origin_of

    panels = [panel for panel in experiment.panels if not only or panel.data in only]
    wanted = {origin_of(panel.data) for panel in panels}
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=status_console()) as bars:
        for name in SOURCES:
            if name in wanted and SOURCES[name].files:
                bar = bars.add_task(name, total=None)
                download(name, folder, partial(_advance, bars, bar))


def _advance(bars: Progress, bar: TaskID, done: int, total: int | None) -> None:
    bars.update(bar, completed=done, total=total)


@contextmanager
def _progress() -> Iterator[Callable[..., None]]:
    console = status_console()

    def show(cell: dict[str, Any], result: dict[str, Any], left: int) -> None:
        scores = result["scores"]
        head = next(key for key in ("grid_f1", "f1", "f1_macro") if key in scores)
        console.print(
            f"{cell['data']}, {cell['method']}, trial {cell['trial']}: {head} {scores[head]:.3f} "
            f"({result['seconds']:.0f} s, {left} left)",
            style="dim",
            soft_wrap=True,
        )

    yield (lambda *_: None) if wants_json() else show


def _show(summary: dict[str, Any]) -> None:
    say(f"{summary['name']}: {summary['title']} — {summary['source']}")
    say(f"scale {summary['scale']}" + (", made-up data" if summary["made_up_data"] else ""))
    for panel in summary["panels"]:
        if not any(row["trials"] for row in panel["rows"]):
            say(f"\n{panel['title']}: not run here")
            continue
        table = Table(box=box.SIMPLE_HEAD, title=panel["title"], title_justify="left")
        table.add_column("loss")
        for title in panel["scores"].values():
            table.add_column(title, justify="right")
        for row in panel["rows"]:
            table.add_row(row["label"], *(_cell(entry) for entry in row["scores"].values()))
        say(table)


def _cell(entry: dict[str, Any]) -> str:
    ours, theirs = entry["ours"], entry["theirs"]
    left = "–" if ours is None else f"{ours['mean']:.3f} ± {ours['spread']:.3f}"
    if theirs is None:
        return left
    return f"{left}\npaper {theirs['mean']:g} ± {theirs['spread']:g}"
