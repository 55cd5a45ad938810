"""An experiment from its description to its numbers: search on validation rows, then trials."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from eastward.datasets.catalogue import origin_of
from eastward.datasets.generated import write_generated
from eastward.datasets.sources import SOURCES, given_folder
from eastward.experiments.cells import Cell, CellBook, describe_cell, run_cell
from eastward.experiments.design import Experiment, Panel
from eastward.experiments.efforts import Effort, effort_for, grid_points

__all__ = ["Run", "chosen_point", "run_experiment"]

CELLS_FILE = "cells.jsonl"


@dataclass(frozen=True)
class Run:
    """How an experiment is run.

    Attributes
    ----------
    scale : {"smoke", "cpu", "paper"}
        How much.
    results : Path
        Folder of results; cells are kept in its ``cells.jsonl``, shared by all experiments.
    folder : Path or None
        The data folder. At the scale ``smoke`` nothing needs to be there: made-up data serve.
    trials : int or None
        Instead of the scale's.
    seed : int
        Of the first trial; the others follow.
    jobs : int
        Processes.
    only : tuple of str
        Data sets to run; all if empty.
    split : int
        Seed of the split. The papers have one; another shows how much of a figure is the luck of the split.
    """

    scale: str
    results: Path
    folder: Path | None = None
    trials: int | None = None
    seed: int = 0
    jobs: int = 1
    only: tuple[str, ...] = ()
    split: int = 0

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
        if self.split:
            cell["split"] = self.split
        return cell | {"trial": self.seed + trial}


Progress = Callable[[Cell, dict[str, Any], int], None]


def run_experiment(experiment: Experiment, run: Run, progress: Progress | None = None) -> float:
    """Run every missing cell of an experiment.

    Parameters
    ----------
    experiment : Experiment
        What.
    run : Run
        How.
    progress : callable, optional
        Called with each finished cell, its result and how many are left in its stage.

    Returns
    -------
    float
        Seconds that passed.
    """
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as made_up:
        folder = _data(experiment, run, Path(made_up))
        for panel in experiment.panels:
            if not run.only or panel.data in run.only:
                _run_panel(panel, run, folder, progress)
    return time.perf_counter() - started


def _data(experiment: Experiment, run: Run, made_up: Path) -> Path | None:
    if run.scale == "smoke" and run.folder is None:
        origins = {origin_of(panel.data) for panel in experiment.panels} & set(SOURCES)
        write_generated(made_up, sorted(origins))
        return made_up
    return given_folder(run.folder)


def _run_panel(panel: Panel, run: Run, folder: Path | None, progress: Progress | None) -> None:
    """Search first, then trials: which point they use is known only afterwards."""
    book = run.book
    search = [
        run.cell(panel, method, point, 0)
        for method in panel.methods
        for point in grid_points(run.effort(panel, method))
    ]
    _run_missing(search, run, folder, book, progress)
    trials = [
        run.cell(panel, method, chosen_point(panel, method, run, book), trial)
        for method in panel.methods
        for trial in range(run.effort(panel, method).trials)
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
    for done, (cell, result) in enumerate(_results(missing, folder, verify, run.jobs), 1):
        book.add(cell, result)
        if progress is not None:
            progress(cell, result, len(missing) - done)


def _results(
    cells: Sequence[Cell], folder: Path | None, verify: bool, jobs: int
) -> Iterator[tuple[Cell, dict[str, Any]]]:
    if jobs == 1:
        for cell in cells:
            yield cell, run_cell(cell, folder, verify=verify)
        return
    from joblib import Parallel, delayed  # noqa: PLC0415  # one process needs none of it

    parallel = Parallel(n_jobs=jobs, return_as="generator_unordered")
    yield from parallel(delayed(_in_worker)(cell, folder, verify) for cell in cells)


def _in_worker(cell: Cell, folder: Path | None, verify: bool) -> tuple[Cell, dict[str, Any]]:
    torch.set_num_threads(1)
    return cell, run_cell(cell, folder, verify=verify)
