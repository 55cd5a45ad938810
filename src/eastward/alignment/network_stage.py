"""Train the whole network for the metric, with stratified batches, falling temperatures and averaged weights.

The trainer of :mod:`eastward.training` trains K networks on rows in memory. This loop trains one network of a user on
the batches of the user's loader, with outputs of any shape. It follows :class:`AlignmentSchedule` step by step.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from eastward.alignment.batches import (
    CALLER,
    Batch,
    Forward,
    as_batch,
    has_index,
    in_groups,
    output_of,
    rows_per_batch,
    with_indices,
)
from eastward.alignment.heads import HALF, Layout
from eastward.alignment.progress import Progress
from eastward.alignment.rows import IGNORED
from eastward.alignment.schedule import AlignmentSchedule, ScheduleRun
from eastward.alignment.sharding import (
    gathered,
    is_sharded,
    load_optimizer,
    load_weights,
    settle,
)
from eastward.losses import EASTLoss, exact_backward
from eastward.metrics import Metric
from eastward.training.batches import ShuffledBatches, StratifiedBatches
from eastward.training.checkpoint import FORMAT, load_checkpoint, write_atomically
from eastward.training.processes import Processes

__all__ = ["NetworkOptions", "Steps", "train_network"]

logger = logging.getLogger("eastward")

# A step should contain this many rows of the rarest class, and may join at most this many batches to get them.
RAREST_ROWS, MOST_BATCHES = 4, 16
# By default, batches have at least this many rows, so that each can contain every class.
SMALLEST_BATCH = 256


class NetworkOptions(NamedTuple):
    """Options of the network stage: epochs, original learning rate, weight decay of AdamW, and batch size."""

    epochs: int = 12
    learning_rate: float = 1e-3
    weight_decay: float = 1e-4
    batch_size: int | None = None


@dataclass(frozen=True)
class Steps:
    """The batches of each optimiser step.

    Attributes
    ----------
    loader : iterable
        The user's loader.
    layout : Layout
        How outputs and targets become rows.
    targets : Tensor or None
        Targets of all rows if they can be stratified, which needs an index and one class for each sample; else None.
    per_epoch : int
        Number of optimiser steps in an epoch.
    parts : int
        Number of batches in one step; more than one if a class is too rare for a single batch.
    batch_size : int
        Number of rows in a step if rows have an index; otherwise in a batch of the loader.
    seed : int
        Seed for the order of rows.
    """

    loader: Any
    layout: Layout
    targets: Tensor | None
    per_epoch: int
    parts: int
    batch_size: int
    seed: int

    @classmethod
    def of(
        cls,
        loader: Any,
        layout: Layout,
        targets: Tensor,
        mass: Tensor,
        options: NetworkOptions,
        seed: int,
    ) -> Steps:
        """Plan stratified steps if rows have an index and one class each; otherwise join batches of the loader."""
        own = rows_per_batch(loader, default=max(1, len(targets) // max(1, _length(loader))))
        if has_index(loader):
            choose = not (layout.dense or layout.labels)
            size = options.batch_size or max(SMALLEST_BATCH, own)
            # With more classes than rows in a batch, a step takes at least one row of each class.
            parts = max(1, math.ceil(int((mass > 0).sum()) / size)) if choose else 1
            labels = targets.reshape(len(targets)).long() if choose else None
            steps = max(1, round(len(targets) / (size * parts)))
            return cls(loader, layout, labels, steps, parts, size * parts, seed)
        rarest = float((mass[mass > 0] / mass.sum()).min())
        wanted = math.ceil(RAREST_ROWS / max(rarest * own, 1e-12))
        parts = 1 if layout.dense or layout.labels else min(max(1, wanted), MOST_BATCHES)
        parts = min(parts, _length(loader))
        return cls(loader, layout, None, math.ceil(_length(loader) / parts), parts, own, seed)

    def epoch(self, number: int, processes: Processes) -> Iterator[list[Batch]]:
        """Yield the batches of each step of an epoch, for this process."""
        if not has_index(self.loader):
            for group in in_groups(self.loader, self.parts):
                yield [as_batch(raw) for raw in group]
            return
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + number)
        chosen = [processes.part(rows)[0] for rows in self._source().epoch(generator)]
        pieces = [piece.tolist() for rows in chosen for piece in rows.tensor_split(self.parts)]
        batches = with_indices(self.loader, pieces)
        for group in in_groups(batches, self.parts):
            yield [as_batch(raw) for raw in group]

    def _source(self) -> StratifiedBatches | ShuffledBatches:
        if self.targets is None:
            every = torch.arange(len(self.loader.dataset))
            return ShuffledBatches([every], self.batch_size)
        known = torch.nonzero(self.targets != IGNORED).flatten()
        size = self.layout.size
        return StratifiedBatches([known], self.targets, size, self.batch_size)


def _length(loader: Any) -> int:
    try:
        return max(1, len(loader))
    except TypeError:
        return max(1, sum(1 for _ in loader))


class Rowwise(nn.Module):
    """A wrapper around the user's network that takes batches and returns rows of logits.

    ``precision`` is the context of the forward pass, where Fabric does not set one.
    """

    def __init__(
        self,
        network: nn.Module,
        layout: Layout,
        forward: Forward | None,
        precision: Any = nullcontext,
    ) -> None:
        super().__init__()
        self.network, self.layout, self.call = network, layout, forward
        self.precision = precision

    def forward(self, batch: Any) -> Tensor:
        """Compute logits ``(M, C)`` of a batch."""
        with self.precision():
            logits = self.layout.rows(output_of(self.network, batch, self.call))
        return logits.float() if logits.dtype in HALF else logits


def train_network(
    network: nn.Module,
    steps: Steps,
    metric: Metric,
    prior: Tensor | None,
    options: NetworkOptions,
    *,
    fabric: Any,
    forward: Forward | None,
    ignore_index: int,
    checkpoint: Path | None = None,
    identity: str = "",
    verbose: int = 0,
) -> bool:
    """Train the network in place, and return False if the user stopped it.

    Parameters
    ----------
    network : Module
        The network to train, with the tuned decision in its head.
    steps : Steps
        The batches of each step.
    metric : Metric
        The metric to maximise.
    prior : Tensor, optional
        ``(C,)`` class frequencies that count.
    options : NetworkOptions
        Epochs, learning rate, weight decay and batch size.
    fabric : Fabric
        Lightning Fabric, with device, precision and processes.
    forward : callable, optional
        A function ``(model, inputs) -> logits`` that calls the network.
    ignore_index : int
        Targets with this value are left out.
    checkpoint : Path, optional
        File that is written after every epoch; unfinished training continues from it.
    identity : str
        A digest of data and settings; a checkpoint with another one is refused.
    verbose : int
        0 is silent.

    Returns
    -------
    bool
        Whether training finished.
    """
    schedule = AlignmentSchedule(metric, steps=steps.per_epoch * options.epochs, prior=prior)
    loss = schedule.loss(
        multilabel=steps.layout.labels, ignore_index=IGNORED, check_inputs=False
    ).to(fabric.device)
    settle(network)
    optimizer = torch.optim.AdamW(
        [value for value in network.parameters() if value.requires_grad],
        lr=schedule.learning_rate(options.learning_rate),
        weight_decay=options.weight_decay,
    )
    model: Any
    if is_sharded(network):  # fully_shard has set it up already
        model = Rowwise(network, steps.layout, forward, fabric.autocast)
        optimizer = fabric.setup_optimizers(optimizer)
    else:
        model, optimizer = fabric.setup(Rowwise(network, steps.layout, forward), optimizer)
    processes = Processes(fabric)
    run = schedule.follow(network, loss)
    first = _resumed(checkpoint, identity, network, optimizer, run, processes)
    finished = True
    try:
        with Progress("aligning the network", options.epochs, verbose, done=first) as progress:
            for epoch in range(first, options.epochs):
                value = _epoch(epoch, steps, run, model, loss, optimizer, fabric, ignore_index)
                progress.advance(f"T {schedule(steps.per_epoch * epoch):.3g}  loss {value:.4f}")
                if checkpoint is not None:
                    state = _state(identity, epoch + 1, network, optimizer, run)
                    if processes.first:
                        _save(checkpoint, state)
                if processes.asked_to_stop():
                    finished = False
                    break
    except KeyboardInterrupt:
        if processes.many:
            raise  # the other processes would wait for this one, so a job can only be stopped from outside
        finished = False
    run.finish()
    network.eval()
    return finished


def _epoch(
    number: int,
    steps: Steps,
    run: ScheduleRun,
    model: Any,
    loss: EASTLoss,
    optimizer: Any,
    fabric: Any,
    ignore_index: int,
) -> float:
    """Run every step of an epoch, and return the mean loss."""
    model.train()
    values: list[float] = []
    for place, batches in enumerate(steps.epoch(number, Processes(fabric))):
        step = number * steps.per_epoch + place
        run.before(step)
        optimizer.zero_grad()
        ready = [_on_device(batch, steps.layout, ignore_index, fabric) for batch in batches]
        values.append(_backward(loss, model, ready, fabric))
        optimizer.step()
        run.after(step)
    return sum(values) / max(1, len(values))


def _backward(loss: EASTLoss, model: Any, batches: Sequence[Any], fabric: Any) -> float:
    """Compute the gradient of all batches of a step together."""
    if len(batches) > 1:
        return float(exact_backward(loss, model, batches, backward=fabric.backward))
    inputs, targets, *weight = batches[0]
    value = loss(model(inputs), targets, weight[0] if weight else None)
    fabric.backward(value)
    return float(value.detach())


def _on_device(batch: Batch, layout: Layout, ignore_index: int, fabric: Any) -> tuple[Any, ...]:
    """Move a batch to the device, with its targets as rows, and with weights if there are any."""
    targets = fabric.to_device(layout.targets(batch.targets, ignore_index))
    inputs = batch._replace(inputs=fabric.to_device(batch.inputs))
    if batch.weight is None:
        return inputs, targets
    samples = len(batch.targets)
    weight = torch.as_tensor(batch.weight).float().reshape(samples, -1)
    each = weight.expand(samples, len(targets) // samples).reshape(-1)
    return inputs, targets, fabric.to_device(each)


def _state(
    identity: str, epoch: int, network: nn.Module, optimizer: Any, run: ScheduleRun
) -> dict[str, Any]:
    """Collect the state for a checkpoint; every process must call this, because weights may be split."""
    return {
        "format": FORMAT,
        "identity": identity,
        "epoch": epoch,
        "network": gathered(network.state_dict()),
        "optimizer": gathered(optimizer.state_dict()),
        "mean": run.state_dict(),
        "random": torch.get_rng_state(),
    }


def _save(path: Path, state: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, lambda temporary: torch.save(state, temporary))


def _resumed(
    path: Path | None,
    identity: str,
    network: nn.Module,
    optimizer: Any,
    run: ScheduleRun,
    processes: Processes,
) -> int:
    """Continue from a checkpoint, and return the number of finished epochs."""
    if path is None:
        return 0
    found = load_checkpoint(path, identity, caller=CALLER) if processes.first else None
    saved = processes.agreed(found)
    if saved is None:
        return 0
    load_weights(network, saved["network"])
    load_optimizer(optimizer, saved["optimizer"])
    run.load_state_dict(saved["mean"])
    torch.set_rng_state(saved["random"])
    logger.info("align: continuing after epoch %d", saved["epoch"])
    return int(saved["epoch"])
