"""Train the common part of two methods once: cross-entropy, with and without the metric stage after it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from eastward.comparison.cells import Cell, Problem, finished_cell, fitted, judged, run_cell
from eastward.comparison.methods import Method, Settings
from eastward.comparison.splits import split_seed
from eastward.comparison.store import CellStore
from eastward.estimators.network import EASTClassifier
from eastward.estimators.network.first_stage import FirstStage, after_first_stage

__all__ = ["first_stage_of", "run_cells"]


def first_stage_of(whole: Method, methods: Sequence[Method], settings: Settings) -> Method | None:
    """Find the method that is the first stage of ``whole``: one with the same parameters, except ``aligned=False``.

    Examples
    --------
    >>> from eastward.comparison.methods import BUILT_IN
    >>> from eastward.metrics import get
    >>> settings, methods = Settings(get("f1_macro")), list(BUILT_IN.values())
    >>> first_stage_of(BUILT_IN["eastward"], methods, settings).name
    'cross_entropy_tuned'
    >>> first_stage_of(BUILT_IN["cross_entropy_tuned"], methods, settings) is None
    True
    """
    model = whole.estimator(settings, 0)
    if not isinstance(model, EASTClassifier) or not _has_stages(model):
        return None
    wanted = model.get_params(deep=False) | {"aligned": False}
    for method in methods:
        other = method.estimator(settings, 0)
        if type(other) is type(model) and _same(other.get_params(deep=False), wanted):
            return method
    return None


def _has_stages(model: EASTClassifier) -> bool:
    """Whether training continues after cross-entropy, without callbacks such as a time budget."""
    alone = model.callbacks is None and model.checkpoint is None
    return model.recipe == "auto" and model.aligned and not model.refit and alone


def _same(one: dict[str, object], other: dict[str, object]) -> bool:
    """Whether parameters are equal; identity is checked first, for values that cannot be compared."""
    return all(one[name] is other[name] or one[name] == other[name] for name in one)


def run_cells(
    problem: Problem,
    methods: Sequence[Method],
    split: int,
    store: CellStore | None,
    keys: Sequence[str],
) -> list[Cell]:
    """Run the cell of one method, or those of a method and its first stage in one training."""
    if len(methods) == 1:
        return [run_cell(problem, methods[0], split, store, keys[0])]
    whole, first = methods
    kept = FirstStage()
    found: list[Any] = []
    model = whole.estimator(problem.settings, split_seed(problem.random_state, split))
    model.set_params(callbacks=[kept])

    def of_whole() -> Cell:
        found.extend(fitted(problem, split, model))
        return judged(problem, split, *found)

    def of_first() -> Cell:
        started = time.perf_counter()
        network = after_first_stage(model, kept)
        seconds = kept.seconds + time.perf_counter() - started
        return judged(problem, split, network, seconds, found[2])

    cells = [finished_cell(problem, whole, split, of_whole, store, keys[0])]
    if found:
        return [*cells, finished_cell(problem, first, split, of_first, store, keys[1])]
    # The first stage may succeed by itself even if the whole training failed.
    return [*cells, run_cell(problem, first, split, store, keys[1])]
