"""Callbacks for annealing, keeping the best weights, and averaging weights."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from eastward.annealing import PlateauCooling
from eastward.training.hooks import Callback
from eastward.training.loop import Run
from eastward.training.members import SeparateMembers
from eastward.training.stages import Stage
from eastward.training.validation import validate_once

__all__ = ["Anneal", "AverageWeights", "KeepBest"]


class Anneal(Callback):
    """A callback that sets the temperature: one value for each epoch, or cooling on plateaus.

    Plateaus are detected in the validation loss at the current temperature, as in the paper. When several coolings in a
    row bring no new best, the stage ends.
    """

    def __init__(self, stage: Stage) -> None:
        self.ladder = stage.temperatures
        self.cooling = None if stage.cooling is None else PlateauCooling(**stage.cooling)

    def epoch_start(self, run: Run) -> None:
        """Set the temperature of this epoch."""
        if self.cooling is not None:
            temperature = self.cooling.temperature
        elif self.ladder is not None:
            temperature = self.ladder[min(run.epoch, len(self.ladder) - 1)]
        else:
            return
        run.objective.temperature = max(temperature, run.temperature_floor)

    def epoch_end(self, run: Run) -> None:
        """Pass the validation loss to the plateau detector."""
        if self.cooling is not None:
            self.cooling.step(run.record["valid_loss"])
            run.stop = run.stop or self.cooling.finished

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the plateau detector."""
        return {} if self.cooling is None else self.cooling.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state that ``state_dict`` returned."""
        if self.cooling is not None:
            self.cooling.load_state_dict(state)


class KeepBest(Callback):
    """A callback that ends a stage with each member at its lowest validation loss.

    With ``patience``, a member is done after that many epochs without a gain. The stage stops when all members are
    done. What a member learns after it is done does not count, so members that train together equal members that train
    alone.
    """

    def __init__(self, patience: int | None) -> None:
        self.patience = patience
        self.best: list[float] = []
        self.waited: list[int] = []
        self.states: list[dict[str, Tensor]] = []

    def stage_start(self, run: Run) -> None:
        """Keep the initial weights, in case no epoch is finished."""
        size = run.members.size
        self.best, self.waited = [float("inf")] * size, [0] * size
        self.states = [run.members.member_state(k) for k in range(size)]

    def epoch_start(self, run: Run) -> None:
        """Skip the backward pass of members that are done; with several processes, all need gradients."""
        if isinstance(run.members, SeparateMembers) and not run.processes.many:
            run.members.rest(k for k in range(run.members.size) if self._done(k))

    def epoch_end(self, run: Run) -> None:
        """Keep the weights of members that improved, and stop when all members are done."""
        losses = torch.zeros(0) if run.valid_losses is None else run.valid_losses
        for k, loss in enumerate(losses.tolist()):
            if self._done(k):
                continue
            if loss < self.best[k]:
                self.best[k], self.waited[k] = loss, 0
                self.states[k] = run.members.member_state(k)
            else:
                self.waited[k] += 1
        run.stop = run.stop or all(self._done(k) for k in range(run.members.size))

    def _done(self, k: int) -> bool:
        return self.patience is not None and self.waited[k] >= self.patience

    def stage_end(self, run: Run) -> None:
        """Restore the best weights of each member."""
        if isinstance(run.members, SeparateMembers):
            run.members.rest(())
        for k, state in enumerate(self.states):
            run.members.load_member(k, state)

    def state_dict(self) -> dict[str, Any]:
        """Return the best losses and weights."""
        return {"best": self.best, "waited": self.waited, "states": self.states}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state that ``state_dict`` returned."""
        self.best, self.waited, self.states = state["best"], state["waited"], state["states"]


class AverageWeights(Callback):
    """A callback that ends a stage at the mean of its last weights (stochastic weight averaging).

    Integer buffers keep their last value. The running statistics of batch norm are averaged like weights, which is
    exact for means and close for variances. The user or the collapse guard may end a stage before averaging begins.
    Then each member returns to its best validation score, which may be that of the start.
    """

    def __init__(self, stage: Stage) -> None:
        self.first = round(stage.max_epochs * (1 - stage.average_last))
        self.count = 0
        self.means: list[dict[str, Tensor]] = []
        self.best: list[float] = []
        self.states: list[dict[str, Tensor]] = []

    def stage_start(self, run: Run) -> None:
        """Keep the initial weights, which later epochs must beat."""
        validate_once(run)
        self.best = _scores(run)
        self.states = [run.members.member_state(k) for k in range(run.members.size)]

    def epoch_end(self, run: Run) -> None:
        """Add the weights of this epoch to the mean, or keep the best weights until averaging begins."""
        if run.epoch <= self.first and run.epoch < run.stage.max_epochs:
            self._keep_best(run)
            return
        states = [run.members.member_state(k) for k in range(run.members.size)]
        self.count += 1
        if not self.means:
            self.means = states
            return
        for mean, state in zip(self.means, states, strict=True):
            for name, value in state.items():
                if value.is_floating_point():
                    mean[name] += (value - mean[name]) / self.count
                else:
                    mean[name] = value

    def _keep_best(self, run: Run) -> None:
        for k, score in enumerate(_scores(run)):
            if score > self.best[k]:
                self.best[k], self.states[k] = score, run.members.member_state(k)

    def stage_end(self, run: Run) -> None:
        """Load the mean, or the best weights if averaging never began."""
        for k, state in enumerate(self.means or self.states):
            run.members.load_member(k, state)

    def state_dict(self) -> dict[str, Any]:
        """Return the mean so far, and the best weights before it."""
        return {name: getattr(self, name) for name in ("count", "means", "best", "states")}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state that ``state_dict`` returned."""
        for name, value in state.items():
            setattr(self, name, value)


def _scores(run: Run) -> list[float]:
    """Return the validation score of each member."""
    return [] if run.valid_scores is None else [float(score) for score in run.valid_scores]
