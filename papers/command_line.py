"""`python -m papers`: the papers' tables and figures, run again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.table import Table

from eastward import _messages
from eastward.cli import options
from eastward.cli.errors import ExplainingGroup, advising
from eastward.cli.folders import check_place
from eastward.cli.options import command_line
from eastward.cli.output import emit_json, say, status_console, wants_json

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from papers.experiments.design import Experiment

__all__ = ["app", "main"]

PROGRAM = "python -m papers"
RESULTS, TRIED = Path("papers/results"), Path("build/smoke")

app = typer.Typer(
    cls=ExplainingGroup,
    name=PROGRAM,
    help="Run the tables and figures of EAST, Bridging the Gap and Lee et al. again, our numbers beside theirs.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of a table, a figure or a check.")]
Scale = Annotated[
    str,
    typer.Option(
        "--scale",
        metavar="SCALE",
        help="smoke: seconds, to see that it runs; cpu: what two cores can do; paper: the full protocol.",
    ),
]
Seeds = Annotated[
    int | None,
    typer.Option("--seeds", min=1, max=1000, help="Number of trials. Default: that of the scale."),
]
DataDir = Annotated[
    Path | None,
    typer.Option("--data-dir", metavar="DIR", help="Data folder. Default: EASTWARD_DATA."),
]
Out = Annotated[
    Path | None,
    typer.Option(
        "--out",
        "-o",
        metavar="DIR",
        help="Results; a run that was stopped there goes on. papers/results, or build/smoke at scale smoke.",
    ),
]
Only = Annotated[
    list[str] | None,
    typer.Option(
        "--only", metavar="PANEL", help="Run only this data set or panel. May be repeated."
    ),
]
Rows = Annotated[
    list[str] | None,
    typer.Option("--method", metavar="METHOD", help="Run only this row. May be repeated."),
]
Jobs = Annotated[int, typer.Option("--jobs", "-j", help="Number of processes; -1 for all cores.")]
Download = Annotated[bool, typer.Option("--download", help="Fetch missing data from their owners.")]


@app.command("list")
def show_list(json: options.Json = False) -> None:  # noqa: ARG001  # its callback remembers it
    """List all experiments, with a description and the time that they take at scale cpu."""
    from papers.experiments import EXPERIMENTS  # noqa: PLC0415  # --help must not wait for torch

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
    say("Minutes: estimated, scale cpu, one idle core. Scale smoke takes seconds.")


@app.command()
def run(
    context: typer.Context,
    name: Name,
    scale: Scale = "cpu",
    seeds: Seeds = None,
    data_dir: DataDir = None,
    out: Out = None,
    only: Only = None,
    method: Rows = None,
    jobs: Jobs = 1,
    download: Download = False,
    seed: options.Seed = 0,
    json: options.Json = False,  # noqa: ARG001  # its callback remembers it
) -> None:
    """Run a table or figure of the papers again, and put our numbers beside theirs.

    Finished cells are stored, so a run may be stopped at any time. The scale is printed on every page: a reduced run
    is never shown as the paper's. With --scale smoke and no data folder, generated data are used.

    \b
    Examples:
      python -m papers run btg-table4 --scale smoke
      python -m papers run btg-table4 --data-dir data
    """  # noqa: D301  # the character that keeps the lines of its paragraph
    from papers.experiments import Run, get, run_experiment  # noqa: PLC0415  # as above
    from papers.experiments.overview import write_overview, write_page  # noqa: PLC0415
    from papers.experiments.summary import summarise  # noqa: PLC0415

    experiment = get(name)
    _check_jobs(jobs)
    check_place("run", out or RESULTS)
    folder = _folder(data_dir, scale)
    # Figures of a smoke test must not replace real ones.
    results = out or (TRIED if scale == "smoke" else RESULTS)
    chosen = Run(scale, results, folder, seeds, seed, jobs, tuple(only or ()), tuple(method or ()))
    chosen.check(experiment)
    again = command_line(context, program=PROGRAM, download=False, data_dir=None, jobs=None)
    if download:
        _fetch(experiment, folder, chosen.only)
    advice = f"Finished cells are kept; continue with the same command:  {again}"
    with advising(advice), _progress() as progress:
        run_experiment(experiment, chosen, progress)
    summary = summarise(experiment, chosen.whole(), command=f"{PROGRAM} run {name} --scale {scale}")
    page = write_page(summary, results)
    write_overview(results)
    if wants_json():
        emit_json(summary)
        return
    _show(summary)
    say(f"\npage     {page}")


@app.command()
def report(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME", help="Names of experiments. Default: all that were run."),
    ] = None,
    scale: Scale = "cpu",
    out: Out = None,
    json: options.Json = False,  # noqa: ARG001  # its callback remembers it
) -> None:
    """Write the pages and the summary of all claims from the cells that are finished; nothing is trained."""
    from papers.experiments import EXPERIMENTS, Run, get  # noqa: PLC0415  # as above
    from papers.experiments.overview import write_overview, write_page  # noqa: PLC0415
    from papers.experiments.summary import has_results, summarise  # noqa: PLC0415

    results = out or (TRIED if scale == "smoke" else RESULTS)
    _messages.one_of("report", "--scale", scale, ("smoke", "cpu", "paper"))
    check_place("report", results)
    asked = [get(name) for name in names or ()]
    chosen = Run(scale, results)
    # An experiment without cells is an error if it was named; otherwise it is left out.
    experiments = asked or [e for e in EXPERIMENTS.values() if has_results(e, chosen)]
    pages = []
    for experiment in experiments:
        command = f"{PROGRAM} run {experiment.name} --scale {scale}"
        pages.append(write_page(summarise(experiment, chosen, command=command), results))
        say(f"{experiment.name}: {pages[-1]}")
    page = write_overview(results)
    if wants_json():
        emit_json({"overview": str(page), "pages": [str(entry) for entry in pages]})
    say(f"all claims: {page}")


def _check_jobs(jobs: int) -> None:
    most = _messages.MOST_JOBS
    if jobs == 0 or not -most <= jobs <= most:
        _messages.fail("run", "--jobs", "a number of processes, or -1 for all cores", jobs)


def _folder(data_dir: Path | None, scale: str) -> Path | None:
    from eastward.datasets import data_folder  # noqa: PLC0415  # as above

    if data_dir is not None:
        return data_dir
    # A smoke test uses generated data unless a folder is given.
    return None if scale == "smoke" else data_folder()


def _fetch(experiment: Experiment, folder: Path | None, only: tuple[str, ...]) -> None:
    from rich.progress import (  # noqa: PLC0415  # only --download shows bars
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    from papers.data import SOURCES, download  # noqa: PLC0415  # as above
    from papers.data.catalogue import origin_of  # noqa: PLC0415

    panels = [panel for panel in experiment.panels if not only or (panel.key or panel.data) in only]
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
    left = "–" if ours is None else f"{ours['mean']:.3f}"
    if ours is not None and ours["trials"] > 1:
        left += f" ± {ours['spread']:.3f}"
    if theirs is None:
        return left
    return f"{left}\npaper {theirs['mean']:g} ± {theirs['spread']:g}"


def main() -> None:
    """Run the command that the arguments name."""
    app()
