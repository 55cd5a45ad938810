"""The gain of each training stage on held-out rows, and the stage that they prefer."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from eastward.decisions import multilabel_thresholds, tune_offsets
from eastward.decisions.estimating import jackknife_error
from eastward.metrics import Metric
from eastward.training import Rows, TrainingResult
from eastward.training.runner import HeldOut
from eastward.training.scoring import hard_table

__all__ = ["StageChoice", "choose_stage", "with_class_names"]

INNER_FOLDS = 5
# A stage replaces the one before it if it gains more than this many standard errors on held-out rows.
STAGE_GUARD = 0.5


@dataclass(frozen=True)
class StageChoice:
    """The stage that held-out rows prefer, and the evidence on all stages.

    Attributes
    ----------
    name : str
        Name of the stage whose networks are kept.
    stages : list of dict
        ``name``, ``argmax`` and ``tuned`` (the metric on held-out rows), ``gain`` and ``standard_error`` against the
        stage kept until then, and whether it is ``kept``.
    sentences : list of str
        The evidence in words.
    """

    name: str
    stages: list[dict[str, Any]]
    sentences: list[str]


def choose_stage(result: TrainingResult, rows: Rows, metric: Metric) -> StageChoice:
    """Compare the stages on held-out rows; a later stage must prove better.

    Both are judged with a decision that was tuned without each row's fold, so that no score is too optimistic. A stage
    that trained on all rows has no held-out rows and is always kept.
    """
    best, stages = "", []
    tuned = {name: _cross_fitted(held, rows, metric) for name, held in result.held_out.items()}
    for name, held in result.held_out.items():
        stage: dict[str, Any] = {
            "name": name,
            "argmax": _score(held.logits, held, rows, metric),
            "tuned": _score(tuned[name], held, rows, metric),
        }
        if best:
            gain, error = _gain(tuned[best], tuned[name], held, rows, metric)
            # Weights of an earlier stage are kept only if this stage is judged.
            kept = gain > STAGE_GUARD * error or best not in result.weights
            stage |= {"gain": gain, "standard_error": error, "kept": kept}
        if not best or stage["kept"]:
            best = name
        stages.append(stage)
    return StageChoice(best, stages, _sentences(stages, metric, best))


def _gain(
    before: Tensor, after: Tensor, held: HeldOut, rows: Rows, metric: Metric
) -> tuple[float, float]:
    """Compute the gain of the second scores over the first, and its jackknife error over folds."""
    sign = 1 if metric.higher_is_better else -1

    def gain(chosen: Tensor) -> float:
        part = HeldOut(held.rows[chosen], held.logits[chosen], held.folds[chosen])
        values = (_score(scores[chosen], part, rows, metric) for scores in (after, before))
        first, second = values
        return sign * (first - second)

    folds = _judging_folds(held)
    every = torch.ones(len(folds), dtype=torch.bool)
    left_out = [gain(folds != fold) for fold in folds.unique()]
    return gain(every), jackknife_error(torch.tensor(left_out, dtype=torch.float64))


def _judging_folds(held: HeldOut) -> Tensor:
    """Return the fold of each row; for a single network, parts of its held-out rows."""
    if int(held.folds.max()) > 0:
        return held.folds
    return torch.arange(len(held.folds)) % INNER_FOLDS


def with_class_names(note: str, classes: Sequence[Any]) -> str:
    """Replace positions of classes by their names in a sentence of the trainer.

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
    """Shift held-out scores by offsets that were tuned on other folds."""
    folds = _judging_folds(held)
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
        # Uses the original scores, because shifts of another fold were tuned on the labels of this one.
        offsets = tune(
            scores[others], rows.targets[held.rows[others]], metric, sample_weight=weights
        )
        shifted[~others] += offsets.to(shifted)
    return shifted


def _sentences(stages: list[dict[str, Any]], metric: Metric, best: str) -> list[str]:
    lines = []
    for stage in stages:
        lines.append(
            f"{stage['name']}: held-out {metric.name} {stage['argmax']:.4f} by arg max, "
            f"{stage['tuned']:.4f} ({stage['tuned'] - stage['argmax']:+.4f}) with a tuned decision"
        )
        if "gain" in stage:
            verdict = "kept" if stage["kept"] else "not kept"
            lines.append(
                f"{stage['name']} gains {stage['gain']:+.4f} ± {stage['standard_error']:.4f}: {verdict}"
            )
    if len(stages) > 1:
        lines.append(f"the networks are those after the stage {best!r}")
    return lines
