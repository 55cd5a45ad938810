"""What methods are made of: networks and trees, cross-fitted on the same folds.

A component is fitted once for a split. It leaves log-probabilities of the training rows by models that did not see
them, and of the test rows by every model; methods differ in what they do with these. Everything is kept on disk, so
that a run that was stopped goes on, and a new method costs nothing but its decision.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from imblearn.ensemble import (
    BalancedBaggingClassifier,
    BalancedRandomForestClassifier,
    EasyEnsembleClassifier,
)
from lightgbm import LGBMClassifier, early_stopping
from lightning_fabric import Fabric
from numpy.typing import NDArray
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.utils.class_weight import compute_sample_weight
from torch import Tensor
from xgboost import XGBClassifier

from benchmarks.quality.data import Split
from eastward import baselines, metrics
from eastward.estimators.ensemble import EASTEnsembleClassifier
from eastward.estimators.ensemble.networks import Networks
from eastward.estimators.network import EASTClassifier
from eastward.estimators.network.construction import BINS
from eastward.estimators.network.scaling import Scaler
from eastward.training import Rows, StackedMLP, Stage, assign_folds, recipe_stages, train_members
from eastward.training.loop import new_run, run_stage
from eastward.training.objectives import IGNORED
from eastward.training.runner import stage_callbacks

Array = NDArray[Any]

FOLDS = 5
SMALLEST = 1e-12
DROPOUT = 0.25
# Small enough for two cores; the same for every network.
HIDDEN = (128, 64)
# The ensemble's parts, under the names that they have as components.
PARTS = {"networks": "ce", "lightgbm": "lgb", "extra_trees": "extra", "random_forest": "forest"}
TRAINING = {"max_epochs": 100, "learning_rate": 2e-3, "patience": 12, "batch_size": 64}


@dataclass(frozen=True)
class Component:
    """Log-probabilities: ``held_out`` ``(N, C)`` (NaN where every model saw the row), ``test`` ``(K, M, C)``."""

    held_out: Array
    test: Array
    folds: Array
    seconds: float

    @property
    def test_mean(self) -> Array:
        """Logarithm of the models' mean probability."""
        return np.logaddexp.reduce(self.test, axis=0) - np.log(len(self.test))

    def save(self, path: Path) -> None:
        """Write to ``path``; a half-written file never stands under that name."""
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part.npz")
        arrays = {name: getattr(self, name).astype(np.float32) for name in ("held_out", "test")}
        np.savez(part, folds=self.folds.astype(np.int8), seconds=self.seconds, **arrays)
        part.rename(path)

    @classmethod
    def load(cls, path: Path) -> Component:
        """What :meth:`save` wrote."""
        with np.load(path) as stored:
            tables = (stored["held_out"].astype(np.float64), stored["test"].astype(np.float64))
            return cls(*tables, stored["folds"].astype(np.int64), float(stored["seconds"]))


def fold_numbers(split: Split) -> Array:
    """The fold of each training row, the same for all components; -1 for the only row of a class."""
    generator = torch.Generator().manual_seed(split.seed % 2**31)
    return assign_folds(torch.from_numpy(split.train_codes), FOLDS, generator).numpy()


def log_probabilities(probabilities: Any) -> Array:
    return np.log(np.maximum(np.asarray(probabilities, dtype=np.float64), SMALLEST))


