"""The training loop, from top to bottom.

An epoch of a stage runs every batch once, then validation, then the callbacks. Everything optional (annealing, early
stopping, averaging, the collapse guard, checkpoints, progress, logging) is a callback; the loop knows none of them.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from torch import Tensor

from eastward.confusion import Counts
from eastward.metrics import Metric
from eastward.training.accumulation import exact_gradient, warn_of_batch_norm, without_dust
from eastward.training.batches import (
    LoaderBatches,
    Rows,
    ShuffledBatches,
    StratifiedBatches,
)
from eastward.training.focal import FocalObjective
from eastward.training.hooks import Callback
from eastward.training.members import Members
from eastward.training.objectives import CrossEntropyObjective, MetricObjective
from eastward.training.processes import Processes
from eastward.training.stages import Stage
from eastward.training.streams import StreamBatches
from eastward.training.validation import HeldRows, validate

if TYPE_CHECKING:
    from lightning_fabric import Fabric

__all__ = ["Run", "new_run", "run_stage"]

Objective: TypeAlias = CrossEntropyObjective | FocalObjective | MetricObjective
Source: TypeAlias = ShuffledBatches | StratifiedBatches | LoaderBatches | StreamBatches


@dataclass
class Run:
    """A stage in progress: the state that the training loop shares with its callbacks.

    Attributes
    ----------
    stage : Stage
        The stage that is running.
    members : Members
        The networks in training.
    rows : Rows
        Data, with the training and validation rows of each member.
    metric : Metric
        The metric that scores every epoch.
    fabric : Fabric
        Lightning Fabric, with device and precision.
    generator : torch.Generator
        Generator of the order of batches.
    objective : CrossEntropyObjective, FocalObjective or MetricObjective
        The loss that the stage minimises.
    source : ShuffledBatches, StratifiedBatches, LoaderBatches or StreamBatches
        The batches of each epoch.
    model : Module
        ``members`` as Fabric has set them up.
    optimizer : Optimizer
        The optimiser as Fabric has set it up.
    processes : Processes
        The processes that train together.
    epoch : int
        Number of finished epochs in this stage.
    step : int
        Number of finished optimiser steps in this epoch.
    epoch_random : Tensor or None
        State of ``generator`` at the start of the epoch, from which a resumed run repeats its batches.
    loss_sum : Tensor or None
        ``(K,)`` sum of the training losses in this epoch.
    stop : bool
        A callback sets this to True to end the stage after the epoch.
    interrupted : bool
        Whether the user stopped the stage.
    temperature_floor : float
        Lowest temperature that annealing may set; the collapse guard raises it.
    record : dict
        Numbers of the last epoch: ``stage``, ``epoch``, ``temperature``, ``train_loss``, ``valid_loss``,
        ``valid_score`` and ``seconds``.
    history : list of dict
        The records of all epochs so far.
    notes : list of str
        Sentences about unusual events, for the report.
    tables_before : sequence of Tensor or Counts
        Validation tables of each member before the tuned decision became part of its output bias.
    valid_tables : sequence of Tensor or Counts
        Validation tables (hard confusion matrices) of each member after the last epoch.
    valid_losses, valid_scores : Tensor or None
        ``(K,)`` validation losses and scores after the last epoch; a higher score is better.
    held : HeldRows or None
        The validation rows of this process, looked up once.

    Examples
    --------
    >>> import torch
    >>> from lightning_fabric import Fabric
    >>> from eastward.metrics import get
    >>> from eastward.training import Rows, StackedMLP, Stage
    >>> from eastward.training.loop import new_run
    >>> X, y, every = torch.randn(60, 3), torch.arange(60) % 2, torch.arange(60)
    >>> rows = Rows(X, y, None, train=[every[:40]], valid=[every[40:]], num_outputs=2)
    >>> stage = Stage("short", "cross_entropy", max_epochs=3, learning_rate=1e-2, batch_size=20)
    >>> members = StackedMLP(1, [3, 8, 2])
    >>> fabric = Fabric(accelerator="cpu", devices=1)
    >>> run = new_run(stage, members, rows, get("f1_macro"), fabric, torch.Generator())
    >>> run.epoch, run.stop, type(run.source).__name__
    (0, False, 'ShuffledBatches')
    """

    stage: Stage
    members: Members
    rows: Rows
    metric: Metric
    fabric: Fabric
    generator: torch.Generator
    objective: Objective
    source: Source
    model: Any
    optimizer: Any
    processes: Processes
    epoch: int = 0
    step: int = 0
    epoch_random: Tensor | None = None
    loss_sum: Tensor | None = None
    stop: bool = False
    interrupted: bool = False
    temperature_floor: float = 0.0
    record: dict[str, Any] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    tables_before: Sequence[Tensor | Counts] = ()
    valid_tables: Sequence[Tensor | Counts] = ()
    valid_losses: Tensor | None = None
    valid_scores: Tensor | None = None
    held: HeldRows | None = None


def new_run(
    stage: Stage,
    members: Members,
    rows: Rows,
    metric: Metric,
    fabric: Fabric,
    generator: torch.Generator,
    loader: LoaderBatches | StreamBatches | None = None,
) -> Run:
    """Prepare the run of a stage; a user's loader replaces the batches of the stage."""
    processes = Processes(fabric)
    model, optimizer = _set_up(members, stage, fabric)
    if stage.effective_batch is not None:
        warn_of_batch_norm(members)
    stratified = stage.stratified and not rows.multilabel and loader is None
    source: Source
    if loader is not None:
        source = loader.for_stage(stage, processes)
    elif stratified:
        source = StratifiedBatches(
            rows.train, rows.targets, rows.num_outputs, stage.rows_per_step, stage.max_steps
        )
    else:
        source = ShuffledBatches(rows.train, stage.rows_per_step, stage.max_steps)
    objective = _objective(stage, rows, metric, processes, stratified=stratified)
    parts = (objective, source, model, optimizer, processes)
    return Run(stage, members, rows, metric, fabric, generator, *parts)


