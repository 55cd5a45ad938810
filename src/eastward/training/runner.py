"""Run the stages one after the other, and resume a killed run."""

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
# Only a few bootstraps for the offsets, because training continues from them.
BAGS = 5


@dataclass(frozen=True)
class HeldOut:
    """Logits of rows by members that were not trained on them."""

    rows: Tensor
    logits: Tensor
    folds: Tensor


@dataclass
class TrainingResult:
    """The result of training: numbers of each epoch, sentences, and held-out logits after each stage.

    ``weights`` holds the weights after each stage but the last, because held-out rows may prefer them.
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
    """Run the stages over the members.

    Parameters
    ----------
    members : Members
        Networks, changed in place.
    rows : Rows
        Data, with the rows that each member trains on and is judged by.
    stages : sequence of Stage
        Stages in order.
    metric : Metric
        Scores every epoch, and is the objective of metric stages.
    fabric : Fabric
        Device and precision.
    generator : torch.Generator
        Order of batches.
    checkpoint : Path, optional
        File to save to; an unfinished run there is resumed.
    identity : str
        Fingerprint of data and settings.
    checkpoint_interval : float
        Fewest seconds between two saves.
    verbose : int
        0 is silent.
    callbacks : sequence of Callback
        The user's callbacks, called after the built-in ones.
    loader : LoaderBatches or StreamBatches, optional
        Batches of a user's loader or of files, instead of those of ``rows``, which then holds the validation data
        alone.

    Returns
    -------
    TrainingResult
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
    """Return the callbacks of a stage: annealing first, progress last."""
    chosen: list[Callback] = [Anneal(stage)]
    chosen.append(AverageWeights(stage) if stage.average_last else KeepBest(stage.patience))
    if stage.guard != "off":
        # After the others, so that no average replaces what the guard restores.
        chosen.append(CollapseGuard(answer=stage.guard == "answer"))
    return [*chosen, *extra, *progress_callbacks(verbose)]


def _keep_held_out(run: Run, result: TrainingResult, following: Sequence[Stage]) -> None:
    """Keep held-out logits of the stage, and its weights if a later stage is compared with them."""
    if not run.stage.all_rows:
        result.held_out[run.stage.name] = HeldOut(*held_out_logits(run))
    if following and not following[0].all_rows:
        result.weights[run.stage.name] = copied_weights(run.members)


def _begin(run: Run, result: TrainingResult, *, first: bool) -> None:
    """Start a stage at the tuned decision, or at the frequencies that it learns from."""
    if run.stage.from_decision:
        start_at_decision(run, _known(result, run.stage))
    elif not first:
        _move_to_judged(run, back=True)


def _move_to_judged(run: Run, *, back: bool = False) -> None:
    """Shift members from the frequencies of training to those that count, or back."""
    frequencies = run.rows.frequencies
    if frequencies is None or run.stage.objective == "metric":
        return
    run.members.add_to_output_bias(-frequencies.shift if back else frequencies.shift)


def _known(result: TrainingResult, stage: Stage) -> HeldOut | None:
    """Return the logits of the last stage with held-out rows."""
    return list(result.held_out.values())[-1] if stage.all_rows else None


def start_at_decision(run: Run, held: HeldOut | None = None) -> None:
    """Fold tuned offsets into the last bias, so that the arg max is the tuned decision.

    They are tuned on ``held``, or on the members' current logits of their held-out rows.
    """
    validate(run)
    run.tables_before, run.valid_scores = run.valid_tables, None
    held = held or HeldOut(*held_out_logits(run))
    found = start_offsets(held, run.rows, run.metric)
    offsets = run.processes.agreed(found)
    if not run.members.add_to_output_bias(offsets):
        note = "the module has no output bias of that length: the aligned stage starts at arg max"
        run.notes.append(note)
        logger.info(note)


def start_offsets(held: HeldOut, rows: Rows, metric: Metric) -> Tensor:
    """Tune offsets on held-out logits, where the next stage starts.

    The labels of few rows are a noisy guide, so expectations of cross-fitted networks replace most of them. With many
    rows the labels suffice. Labels are also used for a single network, which is overconfident, and with unequal
    weights, where probabilities are not expectations of labels.
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
    """Copy the current weights."""
    return {name: value.detach().cpu().clone() for name, value in members.state_dict().items()}


def _kept(result: TrainingResult) -> dict[str, Any]:
    """Return what a checkpoint keeps of finished stages."""
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
    """Restore weights, random states and results so far."""
    members.load_state_dict(saved["members"])
    generator.set_state(saved["generator"])
    torch.set_rng_state(saved["random"])
    result.history, result.notes = saved["history"], saved["notes"]
    result.held_out = {name: HeldOut(*parts) for name, parts in saved["held_out"].items()}
    result.weights = saved["weights"]
    logger.info("continuing from stage %d, epoch %d", saved["stage"] + 1, saved["epoch"])


def _restore_run(run: Run, callbacks: Sequence[Callback], saved: dict[str, Any]) -> None:
    """Restore the state of a stage in progress in a new run."""
    run.epoch, run.stop, run.step = saved["epoch"], saved["stop"], saved["step"]
    run.loss_sum = saved["loss_sum"]
    run.optimizer.load_state_dict(saved["optimizer"])
    run.temperature_floor = saved["temperature_floor"]
    if isinstance(run.objective, MetricObjective):
        run.objective.blend = saved["blend"]
    # Not strict, because the progress callback (last, without a state) may differ between terminals and processes.
    for callback, state in zip(callbacks, saved["callbacks"], strict=False):
        callback.load_state_dict(state)
