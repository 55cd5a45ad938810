"""Small rows, stages and runs for the tests of the trainer."""

from __future__ import annotations

import torch
from lightning_fabric import Fabric

from eastward.metrics import as_metric
from eastward.training import Rows, StackedMLP, Stage, assign_folds
from eastward.training.loop import new_run


def clusters(counts=(60, 40, 20), features=4, seed=0):
    """Inputs around one centre for each class, and their classes."""
    generator = torch.Generator().manual_seed(seed)
    targets = torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts))
    centres = torch.randn(len(counts), features, generator=generator)
    noise = torch.randn(len(targets), features, generator=generator)
    return centres[targets] + 0.7 * noise, targets


def small_rows(folds=3, counts=(60, 40, 20), weights=None, seed=0) -> Rows:
    """Rows for ``folds`` cross-fitted members (one member: a fifth is held out)."""
    inputs, targets = clusters(counts, seed=seed)
    parts = folds if folds > 1 else 5
    fold = assign_folds(targets, parts, torch.Generator().manual_seed(seed))
    every = torch.arange(len(targets))
    return Rows(
        inputs,
        targets,
        weights,
        train=[every[fold != k] for k in range(folds)],
        valid=[every[fold == k] for k in range(folds)],
        num_outputs=len(counts),
    )


def small_stage(**changes) -> Stage:
    """A short stage of cross-entropy, unless told otherwise."""
    settings = {
        "name": "short",
        "objective": "cross_entropy",
        "max_epochs": 4,
        "learning_rate": 1e-2,
        "batch_size": 16,
    }
    return Stage(**{**settings, **changes})


def small_members(rows: Rows, *, dropout=0.0, seed=0) -> StackedMLP:
    """Untrained networks for ``rows``."""
    torch.manual_seed(seed)
    widths = [rows.inputs.shape[1], 8, rows.num_outputs]
    return StackedMLP(len(rows.train), widths, dropout)


def cpu() -> Fabric:
    return Fabric(accelerator="cpu", devices=1)


def small_run(stage: Stage, rows: Rows | None = None, *, members=None, metric="f1_macro"):
    """A run of ``stage`` that has not started."""
    rows = small_rows() if rows is None else rows
    members = small_members(rows) if members is None else members
    generator = torch.Generator().manual_seed(1)
    return new_run(stage, members, rows, as_metric(metric), cpu(), generator)


def same_state(first, second) -> bool:
    """Whether two state dictionaries hold the same bits."""
    return first.keys() == second.keys() and all(torch.equal(first[k], second[k]) for k in first)
