"""The ensemble's trees: LightGBM cross-fitted on the folds, and forests with out-of-bag predictions."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import lightgbm
import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier

from eastward.estimators.ensemble.flat_trees import FlatTrees, forest_nodes, lightgbm_nodes
from eastward.estimators.ensemble.folds import Fitting
from eastward.saved_trees import NODES, are_sound, skops_io

__all__ = ["ExtraTrees", "LightBoosting", "RandomForest"]

Array = NDArray[Any]

# No offset can select a class that no tree voted for, but other parts can still vote for it.
SMALLEST_PROBABILITY = 1e-12
# More trees make no measurable difference, and they take a third of the time of a fit on a small table.
NUM_TREES = 120
ROUNDS, PATIENCE = 400, 25
# Above this many rows, trees grow with the rows and learn twice as fast, because 15 leaves are too few for 100 000
# rows (docs/scale.md).
ROWS_FOR_SMALL_TREES, ROWS_OF_A_LEAF, MOST_LEAVES = 10_000, 400, 255
# Large trees isolate rows that are already certain. Their curvature is nearly zero, so LightGBM's default takes steps
# that are far too long, and the loss of rare classes diverges (decision note 30).
LEAST_CURVATURE = 1.0
BOOSTING = {
    "learning_rate": 0.05,
    "num_leaves": 15,
    "min_data_in_leaf": 10,
    "bagging_fraction": 0.8,
    "bagging_freq": 1,
    "feature_fraction": 0.8,
    "verbosity": -1,
    "deterministic": True,
    "force_row_wise": True,
}


def _logarithms(probabilities: Any) -> Array:
    return np.log(np.maximum(np.asarray(probabilities, dtype=np.float64), SMALLEST_PROBABILITY))


@dataclass(frozen=True)
class LightBoosting:
    """Boosted trees, one model for each fold, stopped by the fold; missing values have their own branch."""

    texts: list[str]
    trees: list[FlatTrees]
    held_out: Array | None = None
    # Extrapolated from fits of up to 80 000 rows: decision note 30.
    most_rows: ClassVar[int] = 500_000

    @classmethod
    def fitted(cls, data: Fitting) -> LightBoosting:
        """Fit a model for each fold."""
        held = np.full((len(data.codes), data.num_classes), np.nan)
        texts, trees = [], []
        for fold in range(data.num_folds):
            booster = _booster(data, fold)
            texts.append(booster.model_to_string(num_iteration=booster.best_iteration))
            trees.append(_flat(texts[-1], data.num_classes))
            out = data.folds == fold
            held[out] = _logarithms(_probabilities(trees[-1], data.raw[out]))
        return cls(texts, trees, held)

    def log_probabilities(self, raw: Array, filled: Array) -> Array:  # noqa: ARG002  # one call for all parts
        """Compute the logarithm of the models' mean probability, ``(n, C)``."""
        return _logarithms(np.mean([_probabilities(trees, raw) for trees in self.trees], axis=0))

    def save(self, folder: Path) -> None:
        """Write LightGBM's own text."""
        for number, text in enumerate(self.texts):
            (folder / f"lightgbm-{number}.txt").write_text(text, encoding="utf-8")

    @classmethod
    def load(cls, folder: Path, num_classes: int) -> Self:
        """Load what :meth:`save` wrote."""
        paths = sorted(folder.glob("lightgbm-*.txt"), key=lambda path: int(path.stem[9:]))
        if not paths:
            raise FileNotFoundError("no lightgbm-*.txt")
        texts = [path.read_text(encoding="utf-8") for path in paths]
        return cls(texts, [_flat(text, num_classes) for text in texts])


def _flat(text: str, num_classes: int) -> FlatTrees:
    head = text.partition("\nTree=")[0].splitlines()
    found = dict(line.split("=", 1) for line in head if "=" in line)
    nodes = lightgbm_nodes(text, 1 if num_classes == 2 else num_classes)
    return FlatTrees(nodes, int(found["max_feature_idx"]) + 1)


def _probabilities(trees: FlatTrees, raw: Array) -> Array:
    scores = trees.sums(raw)
    if scores.shape[1] == 1:
        scores = np.hstack([np.zeros_like(scores), scores])
    return np.asarray(softmax(scores, axis=1))


