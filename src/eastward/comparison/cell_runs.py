"""Run cells in parallel: in processes of this machine, or wherever joblib's back ends send them."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import BrokenExecutor
from typing import Any, Self

from joblib import Parallel, delayed

from eastward.comparison.cells import Cell, Problem, forget_prepared, killed_cell, run_cell
from eastward.comparison.methods import Method
from eastward.comparison.store import CellStore, fingerprint

__all__ = ["CellRuns"]


class CellRuns:
    """Runs the methods of one split after another in persistent processes, or takes stored results."""

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

    def __call__(self, methods: list[Method], split: int) -> Iterator[Cell | list[Cell]]:
        """Yield the stored cells of a split as one list, then the others as they finish."""
        stored, missing = [], {}
        # The longest first, so that no process waits for a long one at the end.
        for method in sorted(methods, key=self._length, reverse=True):
            key = self.keys[method.name, split]
            cell = None if self.store is None else self.store.load(key)
            if cell is None:
                call = delayed(run_cell)(self.problem, method, split, self.store, key)
                missing[method.name] = call
            else:
                stored.append(_renamed(cell, (method, split)))
        yield stored
        for cell in self._finished(missing, split):
            self.seconds[cell["method"]] = cell["seconds"] or 0.0
            yield cell

    def _length(self, method: Method) -> tuple[float, int]:
        """Return how long a method took the last time, or its effort if unknown."""
        return self.seconds.get(method.name, 0.0), method.effort

    def _finished(self, missing: dict[str, Any], split: int) -> Iterator[Cell]:
        """Yield cells as they finish; a killed process costs only its own cell."""
        left = dict(missing)
        try:
            for cell in self.parallel(list(missing.values())):
                del left[cell["method"]]
                yield cell
        except BrokenExecutor:
            # loky gives up all processes without saying which cell failed. Dask runs the cell again.
            yield from self._one_by_one(left, split)

    def _one_by_one(self, left: dict[str, Any], split: int) -> Iterator[Cell]:
        """Run cells one at a time, to find the one that kills its process."""
        for name, call in left.items():
            try:
                yield from self.parallel([call])
            except BrokenExecutor:
                yield killed_cell(name, split)


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
