"""Predict held-out rows, and score the predictions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from eastward.training.objectives import IGNORED
from eastward.training.scoring import hard_tables, padded, score_members

if TYPE_CHECKING:
    from eastward.training.loop import Run

__all__ = ["HeldRows", "held_out_logits", "predict_logits", "validate", "validate_once"]

# Rows in a forward pass outside training; the limit keeps evaluation from needing more memory than training.
EVALUATION_ROWS = 8_192


@dataclass(frozen=True)
class HeldRows:
    """The validation rows of this process.

    Attributes
    ----------
    index : Tensor
        ``(K, V)`` indices of the rows.
    targets : Tensor
        ``(K, V)`` or ``(K, V, L)``. Members with fewer rows than others have ``IGNORED`` targets at the end.
    weights : Tensor or None
        ``(K, V)`` weights of the rows.
    inputs : Tensor, dict of Tensor or None
        Inputs on the device, if one forward pass is enough. Otherwise None, and inputs are collected for each pass.
    """

    index: Tensor
    targets: Tensor
    weights: Tensor | None
    inputs: Any


def validate(run: Run) -> None:
    """Compute logits, losses and scores of the held-out rows of each member."""
    held = run.held = run.held or _held_rows(run)
    run.processes.share_buffers(run.members)
    logits = predict_logits(run, held.index) if held.inputs is None else _logits(run, held.inputs)
    with torch.no_grad():
        losses = run.objective(logits, held.targets, held.weights)
    run.valid_losses = run.processes.agreed(losses)
    run.valid_tables = hard_tables(logits, held.targets, held.weights, run.rows, run.processes)
    run.valid_scores = run.processes.agreed(score_members(run.valid_tables, run.metric))


def validate_once(run: Run) -> None:
    """Validate before the first epoch, unless a callback has done so already."""
    if run.valid_scores is None:
        validate(run)


def _held_rows(run: Run) -> HeldRows:
    """Look up the held-out rows, which are the same in every epoch."""
    index, known = (run.processes.part(whole) for whole in padded(run.rows.valid))
    targets = run.rows.targets[index].clone()
    targets[~known] = IGNORED
    weights = None if run.rows.weights is None else run.rows.weights[index]
    inputs = _inputs(run, index) if index.numel() <= EVALUATION_ROWS else None
    return HeldRows(index, targets, weights, inputs)


def predict_logits(run: Run, index: Tensor) -> Tensor:
    """Compute logits ``(K, V, C)`` of the rows ``index``, ``(K, V)``, in evaluation mode."""
    per_pass = max(1, EVALUATION_ROWS // len(index))
    # All parts go into one tensor, because small results between large temporary tensors would fragment the heap.
    logits = torch.empty(*index.shape, run.rows.num_outputs)
    for start in range(0, index.shape[1], per_pass):
        part = slice(start, start + per_pass)
        logits[:, part] = _logits(run, _inputs(run, index[:, part]))
    return logits


def _inputs(run: Run, index: Tensor) -> Any:
    return run.fabric.to_device(run.members.inputs_of(run.rows.inputs, index))


@torch.no_grad()
def _logits(run: Run, inputs: Any) -> Tensor:
    """Compute logits of one forward pass in evaluation mode, in float32 on the CPU."""
    run.model.eval()
    # Each process has its own rows, so none waits for another here.
    network = run.members if run.processes.many else run.model
    with run.fabric.autocast():
        logits: Tensor = network(inputs)
    return logits.float().cpu()


def held_out_logits(run: Run) -> tuple[Tensor, Tensor, Tensor]:
    """Return the held-out rows, their logits by a member not trained on them, and the number of that member."""
    index, known = padded(run.rows.valid)
    run.processes.share_buffers(run.members)
    mine = predict_logits(run, run.processes.part(index))
    logits = run.processes.gathered(mine, index.shape[1])
    fold = torch.arange(len(index)).unsqueeze(1).expand_as(index)
    return index[known], logits[known], fold[known]
