r"""Temperature schedules: plain callables from a step to a temperature.

A callback, or your own loop, counts the steps and assigns ``loss.temperature = schedule(step)``; the loss itself never
counts. A schedule is a frozen record of its parameters, so pickling or ``dataclasses.asdict`` saves all of it.
:class:`PlateauCooling` has a state, which is saved and restored like that of a PyTorch scheduler.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real
from typing import Any

from eastward import _checks

__all__ = [
    "ALIGNED_LADDER",
    "PlateauCooling",
    "constant_schedule",
    "cosine_schedule",
    "geometric_schedule",
    "linear_schedule",
]


ALIGNED_LADDER = (0.2,) * 8 + (0.14,) * 4 + (0.1,) * 4 + (0.07,) * 4 + (0.05,) * 4
"""Temperatures of the aligned stage, each for an equal share. A choice on few validation rows would only be noise."""


def _check_number(value: object) -> None:
    """Check a value to be minimised. NaN is allowed, and never counts as an improvement."""
    if isinstance(value, bool) or not isinstance(value, Real):
        got = _checks.describe(value)
        _checks.fail("PlateauCooling.step", "value", "a number", got, error=TypeError)


def _step(value: object) -> float:
    """Check a number of steps taken so far."""
    number = _checks.real("a schedule", "step", value)
    if number < 0:
        _checks.fail("a schedule", "step", "at least 0", value)
    return number


@dataclass(frozen=True)
class _Geometric:
    start: float
    rate: float
    floor: float

    def __call__(self, step: int) -> float:
        return float(max(self.floor, self.start * self.rate ** _step(step)))


@dataclass(frozen=True)
class _Linear:
    start: float
    end: float
    steps: int

    def __call__(self, step: int) -> float:
        done = min(_step(step) / self.steps, 1.0)
        return self.start + (self.end - self.start) * done


@dataclass(frozen=True)
class _Cosine:
    start: float
    end: float
    steps: int

    def __call__(self, step: int) -> float:
        done = min(_step(step) / self.steps, 1.0)
        return self.end + (self.start - self.end) * (1 + math.cos(math.pi * done)) / 2


@dataclass(frozen=True)
class _Constant:
    value: float

    def __call__(self, step: int) -> float:
        _step(step)
        return self.value


def geometric_schedule(start: float = 0.2, rate: float = 0.9, *, floor: float = 1e-6) -> _Geometric:
    r"""Cool geometrically as in the papers, :math:`T_k = T_0 r^k`, down to ``floor``.

    Parameters
    ----------
    start : float, default=0.2
        :math:`T_0`, in (0, 0.4].
    rate : float, default=0.9
        :math:`r`, in (0, 1); the papers search {0.8, 0.9}.
    floor : float, default=1e-6
        Lowest temperature.

    Returns
    -------
    callable
        ``step -> temperature``.

    References
    ----------
    EAST, section 4.3.

    Examples
    --------
    >>> schedule = geometric_schedule(0.2, 0.5)
    >>> [schedule(k) for k in range(3)]
    [0.2, 0.1, 0.05]
    """
    caller = "geometric_schedule"
    _checks.one_temperature(caller, start, argument="start")
    _checks.in_unit_interval(caller, "rate", rate)
    _checks.one_temperature(caller, floor, argument="floor")
    return _Geometric(float(start), float(rate), float(floor))


def linear_schedule(start: float = 0.2, end: float = 0.01, *, steps: int) -> _Linear:
    """Cool from ``start`` to ``end`` in equal steps, then stay constant.

    Parameters
    ----------
    start, end : float
        Temperatures in (0, 0.4].
    steps : int
        Number of steps from one to the other.

    Returns
    -------
    callable
        ``step -> temperature``.

    Examples
    --------
    >>> linear_schedule(0.2, 0.1, steps=10)(5)
    0.15000000000000002
    """
    _check_ends("linear_schedule", start, end, steps)
    return _Linear(float(start), float(end), int(steps))


def cosine_schedule(start: float = 0.2, end: float = 0.01, *, steps: int) -> _Cosine:
    """Cool from ``start`` to ``end`` along half a cosine (slow, fast, slow), then stay constant.

    Parameters
    ----------
    start, end : float
        Temperatures in (0, 0.4].
    steps : int
        Number of steps from one to the other.

    Returns
    -------
    callable
        ``step -> temperature``.

    Examples
    --------
    >>> round(cosine_schedule(0.2, 0.1, steps=10)(5), 6)
    0.15
    """
    _check_ends("cosine_schedule", start, end, steps)
    return _Cosine(float(start), float(end), int(steps))


def constant_schedule(value: float = 0.2) -> _Constant:
    """Keep the temperature constant, as in Bridging the Gap.

    Parameters
    ----------
    value : float, default=0.2
        The temperature, in (0, 0.4].

    Returns
    -------
    callable
        ``step -> temperature``.

    Examples
    --------
    >>> constant_schedule(0.2)(1000)
    0.2
    """
    _checks.one_temperature("constant_schedule", value, argument="value")
    return _Constant(float(value))


def _check_ends(caller: str, start: float, end: float, steps: int) -> None:
    _checks.one_temperature(caller, start, argument="start")
    _checks.one_temperature(caller, end, argument="end")
    if _checks.real(caller, "steps", steps) < 1:
        _checks.fail(caller, "steps", "at least 1", steps)


class PlateauCooling:
    """Cool when the watched value stops improving, and stop when cooling no longer helps.

    Training stays at a temperature until ``patience`` steps bring no improvement over the best value seen there.
    Then ``T <- rate * T``. When ``max_cold_steps`` coolings in a row bring no new overall best, :attr:`finished`
    turns true.

    Parameters
    ----------
    start : float, default=0.2
        First temperature, in (0, 0.4].
    rate : float, default=0.9
        Factor by which one cooling multiplies the temperature, in (0, 1).
    patience : int, default=10
        Steps without improvement before cooling.
    max_cold_steps : int, default=5
        Coolings without a new best before the end.
    min_delta : float, default=0.0
        Smallest change that counts as an improvement.
    floor : float, default=1e-6
        Lowest temperature.

    Attributes
    ----------
    temperature : float
        The current temperature.
    best : float
        The lowest value seen.
    finished : bool
        Whether annealing is over.

    References
    ----------
    EAST, section 4.3 and appendix E.

    Examples
    --------
    >>> cooling = PlateauCooling(0.2, 0.5, patience=1)
    >>> [cooling.step(loss) for loss in (1.0, 0.9, 0.95, 0.8)]
    [0.2, 0.2, 0.1, 0.1]
    """

    _STATE = ("temperature", "best", "best_here", "waited", "cold_steps", "improved_here")

    def __init__(
        self,
        start: float = 0.2,
        rate: float = 0.9,
        *,
        patience: int = 10,
        max_cold_steps: int = 5,
        min_delta: float = 0.0,
        floor: float = 1e-6,
    ) -> None:
        caller = "PlateauCooling"
        _checks.one_temperature(caller, start, argument="start")
        _checks.one_temperature(caller, floor, argument="floor")
        _checks.in_unit_interval(caller, "rate", rate)
        for argument, count in (("patience", patience), ("max_cold_steps", max_cold_steps)):
            _checks.whole_number(caller, argument, count, at_least=1)
        _checks.real(caller, "min_delta", min_delta)
        self.rate, self.floor, self.min_delta = float(rate), float(floor), float(min_delta)
        self.patience, self.max_cold_steps = int(patience), int(max_cold_steps)
        self.temperature = float(start)
        self.best = self.best_here = math.inf
        self.waited = self.cold_steps = 0
        self.improved_here = False

    @property
    def finished(self) -> bool:
        """Whether ``max_cold_steps`` coolings in a row brought no new best."""
        return self.cold_steps >= self.max_cold_steps

    def step(self, value: float) -> float:
        """Record a value to be minimised, and return the next temperature."""
        _check_number(value)
        if value < self.best - self.min_delta:
            self.best, self.improved_here = value, True
        if value < self.best_here - self.min_delta:
            self.best_here, self.waited = value, 0
        else:
            self.waited += 1
        if self.waited >= self.patience:
            self._cool()
        return self.temperature

    def _cool(self) -> None:
        self.cold_steps = 0 if self.improved_here else self.cold_steps + 1
        self.temperature = max(self.floor, self.rate * self.temperature)
        self.best_here, self.waited, self.improved_here = math.inf, 0, False

    def state_dict(self) -> dict[str, Any]:
        """Return the state as a dictionary, to be saved in a checkpoint."""
        return {name: getattr(self, name) for name in self._STATE}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state that :meth:`state_dict` returned."""
        missing = [name for name in self._STATE if name not in state]
        if missing:
            _checks.fail(
                "load_state_dict", "state", f"a dict with {self._STATE}", f"none of {missing}"
            )
        for name in self._STATE:
            setattr(self, name, state[name])
