"""An experiment from its description to its numbers: search on validation rows, then trials."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from eastward import _checks
from papers.data.catalogue import origin_of
from papers.data.generated import write_generated, write_own_tables
from papers.data.sources import SOURCES, given_folder
from papers.experiments.cells import Cell, CellBook, cell_key, describe_cell, run_cell
from papers.experiments.design import Experiment, Panel
from papers.experiments.efforts import SCALES, Effort, effort_for, grid_points

__all__ = ["Run", "chosen_point", "run_experiment"]

CELLS_FILE, UNDER_WAY = "cells.jsonl", ".under_way"


@dataclass(frozen=True)
class Run:
    """How an experiment is run.

    Attributes
    ----------
    scale : {"smoke", "cpu", "paper"}
        The size of the experiment.
    results : Path
        Folder of results; cells are kept in its ``cells.jsonl``, shared by all experiments.
    folder : Path or None
        The data folder. At the scale ``smoke`` nothing needs to be there: made-up data serve.
    trials : int or None
        Number of trials, instead of the scale's.
    seed : int
        Seed of the first trial; the others follow.
    jobs : int
        Number of processes.
    only : tuple of str
        Data sets or panels to run; all if empty.
    methods : tuple of str
        Rows to run; all if empty.
    """

    scale: str
    results: Path
    folder: Path | None = None
    trials: int | None = None
    seed: int = 0
    jobs: int = 1
    only: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()

    @property
    def book(self) -> CellBook:
        """The cells finished so far."""
        return CellBook(self.results / CELLS_FILE)

    def effort(self, panel: Panel, method: str) -> Effort:
        """The size of one row."""
        return effort_for(self.scale, panel, method, self.trials)

    def cell(self, panel: Panel, method: str, point: dict[str, Any], trial: int) -> Cell:
        """One cell of a row."""
        cell = describe_cell(panel, method, self.effort(panel, method), point)
        if self.scale == "smoke":
            cell["made_up"] = self.folder is None
        return cell | {"trial": self.seed + trial}

    def rows(self, panel: Panel) -> tuple[str, ...]:
        """Return the chosen methods of ``panel``."""
        if self.only and (panel.key or panel.data) not in self.only:
            return ()
        return tuple(name for name in panel.methods if not self.methods or name in self.methods)

    def check(self, experiment: Experiment) -> None:
        """Check at once that the scale, data sets and rows are known."""
        _checks.one_of("run", "--scale", self.scale, SCALES)
        known = tuple(dict.fromkeys(p.key or p.data for p in experiment.panels))
        for name in self.only:
            _checks.one_of(experiment.name, "--only", name, known)
        rows = tuple(dict.fromkeys(name for p in experiment.panels for name in p.methods))
        for name in self.methods:
            _checks.one_of(experiment.name, "--method", name, rows)

    def whole(self) -> Run:
        """The run without its restrictions to some panels and rows."""
        return replace(self, only=(), methods=())


Progress = Callable[[Cell, dict[str, Any], int], None]


def run_experiment(experiment: Experiment, run: Run, progress: Progress | None = None) -> float:
    """Run every missing cell of an experiment.

    Parameters
    ----------
    experiment : Experiment
        The experiment.
    run : Run
        The settings of the run.
    progress : callable, optional
        Called with each finished cell, its result and the number of cells left in its stage.

    Returns
    -------
    float
        Seconds that passed.
    """
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as made_up:
        folder = _data(experiment, run, Path(made_up))
        for panel in experiment.panels:
            if run.rows(panel):
                _run_panel(panel, run, folder, progress)
    return time.perf_counter() - started


def _data(experiment: Experiment, run: Run, made_up: Path) -> Path | None:
    if run.scale == "smoke" and run.folder is None:
        origins = {origin_of(panel.data) for panel in experiment.panels}
        write_generated(made_up, sorted(origins & set(SOURCES)))
        write_own_tables(made_up, sorted(origins - set(SOURCES)))
        return made_up
    return given_folder(run.folder)


def _run_panel(panel: Panel, run: Run, folder: Path | None, progress: Progress | None) -> None:
    """Run the search first, then the trials, which use the best point of the search.

    Trials come in turn for all rows, so that a run that is stopped has pairs to compare.
    """
    book, rows = run.book, run.rows(panel)
    search = [
        run.cell(panel, method, point, 0)
        for method in rows
        for point in grid_points(run.effort(panel, method))
    ]
    _run_missing(search, run, folder, book, progress)
    trials = [
        run.cell(panel, method, chosen_point(panel, method, run, book), trial)
        for trial in range(max(run.effort(panel, method).trials for method in rows))
        for method in rows
        if trial < run.effort(panel, method).trials
    ]
    _run_missing(trials, run, folder, book, progress)


def chosen_point(panel: Panel, method: str, run: Run, book: CellBook) -> dict[str, Any]:
    """The point of the grid with the lowest validation loss; the first, where there is none."""
    points = grid_points(run.effort(panel, method))
    losses = []
    for point in points:
        found = book.find(run.cell(panel, method, point, 0))
        loss = None if found is None else found["valid_loss"]
        losses.append(float("inf") if loss is None else loss)
    return points[min(range(len(points)), key=losses.__getitem__)]


def _run_missing(
    cells: Sequence[Cell],
    run: Run,
    folder: Path | None,
    book: CellBook,
    progress: Progress | None,
) -> None:
    missing = [
        cell for k, cell in enumerate(cells) if book.find(cell) is None and cell not in cells[:k]
    ]
    # Made-up data have another balance than the published one.
    verify = not (run.scale == "smoke" and run.folder is None)
    under_way = run.results / UNDER_WAY
    for done, (cell, result) in enumerate(
        _results(missing, folder, verify, under_way, run.jobs), 1
    ):
        book.add(cell, result)
        if progress is not None:
            progress(cell, result, len(missing) - done)


def _results(
    cells: Sequence[Cell], folder: Path | None, verify: bool, under_way: Path, jobs: int
) -> Iterator[tuple[Cell, dict[str, Any]]]:
    if jobs == 1:
        for cell in cells:
            yield _finished(cell, folder, verify, under_way)
        return
    from joblib import Parallel, delayed  # noqa: PLC0415  # one process needs none of it

    parallel = Parallel(n_jobs=jobs, return_as="generator_unordered")
    yield from parallel(delayed(_in_worker)(cell, folder, verify, under_way) for cell in cells)


def _finished(
    cell: Cell, folder: Path | None, verify: bool, under_way: Path
) -> tuple[Cell, dict[str, Any]]:
    checkpoint = under_way / f"{cell_key(cell)}.pt"
    return cell, run_cell(cell, folder, verify=verify, checkpoint=checkpoint)


def _in_worker(
    cell: Cell, folder: Path | None, verify: bool, under_way: Path
) -> tuple[Cell, dict[str, Any]]:
    torch.set_num_threads(1)
    return _finished(cell, folder, verify, under_way)