def _objective(
    stage: Stage, rows: Rows, metric: Metric, processes: Processes, *, stratified: bool
) -> Objective:
    """Return the loss that the stage minimises, over the rows of all processes."""
    common: dict[str, Any] = {"multilabel": rows.multilabel, "reduce": processes.reduce}
    if stage.objective == "cross_entropy":
        return CrossEntropyObjective(**common)
    if stage.objective == "focal":
        return FocalObjective(**common)
    prior = rows.class_mass if stratified else None
    if rows.frequencies is not None:
        prior = rows.frequencies.judged.float()
    return MetricObjective(metric, prior=prior, threshold=stage.threshold, **common)


def _set_up(members: Members, stage: Stage, fabric: Fabric) -> tuple[Any, Any]:
    """Set up the model and its optimiser."""
    optimizer = torch.optim.AdamW(
        members.parameters(), lr=stage.learning_rate, weight_decay=stage.weight_decay, fused=True
    )
    pair: tuple[Any, Any] = fabric.setup(members, optimizer)
    return pair


def run_stage(run: Run, callbacks: Sequence[Callback], *, resumed: bool = False) -> None:
    """Train one stage, until its last epoch, or until a callback or the user stops it.

    Parameters
    ----------
    run : Run
        The stage to train, changed in place.
    callbacks : sequence of Callback
        Callbacks, in the order in which their hooks are called.
    resumed : bool, default=False
        Whether the run continues from a checkpoint. The hook ``stage_start`` is then not called again.

    Examples
    --------
    >>> import torch
    >>> from lightning_fabric import Fabric
    >>> from eastward.metrics import get
    >>> from eastward.training import Rows, StackedMLP, Stage, run_stage
    >>> from eastward.training.loop import new_run
    >>> y = torch.arange(60) % 2
    >>> X = torch.randn(60, 3, generator=torch.Generator().manual_seed(0)) + y.unsqueeze(1)
    >>> every = torch.arange(60)
    >>> rows = Rows(X, y, None, train=[every[:40]], valid=[every[40:]], num_outputs=2)
    >>> stage = Stage("short", "cross_entropy", max_epochs=3, learning_rate=1e-2, batch_size=20)
    >>> members = StackedMLP(1, [3, 8, 2])
    >>> fabric = Fabric(accelerator="cpu", devices=1)
    >>> run = new_run(stage, members, rows, get("f1_macro"), fabric, torch.Generator())
    >>> run_stage(run, callbacks=[])
    >>> run.epoch, len(run.history), run.interrupted
    (3, 3, False)
    """
    try:
        if not resumed:
            _call(callbacks, "stage_start", run)
        while run.epoch < run.stage.max_epochs and not run.stop:
            started = time.perf_counter()
            _call(callbacks, "epoch_start", run)
            train_loss = _train_epoch(run, callbacks)
            validate(run)
            run.epoch, run.step = run.epoch + 1, 0
            _record(run, train_loss, time.perf_counter() - started)
            _call(callbacks, "epoch_end", run)
            _agree(run)
    except KeyboardInterrupt:
        if run.processes.many:
            raise  # the other processes would wait for this one, so a job can only be stopped from outside
        run.interrupted = True
    _call(callbacks, "stage_end", run)


