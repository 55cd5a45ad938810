"""The training loop, from top to bottom.

One stage: for each epoch, every batch once, then validation, then the callbacks. Everything optional (annealing,
early stopping, averaging, the collapse guard, checkpoints, progress, logging) is a callback; the loop knows
none of them.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import torch
from lightning_fabric import Fabric
from torch import Tensor

from eastward.confusion import Counts, hard_confusion, multilabel_counts
from eastward.metrics import Metric
from eastward.training.batches import (
    LoaderBatches,
    Rows,
    ShuffledBatches,
    StratifiedBatches,
    take,
)
from eastward.training.direct import DirectGradient, direct_gradient, without_dust
from eastward.training.focal import FocalObjective
from eastward.training.members import Members, StackedMLP
from eastward.training.objectives import IGNORED, CrossEntropyObjective, MetricObjective
from eastward.training.stages import Stage

__all__ = ["Callback", "Run", "held_out_logits", "new_run", "run_stage", "score_members"]

# Rows per forward pass outside training, so that evaluation needs little memory whatever the data: no more than
# training itself does.
EVALUATION_ROWS = 8_192


Objective: TypeAlias = CrossEntropyObjective | FocalObjective | MetricObjective
Source: TypeAlias = ShuffledBatches | StratifiedBatches | LoaderBatches


class Callback:
    """Hooks of the loop; each does nothing unless overridden."""

    def stage_start(self, run: Run) -> None:
        """Before the first epoch."""

    def epoch_start(self, run: Run) -> None:
        """Before the batches of an epoch."""

    def epoch_end(self, run: Run) -> None:
        """After validation; ``run.record`` holds the numbers of the epoch."""

    def stage_end(self, run: Run) -> None:
        """After the last epoch, also of an interrupted stage."""

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint has to remember."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from such a state."""


@dataclass
class Run:
    """A stage in progress: what the loop and its callbacks share."""

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
    direct: DirectGradient | None = None
    epoch: int = 0
    stop: bool = False
    interrupted: bool = False
    temperature_floor: float = 0.0
    record: dict[str, Any] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    valid_logits: Tensor | None = None
    valid_losses: Tensor | None = None
    valid_scores: Tensor | None = None


def new_run(
    stage: Stage,
    members: Members,
    rows: Rows,
    metric: Metric,
    fabric: Fabric,
    generator: torch.Generator,
    loader: LoaderBatches | None = None,
) -> Run:
    """Everything a stage needs, made from its description; a user's loader replaces the stage's batches."""
    direct = direct_gradient(members, rows, fabric) if loader is None else None
    model, optimizer = _set_up(members, stage, fabric, direct)
    stratified = stage.stratified and not rows.multilabel and loader is None
    source: Source
    if loader is not None:
        source = loader
    elif stratified:
        source = StratifiedBatches(
            rows.train, rows.targets, rows.num_outputs, stage.batch_size, stage.max_steps
        )
    else:
        source = ShuffledBatches(rows.train, stage.batch_size, stage.max_steps)
    objective: Objective
    if stage.objective == "cross_entropy":
        objective = CrossEntropyObjective(multilabel=rows.multilabel)
    elif stage.objective == "focal":
        objective = FocalObjective(multilabel=rows.multilabel)
    else:
        prior = rows.class_mass if stratified else None
        objective = MetricObjective(
            metric, prior=prior, threshold=stage.threshold, multilabel=rows.multilabel
        )
    return Run(
        stage, members, rows, metric, fabric, generator, objective, source, model, optimizer, direct
    )


def _set_up(
    members: Members, stage: Stage, fabric: Fabric, direct: DirectGradient | None
) -> tuple[Any, Any]:
    """The model and its optimiser; one flat parameter saves the optimiser most of its time."""
    parameters = members.parameters() if direct is None else [direct.parameter]
    optimizer = torch.optim.AdamW(
        parameters, lr=stage.learning_rate, weight_decay=stage.weight_decay, fused=True
    )
    if direct is None:
        pair: tuple[Any, Any] = fabric.setup(members, optimizer)
        return pair
    return fabric.setup(members), optimizer


def run_stage(run: Run, callbacks: Sequence[Callback], *, resumed: bool = False) -> None:
    """Train until the epochs are used up, a callback says stop, or the user does."""
    try:
        if not resumed:
            _call(callbacks, "stage_start", run)
        while run.epoch < run.stage.max_epochs and not run.stop:
            started = time.perf_counter()
            _call(callbacks, "epoch_start", run)
            train_loss = _train_epoch(run)
            validate(run)
            run.epoch += 1
            _record(run, train_loss, time.perf_counter() - started)
            _call(callbacks, "epoch_end", run)
    except KeyboardInterrupt:
        run.interrupted = True
    _call(callbacks, "stage_end", run)


