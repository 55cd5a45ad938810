"""LightGBM and XGBoost behind one small interface.

Features arrive as numbers (categories as codes, NaN for missing values), labels as class indices. Two classes have one
score per row, C classes have C.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from eastward import _checks

__all__ = ["BACKENDS", "Backend", "Task", "make_backend"]

Array: TypeAlias = NDArray[Any]
Objective: TypeAlias = Callable[[Array, Any], tuple[Array, Array]]
# Features, class indices, weights, and scores to start from.
Rows: TypeAlias = tuple[Array, Array, Array | None, Array | None]


@dataclass(frozen=True)
class Task:
    """The settings of training that both libraries need."""

    num_classes: int
    categorical: tuple[int, ...]
    learning_rate: float
    seed: int
    n_jobs: int | None
    params: Mapping[str, Any]

    @property
    def threads(self) -> int:
        """Number of threads, as scikit-learn counts: None means one, -1 all."""
        return 1 if self.n_jobs is None else max(self.n_jobs, 0)


class Backend(ABC):
    """The native interface of one library."""

    name: ClassVar[str]
    file_name: ClassVar[str]
    # Cross-entropy of two classes, and of more.
    objectives: ClassVar[tuple[str, str]]

    def __init__(self, task: Task) -> None:
        self.task = task
        self.library = _library(self.name)

    def train(
        self,
        features: Array,
        codes: Array,
        weight: Array | None,
        rounds: int,
        *,
        start: Array | None = None,
        objective: Objective | None = None,
    ) -> Any:
        """Train a booster by cross-entropy, or by ``objective`` with scores that start at ``start``."""
        task, multiclass = self.task, self.task.num_classes > 2
        params = {
            "objective": self.objectives[multiclass],
            "learning_rate": task.learning_rate,
            "seed": task.seed,
            **({"num_class": task.num_classes} if multiclass else {}),
        }
        return self._trained(params, (features, codes, weight, start), rounds, objective)

    @abstractmethod
    def _trained(
        self, params: dict[str, Any], rows: Rows, rounds: int, objective: Objective | None
    ) -> Any:
        """Train a booster; ``params`` are the parameters that have the same name in both libraries."""

    @abstractmethod
    def raw_scores(self, booster: Any, features: Array, rounds: int | None = None) -> Array:
        """Compute scores ``(N,)`` or ``(N, C)`` of the first ``rounds`` rounds, without the start."""

    @abstractmethod
    def to_text(self, booster: Any) -> str:
        """Write the booster as text."""

    @abstractmethod
    def from_text(self, text: str) -> Any:
        """Read a booster from text."""


class LightGBM(Backend):
    """The native interface of LightGBM."""

    name, file_name, objectives = "lightgbm", "lightgbm-{}.txt", ("binary", "multiclass")

    def _trained(
        self, params: dict[str, Any], rows: Rows, rounds: int, objective: Objective | None
    ) -> Any:
        features, codes, weight, start = rows
        params |= {"num_threads": self.task.threads, "deterministic": True, "verbosity": -1}
        params |= {} if objective is None else {"objective": objective}
        data = self.library.Dataset(
            features,
            codes,
            weight=weight,
            init_score=start,
            categorical_feature=list(self.task.categorical),
            # With few rows no split is possible, and LightGBM would refuse data without usable features.
            params={"verbosity": -1, "feature_pre_filter": False},
        )
        return self.library.train(params | dict(self.task.params), data, rounds)

    def raw_scores(self, booster: Any, features: Array, rounds: int | None = None) -> Array:
        """Compute scores without the start; see :class:`Backend`."""
        count = -1 if rounds is None else rounds
        scores = booster.predict(
            features, raw_score=True, num_iteration=count, num_threads=self.task.threads
        )
        return np.asarray(scores, dtype=np.float64)

    def to_text(self, booster: Any) -> str:
        """Write the booster as text."""
        return str(booster.model_to_string(num_iteration=-1))

    def from_text(self, text: str) -> Any:
        """Read a booster from text."""
        return self.library.Booster(model_str=text)


class XGBoost(Backend):
    """The native interface of XGBoost."""

    name, file_name = "xgboost", "xgboost-{}.json"
    objectives = ("binary:logistic", "multi:softprob")

    def _trained(
        self, params: dict[str, Any], rows: Rows, rounds: int, objective: Objective | None
    ) -> Any:
        features, codes, weight, start = rows
        params |= {"nthread": self.task.threads, "verbosity": 0}
        # A neutral start, so that scores of our own objective are the sum of its trees and nothing else.
        params |= {} if objective is None else {"base_score": 0.5}
        data = self._matrix(features, label=codes, weight=weight, base_margin=start)
        return self.library.train(params | dict(self.task.params), data, rounds, obj=objective)

    def raw_scores(self, booster: Any, features: Array, rounds: int | None = None) -> Array:
        """Compute scores without the start; see :class:`Backend`."""
        span = (0, 0) if rounds is None else (0, rounds)
        scores = booster.predict(self._matrix(features), output_margin=True, iteration_range=span)
        return np.asarray(scores, dtype=np.float64)

    def to_text(self, booster: Any) -> str:
        """Write the booster as text."""
        return bytes(booster.save_raw("json")).decode("utf-8")

    def from_text(self, text: str) -> Any:
        """Read a booster from text."""
        booster = self.library.Booster({"nthread": self.task.threads, "verbosity": 0})
        booster.load_model(bytearray(text, "utf-8"))
        return booster

    def _matrix(self, features: Array, **more: Any) -> Any:
        kinds = ["q"] * features.shape[1]
        for column in self.task.categorical:
            kinds[column] = "c"
        return self.library.DMatrix(
            features,
            feature_types=kinds,
            enable_categorical=True,
            nthread=self.task.threads,
            **more,
        )


BACKENDS: Mapping[str, type[Backend]] = {kind.name: kind for kind in (LightGBM, XGBoost)}


def make_backend(name: Any, task: Task) -> Backend:
    """Return the library called ``name``."""
    _checks.one_of("EASTBoostingClassifier", "backend", name, tuple(BACKENDS))
    return BACKENDS[name](task)


def _library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        message = (
            f"backend {name!r} needs {error.name}: install it with  pip install 'eastward[boost]'"
        )
        raise ModuleNotFoundError(message, name=error.name) from error
