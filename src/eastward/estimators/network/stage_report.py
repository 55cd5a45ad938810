"""What each stage of training brought, measured on rows that were held out."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from eastward.decisions import multilabel_thresholds, tune_offsets
from eastward.metrics import Metric
from eastward.training import Rows, TrainingResult
from eastward.training.runner import HeldOut
from eastward.training.scoring import hard_table

__all__ = ["stage_report"]

INNER_FOLDS = 5


def stage_report(
    result: TrainingResult,
    rows: Rows,
    metric: Metric,
    classes: Sequence[Any],
    notes: Sequence[str] = (),
) -> dict[str, Any]:
    """Held-out scores after each stage, with arg max and with a tuned decision, and sentences on them.

    The tuned decision is scored across folds: offsets for the rows of one fold come from the other folds, so the
    number does not flatter itself. The trainer speaks of classes by their positions; here they get their names.
    ``notes`` are sentences from before training.

    Returns
    -------
    dict
        ``metric``, ``stages`` (name, arg max, tuned), ``sentences``, ``notes``, ``interrupted``.
    """
    stages = []
    for name, held in result.held_out.items():
        plain = _score(held.logits, held, rows, metric)
        tuned = _score(_cross_fitted(held, rows, metric), held, rows, metric)
        stages.append({"name": name, "argmax": plain, "tuned": tuned})
    return {
        "metric": metric.name,
        "held_out_rows": len(next(iter(result.held_out.values())).rows),
        "stages": stages,
        "sentences": _sentences(stages, metric),
        "notes": [*notes, *(with_class_names(note, classes) for note in result.notes)],
        "interrupted": result.interrupted,
    }


def with_class_names(note: str, classes: Sequence[Any]) -> str:
    """A sentence of the trainer with names of classes in place of their positions.

    Examples
    --------
    >>> with_class_names("classes [0, 2] are no longer predicted", ["cat", "cow", "dog"])
    "classes ['cat', 'dog'] are no longer predicted"
    """

    def named(found: re.Match[str]) -> str:
        return f"classes {[classes[int(position)] for position in found[1].split(', ')]}"

    return re.sub(r"classes \[(\d+(?:, \d+)*)\]", named, note)


def _score(scores: Tensor, held: HeldOut, rows: Rows, metric: Metric) -> float:
    weights = None if rows.weights is None else rows.weights[held.rows]
    return float(metric(hard_table(scores, rows.targets[held.rows], weights, rows)))


def _cross_fitted(held: HeldOut, rows: Rows, metric: Metric) -> Tensor:
    """Held-out scores shifted by offsets that were tuned on other folds."""
    folds = held.folds
    if int(folds.max()) == 0:
        folds = torch.arange(len(folds)) % INNER_FOLDS
    scores = held.logits.double()
    if not rows.multilabel:
        scores = torch.log_softmax(scores, dim=1)
    shifted = scores.clone()
    tune = multilabel_thresholds if rows.multilabel else tune_offsets
    for fold in folds.unique():
        others = folds != fold
        if not others.any():
            continue
        weights = None if rows.weights is None else rows.weights[held.rows[others]]
        # From the scores as they were: those of a fold already shifted know the labels of this one.
        offsets = tune(
            scores[others], rows.targets[held.rows[others]], metric, sample_weight=weights
        )
        shifted[~others] += offsets.to(shifted)
    return shifted


def _sentences(stages: list[dict[str, Any]], metric: Metric) -> list[str]:
    lines = []
    before: float | None = None
    for stage in stages:
        lines.append(
            f"{stage['name']}: held-out {metric.name} {stage['argmax']:.4f} by arg max, "
            f"{stage['tuned']:.4f} ({stage['tuned'] - stage['argmax']:+.4f}) with a tuned decision"
        )
        if before is not None:
            change = stage["tuned"] - before
            better = change > 0 if metric.higher_is_better else change < 0
            verb = "improved" if better else "worsened" if change else "changed"
            lines.append(f"{stage['name']} {verb} the tuned score by {abs(change):.4f}")
        before = stage["tuned"]
    return lines
