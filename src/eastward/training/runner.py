"""Train all stages one after the other, and resume a killed run."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from eastward.decisions import (
    bagged_offsets,
    multilabel_thresholds,
    smoothed_offsets,
)
from eastward.metrics import Metric
from eastward.training.batches import LoaderBatches, Rows
from eastward.training.callbacks import Anneal, AverageWeights, KeepBest
from eastward.training.checkpoint import Checkpoint, load_checkpoint
from eastward.training.collapse import CollapseGuard
from eastward.training.hooks import Callback
from eastward.training.loop import Run, new_run, run_stage
from eastward.training.members import Members
from eastward.training.objectives import MetricObjective
from eastward.training.processes import Processes
from eastward.training.progress import progress_callbacks
from eastward.training.stages import Stage
from eastward.training.streams import StreamBatches
from eastward.training.validation import held_out_logits, validate

if TYPE_CHECKING:
    from lightning_fabric import Fabric

__all__ = ["HeldOut", "TrainingResult", "start_offsets", "train_members"]

logger = logging.getLogger("eastward")

ROWS_FOR_SMOOTHING = 10_000
# A few bootstraps are enough for the offsets, because training continues from them.
BAGS = 5


@dataclass(frozen=True)
class HeldOut:
    """Logits of held-out rows, each computed by a member that was not trained on the row.

    Attributes
    ----------
    rows : Tensor
        ``(N,)`` indices of the rows.
    logits : Tensor
        ``(N, C)`` logits.
    folds : Tensor
        ``(N,)`` number of the member that computed them.
    """

    rows: Tensor
    logits: Tensor
    folds: Tensor


@dataclass
class TrainingResult:
    """The result of training: the numbers of each epoch, and the held-out logits after each stage.

    Attributes
    ----------
    history : list of dict
        One record for each epoch: ``stage``, ``epoch``, ``temperature``, ``train_loss``, ``valid_loss``,
        ``valid_score`` and ``seconds``.
    notes : list of str
        Sentences about unusual events, such as a collapse or an interruption.
    held_out : dict of str to HeldOut
        Logits of held-out rows after each stage, by the name of the stage.
    weights : dict of str to dict
        Weights after each stage except the last, by the name of the stage. The held-out rows may prefer an earlier
        stage.
    interrupted : bool
        Whether the user stopped training.

    Examples
    --------
    :func:`train_members` returns such a result. Here is one with two epochs, made by hand:

    >>> from eastward.training import TrainingResult
    >>> result = TrainingResult(
    ...     history=[
    ...         {"stage": "cross-entropy", "epoch": 1, "valid_score": 0.71},
    ...         {"stage": "cross-entropy", "epoch": 2, "valid_score": 0.78},
    ...     ]
    ... )
    >>> max(record["valid_score"] for record in result.history)
    0.78
    >>> result.interrupted
    False
    """

    history: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    held_out: dict[str, HeldOut] = field(default_factory=dict)
    weights: dict[str, dict[str, Tensor]] = field(default_factory=dict)
    interrupted: bool = False


def train_members(
    members: Members,
    rows: Rows,
    stages: Sequence[Stage],
    *,
    metric: Metric,
    fabric: Fabric,
    generator: torch.Generator,
    checkpoint: Path | None = None,
    identity: str = "",
    checkpoint_interval: float = 10.0,
    verbose: int = 0,
    callbacks: Sequence[Callback] = (),
    loader: LoaderBatches | StreamBatches | None = None,
) -> TrainingResult:
    """Train networks through all stages, one stage after the other.

    Parameters
    ----------
    members : Members
        The networks, changed in place: a :class:`StackedMLP`, :class:`SoloMember` or :class:`SeparateMembers`.
    rows : Rows
        Data, with the rows on which each member trains and is validated.
    stages : sequence of Stage
        The stages, in order; :func:`recipe_stages` makes them.
    metric : Metric
        The metric that scores every epoch. Stages with the objective ``"metric"`` maximise it.
    fabric : Fabric
        Lightning Fabric, with device and precision.
    generator : torch.Generator
        Generator of the order of batches.
    checkpoint : Path, optional
        File to save to. If it holds an unfinished run, that run is resumed.
    identity : str, default=""
        Fingerprint of data and settings; a checkpoint with another fingerprint is refused.
    checkpoint_interval : float, default=10.0
        Fewest seconds between two saves.
    verbose : int, default=0
        1 shows a progress bar in a terminal, and log lines elsewhere.
    callbacks : sequence of Callback, default=()
        Your own callbacks, called after the built-in ones.
    loader : LoaderBatches or StreamBatches, optional
        Training batches from a loader or from files. ``rows`` then holds only the validation data.

    Returns
    -------
    TrainingResult
        The numbers of each epoch, notes, and the held-out logits after each stage.

    Examples
    --------
    >>> import torch
    >>> from lightning_fabric import Fabric
    >>> from eastward.metrics import get
    >>> from eastward.training import Rows, StackedMLP, Stage, assign_folds, train_members
    >>> generator = torch.Generator().manual_seed(0)
    >>> y = torch.arange(60) % 2
    >>> X = torch.randn(60, 3, generator=generator) + y.unsqueeze(1)
    >>> folds, every = assign_folds(y, 2, generator), torch.arange(60)
    >>> train, valid = ([every[(folds == k) == held] for k in (0, 1)] for held in (False, True))
    >>> rows = Rows(X, y, None, train=train, valid=valid, num_outputs=2)
    >>> stage = Stage("short", "cross_entropy", max_epochs=3, learning_rate=1e-2, batch_size=15)
    >>> result = train_members(
    ...     StackedMLP(2, [3, 8, 2]),
    ...     rows,
    ...     [stage],
    ...     metric=get("f1_macro"),
    ...     fabric=Fabric(accelerator="cpu", devices=1),
    ...     generator=generator,
    ... )
    >>> len(result.history), result.held_out["short"].logits.shape
    (3, torch.Size([60, 2]))
    """
    result = TrainingResult()
    processes = Processes(fabric)
    saved = None if checkpoint is None else _saved(checkpoint, identity, processes)
    if saved is not None:
        _restore_members(members, generator, result, saved)
    first = 0 if saved is None else saved["stage"]
    for index, described in enumerate(stages[first:], start=first):
        stage = described.lasting(
            sum(record["stage"] == stages[0].name for record in result.history)
        )
        here = rows.as_judged() if stage.objective == "metric" else rows
        here = here.with_held_out() if stage.all_rows else here
        run = new_run(stage, members, here, metric, fabric, generator, loader)
        run.history, run.notes = result.history, result.notes
        own = stage_callbacks(stage, verbose if processes.first else 0, callbacks)
        saver = None
        # One process writes for all, because all have the same state.
        if checkpoint is not None and processes.first:
            saver = Checkpoint(
                checkpoint, identity, index, own, kept=_kept(result), interval=checkpoint_interval
            )
        resumed = saved is not None and index == first and (saved["epoch"], saved["step"]) > (0, 0)
        if resumed and saved is not None:
            _restore_run(run, own, saved)
        else:
            _begin(run, result, first=index == 0)
        run_stage(run, own if saver is None else [*own, saver], resumed=resumed)
        _move_to_judged(run)
        _keep_held_out(run, result, stages[index + 1 :])
        if run.interrupted:
            _say_interrupted(run, result)
            break
        if saver is not None:
            saver.save_finished(run, _kept(result))
    return result


def _saved(path: Path, identity: str, processes: Processes) -> dict[str, Any] | None:
    """Load the checkpoint in process zero, because another machine may not see the file."""
    found = load_checkpoint(path, identity) if processes.first else None
    agreed: dict[str, Any] | None = processes.agreed(found)
    return agreed


def stage_callbacks(stage: Stage, verbose: int, extra: Sequence[Callback] = ()) -> list[Callback]:
    """Return the callbacks of a stage, with annealing first and progress last."""
    chosen: list[Callback] = [Anneal(stage)]
    chosen.append(AverageWeights(stage) if stage.average_last else KeepBest(stage.patience))
    if stage.guard != "off":
        # The guard comes after the others, so that no average replaces the weights that it restores.
        chosen.append(CollapseGuard(answer=stage.guard == "answer"))
    return [*chosen, *extra, *progress_callbacks(verbose)]


def _keep_held_out(run: Run, result: TrainingResult, following: Sequence[Stage]) -> None:
    """Keep the held-out logits of the stage, and its weights if a later stage is compared with it."""
    if not run.stage.all_rows:
        result.held_out[run.stage.name] = HeldOut(*held_out_logits(run))
    if following and not following[0].all_rows:
        result.weights[run.stage.name] = copied_weights(run.members)


def _begin(run: Run, result: TrainingResult, *, first: bool) -> None:
    """Set the output bias for a new stage: to the tuned decision, or back to the frequencies of training."""
    if run.stage.from_decision:
        start_at_decision(run, _known(result, run.stage))
    elif not first:
        _move_to_judged(run, back=True)


def _move_to_judged(run: Run, *, back: bool = False) -> None:
    """Shift the members from the frequencies of training to those that the model is judged by, or back."""
    frequencies = run.rows.frequencies
    if frequencies is None or run.stage.objective == "metric":
        return
    run.members.add_to_output_bias(-frequencies.shift if back else frequencies.shift)


def _known(result: TrainingResult, stage: Stage) -> HeldOut | None:
    """Return the logits of the last stage with held-out rows."""
    return list(result.held_out.values())[-1] if stage.all_rows else None


def start_at_decision(run: Run, held: HeldOut | None = None) -> None:
    """Fold tuned offsets into the last bias, so that the arg max is the tuned decision.

    The offsets are tuned on ``held``, or else on the members' current logits of their held-out rows.
    """
    validate(run)
    run.tables_before, run.valid_scores = run.valid_tables, None
    held = held or HeldOut(*held_out_logits(run))
    found = start_offsets(held, run.rows, run.metric)
    offsets = run.processes.agreed(found)
    if not run.members.add_to_output_bias(offsets):
        note = "the module has no output bias with one entry per class: the aligned stage starts at arg max"
        run.notes.append(note)
        logger.info(note)


def start_offsets(held: HeldOut, rows: Rows, metric: Metric) -> Tensor:
    """Tune the offsets from which the next stage starts, on held-out logits.

    The labels of a few rows are a noisy guide, so the expectations of cross-fitted networks replace most of them. With
    many rows, labels are enough. Labels are also used for a single network, because it is overconfident, and with
    unequal weights, because probabilities are then not the expectations of labels.
    """
    targets = rows.targets[held.rows]
    weights = None if rows.weights is None else rows.weights[held.rows]
    logits = held.logits.double()
    if rows.multilabel:
        return multilabel_thresholds(logits, targets, metric, sample_weight=weights).float()
    scores = torch.log_softmax(logits, dim=1)
    alike = weights is None or bool((weights == weights[0]).all())
    if len(rows.valid) > 1 and alike and len(targets) <= ROWS_FOR_SMOOTHING:
        return smoothed_offsets(scores, targets, metric, sample_weight=weights).float()
    return bagged_offsets(scores, targets, metric, n_bags=BAGS, sample_weight=weights).float()


def copied_weights(members: Members) -> dict[str, Tensor]:
    """Copy the current weights of all members to the CPU."""
    return {name: value.detach().cpu().clone() for name, value in members.state_dict().items()}


def _kept(result: TrainingResult) -> dict[str, Any]:
    """Return the part of the result that a checkpoint keeps."""
    held = {name: (one.rows, one.logits, one.folds) for name, one in result.held_out.items()}
    return {"held_out": held, "weights": dict(result.weights)}


def _say_interrupted(run: Run, result: TrainingResult) -> None:
    note = (
        f"stopped by hand in stage {run.stage.name!r}, epoch {run.epoch}; "
        "the best weights so far are kept"
    )
    result.interrupted = True
    result.notes.append(note)
    logger.warning(note)


def _restore_members(
    members: Members, generator: torch.Generator, result: TrainingResult, saved: dict[str, Any]
) -> None:
    """Restore the weights, the random states and the result so far."""
    members.load_state_dict(saved["members"])
    generator.set_state(saved["generator"])
    torch.set_rng_state(saved["random"])
    result.history, result.notes = saved["history"], saved["notes"]
    result.held_out = {name: HeldOut(*parts) for name, parts in saved["held_out"].items()}
    result.weights = saved["weights"]
    logger.info("continuing from stage %d, epoch %d", saved["stage"] + 1, saved["epoch"])


def _restore_run(run: Run, callbacks: Sequence[Callback], saved: dict[str, Any]) -> None:
    """Restore a stage in progress from a checkpoint."""
    run.epoch, run.stop, run.step = saved["epoch"], saved["stop"], saved["step"]
    run.loss_sum = saved["loss_sum"]
    run.optimizer.load_state_dict(saved["optimizer"])
    run.temperature_floor = saved["temperature_floor"]
    if isinstance(run.objective, MetricObjective):
        run.objective.blend = saved["blend"]
    # Not strict, because the progress callback (last, without a state) may differ between terminals and processes.
    for callback, state in zip(callbacks, saved["callbacks"], strict=False):
        callback.load_state_dict(state)