def _booster(data: Fitting, fold: int) -> Any:
    objective: dict[str, Any] = {"objective": "binary"}
    if data.num_classes > 2:
        objective = {"objective": "multiclass", "num_class": data.num_classes}
    parameters = {**BOOSTING, **tree_sizes(len(data.codes)), **objective}
    parameters |= {"seed": data.seed, "num_threads": data.n_jobs or 1}
    sets = [_dataset(data, data.folds != fold), _dataset(data, data.folds == fold)]
    stopping = lightgbm.early_stopping(PATIENCE, verbose=False)
    return lightgbm.train(parameters, sets[0], ROUNDS, valid_sets=sets[1:], callbacks=[stopping])


def tree_sizes(rows: int) -> dict[str, Any]:
    """Return what LightGBM needs for this many rows besides ``BOOSTING``; empty for small tables.

    Examples
    --------
    >>> tree_sizes(5_000)
    {}
    >>> tree_sizes(40_000)
    {'num_leaves': 100, 'learning_rate': 0.1, 'min_sum_hessian_in_leaf': 1.0}
    >>> tree_sizes(1_000_000)["num_leaves"]
    255
    """
    if rows <= ROWS_FOR_SMALL_TREES:
        return {}
    return {
        "num_leaves": min(MOST_LEAVES, rows // ROWS_OF_A_LEAF),
        "learning_rate": 0.1,
        "min_sum_hessian_in_leaf": LEAST_CURVATURE,
    }


def _dataset(data: Fitting, rows: Array) -> Any:
    weight = None if data.weights is None else data.weights[rows]
    return lightgbm.Dataset(data.raw[rows], data.codes[rows], weight=weight)


@dataclass(frozen=True)
class _Forest:
    """Bootstrapped trees; the held-out prediction of a row comes from the trees that did not draw it."""

    model: ExtraTreesClassifier | RandomForestClassifier
    trees: FlatTrees
    held_out: Array | None = None
    most_rows: ClassVar[int] = 100_000
    name: ClassVar[str]
    kind: ClassVar[Any]

    @classmethod
    def fitted(cls, data: Fitting) -> Self:
        """Grow the trees on all rows at once; out-of-bag predictions need no second fit."""
        model = cls.kind(
            n_estimators=NUM_TREES,
            bootstrap=True,
            oob_score=True,
            random_state=data.seed,
            n_jobs=data.n_jobs,
        )
        with warnings.catch_warnings():
            # Rows of large weight may be in every tree; they are left out of the tuning below.
            warnings.filterwarnings("ignore", "Some inputs do not have OOB scores")
            model.fit(data.filled, data.codes, sample_weight=data.weights)
        held = _logarithms(model.oob_decision_function_)
        held[model.oob_decision_function_.sum(axis=1) == 0] = np.nan
        # As large as the data, and needed only during the fit.
        del model.oob_decision_function_
        return cls(model, _flat_forest(model), held)

    def log_probabilities(self, raw: Array, filled: Array) -> Array:  # noqa: ARG002  # one call for all parts
        """Compute the logarithm of the trees' mean probability, ``(n, C)``."""
        return _logarithms(self.trees.sums(filled) / len(self.model.estimators_))

    def save(self, folder: Path) -> None:
        """Write the trees with skops, which stores no code."""
        skops_io().dump(self.model, folder / f"{self.name}.skops")

    @classmethod
    def load(cls, folder: Path, num_classes: int) -> Self:
        """Load what :meth:`save` wrote; besides nodes of trees, only types that skops trusts are built."""
        model = skops_io().load(folder / f"{cls.name}.skops", trusted=[NODES])
        if not isinstance(model, cls.kind) or not are_sound(model, num_classes):
            raise ValueError(f"{cls.name}.skops is not a forest for {num_classes} classes")
        return cls(model, _flat_forest(model))


def _flat_forest(model: ExtraTreesClassifier | RandomForestClassifier) -> FlatTrees:
    return FlatTrees(forest_nodes(model), model.n_features_in_)


class ExtraTrees(_Forest):
    """Extremely randomised trees."""

    name, kind = "extra_trees", ExtraTreesClassifier


class RandomForest(_Forest):
    """A random forest."""

    name, kind = "random_forest", RandomForestClassifier