def _call(callbacks: Sequence[Callback], hook: str, run: Run) -> None:
    for callback in callbacks:
        getattr(callback, hook)(run)


def _agree(run: Run) -> None:
    """Stop all processes together, if any of them has a reason to stop."""
    if run.processes.asked_to_stop():
        run.interrupted = run.stop = True
    run.stop = run.processes.any(run.stop)


def _train_epoch(run: Run, callbacks: Sequence[Callback]) -> Tensor:
    """Train on every batch, or on the rest of a resumed epoch; return the mean loss of each member."""
    run.model.train()
    run.processes.seed(run.generator, own=False)
    run.epoch_random = run.generator.get_state()
    if run.step == 0 or run.loss_sum is None:
        run.loss_sum = torch.zeros(run.members.size)
    watching = [c for c in callbacks if type(c).batch_end is not Callback.batch_end]
    for position, chosen in enumerate(run.source.epoch(run.generator, run.step)):
        if position == 0:
            run.processes.seed(run.generator, own=True)
        run.loss_sum += _gradient(run, chosen)
        run.optimizer.step()
        run.step += 1
        _call(watching, "batch_end", run)
    return run.loss_sum / run.step


def _gradient(run: Run, chosen: Any) -> Tensor:
    """Compute the gradient of a batch, and return the loss of each member."""
    if run.stage.effective_batch is not None:
        whole = _rows_of(run, _own_part(run, chosen))
        return exact_gradient(run, whole, run.stage.parts_per_step)
    inputs, targets, weights = _batch(run, _own_part(run, chosen))
    run.optimizer.zero_grad()
    logits = run.model(inputs)
    logits.register_hook(without_dust)
    losses = run.objective(logits, targets, weights)
    run.fabric.backward(losses.sum())
    return losses.detach().cpu()


def _own_part(run: Run, chosen: Any) -> Any:
    """Return this process's rows of a batch, unless the source has split the rows already."""
    if isinstance(chosen, Tensor):
        return run.processes.part(chosen)
    dealt_out = getattr(run.source, "dealt_out", False)
    return chosen if dealt_out else run.processes.part_of_batch(chosen)


def _rows_of(run: Run, chosen: Any) -> tuple[Any, Tensor, Tensor | None]:
    """Return inputs, targets and weights of the rows ``chosen``, ``(K, B)``; a loader's batch is returned as it is."""
    if not isinstance(chosen, Tensor):
        ready: tuple[Any, Tensor, Tensor | None] = chosen
        return ready
    data = run.rows
    inputs = run.members.inputs_of(data.inputs, chosen)
    return inputs, data.targets[chosen], None if data.weights is None else data.weights[chosen]


def _batch(run: Run, chosen: Any) -> tuple[Any, Tensor, Tensor | None]:
    """Move the rows of a batch to the device."""
    ready: tuple[Any, Tensor, Tensor | None] = run.fabric.to_device(_rows_of(run, chosen))
    return ready


def _record(run: Run, train_loss: Tensor, seconds: float) -> None:
    run.record = {
        "stage": run.stage.name,
        "epoch": run.epoch,
        "temperature": run.objective.temperature,
        "train_loss": float(train_loss.mean()),
        "valid_loss": float(_given(run.valid_losses).mean()),
        "valid_score": float(_given(run.valid_scores).mean()),
        "seconds": seconds,
    }
    run.history.append(run.record)


def _given(value: Tensor | None) -> Tensor:
    return torch.zeros(1) if value is None else value
