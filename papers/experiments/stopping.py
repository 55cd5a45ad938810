"""Rules for cooling and for the end of training."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from eastward.annealing import PlateauCooling, cosine_schedule, linear_schedule

__all__ = ["stopping_for"]


class _Patience:
    """Early stopping: over after ``patience`` epochs without a lower value."""

    temperature = None

    def __init__(self, patience: int) -> None:
        self.patience, self.best, self.waited = patience, float("inf"), 0

    def step(self, value: float) -> None:
        """Record a value to be minimised."""
        self.waited = 0 if value < self.best else self.waited + 1
        self.best = min(value, self.best)

    @property
    def finished(self) -> bool:
        """Whether the patience is used up."""
        return self.waited >= self.patience

    def state_dict(self) -> dict[str, Any]:
        """Return the state as a dictionary."""
        return {"best": self.best, "waited": self.waited}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore ``state``."""
        self.best, self.waited = state["best"], state["waited"]


class _Scheduled:
    """A temperature that falls with the epochs, regardless of validation rows; finished at its last value."""

    def __init__(self, schedule: Callable[[int], float], epochs: int) -> None:
        self.schedule, self.epochs, self.epoch = schedule, epochs, 0

    @property
    def temperature(self) -> float:
        """The temperature of the current epoch."""
        return self.schedule(self.epoch)

    def step(self, _: float) -> None:
        """Count one epoch."""
        self.epoch += 1

    @property
    def finished(self) -> bool:
        """Whether the last temperature has been reached."""
        return self.epoch >= self.epochs

    def state_dict(self) -> dict[str, Any]:
        """Return the state as a dictionary."""
        return {"epoch": self.epoch}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore ``state``."""
        self.epoch = state["epoch"]


def stopping_for(plan: Any) -> Any:
    """Make the object that sets the temperature and the end of training under ``plan``.

    Parameters
    ----------
    plan : Plan
        A plan of :mod:`papers.experiments.training`.

    Returns
    -------
    object
        An object with ``step(value)``, ``finished``, ``temperature``, ``state_dict`` and ``load_state_dict``.
    """
    if not plan.annealed:
        return _Patience(plan.patience)
    if plan.schedule == "plateau":
        return PlateauCooling(
            plan.start, plan.rate, patience=plan.cooling_patience, max_cold_steps=plan.cold_steps
        )
    make: dict[str, Any] = {"linear": linear_schedule, "cosine": cosine_schedule}
    return _Scheduled(
        make[plan.schedule](plan.start, plan.end, steps=plan.max_epochs - 1), plan.max_epochs
    )
