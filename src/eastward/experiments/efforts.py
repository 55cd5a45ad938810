"""How much is computed: the papers' protocol, a size for one core, and seconds for a test."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from types import MappingProxyType
from typing import Any

from eastward import _checks
from eastward.experiments.design import Panel
from eastward.experiments.methods import METHODS

__all__ = ["SCALES", "Effort", "effort_for", "grid_points"]

SCALES = ("smoke", "cpu", "paper")
IMAGES = ("Darknet-19", "ResNet-18", "ResNet-34")
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
        As in :class:`~eastward.experiments.training.Plan`.
    cooling_patience, cold_steps : int
        The same, of cooling.
    samples : int or None
        Rows of the data set.
    width : float
        Of the network, as a share of the paper's.
    trees : int
        Of a forest.
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
_CPU_TABLE = Effort(
    5,
    MappingProxyType(
        {"batch_size": (1024,), "learning_rate": (0.01, 0.001), "dropout": (0.25,), "rate": (0.8,)}
    ),
    max_epochs=100,
    patience=20,
    cooling_patience=6,
    cold_steps=3,
)
_CPU_IMAGES = Effort(
    2,
    MappingProxyType(
        {"batch_size": (128,), "learning_rate": (0.001,), "dropout": (0.25,), "rate": (0.8,)}
    ),
    max_epochs=10,
    patience=10,
    cooling_patience=2,
    cold_steps=5,
    samples=4000,
    width=0.25,
)
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
# Rows are many here, so that few epochs have as many updates. Networks are as wide as the paper's, but on the
# credit cards, whose 285 000 rows would take one core hours.
_CPU_BY_DATA: Mapping[str, dict[str, Any]] = MappingProxyType(
    {
        "adult": {"max_epochs": 30, "patience": 8, "cooling_patience": 2},
        "credit_card": {
            "max_epochs": 8,
            "patience": 5,
            "cooling_patience": 1,
            "trees": 50,
            "width": 0.25,
        },
    }
)
_CPU_GRID: Mapping[str, dict[str, tuple[Any, ...]]] = MappingProxyType(
    {
        "credit_card": {"batch_size": (4096,)},
        "cocktail_party": {"batch_size": (512,)},
        "cocktail_frames": {"batch_size": (32,)},  # frames, of fifteen pairs each
        "digits_long_tail": {"batch_size": (128,)},
    }
)


def effort_for(scale: str, panel: Panel, method: str, trials: int | None = None) -> Effort:
    """The size of one row of a panel.

    Parameters
    ----------
    scale : {"smoke", "cpu", "paper"}
        How much.
    panel : Panel
        The data set and its network.
    method : str
        The row.
    trials : int, optional
        Instead of the scale's.

    Returns
    -------
    Effort
        With a grid of at least one point.
    """
    _checks.one_of("effort_for", "scale", scale, SCALES)
    effort = {"paper": _paper, "cpu": _cpu, "smoke": _smoke}[scale](panel)
    chosen = METHODS[method]
    if not chosen.annealed or "rate" in chosen.plan:
        effort = replace(effort, grid={**effort.grid, "rate": effort.grid["rate"][:1]})
    if chosen.small_batches:
        effort = _adversarial(effort, scale)
    return effort if trials is None else replace(effort, trials=trials)


def _paper(panel: Panel) -> Effort:
    if panel.optimizer == "sgd":
        return _LEE
    if panel.network in IMAGES:
        small = {"batch_size": (32, 64)} if panel.data == "caltech256" else {}
        return replace(_PAPER_IMAGES, grid={**_PAPER_IMAGES.grid, **small})
    if panel.data == "credit_card":
        sizes = (*_PAPER_TABLE.grid["batch_size"], 4096, 8192)
        return replace(_PAPER_TABLE, grid={**_PAPER_TABLE.grid, "batch_size": sizes})
    return _PAPER_TABLE


def _cpu(panel: Panel) -> Effort:
    if panel.optimizer == "sgd":
        # ResNet-34 has twice the layers of ResNet-18, and larger pictures.
        width = 0.125 if panel.network == "ResNet-34" else 0.25
        return replace(_LEE, trials=2, max_epochs=10, patience=10, samples=4000, width=width)
    if panel.network in IMAGES:
        return _CPU_IMAGES
    effort = replace(_CPU_TABLE, **_CPU_BY_DATA.get(panel.data, {}))
    return replace(effort, grid={**effort.grid, **_CPU_GRID.get(panel.data, {})})


def _smoke(panel: Panel) -> Effort:
    # Rows of tables are cheap, and rare classes need them.
    samples = _SMOKE.samples if panel.network in IMAGES else 600
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