def _call(callbacks: Sequence[Callback], hook: str, run: Run) -> None:
    for callback in callbacks:
        getattr(callback, hook)(run)


def _train_epoch(run: Run) -> Tensor:
    """Every batch once; returns the mean loss of each member."""
    run.model.train()
    total, steps = torch.zeros(run.members.size), 0
    for chosen in run.source.epoch(run.generator):
        if run.direct is None:
            total += _gradient(run, chosen)
        else:
            total += run.direct.of_batch(run.rows, chosen, run.objective)
        run.optimizer.step()
        steps += 1
    return total / steps


def _gradient(run: Run, chosen: Any) -> Tensor:
    """Put the gradient of a batch into the parameters; its losses, one for each member."""
    inputs, targets, weights = _batch(run, chosen)
    run.optimizer.zero_grad()
    logits = run.model(inputs)
    logits.register_hook(without_dust)
    losses = run.objective(logits, targets, weights)
    run.fabric.backward(losses.sum())
    return losses.detach().cpu()


def _batch(run: Run, chosen: Any) -> tuple[Any, Tensor, Tensor | None]:
    """Inputs, targets and weights on the device: of the rows ``chosen``, ``(K, B)``, or a loader's own."""
    data, device = run.rows, run.fabric.device
    if not isinstance(chosen, Tensor):
        ready: tuple[Any, Tensor, Tensor | None] = run.fabric.to_device(chosen)
        return ready
    stacked = isinstance(run.members, StackedMLP)
    inputs = take(data.inputs, chosen if stacked else chosen[0])
    weights = None if data.weights is None else data.weights[chosen].to(device)
    return run.fabric.to_device(inputs), data.targets[chosen].to(device), weights


def validate(run: Run) -> None:
    """Logits, losses and scores of the held-out rows of each member."""
    index, known = padded(run.rows.valid)
    run.valid_logits = predict_logits(run, index)
    targets = run.rows.targets[index].clone()
    targets[~known] = IGNORED
    weights = None if run.rows.weights is None else run.rows.weights[index]
    with torch.no_grad():
        run.valid_losses = run.objective(run.valid_logits, targets, weights)
    run.valid_scores = score_members(run.valid_logits, targets, weights, run.metric, run.rows)


@torch.no_grad()
def predict_logits(run: Run, index: Tensor) -> Tensor:
    """Logits ``(K, V, C)`` in evaluation mode of the rows ``index``, ``(K, V)``."""
    run.model.eval()
    per_pass = max(1, EVALUATION_ROWS // len(index))
    # One tensor for all parts: small results kept between large temporary ones would split the heap, which then grows.
    logits = torch.empty(*index.shape, run.rows.num_outputs)
    for start in range(0, index.shape[1], per_pass):
        part = slice(start, start + per_pass)
        logits[:, part] = run.model(_batch(run, index[:, part])[0])
    return logits


def padded(parts: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Index tensors of unequal length as one ``(K, V)`` tensor, and which entries are real.

    Examples
    --------
    >>> import torch
    >>> padded([torch.tensor([3, 4]), torch.tensor([5])])[1].tolist()
    [[True, True], [True, False]]
    """
    index = torch.nn.utils.rnn.pad_sequence(list(parts), batch_first=True)
    lengths = torch.tensor([len(part) for part in parts])
    return index, torch.arange(index.shape[1]) < lengths.unsqueeze(1)


def score_members(
    logits: Tensor, targets: Tensor, weights: Tensor | None, metric: Metric, rows: Rows
) -> Tensor:
    """The metric of each member's hard decisions; higher is better (a cost comes out negative)."""
    scores = []
    for k in range(len(logits)):
        member_weights = None if weights is None else weights[k]
        table = hard_table(logits[k], targets[k], member_weights, rows)
        scores.append(metric(table))
    values = torch.stack(scores).float()
    return values if metric.higher_is_better else -values


def hard_table(
    scores: Tensor, targets: Tensor, weights: Tensor | None, rows: Rows
) -> Tensor | Counts:
    """Confusion matrix, or counts of independent labels, of the decisions that ``scores`` imply."""
    if rows.multilabel:
        return multilabel_counts((scores > 0).double(), targets, sample_weight=weights)
    return hard_confusion(
        scores.argmax(-1), targets, num_classes=rows.num_outputs, sample_weight=weights
    )


def held_out_logits(run: Run) -> tuple[Tensor, Tensor, Tensor]:
    """Rows that some member did not train on, their logits, and the member (fold) each was held out from."""
    index, known = padded(run.rows.valid)
    logits = predict_logits(run, index)
    fold = torch.arange(len(index)).unsqueeze(1).expand_as(index)
    return index[known], logits[known], fold[known]


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
