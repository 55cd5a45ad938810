"""The plan of an aligned stage, step by step, for any training loop.

The plan never changes. Only the mean of the weights does, and :class:`ScheduleRun` keeps it. The loops of
:func:`eastward.align`, Lightning, Hugging Face and skorch all follow the plan through that class.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel

from eastward import _checks
from eastward.alignment.sharding import ShardedMean, is_sharded
from eastward.annealing import ALIGNED_LADDER
from eastward.losses import EASTLoss
from eastward.losses.exact import BATCH_NORMS
from eastward.metrics import Metric, as_metric

__all__ = ["AlignmentSchedule", "ScheduleRun", "still_batch_norm"]


@dataclass(frozen=True)
class AlignmentSchedule:
    r"""A plan for an aligned stage: what to minimise, at which temperature, and which weights to average.

    The stage follows training with cross-entropy. It takes a fifth of the learning rate, and lowers the temperature
    from 0.2 to 0.05 on a fixed ladder. The result is the mean of the weights over the last third of the steps. There is
    no early stopping, because a small validation set cannot tell one step from the next.

    Parameters
    ----------
    metric : str, Metric or callable, default="f1_macro"
        The metric that judges the network.
    steps : int, default=1000
        Number of optimiser steps in the stage; half as many as in training is a good start.
    prior : array-like, optional
        ``(C,)`` class frequencies that count. Pass them if those of the batches differ, because batches are stratified
        or resampled, or because the test set is balanced and training is not. None takes those of each batch.
    temperatures : sequence of float, optional
        The ladder of temperatures, which share the steps equally. By default, it falls from 0.2 to 0.05.
    average_last : float, default=1/3
        Share of the steps, at the end, whose weights are averaged.

    Examples
    --------
    >>> schedule = AlignmentSchedule("f1_macro", steps=300)
    >>> schedule(0), schedule(299), schedule.averages(0), schedule.averages(299)
    (0.2, 0.05, False, True)

    In your own loop:

    >>> import torch
    >>> model = torch.nn.Linear(4, 3)
    >>> optimizer = torch.optim.AdamW(model.parameters(), lr=schedule.learning_rate(1e-3))
    >>> loss = schedule.loss()
    >>> run = schedule.follow(model, loss)
    >>> for step in range(schedule.steps):
    ...     run.before(step)
    ...     optimizer.zero_grad()
    ...     loss(model(torch.randn(32, 4)), torch.randint(3, (32,))).backward()
    ...     optimizer.step()
    ...     run.after(step)
    >>> run.finish()
    """

    metric: str | Metric | Callable[[Any], Tensor] = "f1_macro"
    steps: int = 1000
    prior: Any = None
    temperatures: tuple[float, ...] = ALIGNED_LADDER
    average_last: float = 1 / 3

    def __post_init__(self) -> None:
        caller = "AlignmentSchedule"
        as_metric(self.metric, caller)
        _checks.whole_number(caller, "steps", self.steps, at_least=1)
        if not self.temperatures:
            _checks.fail(caller, "temperatures", "at least one", "none")
        for value in self.temperatures:
            _checks.temperature(caller, value, argument="temperatures")
        if not 0 < _checks.real(caller, "average_last", self.average_last) <= 1:
            _checks.fail(caller, "average_last", "in (0, 1]", self.average_last)
        if self.prior is not None:
            _checks.prior(caller, self.prior, None)
        object.__setattr__(self, "temperatures", tuple(float(one) for one in self.temperatures))

    def __call__(self, step: int) -> float:
        """Return the temperature at ``step``; after the last step, it stays the same."""
        rungs = self.temperatures
        return rungs[min(step * len(rungs) // self.steps, len(rungs) - 1)]

    def averages(self, step: int) -> bool:
        """Return whether the weights after ``step`` are part of the mean."""
        first = min(round(self.steps * (1 - self.average_last)), self.steps - 1)
        return first <= step < self.steps

    def learning_rate(self, of_training: float) -> float:
        """Return the learning rate of the stage, a fifth of that used in training."""
        return _checks.positive("AlignmentSchedule", "learning_rate", of_training) / 5

    def loss(self, **options: Any) -> EASTLoss:
        """Make the loss to minimise; ``options`` are passed to :class:`eastward.EASTLoss`."""
        return EASTLoss(
            self.metric, **{"prior": self.prior, "temperature": self.temperatures[0], **options}
        )

    def follow(self, model: nn.Module, loss: Any) -> ScheduleRun:
        """Follow the schedule with this model and loss, in your own loop."""
        return ScheduleRun(self, model, loss)


class ScheduleRun:
    """A schedule in progress, which sets the temperature before each step and averages weights after it.

    Parameters
    ----------
    schedule : AlignmentSchedule
        The plan to follow.
    model : Module
        The model in training. Its batch norm keeps its statistics, because stratified or small batches have other
        statistics than the data.
    loss : EASTLoss
        The loss whose temperature is set.
    """

    def __init__(self, schedule: AlignmentSchedule, model: nn.Module, loss: Any) -> None:
        self.schedule, self.model, self.loss = schedule, model, loss
        self.mean: AveragedModel | ShardedMean | None = None
        # A framework's loop may call train() between `before` and the forward pass.
        self._handles = [norm.register_forward_pre_hook(_be_still) for norm in _batch_norms(model)]

    def before(self, step: int) -> None:
        """Set the temperature of this step, and freeze the statistics of batch norm."""
        self.loss.temperature = self.schedule(step)
        still_batch_norm(self.model)

    def after(self, step: int) -> None:
        """Add the weights to the mean, if this step is one of the last."""
        if self.schedule.averages(step):
            self._averaged().update_parameters(self.model)

    def finish(self) -> None:
        """Load the mean into the model, if there is one, and release batch norm."""
        for handle in self._handles:
            handle.remove()
        if isinstance(self.mean, ShardedMean):
            self.model.load_state_dict(self.mean.weights)
        elif self.mean is not None:
            self.model.load_state_dict(self.mean.module.state_dict())

    def _averaged(self) -> AveragedModel | ShardedMean:
        if self.mean is None:
            sharded = is_sharded(self.model)
            own = ShardedMean if sharded else partial(AveragedModel, use_buffers=True)
            self.mean = own(self.model)
        return self.mean

    def state_dict(self) -> dict[str, Any]:
        """Return the mean so far, for a checkpoint."""
        return {} if self.mean is None else dict(self.mean.state_dict())

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state that ``state_dict`` returned."""
        if state:
            self._averaged().load_state_dict(state)


def still_batch_norm(model: nn.Module) -> None:
    """Freeze batch norm: use its statistics without updating them.

    Examples
    --------
    >>> import torch
    >>> layer = torch.nn.BatchNorm1d(2).train()
    >>> still_batch_norm(layer)
    >>> layer.training
    False
    """
    for norm in _batch_norms(model):
        norm.eval()


def _be_still(norm: nn.Module, _given: Any) -> None:
    norm.eval()


def _batch_norms(model: nn.Module) -> list[nn.Module]:
    """Return the batch-norm layers with running statistics."""
    norms = [one for one in model.modules() if isinstance(one, BATCH_NORMS)]
    return [one for one in norms if one.track_running_stats]
