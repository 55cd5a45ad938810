"""The papers' training of one network: epochs until the validation loss no longer falls, the best one kept."""

from __future__ import annotations

import contextlib
import copy
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import eastward as ew
from papers.experiments.checkpoints import is_due, load_checkpoint, save_checkpoint
from papers.experiments.splits import Part, Split
from papers.experiments.stopping import stopping_for

__all__ = ["Outcome", "Plan", "predict_logits", "train_network"]

EVALUATION_ROWS = 4096
WARM_LOSS = nn.CrossEntropyLoss()
# What a checkpoint keeps by its own `state_dict`.
STATEFUL = ("network", "criterion", "optimizer", "stopping")
# What epochs of cross-entropy change: neither the loss that follows nor its stopping has begun.
WARM = ("network", "optimizer")


@dataclass(frozen=True)
class Plan:
    """The settings of training one network.

    Attributes
    ----------
    batch_size, learning_rate : number
        Hyper-parameters, which the papers search.
    max_epochs, patience : int
        The limit of epochs, and how many without a lower validation loss end training.
    optimizer : {"adamw", "adam", "sgd"}
        EAST's, Bridging the Gap's, or Lee's (momentum 0.9, weight decay 1e-4).
    annealed : bool
        Cool the temperature of the loss: ``start``, ``rate``, ``cooling_patience`` epochs at each temperature, until
        ``cold_steps`` coolings bring nothing.
    schedule : {"plateau", "linear", "cosine"}
        How it cools: on plateaus as in the paper, or from ``start`` to ``end`` within ``max_epochs``.
    warm_epochs : int
        Epochs of cross-entropy before the loss takes over.
    rate_after_warm : float
        The learning rate is multiplied by this when they are over.
    stratified : bool
        Draw the same number of rows of every class for each batch.
    exact_batches : int
        Batches per optimiser step; the gradient is that of their common table (`exact_backward`).
    select : {"loss", "score", "last"}
        Which epoch is kept: the one with the lowest validation loss, as in the papers, or with the highest validation
        F1, or the last.
    precision : {"float32", "bfloat16"}
        Precision of the network's arithmetic; the loss is always computed in float32.
    max_steps : int, optional
        The largest number of batches in an epoch.
    max_valid : int, optional
        The largest number of validation rows to judge by.
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
    schedule: str = "plateau"
    start: float = 0.2
    end: float = 0.01
    rate: float = 0.8
    cooling_patience: int = 10
    cold_steps: int = 5
    warm_epochs: int = 0
    rate_after_warm: float = 1.0
    stratified: bool = False
    exact_batches: int = 1
    select: str = "loss"
    precision: str = "float32"
    max_steps: int | None = None
    max_valid: int | None = None
    augment: Callable[[Tensor, torch.Generator], Tensor] | None = None
    watch: Callable[[nn.Module], dict[str, float]] | None = None


@dataclass
class Outcome:
    """The result of training: the lowest validation loss (its weights are loaded), and the time it took.

    ``finished`` is False where the limit of epochs ended it.
    """

    valid_loss: float = float("inf")
    epochs: int = 0
    seconds: float = 0.0
    finished: bool = False
    history: list[dict[str, float]] = field(default_factory=list)


def train_network(
    network: nn.Module,
    criterion: Any,
    split: Split,
    plan: Plan,
    *,
    seed: int,
    checkpoint: Path | None = None,
    warm_start: Path | None = None,
) -> Outcome:
    """Train ``network`` in place; it ends with the weights of its best epoch.

    Parameters
    ----------
    network : Module
        A network from rows to logits.
    criterion : callable
        A function from logits and targets to a 0-d loss; with ``plan.annealed`` it has a temperature.
    split : Split
        The data.
    plan : Plan
        The settings.
    seed : int
        Seed of the order of rows.
    checkpoint : Path, optional
        A file that is written every few minutes. If it exists, training resumes from it and ends with the same
        weights.
    warm_start : Path, optional
        A file with the network as the epochs of cross-entropy left it. Losses that start from the same network share
        it: the first one writes it, the others begin there, with the same result. Not for ``select="loss"``, where
        the loss also judges those epochs.

    Returns
    -------
    Outcome
        Loss, epochs, seconds of this process, and a record for each epoch.
    """
    state = _UnderWay(network, criterion, plan, seed)
    if checkpoint is not None and checkpoint.exists():
        state.load(checkpoint)
    elif warm_start is not None and warm_start.exists():
        state.load_warm(warm_start)
    started = time.process_time() - state.outcome.seconds
    while not state.stopping.finished and state.outcome.epochs < plan.max_epochs + plan.warm_epochs:
        state.one_epoch(split)
        state.outcome.seconds = time.process_time() - started
        if warm_start is not None and state.outcome.epochs == plan.warm_epochs:
            state.save_warm(warm_start)
        if checkpoint is not None:
            state.save(checkpoint)
    state.outcome.finished = state.stopping.finished
    network.load_state_dict(state.best)
    if checkpoint is not None:
        checkpoint.unlink(missing_ok=True)
    return state.outcome


class _UnderWay:
    """A network in training with everything that its next epoch depends on."""

    def __init__(self, network: nn.Module, criterion: Any, plan: Plan, seed: int) -> None:
        if _has_pictures(network):
            network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # torch's stubs lack it
        self.network, self.criterion, self.plan = network, criterion, plan
        self.generator = torch.Generator().manual_seed(seed)
        self.optimizer, self.stopping = _optimizer(network, plan), stopping_for(plan)
        self.outcome, self.lowest = Outcome(), float("inf")
        self.best = copy.deepcopy(network.state_dict())

    def one_epoch(self, split: Split) -> None:
        """All batches once, then the validation rows."""
        plan, outcome = self.plan, self.outcome
        warm = outcome.epochs < plan.warm_epochs
        if plan.annealed and not warm:
            self.criterion.temperature = self.stopping.temperature
        if outcome.epochs == plan.warm_epochs > 0:
            self.optimizer.param_groups[0]["lr"] = plan.learning_rate * plan.rate_after_warm
        loss = WARM_LOSS if warm else self.criterion
        train_loss = _one_epoch(
            self.network, loss, self.optimizer, split.train, plan, self.generator
        )
        judge = self.criterion if plan.select == "loss" else loss
        judged = _judged(self.network, judge, split.valid, plan)
        values = {"loss": judged["valid_loss"], "score": -judged["valid_f1"]}
        value = values.get(plan.select, -float(outcome.epochs))
        if value < self.lowest:
            self.lowest, self.best = value, copy.deepcopy(self.network.state_dict())
            outcome.valid_loss = judged["valid_loss"]
        watched = {} if plan.watch is None else plan.watch(self.network)
        outcome.history.append({"train_loss": train_loss, **judged, **watched})
        outcome.epochs += 1
        if not warm:
            self.stopping.step(value)

    def save(self, path: Path) -> None:
        """Write a checkpoint, unless the last one is younger than two minutes."""
        if is_due(path):
            save_checkpoint(path, self._document(STATEFUL), self.generator)

    def load(self, path: Path) -> None:
        """Continue from a checkpoint."""
        self._take(load_checkpoint(path, self.generator), STATEFUL)

    def save_warm(self, path: Path) -> None:
        """Write the network after cross-entropy, for every loss that starts there."""
        document = {**self._document(WARM), "select": self.plan.select}
        save_checkpoint(path, document, self.generator)

    def load_warm(self, path: Path) -> None:
        """Start from a network that :meth:`save_warm` wrote."""
        document = load_checkpoint(path, self.generator)
        self._take(document, WARM)
        # What another rule calls the lowest says nothing here.
        if (
            self.plan.select == "last"
            or document.get("select", self.plan.select) != self.plan.select
        ):
            self.lowest = float("inf")

    def _document(self, names: tuple[str, ...]) -> dict[str, Any]:
        plain = {"outcome": vars(self.outcome), "best": self.best, "lowest": self.lowest}
        return {name: getattr(self, name).state_dict() for name in names} | plain

    def _take(self, document: dict[str, Any], names: tuple[str, ...]) -> None:
        for name in names:
            getattr(self, name).load_state_dict(document[name])
        vars(self.outcome).update(document["outcome"])
        self.best, self.lowest = document["best"], document["lowest"]


def _optimizer(network: nn.Module, plan: Plan) -> torch.optim.Optimizer:
    if plan.optimizer == "sgd":
        return torch.optim.SGD(
            network.parameters(), lr=plan.learning_rate, momentum=0.9, weight_decay=1e-4
        )
    kinds: dict[str, Any] = {"adamw": torch.optim.AdamW, "adam": torch.optim.Adam}
    make = kinds[plan.optimizer]
    optimizer: torch.optim.Optimizer = make(network.parameters(), lr=plan.learning_rate, fused=True)
    return optimizer


def _batches(part: Part, plan: Plan, generator: torch.Generator) -> Iterator[Tensor]:
    """Rows in random order, in nearly equal batches: a small last one would estimate a metric badly."""
    rows = len(part.inputs)
    if plan.stratified:
        yield from _stratified(part.targets, plan, generator)
        return
    order = torch.randperm(rows, generator=generator)
    steps = max(1, round(rows / plan.batch_size))
    yield from torch.tensor_split(order, steps)[: plan.max_steps]


def _stratified(targets: Tensor, plan: Plan, generator: torch.Generator) -> Iterator[Tensor]:
    """Draw batches with the same number of rows of every class, with repetition, as many as an epoch has."""
    classes = [torch.nonzero(targets == k).flatten() for k in targets.unique()]
    each = max(1, plan.batch_size // len(classes))
    steps = range(max(1, round(len(targets) / plan.batch_size)))
    for _ in steps[: plan.max_steps]:
        drawn = [rows[torch.randint(len(rows), (each,), generator=generator)] for rows in classes]
        yield torch.cat(drawn)


def _has_pictures(network: nn.Module) -> bool:
    return any(parameter.dim() == 4 for parameter in network.parameters())


def _autocast(plan: Plan) -> Any:
    if plan.precision == "bfloat16":
        return torch.autocast("cpu", dtype=torch.bfloat16)
    return contextlib.nullcontext()


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
    waiting: list[tuple[Tensor, Tensor]] = []
    for rows in _batches(part, plan, generator):
        inputs = part.inputs[rows]
        if plan.augment is not None:
            inputs = plan.augment(inputs, generator)
        if inputs.dim() == 4:
            inputs = inputs.contiguous(memory_format=torch.channels_last)
        waiting.append((inputs, part.targets[rows].flatten()))
        if len(waiting) < plan.exact_batches:
            continue
        total += _one_step(network, criterion, optimizer, waiting, plan)
        steps, waiting = steps + 1, []
    if waiting:
        total, steps = total + _one_step(network, criterion, optimizer, waiting, plan), steps + 1
    return total / steps


def _one_step(
    network: nn.Module,
    criterion: Any,
    optimizer: torch.optim.Optimizer,
    batches: list[tuple[Tensor, Tensor]],
    plan: Plan,
) -> float:
    optimizer.zero_grad()
    if plan.exact_batches > 1:
        loss = ew.exact_backward(criterion, network, batches)
    else:
        ((inputs, targets),) = batches
        with _autocast(plan):
            logits = network(inputs)
        loss = criterion(logits.float(), targets)
        loss.backward()
    optimizer.step()
    return float(loss.detach())


@torch.no_grad()
def _judged(network: nn.Module, criterion: Any, part: Part, plan: Plan) -> dict[str, float]:
    """Loss and F1 (of class 1 of two, else the mean over classes) of the validation rows."""
    limit = plan.max_valid
    logits = predict_logits(network, part.inputs[:limit], plan.precision)
    targets = part.targets[:limit].flatten()
    decided = (logits[:, 0] > 0).long() if logits.shape[1] == 1 else logits.argmax(1)
    # After each of hundreds of epochs: scikit-learn's checks would take longer than the network.
    size = max(2, logits.shape[1])
    table = torch.bincount(size * targets + decided, minlength=size * size).reshape(size, size)
    metric = ew.metrics.get("f1" if size == 2 else "f1_macro")
    score = metric(table.float())
    # A loss with a memory of past batches must not remember validation rows.
    criterion.eval()
    loss = float(criterion(logits, targets))
    criterion.train()
    return {"valid_loss": loss, "valid_f1": float(score)}


@torch.no_grad()
def predict_logits(network: nn.Module, inputs: Tensor, precision: str = "float32") -> Tensor:
    """Logits of all rows in evaluation mode, in pieces, as float32."""
    network.eval()
    # Pictures need more memory per row than a table does.
    size = EVALUATION_ROWS if inputs.dim() == 2 else EVALUATION_ROWS // 8
    with _autocast(Plan(1, 1, 1, 1, precision=precision)):
        return torch.cat([network(piece) for piece in inputs.split(size)]).float()
