"""The size of experiments: the papers' protocol, a size for one core, and seconds for a test."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from types import MappingProxyType
from typing import Any

from eastward import _checks
from papers.experiments.design import Panel
from papers.experiments.methods import METHODS

__all__ = ["SCALES", "Effort", "effort_for", "grid_points"]

SCALES = ("smoke", "cpu", "paper")
ADVERSARIAL_BATCH = 25


@dataclass(frozen=True)
class Effort:
    """The size of an experiment.

    Attributes
    ----------
    trials : int
        Networks with different initial weights.
    grid : mapping
        Values that are searched on the validation rows: batch_size, learning_rate, dropout, rate (of cooling).
    max_epochs, patience : int
        Limits of training; see :class:`~papers.experiments.training.Plan`.
    cooling_patience, cold_steps : int
        Limits of cooling; see :class:`~papers.experiments.training.Plan`.
    samples : int or None
        Rows of the data set.
    width : float
        Width of the network, as a share of the paper's.
    trees : int
        Number of trees of a forest.
    max_steps : int or None
        Batches in an epoch.
    max_valid : int or None
        Validation rows, of the adversarial loss.
    """

    trials: int
    grid: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    max_epochs: int = 1000
    patience: int = 50
    cooling_patience: int = 50
    cold_steps: int = 5
    samples: int | None = None
    width: float = 1.0
    trees: int = 100
    max_steps: int | None = None
    max_valid: int | None = None


_RATES = (0.8, 0.9)
_PAPER_TABLE = Effort(
    10,
    MappingProxyType(
        {
            "batch_size": (128, 256, 512, 1024, 2048),
            "learning_rate": (0.01, 0.001, 0.0001),
            "dropout": (0.25, 0.5),
            "rate": _RATES,
        }
    ),
)
_PAPER_IMAGES = replace(
    _PAPER_TABLE,
    grid=MappingProxyType({**_PAPER_TABLE.grid, "batch_size": (32, 64, 128, 256)}),
)
_LEE = Effort(
    5,
    MappingProxyType(
        {"batch_size": (100,), "learning_rate": (0.01,), "dropout": (0.0,), "rate": (0.8,)}
    ),
    max_epochs=120,
    patience=120,
)
# Small batches and a learning rate of 1e-4 are where accuracy as a loss works at all.
_CPU_TABLE = Effort(
    10,
    MappingProxyType(
        {
            "batch_size": (128,),
            "learning_rate": (0.001, 0.0001),
            "dropout": (0.25,),
            "rate": (0.8,),
        }
    ),
    max_epochs=2000,
    patience=50,
    cooling_patience=10,
    cold_steps=2,
)
# Bridging the Gap by its published code; one point, no search.
_BTG_TABLE = Effort(
    10,
    MappingProxyType(
        {"batch_size": (1024,), "learning_rate": (0.001,), "dropout": (0.5,), "rate": (0.8,)}
    ),
    max_epochs=5000,
    patience=100,
)
_BTG_BY_DATA: Mapping[str, dict[str, Any]] = MappingProxyType(
    {"adult": {"trials": 5}, "credit_card": {"trials": 5, "max_epochs": 400}}
)
_CPU_IMAGES = Effort(
    3,
    MappingProxyType(
        {"batch_size": (128,), "learning_rate": (0.001,), "dropout": (0.25,), "rate": (0.8,)}
    ),
    max_epochs=8,
    patience=8,
    cooling_patience=3,
    cold_steps=2,
    width=0.25,
)
# EAST from scratch on all pictures learns slowly: the paper's patience, and its smallest learning rate and a small
# batch, which were best among those tried.
_CPU_EAST_IMAGES = replace(
    _CPU_IMAGES,
    grid=MappingProxyType(
        {"batch_size": (64,), "learning_rate": (0.0001,), "dropout": (0.25,), "rate": (0.8,)}
    ),
    max_epochs=160,
    patience=20,
    cooling_patience=20,
    cold_steps=3,
)
FROM_SCRATCH = ("f1_east", "accuracy_east", "mcc_east", "prefer_", "beta_")
_SMOKE = Effort(
    1,
    MappingProxyType(
        {"batch_size": (64,), "learning_rate": (0.01,), "dropout": (0.25,), "rate": (0.8,)}
    ),
    max_epochs=2,
    patience=2,
    cooling_patience=1,
    cold_steps=2,
    width=0.05,
    trees=5,
    samples=100,
)
# Rows are many here, so that few epochs have as many updates.
_CPU_BY_DATA: Mapping[str, dict[str, Any]] = MappingProxyType(
    {
        "adult": {
            "trials": 5,
            "max_epochs": 400,
            "patience": 20,
            "cooling_patience": 8,
            "cold_steps": 2,
        },
        "credit_card": {
            "trials": 5,
            "max_epochs": 200,
            "patience": 40,
            "cooling_patience": 10,
            "cold_steps": 2,
            "trees": 50,
        },
        "covertype/class4": {"max_steps": 200},
    }
)
_CPU_GRID: Mapping[str, dict[str, tuple[Any, ...]]] = MappingProxyType(
    {
        "credit_card": {"batch_size": (512,), "learning_rate": (0.001, 0.0001)},
        "adult": {"batch_size": (256,), "learning_rate": (0.001, 0.0001)},
    }
)
# 204 training frames: batches of 256 and more are all one batch.
_FRAMES_GRID: Mapping[str, tuple[Any, ...]] = MappingProxyType(
    {"batch_size": (16, 64, 204), "dropout": (0.0,)}
)
# The papers' remedy for the rarest positives, for these two losses alone.
LARGE_BATCHES, THEIR_LOSSES = (4096, 8192), ("accuracy_east", "mcc_east")
# Methods whose settings are fixed, so that one thing differs between two rows: nothing is searched.
_CHECKS_GRID: Mapping[str, tuple[Any, ...]] = MappingProxyType(
    {"batch_size": (256,), "learning_rate": (0.001,), "dropout": (0.25,), "rate": (0.8,)}
)


def effort_for(scale: str, panel: Panel, method: str, trials: int | None = None) -> Effort:
    """The size of one row of a panel.

    Parameters
    ----------
    scale : {"smoke", "cpu", "paper"}
        The scale of the experiment.
    panel : Panel
        The data set and its network.
    method : str
        The row.
    trials : int, optional
        Number of trials, instead of the scale's.

    Returns
    -------
    Effort
        The size, with a grid of at least one point.
    """
    _checks.one_of("effort_for", "scale", scale, SCALES)
    effort = {"paper": _paper, "cpu": _cpu, "smoke": _smoke}[scale](panel, method)
    chosen = METHODS[method]
    if not chosen.annealed or "rate" in chosen.plan:
        effort = replace(effort, grid={**effort.grid, "rate": effort.grid["rate"][:1]})
    if chosen.small_batches:
        effort = _adversarial(effort, scale)
    fixed = {name: (value,) for name, value in chosen.point.items()}
    effort = replace(effort, grid={**effort.grid, **fixed})
    return effort if trials is None else replace(effort, trials=trials)


def _paper(panel: Panel, method: str) -> Effort:
    if panel.optimizer != "adamw":
        return {"sgd": _LEE, "adam": _BTG_TABLE}[panel.optimizer]
    if panel.is_image:
        small = {"batch_size": (32, 64)} if panel.data == "caltech256" else {}
        return replace(_searching(_PAPER_IMAGES, small), patience=panel.patience)
    if panel.data == "cocktail_frames":
        return _searching(_PAPER_TABLE, _FRAMES_GRID)
    if panel.data == "credit_card" and method in THEIR_LOSSES:
        sizes = (*_PAPER_TABLE.grid["batch_size"], *LARGE_BATCHES)
        return _searching(_PAPER_TABLE, {"batch_size": sizes})
    return replace(_PAPER_TABLE, patience=panel.patience)


def _searching(effort: Effort, changes: Mapping[str, tuple[Any, ...]]) -> Effort:
    return replace(effort, grid={**effort.grid, **changes})


def _cpu(panel: Panel, method: str) -> Effort:
    if panel.optimizer == "sgd":
        # ResNet-34 has twice the layers of ResNet-18, and larger pictures.
        width = 0.125 if panel.network == "ResNet-34" else 0.25
        return replace(_LEE, trials=3, max_epochs=10, patience=10, samples=4000, width=width)
    if panel.is_image:
        return _cpu_images(panel, method)
    if panel.optimizer == "adam":
        return replace(_BTG_TABLE, **_BTG_BY_DATA.get(panel.data, {}))
    if panel.data == "cocktail_frames":
        return replace(_searching(_CPU_TABLE, _FRAMES_GRID), max_epochs=300, patience=30)
    return _cpu_table(panel, method)


def _cpu_table(panel: Panel, method: str) -> Effort:
    effort = replace(_CPU_TABLE, **_CPU_BY_DATA.get(panel.data, {}))
    if panel.fixed_settings:
        if panel.data == "credit_card":
            effort = replace(effort, max_steps=200)
        short: dict[str, Any] = {"patience": 30, "cooling_patience": 10, "cold_steps": 2}
        return replace(
            effort, trials=5, grid=_CHECKS_GRID, max_epochs=panel.fixed_settings, **short
        )
    effort = _searching(effort, _CPU_GRID.get(panel.data, {}))
    if panel.data == "credit_card" and method in THEIR_LOSSES:
        return _searching(effort, {"batch_size": (512, LARGE_BATCHES[-1])})
    return effort


def _cpu_images(panel: Panel, method: str) -> Effort:
    effort = _CPU_IMAGES
    if panel.fixed_settings:  # a few thousand pictures, so that seven schedules can be compared
        few: dict[str, Any] = {"samples": 4000, "max_epochs": panel.fixed_settings, "patience": 30}
        return replace(effort, grid=_CHECKS_GRID, cooling_patience=10, **few)
    if method.startswith(FROM_SCRATCH):
        effort = _CPU_EAST_IMAGES
    if panel.data == "omniglot":
        return replace(effort, samples=4000, max_epochs=20, patience=20)
    return effort


def _smoke(panel: Panel, _: str) -> Effort:
    # Rows of tables are cheap, and rare classes need them.
    samples = _SMOKE.samples if panel.is_image else 600
    return replace(_SMOKE, samples=samples, width=0.1 if panel.network == "graph" else _SMOKE.width)


def _adversarial(effort: Effort, scale: str) -> Effort:
    grid = {**effort.grid, "batch_size": (ADVERSARIAL_BATCH,)}
    if scale == "paper":
        return replace(effort, grid=grid)
    few = {"cpu": (20, 10, 125), "smoke": (2, 2, 50)}[scale]
    steps, epochs, valid = few
    return replace(
        effort,
        grid={**grid, "learning_rate": (0.01,)},
        max_steps=steps,
        max_epochs=epochs,
        max_valid=valid,
    )


def grid_points(effort: Effort) -> list[dict[str, Any]]:
    """Every combination of the grid.

    Examples
    --------
    >>> grid_points(Effort(1, {"learning_rate": (0.1, 0.2), "rate": (0.8,)}))
    [{'learning_rate': 0.1, 'rate': 0.8}, {'learning_rate': 0.2, 'rate': 0.8}]
    """
    return [
        dict(zip(effort.grid, values, strict=True)) for values in product(*effort.grid.values())
    ]
