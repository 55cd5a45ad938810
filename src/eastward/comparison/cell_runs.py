"""Run cells in parallel: in processes of this machine, or wherever joblib's back ends send them."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import BrokenExecutor
from typing import Any, Self, TypeAlias

from joblib import Parallel, delayed

from eastward.comparison.cells import Cell, Problem, forget_prepared, killed_cell
from eastward.comparison.methods import Method
from eastward.comparison.shared_training import first_stage_of, run_cells
from eastward.comparison.store import CellStore, fingerprint

__all__ = ["CellRuns"]

# Methods that are trained together, and the split.
Task: TypeAlias = tuple[list[Method], int]


class CellRuns:
    """Runs methods on splits in persistent processes, or loads stored results."""

    def __init__(
        self, problem: Problem, methods: list[Method], n_splits: int, n_jobs: int | None, store: Any
    ) -> None:
        self.problem = problem
        self.store = None if store is None else CellStore(store)
        tasks = [(method, split) for split in range(n_splits) for method in methods]
        keys = [""] * len(tasks) if self.store is None else _keys(problem, tasks)
        self.keys = {
            (method.name, split): key for (method, split), key in zip(tasks, keys, strict=True)
        }
        self.parallel = Parallel(n_jobs=n_jobs, return_as="generator_unordered")
        self.seconds: dict[str, float] = {}

    def __enter__(self) -> Self:
        self.parallel.__enter__()
        return self

    def __exit__(self, *raised: object) -> None:
        self.parallel.__exit__(*raised)
        forget_prepared()

    def __call__(self, methods: list[Method], splits: range) -> Iterator[Cell | list[Cell]]:
        """Yield the stored cells of some splits as one list, then the others as they finish."""
        stored, missing = [], []
        for split in splits:
            left = []
            for method in methods:
                key = self.keys[method.name, split]
                cell = None if self.store is None else self.store.load(key)
                if cell is None:
                    left.append(method)
                else:
                    stored.append(_renamed(cell, (method, split)))
            missing += [(together, split) for together in self._trained_together(left)]
        yield stored
        for cell in self._finished(missing):
            self.seconds[cell["method"]] = cell["seconds"] or 0.0
            yield cell

    def _trained_together(self, methods: list[Method]) -> list[list[Method]]:
        """Group each method with the one that is its first stage; every other method is a group of its own."""
        settings = self.problem.settings
        first = {method.name: first_stage_of(method, methods, settings) for method in methods}
        parts = {part.name for part in first.values() if part is not None}
        groups = [[method, first[method.name]] for method in methods if method.name not in parts]
        return [[method for method in group if method is not None] for group in groups]

    def _length(self, task: Task) -> tuple[float, int]:
        """Return how long a method took the last time, or its effort if unknown."""
        method = task[0][0]
        return self.seconds.get(method.name, 0.0), method.effort

    def _call(self, task: Task) -> Any:
        methods, split = task
        keys = [self.keys[method.name, split] for method in methods]
        return delayed(run_cells)(self.problem, methods, split, self.store, keys)

    def _finished(self, missing: list[Task]) -> Iterator[Cell]:
        """Yield cells as they finish; a killed process costs only its own cells."""
        # The longest first, so that no process waits for a long one at the end.
        ordered = sorted(missing, key=self._length, reverse=True)
        left = {(task[0][0].name, task[1]): task for task in ordered}
        try:
            for cells in self.parallel(list(map(self._call, ordered))):
                del left[cells[0]["method"], cells[0]["split"]]
                yield from cells
        except BrokenExecutor:
            # If a process dies, loky stops all of them without saying which cell failed. Dask runs the cell again.
            for task in left.values():
                yield from self._alone(task)

    def _alone(self, task: Task) -> Iterator[Cell]:
        """Run one task by itself, to find the one that kills its process."""
        try:
            for cells in self.parallel([self._call(task)]):
                yield from cells
        except BrokenExecutor:
            methods, split = task
            yield from (killed_cell(method.name, split) for method in methods)


def _renamed(cell: Cell, task: tuple[Method, int]) -> Cell:
    """Rename a stored cell to its method's current name, because an estimator may have had another name."""
    return {**cell, "method": task[0].name, "split": task[1]}


def _keys(problem: Problem, tasks: list[tuple[Method, int]]) -> list[str]:
    data = fingerprint("X", problem.X, problem.y, problem.sample_weight)
    protocol = fingerprint(
        "preprocess", problem.preprocess, problem.test_size, problem.random_state
    )
    if problem.groups is not None or problem.times is not None:
        protocol = fingerprint("groups", protocol, problem.groups, problem.times)
    judge = fingerprint("metric", problem.settings.metric)
    if problem.constraints:
        judge = fingerprint("subject_to", judge, [one.text for one in problem.constraints])
    if problem.abstain_cost is not None:
        judge = fingerprint("abstain_cost", judge, problem.abstain_cost)
    names = {
        method.name: fingerprint("methods", method.estimator(problem.settings, 0))
        for method in {method.name: method for method, _ in tasks}.values()
    }
    return [
        fingerprint("store", data, protocol, judge, names[method.name], split)
        for method, split in tasks
    ]
