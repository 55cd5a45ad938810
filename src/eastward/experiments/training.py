"""The papers' training of one network: epochs until the validation loss no longer falls, the best one kept."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from eastward.annealing import PlateauCooling
from eastward.experiments.splits import Part, Split

__all__ = ["Outcome", "Plan", "predict_logits", "train_network"]

EVALUATION_ROWS = 4096


@dataclass(frozen=True)
class Plan:
    """How one network is trained.

    Attributes
    ----------
    batch_size, learning_rate : number
        As searched by the papers.
    max_epochs, patience : int
        At most, and without a lower validation loss.
    optimizer : {"adamw", "sgd"}
        EAST's, or Lee's (momentum 0.9, weight decay 1e-4).
    annealed : bool
        Cool the temperature of the loss: ``start``, ``rate``, ``cooling_patience`` epochs at each temperature, until
        ``cold_steps`` coolings bring nothing.
    max_steps : int, optional
        At most so many batches in an epoch.
    max_valid : int, optional
        Judge by so many validation rows.
    augment : callable, optional
        Pictures and a generator to pictures.
    watch : callable, optional
        Called with the network after each epoch; what it returns is kept in the history.
    """

    batch_size: int
    learning_rate: float
    max_epochs: int
    patience: int
    optimizer: str = "adamw"
    annealed: bool = False
    start: float = 0.2
    rate: float = 0.8
    cooling_patience: int = 10
    cold_steps: int = 5
    max_steps: int | None = None
    max_valid: int | None = None
    augment: Callable[[Tensor, torch.Generator], Tensor] | None = None
    watch: Callable[[nn.Module], dict[str, float]] | None = None


@dataclass
class Outcome:
    """What training left behind: the lowest validation loss (its network is loaded), and how long it took."""

    valid_loss: float = float("inf")
    epochs: int = 0
    seconds: float = 0.0
    history: list[dict[str, float]] = field(default_factory=list)


class _Patience:
    """Early stopping: over after ``patience`` epochs without a lower value."""

    def __init__(self, patience: int) -> None:
        self.patience, self.best, self.waited = patience, float("inf"), 0

    def step(self, value: float) -> None:
        self.waited = 0 if value < self.best else self.waited + 1
        self.best = min(value, self.best)

    @property
    def finished(self) -> bool:
        return self.waited >= self.patience


def train_network(
    network: nn.Module, criterion: Any, split: Split, plan: Plan, *, seed: int
) -> Outcome:
    """Train ``network`` in place; it ends with the weights of its lowest validation loss.

    Parameters
    ----------
    network : Module
        Rows to logits.
    criterion : callable
        Logits and targets to a 0-d loss; with ``plan.annealed`` it has a temperature.
    split : Split
        The data.
    plan : Plan
        How.
    seed : int
        Of the order of rows.

    Returns
    -------
    Outcome
        Loss, epochs, seconds of this process, and a record for each epoch.
    """
    generator = torch.Generator().manual_seed(seed)
    optimizer = _optimizer(network, plan)
    stopping = _stopping(plan)
    outcome, best, started = Outcome(), network.state_dict(), time.process_time()
    for epoch in range(plan.max_epochs):
        if plan.annealed:
            criterion.temperature = stopping.temperature
        train_loss = _one_epoch(network, criterion, optimizer, split.train, plan, generator)
        valid_loss = _loss_on(network, criterion, split.valid, plan.max_valid)
        if valid_loss < outcome.valid_loss:
            outcome.valid_loss, best = valid_loss, copy.deepcopy(network.state_dict())
        watched = {} if plan.watch is None else plan.watch(network)
        record = {"train_loss": train_loss, "valid_loss": valid_loss, **watched}
        outcome.history.append(record)
        outcome.epochs = epoch + 1
        stopping.step(valid_loss)
        if stopping.finished:
            break
    network.load_state_dict(best)
    outcome.seconds = time.process_time() - started
    return outcome


def _stopping(plan: Plan) -> Any:
    if not plan.annealed:
        return _Patience(plan.patience)
    return PlateauCooling(
        plan.start, plan.rate, patience=plan.cooling_patience, max_cold_steps=plan.cold_steps
    )


def _optimizer(network: nn.Module, plan: Plan) -> torch.optim.Optimizer:
    if plan.optimizer == "sgd":
        return torch.optim.SGD(
            network.parameters(), lr=plan.learning_rate, momentum=0.9, weight_decay=1e-4
        )
    return torch.optim.AdamW(network.parameters(), lr=plan.learning_rate, fused=True)


def _batches(rows: int, plan: Plan, generator: torch.Generator) -> Iterator[Tensor]:
    """Rows in random order, in nearly equal batches: a small last one would estimate a metric badly."""
    order = torch.randperm(rows, generator=generator)
    steps = max(1, round(rows / plan.batch_size))
    yield from torch.tensor_split(order, steps)[: plan.max_steps]


def _one_epoch(
    network: nn.Module,
    criterion: Any,
    optimizer: torch.optim.Optimizer,
    part: Part,
    plan: Plan,
    generator: torch.Generator,
) -> float:
    network.train()
    total, steps = 0.0, 0
    for rows in _batches(len(part.inputs), plan, generator):
        inputs = part.inputs[rows]
        if plan.augment is not None:
            inputs = plan.augment(inputs, generator)
        loss = criterion(network(inputs), part.targets[rows].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total, steps = total + float(loss.detach()), steps + 1
    return total / steps


@torch.no_grad()
def _loss_on(network: nn.Module, criterion: Any, part: Part, limit: int | None) -> float:
    logits = predict_logits(network, part.inputs[:limit])
    return float(criterion(logits, part.targets[:limit].flatten()))


@torch.no_grad()
def predict_logits(network: nn.Module, inputs: Tensor) -> Tensor:
    """Logits of all rows in evaluation mode, in pieces."""
    network.eval()
    # Pictures need more memory per row than a table does.
    size = EVALUATION_ROWS if inputs.dim() == 2 else EVALUATION_ROWS // 8
    return torch.cat([network(piece) for piece in inputs.split(size)])
