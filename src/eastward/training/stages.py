"""Training stages, and the recipes made of them.

A recipe is a list of stages. All stages run in the same loop, so that methods which are compared differ only in what
they minimise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from eastward import _checks
from eastward.annealing import ALIGNED_LADDER

__all__ = ["RECIPES", "Stage", "recipe_stages"]

Objective: TypeAlias = Literal["cross_entropy", "focal", "metric"]

BTG_THRESHOLDS = tuple(k / 10 for k in range(1, 10))


@dataclass(frozen=True)
class Stage:
    """A part of training with one objective.

    Attributes
    ----------
    name : str
        Name of the stage in reports.
    objective : {"cross_entropy", "focal", "metric"}
        The loss that the stage minimises; ``"metric"`` is one minus the soft metric.
    max_epochs : int
        Largest number of epochs.
    learning_rate : float
        Learning rate of AdamW.
    batch_size : int
        Number of rows in a batch.
    weight_decay : float, default=1e-4
        Weight decay of AdamW.
    stratified : bool, default=False
        Whether every batch contains every class. The loss is then corrected to the class frequencies of the data.
    temperatures : tuple of float, optional
        One temperature for each epoch; the last one is used for all later epochs.
    as_long_as_before : bool, default=False
        Whether the stage takes as many epochs as the first one, if that is more than ``max_epochs``. Its temperatures
        are then spread over these epochs.
    cooling : mapping, optional
        Arguments of :class:`~eastward.annealing.PlateauCooling`, instead of ``temperatures``.
    threshold : "top2", float or tuple, default="top2"
        Threshold of the memberships.
    patience : int, optional
        Number of epochs without a better validation loss before a member stops.
    average_last : float, default=0.0
        Share of the epochs, at the end, whose weights are averaged. With 0, each member keeps its best weights.
    from_decision : bool, default=False
        Whether to start at the tuned decision, with its offsets added to the last bias.
    guard : {"answer", "warn", "off"}, default="off"
        Whether to act, only to warn, or to do nothing when predictions collapse.
    all_rows : bool, default=False
        Whether to train on held-out rows as well. No rows are left to judge such a stage, so its length must be fixed.
    max_steps : int, optional
        Largest number of optimiser steps in an epoch.
    effective_batch : int, optional
        Number of rows for one optimiser step. They pass through the network ``batch_size`` at a time, and the step has
        the exact gradient of all of them.

    Examples
    --------
    >>> from eastward.training import Stage
    >>> stage = Stage(
    ...     "aligned", "metric", 10, learning_rate=1e-3, batch_size=64, effective_batch=256
    ... )
    >>> stage.rows_per_step, stage.parts_per_step
    (256, 4)
    """

    name: str
    objective: Objective
    max_epochs: int
    learning_rate: float
    batch_size: int
    weight_decay: float = 1e-4
    stratified: bool = False
    temperatures: tuple[float, ...] | None = None
    as_long_as_before: bool = False
    cooling: Mapping[str, Any] | None = None
    threshold: Any = "top2"
    patience: int | None = None
    average_last: float = 0.0
    from_decision: bool = False
    guard: Literal["answer", "warn", "off"] = "off"
    all_rows: bool = False
    max_steps: int | None = None
    effective_batch: int | None = None

    def lasting(self, epochs: int) -> Stage:
        """Return a copy of the stage as it runs after a first stage of this many epochs.

        Examples
        --------
        >>> stage = Stage(
        ...     "aligned", "metric", 2, 1e-3, 64, temperatures=(0.2, 0.1), as_long_as_before=True
        ... )
        >>> stage.lasting(6).temperatures
        (0.2, 0.2, 0.2, 0.1, 0.1, 0.1)
        """
        if not self.as_long_as_before or epochs <= self.max_epochs:
            return self
        known = self.temperatures
        spread = known and tuple(known[k * len(known) // epochs] for k in range(epochs))
        return replace(self, max_epochs=epochs, temperatures=spread)

    @property
    def rows_per_step(self) -> int:
        """Number of rows in one optimiser step."""
        return self.effective_batch or self.batch_size

    @property
    def parts_per_step(self) -> int:
        """Number of micro-batches in one optimiser step."""
        return -(-self.rows_per_step // self.batch_size)


def _cross_entropy(options: Mapping[str, Any]) -> list[Stage]:
    return [
        Stage(
            "cross-entropy",
            "cross_entropy",
            max_epochs=options["max_epochs"],
            learning_rate=options["learning_rate"],
            batch_size=options["batch_size"],
            patience=options["patience"],
        )
    ]


def _focal(options: Mapping[str, Any]) -> list[Stage]:
    (stage,) = _cross_entropy(options)
    return [replace(stage, name="focal", objective="focal")]


def _auto(options: Mapping[str, Any]) -> list[Stage]:
    (first,) = _cross_entropy(options)
    aligned = Stage(
        "aligned",
        "metric",
        max_epochs=min(len(ALIGNED_LADDER), options["max_epochs"]),
        learning_rate=options["learning_rate"] / 5,
        batch_size=max(256, options["batch_size"]),
        stratified=True,
        temperatures=ALIGNED_LADDER,
        as_long_as_before=True,
        average_last=1 / 3,
        from_decision=True,
        guard="answer",
        max_steps=250,
    )
    if not options["aligned"]:
        return [first]
    return _refitted(first, aligned) if options.get("refit") else [first, aligned]


def _refitted(first: Stage, aligned: Stage) -> list[Stage]:
    """Return the stages of a refit: held-out rows stop the first stage, and the later ones train on all rows."""
    again = replace(
        first,
        name="all rows",
        max_epochs=aligned.max_epochs,
        learning_rate=aligned.learning_rate,
        patience=None,
        as_long_as_before=True,
        average_last=aligned.average_last,
        all_rows=True,
    )
    return [first, again, replace(aligned, all_rows=True)]


def _paper(options: Mapping[str, Any]) -> list[Stage]:
    cooling = {
        "start": options["temperature"],
        "rate": options["cooling_rate"],
        "patience": options["patience"],
        "max_cold_steps": options["max_cold_steps"],
    }
    return [
        Stage(
            "EAST",
            "metric",
            max_epochs=options["max_epochs"],
            learning_rate=options["learning_rate"],
            batch_size=options["batch_size"],
            cooling=MappingProxyType(cooling),
            guard="warn",
        )
    ]


def _btg(options: Mapping[str, Any]) -> list[Stage]:
    (stage,) = _cross_entropy(options)
    fixed = (options["temperature"],)
    return [
        replace(
            stage,
            name="BtG",
            objective="metric",
            temperatures=fixed,
            threshold=BTG_THRESHOLDS,
            guard="warn",
        )
    ]


RECIPES = MappingProxyType(
    {
        "auto": _auto,
        "paper": _paper,
        "btg": _btg,
        "cross_entropy": _cross_entropy,
        "focal": _focal,
    }
)
"""Recipes by name; each maps options to a list of stages."""


def recipe_stages(recipe: str, **options: Any) -> list[Stage]:
    """Return the stages of a recipe.

    Parameters
    ----------
    recipe : {"auto", "paper", "btg", "cross_entropy", "focal"}
        ``auto`` trains with cross-entropy, and then for the metric, starting at the tuned decision. ``paper`` is EAST
        from scratch, cooled on plateaus. ``btg`` is Bridging the Gap, with a fixed temperature and a grid of
        thresholds. ``cross_entropy`` and ``focal`` train with one of these losses only.
    **options
        Every recipe needs ``max_epochs``, ``learning_rate``, ``batch_size`` and ``patience``. Some need more:

        - ``auto``: ``aligned``, whether to train for the metric at all. With ``refit=True``, training on all rows
          follows, first with cross-entropy and then for the metric.
        - ``paper``: ``temperature``, ``cooling_rate`` and ``max_cold_steps``.
        - ``btg``: ``temperature``.

        ``effective_batch`` is optional and applies to stages that train for the metric. Cross-entropy is a mean and
        does not need it.

    Returns
    -------
    list of Stage
        The stages, in the order in which they run.

    Examples
    --------
    >>> from eastward.training import recipe_stages
    >>> options = dict(max_epochs=50, learning_rate=1e-3, batch_size=128, patience=15, aligned=True)
    >>> [stage.name for stage in recipe_stages("auto", **options)]
    ['cross-entropy', 'aligned']
    """
    _checks.one_of("EASTClassifier", "recipe", recipe, tuple(RECIPES))
    effective = options.get("effective_batch")
    return [
        replace(stage, effective_batch=effective) if stage.objective == "metric" else stage
        for stage in RECIPES[recipe](options)
    ]
