"""One cell of a comparison: one method, fitted and judged on one split."""

from __future__ import annotations

import logging
import random
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import joblib
import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import has_fit_parameter
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from eastward._random_numbers import seeded
from eastward.comparison.dropping import SPLITS_BETWEEN_LOOKS
from eastward.comparison.methods import Method, Settings
from eastward.comparison.splits import (
    grouped_split,
    ordered_split,
    split_seed,
    stratified_split,
)
from eastward.comparison.store import CellStore
from eastward.constraints import Constraint
from eastward.decisions import ABSTAIN, Decision
from eastward.decisions.calibration import brier_score, expected_calibration_error, log_loss
from eastward.decisions.solving import Objective
from eastward.decisions.tuning import decision_table
from eastward.training.grouped_folds import grouped_folds, periods

__all__ = [
    "Cell",
    "Problem",
    "finished_cell",
    "fit_options",
    "fitted",
    "judged",
    "killed_cell",
    "pass_interruption_on",
    "run_cell",
]

Cell = dict[str, Any]
_WARNINGS_KEPT = 5

# A cell sets generators, threads and warnings of its process, so workers that are threads take turns.
_ONE_AT_A_TIME = threading.Lock()
# The last splits that this process prepared, which all methods of a split share.
_PREPARED: dict[tuple[str, int], tuple[Any, Any]] = {}