class AdjustedMLP(StackedMLP):
    """Networks whose loss sees logits plus the log of the class frequencies (Menon et al., 2021)."""

    def __init__(self, prior: Tensor, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.shift = prior.log()

    def forward(self, inputs: Tensor) -> Tensor:
        """Logits as the loss sees them."""
        return super().forward(inputs) + self.shift


class SoftFOneObjective:
    """One minus macro-F1 of the probabilities themselves (the soft F1, or Dice, loss)."""

    temperature: float | None = None

    def __call__(self, logits: Tensor, targets: Tensor, weights: Tensor | None) -> Tensor:  # noqa: ARG002
        """Losses ``(K,)``."""
        known = (targets != IGNORED).unsqueeze(-1)
        classes = torch.nn.functional.one_hot(targets.clamp_min(0), logits.shape[-1]) * known
        probabilities = logits.softmax(-1) * known
        hits = (probabilities * classes).sum(1)
        mass = (probabilities + classes).sum(1)
        present = classes.sum(1) > 0
        scores = 2 * hits / mass.clamp_min(1e-9)
        return 1 - (scores * present).sum(1) / present.sum(1).clamp_min(1)


class SurrogateObjective:
    """Lee's surrogate of F1, for one network and two classes."""

    temperature: float | None = None

    def __init__(self, positive_rate: float) -> None:
        self.loss = baselines.SurrogateFBetaLoss(1.0, positive_rate, check_inputs=False)

    def __call__(self, logits: Tensor, targets: Tensor, weights: Tensor | None) -> Tensor:  # noqa: ARG002
        """Losses ``(1,)``."""
        known = targets[0] != IGNORED
        return self.loss(logits[0][known], targets[0][known]).unsqueeze(0)


def averaged_last(stage: Stage) -> Stage:
    """The mean of the weights over the last third of the epochs instead of the best epoch's."""
    return replace(stage, average_last=1 / 3, max_epochs=45)


def network_rows(
    split: Split, scaler: Scaler, folds: Array, members: int, *, balanced: bool = False
) -> Rows:
    table = scaler(torch.from_numpy(split.train))
    codes = torch.from_numpy(split.train_codes)
    number = torch.from_numpy(folds)
    weights = None
    if balanced:
        given = compute_sample_weight("balanced", split.train_codes)
        weights = torch.from_numpy(given / given.mean()).float()
    every = torch.arange(len(codes))
    train = [every[number != k] for k in range(members)]
    valid = [every[number == k] for k in range(members)]
    return Rows(table, codes, weights, train, valid, split.num_classes)


def stages_of(recipe: str) -> list[Stage]:
    annealing = {"temperature": 0.2, "cooling_rate": 0.8, "max_cold_steps": 3}
    return recipe_stages(recipe, aligned=True, **TRAINING, **annealing)


def networks(
    split: Split,
    recipe: str,
    metric: str,
    *,
    members: int = FOLDS,
    balanced: bool = False,
    adjusted: bool = False,
    objective: Any = None,
    change: Callable[[Stage], Stage] | None = None,
    bins: int = 0,
) -> dict[str, Component]:
    """Networks after each stage of a recipe, by the stage's name."""
    folds, scaler = fold_numbers(split), Scaler.of(split.train, bins=bins)
    rows = network_rows(split, scaler, folds, members, balanced=balanced)
    torch.manual_seed(split.seed % 2**31)
    generator = torch.Generator().manual_seed(split.seed % 2**31)
    shape = (members, [scaler.width, *HIDDEN, split.num_classes], DROPOUT)
    prior = torch.bincount(rows.targets, minlength=split.num_classes).float() / len(rows.targets)
    nets = AdjustedMLP(prior, *shape) if adjusted else StackedMLP(*shape)
    test = scaler(torch.from_numpy(split.test))
    result, seconds = {}, 0.0
    for stage in stages_of(recipe):
        started = time.perf_counter()
        wanted = stage if change is None else change(stage)
        _train(nets, rows, wanted, metrics.get(metric), generator, objective)
        seconds += time.perf_counter() - started
        shift = nets.shift if isinstance(nets, AdjustedMLP) else torch.zeros(split.num_classes)
        result[stage.name] = _network_component(nets, rows, test, folds, shift, seconds)
        nets.requires_grad_(requires_grad=True)
    return result


def _train(
    nets: StackedMLP, rows: Rows, stage: Stage, metric: Any, generator: Any, objective: Any
) -> None:
    fabric = Fabric(accelerator="cpu", devices=1)
    if objective is None:
        train_members(nets, rows, [stage], metric=metric, fabric=fabric, generator=generator)
        return
    run = new_run(stage, nets, rows, metric, fabric, generator)
    run.objective = objective
    run_stage(run, stage_callbacks(stage, 0))


@torch.no_grad()
def _network_component(
    nets: StackedMLP, rows: Rows, test: Tensor, folds: Array, shift: Tensor, seconds: float
) -> Component:
    nets.eval()
    every = (nets(rows.inputs) - shift).log_softmax(-1).numpy()
    held = np.full(every.shape[1:], np.nan)
    for k in range(len(every)):
        held[folds == k] = every[k, folds == k]
    return Component(held, (nets(test) - shift).log_softmax(-1).numpy(), folds, seconds)


def boosted(split: Split, fit_one: Callable[..., Any]) -> Component:
    """Boosted trees cross-fitted on the folds, each stopped by its own fold."""
    folds = fold_numbers(split)
    held = np.full((len(folds), split.num_classes), np.nan)
    test = []
    started = time.perf_counter()
    for k in range(FOLDS):
        rows, out = folds != k, folds == k
        model = fit_one(split, rows, out)
        held[out] = _all_classes(model, split.train[out], split.num_classes)
        test.append(_all_classes(model, split.test, split.num_classes))
    return Component(held, np.stack(test), folds, time.perf_counter() - started)


def _all_classes(model: Any, features: Array, num_classes: int) -> Array:
    table = np.full((len(features), num_classes), SMALLEST)
    table[:, np.asarray(model.classes_, dtype=int)] = model.predict_proba(features)
    return log_probabilities(table)


def forest(split: Split, *, kind: Any, n_estimators: int = 300, **options: Any) -> Component:
    """A forest of bootstrapped trees: a row's held-out prediction is that of the trees that did not draw it."""
    model = kind(
        n_estimators=n_estimators,
        bootstrap=True,
        oob_score=True,
        random_state=split.seed % 2**31,
        n_jobs=1,
        **options,
    )
    started = time.perf_counter()
    model.fit(split.train, split.train_codes)
    held = log_probabilities(model.oob_decision_function_)
    test = _all_classes(model, split.test, split.num_classes)[None]
    return Component(held, test, fold_numbers(split), time.perf_counter() - started)


def light_boosting(split: Split, rows: Array, out: Array, **options: Any) -> Any:
    model = LGBMClassifier(
        n_estimators=400,
        learning_rate=0.05,
        num_leaves=15,
        min_child_samples=10,
        subsample=0.8,
        subsample_freq=1,
        colsample_bytree=0.8,
        random_state=split.seed % 2**31,
        n_jobs=1,
        verbosity=-1,
        **options,
    )
    codes = split.train_codes
    # LightGBM knows only the classes that it was given.
    judged = out & np.isin(codes, np.unique(codes[rows]))
    held = [(split.train[judged], codes[judged])]
    return model.fit(
        split.train[rows], codes[rows], eval_set=held, callbacks=[early_stopping(25, verbose=False)]
    )


def extreme_boosting(split: Split, rows: Array, out: Array, *, balanced: bool = False) -> Any:
    codes = split.train_codes
    if len(np.unique(codes[rows])) < split.num_classes:
        return light_boosting(split, rows, out)  # XGBoost wants every class
    model = XGBClassifier(
        n_estimators=400,
        learning_rate=0.1,
        max_depth=5,
        subsample=0.8,
        colsample_bytree=0.8,
        early_stopping_rounds=25,
        random_state=split.seed % 2**31,
        n_jobs=1,
    )
    weight = compute_sample_weight("balanced", codes[rows]) if balanced else None
    held = [(split.train[out], codes[out])]
    return model.fit(
        split.train[rows], codes[rows], sample_weight=weight, eval_set=held, verbose=False
    )


Fitted = dict[str, Component]


def _ensemble(split: Split, metric: str) -> Fitted:
    """The ensemble's parts, fitted as its users do; decisions are left to the methods."""
    started = time.perf_counter()
    model = EASTEnsembleClassifier(
        metric,
        parts=tuple(PARTS),
        network_options={"hidden": HIDDEN, **TRAINING},
        tune_decision=False,
        random_state=split.seed % 2**31,
    )
    model.fit(split.train, split.train_codes)
    seconds = time.perf_counter() - started
    raw = model.encoder_.raw(split.test)
    made = {}
    for part, name in PARTS.items():
        fitted_part = model.parts_[part]
        tables = _members(fitted_part, raw, model.encoder_.filled(raw))
        made[name] = Component(fitted_part.held_out, tables, model.folds_, seconds)
    return made


@torch.no_grad()
def _members(part: Any, raw: Array, filled: Array) -> Array:
    """Log-probabilities of the test rows by each network; by the mean of the trees."""
    if not isinstance(part, Networks):
        return part.log_probabilities(raw, filled)[None]
    inputs = part.model.scaler_(torch.from_numpy(filled)).double()
    return part.model.members_(inputs).log_softmax(-1).numpy()


def _decided(name: str, split: Split, metric: str, *, kind: Any, **options: Any) -> Fitted:
    """An estimator with its own decision; without options it is what its users get."""
    started = time.perf_counter()
    model = kind(metric, random_state=split.seed % 2**31, **options)
    model.fit(split.train, split.train_codes)
    seconds = time.perf_counter() - started
    nothing = np.full((len(split.train), split.num_classes), np.nan)
    # What it decides for, not what it holds for most probable.
    decided = log_probabilities(np.eye(split.num_classes)[model.predict(split.test)])[None]
    return {name: Component(nothing, decided, fold_numbers(split), seconds)}


def _single(name: str, split: Split, metric: str, **options: Any) -> Fitted:
    made = networks(split, options.pop("recipe", "cross_entropy"), metric, **options)
    return {name: list(made.values())[-1]}


def _surrogate(split: Split, metric: str) -> Fitted:
    rate = float(np.mean(split.train_codes == 1))
    return _single("surrogate", split, metric, members=1, objective=SurrogateObjective(rate))


def _forest(name: str, split: Split, metric: str, **options: Any) -> Fitted:  # noqa: ARG001
    return {name: forest(split, **options)}


def _resampled(name: str, split: Split, metric: str, *, kind: Any, **options: Any) -> Fitted:  # noqa: ARG001
    """An ensemble that draws balanced samples for its members, as it comes."""
    started = time.perf_counter()
    model = kind(random_state=split.seed % 2**31, n_jobs=1, **options)
    model.fit(split.train, split.train_codes)
    test = _all_classes(model, split.test, split.num_classes)[None]
    nothing = np.full((len(split.train), split.num_classes), np.nan)
    return {name: Component(nothing, test, fold_numbers(split), time.perf_counter() - started)}


def _boosting(name: str, split: Split, metric: str, *, fit: Any, **options: Any) -> Fitted:  # noqa: ARG001
    return {name: boosted(split, partial(fit, **options))}


_RF, _ET = {"kind": RandomForestClassifier}, {"kind": ExtraTreesClassifier}
_BALANCED_FOREST = {"kind": BalancedRandomForestClassifier, "sampling_strategy": "all"}
_EAST = {"kind": EASTClassifier}
# Of all rows, of which each member draws as many as the rarest class has: a bootstrap may have none of that class.
_BALANCED_BAGS = {"kind": BalancedBaggingClassifier, "n_estimators": 50, "bootstrap": False}
_LIGHT, _EXTREME = {"fit": light_boosting}, {"fit": extreme_boosting}
# What fits a component (some are made together), by the component's name.
MAKERS: dict[str, Callable[[Split, str], Fitted]] = {
    **dict.fromkeys(PARTS.values(), _ensemble),
    # In the size of the other networks, and as they are.
    "east_classifier": partial(_decided, "east_classifier", **_EAST, hidden=HIDDEN, **TRAINING),
    "classifier_as_it_is": partial(_decided, "classifier_as_it_is", **_EAST),
    "ensemble_as_it_is": partial(_decided, "ensemble_as_it_is", kind=EASTEnsembleClassifier),
    "pieces": partial(_single, "pieces", bins=BINS),
    "averaged": partial(_single, "averaged", change=averaged_last),
    "balanced": partial(_single, "balanced", balanced=True),
    "adjusted": partial(_single, "adjusted", adjusted=True),
    "focal": partial(_single, "focal", recipe="focal"),
    "soft_f1": partial(_single, "soft_f1", members=1, objective=SoftFOneObjective()),
    "surrogate": _surrogate,
    "paper": partial(_single, "paper", members=1, recipe="paper"),
    "btg": partial(_single, "btg", members=1, recipe="btg"),
    "rf": partial(_forest, "rf", n_estimators=200, **_RF),
    "et": partial(_forest, "et", n_estimators=200, **_ET),
    "rf_balanced": partial(_forest, "rf_balanced", class_weight="balanced", **_RF),
    "et_balanced": partial(_forest, "et_balanced", class_weight="balanced", **_ET),
    "brf": partial(_forest, "brf", n_estimators=100, replacement=True, **_BALANCED_FOREST),
    "easy_ensemble": partial(_resampled, "easy_ensemble", kind=EasyEnsembleClassifier),
    "balanced_bagging": partial(_resampled, "balanced_bagging", **_BALANCED_BAGS),
    "lgb_balanced": partial(_boosting, "lgb_balanced", class_weight="balanced", **_LIGHT),
    "xgb": partial(_boosting, "xgb", **_EXTREME),
    "xgb_balanced": partial(_boosting, "xgb_balanced", balanced=True, **_EXTREME),
}


def fitted(names: Sequence[str], split: Split, metric: str, folder: Path) -> dict[str, Component]:
    """Components by name, from disk where they are."""
    found: dict[str, Component] = {}
    for name in names:
        path = folder / f"{name}.npz"
        if name not in found and not path.exists():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                made = MAKERS[name](split, metric)
            for each, component in made.items():
                component.save(folder / f"{each}.npz")
        found[name] = Component.load(path)
    return found