@dataclass(frozen=True)
class Problem:
    """The data of a comparison and their splits, common to all methods.

    Attributes
    ----------
    X : array-like or frame
        Features, ``(N, ...)``.
    y, codes, classes : ndarray
        Labels, their indices, and the classes behind the indices.
    sample_weight : ndarray or None
        ``(N,)`` weights of the rows.
    settings : Settings
        The metric, and options of methods.
    preprocess : transformer or None
        Fitted on the training rows of each split.
    test_size : float
        Share of test rows.
    random_state : int
        Determines splits and seeds.
    token : str
        Identifies the problem within a process.
    groups, times : ndarray or None
        ``(N,)``: rows of a group stay on one side of every split, and test rows are later than training rows.
    constraints : tuple of Constraint
        Constraints on decisions.
    abstain_cost : float or None
        Cost of an undecided row, in units of the metric; None if every row must be decided.
    """

    X: Any
    y: NDArray[Any]
    codes: NDArray[Any]
    classes: NDArray[Any]
    sample_weight: NDArray[Any] | None
    settings: Settings
    preprocess: Any
    test_size: float
    random_state: int
    token: str
    groups: NDArray[Any] | None = None
    times: NDArray[Any] | None = None
    constraints: tuple[Constraint, ...] = ()
    abstain_cost: float | None = None

    def rows(self, split: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return training and test rows of a split."""
        seed = split_seed(self.random_state, split)
        if self.times is not None:
            train, test = ordered_split(self.times, self.test_size, split)
            if self.groups is not None:
                train = train[~np.isin(self.groups[train], self.groups[test])]
            return train, test
        if self.groups is not None:
            return grouped_split(self.codes, self.groups, self.test_size, seed)
        return stratified_split(self.codes, self.test_size, seed)

    def kept_together(self, rows: NDArray[Any]) -> NDArray[Any] | None:
        """Return the groups or periods that methods must not split when they hold out some of ``rows``."""
        if self.groups is None:
            return None if self.times is None else periods(self.times[rows])
        kept: NDArray[Any] = self.groups[rows]
        return kept

    def features(self, split: int) -> tuple[Any, Any]:
        """Return training and test features of a split, with preprocessing fitted on its training rows."""
        key = (self.token, split)
        if key not in _PREPARED:
            train, test = self.rows(split)
            parts = _safe_indexing(self.X, train), _safe_indexing(self.X, test)
            if self.preprocess is not None:
                transformer = clone(self.preprocess)
                fitted = transformer.fit_transform(parts[0], self.y[train])
                parts = fitted, transformer.transform(parts[1])
            if len(_PREPARED) >= SPLITS_BETWEEN_LOOKS:
                del _PREPARED[next(iter(_PREPARED))]
            _PREPARED[key] = parts
        return _PREPARED[key]


def run_cell(
    problem: Problem, method: Method, split: int, store: CellStore | None, key: str
) -> Cell:
    """Fit and judge ``method`` on ``split``; a failure is recorded and does not stop the others.

    A cell always runs on one thread, so that results do not depend on the number of workers, and workers do not slow
    each other down.

    Returns
    -------
    dict
        ``method, split, score, log_loss, brier, ece, seconds, error, warnings, notes``.
    """

    def measured() -> Cell:
        seed = split_seed(problem.random_state, split)
        return judged(
            problem, split, *fitted(problem, split, method.estimator(problem.settings, seed))
        )

    return finished_cell(problem, method, split, measured, store, key)


def finished_cell(
    problem: Problem,
    method: Method,
    split: int,
    measured: Callable[[], Cell],
    store: CellStore | None,
    key: str,
) -> Cell:
    """Return the cell that ``measured`` computes, or its failure, with warnings; save it in the store."""
    cell: Cell = {"method": method.name, "split": split}
    seed = split_seed(problem.random_state, split)
    said: list[str] = []
    with _ONE_AT_A_TIME, _one_thread(), _fixed_randomness(seed), _collected_warnings(said):
        try:
            cell |= measured() | {"error": None}
        except Exception as error:  # noqa: BLE001  # any error of a method is its result
            cell |= _failure(error)
    cell["warnings"] = list(dict.fromkeys(said))[:_WARNINGS_KEPT]
    if store is not None and cell["error"] is None:
        store.save(key, cell)
    return cell


def killed_cell(method: str, split: int) -> Cell:
    """Return the result of a cell whose process was killed, for example for lack of memory."""
    error = RuntimeError("its process was killed, perhaps for lack of memory")
    return {"method": method, "split": split, **_failure(error), "warnings": []}


def forget_prepared() -> None:
    """Free the rows that were cached for the next method."""
    _PREPARED.clear()


def _failure(error: Exception) -> Cell:
    empty = dict.fromkeys(("score", "log_loss", "brier", "ece", "seconds"))
    text = " ".join(str(error).split())
    return {**empty, "error": f"{type(error).__name__}: {text}"[:500], "notes": []}


def fitted(problem: Problem, split: int, model: Any) -> tuple[Any, float, list[str]]:
    """Fit a model on the training rows of a split; return it, its seconds, and notes on unsupported arguments."""
    train, _ = problem.rows(split)
    features, _ = problem.features(split)
    weight = None if problem.sample_weight is None else problem.sample_weight[train]
    together, seed = problem.kept_together(train), split_seed(problem.random_state, split)
    options, notes = fit_options(model, weight, together, problem.codes[train], seed)
    started = time.perf_counter()
    model.fit(features, problem.y[train], **options)
    seconds = time.perf_counter() - started
    pass_interruption_on(model)
    return model, seconds, notes


def judged(problem: Problem, split: int, model: Any, seconds: float, notes: list[str]) -> Cell:
    """Judge a fitted model on the test rows of a split."""
    _, test = problem.rows(split)
    _, features = problem.features(split)
    weight = np.ones(len(test)) if problem.sample_weight is None else problem.sample_weight[test]
    codes = _decided(problem, model, features)
    table = decision_table(problem.codes[test], codes, weight, len(problem.classes))
    return {
        "score": _score(problem, table),
        "coverage": float(np.average(codes != ABSTAIN, weights=weight)),
        "constraints": [float(one.value(table)) for one in problem.constraints],
        **_calibration(problem, model, features, problem.codes[test], weight),
        "seconds": seconds,
        "notes": notes + _time_notes(problem.settings.budget, seconds),
    }


def fit_options(
    model: Any,
    weight: NDArray[Any] | None,
    groups: NDArray[Any] | None,
    codes: NDArray[Any],
    seed: int,
) -> tuple[dict[str, Any], list[str]]:
    """Return arguments of ``model.fit`` for weighted and grouped rows, and notes on unsupported ones.

    Folds inside a method also keep groups together. A method with a parameter ``cv`` instead of ``groups`` gets the
    folds themselves.

    Parameters
    ----------
    model : estimator
        An unfitted estimator; its parameter ``cv`` may be set.
    weight, groups : ndarray or None
        ``(N,)``, of the training rows.
    codes : ndarray
        ``(N,)`` class indices.
    seed : int
        Seed of the folds of groups.

    Returns
    -------
    tuple
        A dictionary of arguments, and a list of sentences.
    """
    options: dict[str, Any] = {}
    notes = []
    if weight is not None and has_fit_parameter(model, "sample_weight"):
        options["sample_weight"] = weight
    elif weight is not None:
        notes.append("fitted without sample weights, which it does not support")
    if groups is None:
        return options, notes
    folds = model.get_params(deep=False).get("cv")
    if has_fit_parameter(model, "groups"):
        options["groups"] = groups
    elif isinstance(folds, int):
        dealt = grouped_folds(codes, groups, folds, seed, caller="compare")
        numbers = range(int(dealt.max()) + 1)
        splits = [(np.flatnonzero(dealt != k), np.flatnonzero(dealt == k)) for k in numbers]
        model.set_params(cv=splits)
    return options, notes


def _time_notes(budget: float | None, seconds: float) -> list[str]:
    # A network stops at the end of an epoch, so only a clear excess is reported.
    if budget is None or seconds <= 1.25 * budget:
        return []
    return ["took longer than the time budget, which it cannot enforce"]


def pass_interruption_on(model: Any) -> None:
    """Raise Ctrl-C again: the score of a network whose training was interrupted must not be stored."""
    report = getattr(model, "report_", None)
    if isinstance(report, dict) and report.get("interrupted"):
        raise KeyboardInterrupt


def _decided(problem: Problem, model: Any, features: Any) -> NDArray[Any]:
    """Return the decided class index of each row; -1 for undecided rows."""
    decision = getattr(model, "decision_", None)
    if isinstance(decision, Decision) and decision.matrix.shape[1] > len(decision.matrix):
        chosen = decision.decide(model.predict_proba(features))
        known = np.searchsorted(problem.classes, model.classes_)
        return np.where(chosen == ABSTAIN, ABSTAIN, known[chosen])
    labels = np.asarray(model.predict(features))
    codes: NDArray[Any] = np.searchsorted(problem.classes, labels).clip(
        max=len(problem.classes) - 1
    )
    if (problem.classes[codes] != labels).any():
        raise ValueError("predictions contain labels that do not occur in y")
    return codes


def _score(problem: Problem, table: torch.Tensor) -> float:
    """Compute the metric in its own units; an undecided row counts as correct, minus its cost."""
    metric = problem.settings.metric
    merit = Objective(metric, problem.abstain_cost).merit(table)
    value = float(merit if metric.higher_is_better else -merit)
    if not np.isfinite(value):
        raise ValueError(f"{metric.name} of the predictions is {value}")
    return value


def _calibration(
    problem: Problem, model: Any, features: Any, targets: NDArray[Any], weight: NDArray[Any]
) -> Cell:
    if not hasattr(model, "predict_proba"):
        return dict.fromkeys(("log_loss", "brier", "ece"))
    given = np.asarray(model.predict_proba(features), dtype=np.float64)
    probabilities = np.zeros((len(given), len(problem.classes)))
    probabilities[:, np.searchsorted(problem.classes, model.classes_)] = given
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    return {
        "log_loss": log_loss(probabilities, targets, weight),
        "brier": brier_score(probabilities, targets, weight),
        "ece": expected_calibration_error(probabilities, targets, weight),
    }


@contextmanager
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        # Folds inside a method stay in its process, because other workers of a cluster lack these settings.
        with threadpool_limits(limits=1), joblib.parallel_config("sequential"):
            yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def _collected_warnings(said: list[str]) -> Iterator[None]:
    """Collect warnings, and those that the trainer logs, in ``said``, so that they do not disturb a live table."""
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger("eastward")
    propagated, logger.propagate = logger.propagate, False
    logger.addHandler(handler)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = propagated
        said += [str(warning.message) for warning in caught]


@contextmanager
def _fixed_randomness(seed: int) -> Iterator[None]:
    """Seed the global generators for one cell, and restore them afterwards."""
    with seeded(seed):
        numpy_state, python_state = np.random.get_state(), random.getstate()  # noqa: NPY002  # users' estimators draw from it
        np.random.seed(seed % 2**32)  # noqa: NPY002  # the same
        random.seed(seed)
        try:
            yield
        finally:
            np.random.set_state(numpy_state)  # noqa: NPY002  # the same
            random.setstate(python_state)
