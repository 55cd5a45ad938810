"""The first stage: adjust probabilities to the class frequencies that count, and tune the decision."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from eastward.alignment.evidence import Judge
from eastward.alignment.heads import HeadWeights
from eastward.alignment.priors import adjustment
from eastward.alignment.rows import HeadRows
from eastward.decisions import (
    Decision,
    LabelThresholds,
    multilabel_thresholds,
    smoothed_offsets,
    tune_decision,
)

__all__ = [
    "MOST_CLASSES_TO_SEARCH",
    "Decided",
    "constrained_decision",
    "decide_classes",
    "decide_labels",
    "plain_decision",
]

# With more classes, searching offsets takes minutes, and the head learns equally well from the adjusted logits.
MOST_CLASSES_TO_SEARCH = 16
# This many rows are evidence enough, and a search over more of them would take long.
ROWS_TO_DECIDE = 20_000


class Decided(NamedTuple):
    """The result of the first stage.

    Attributes
    ----------
    head : HeadWeights
        A head whose softmax gives calibrated probabilities at the class frequencies that count.
    decision : Decision or LabelThresholds
        The best decision for the metric, given these probabilities.
    chosen : Tensor
        Decisions for the validation rows, each by a decision tuned without its fold.
    offsets : Tensor
        ``(C,)`` offsets of the logits. With them, the largest logit is nearly the same decision. Training starts there.
    by_fold : Tensor
        ``(K, C)`` offsets found without each fold.
    believed : str
        The class frequencies that the network seems to assume: "training" or "balanced".
    """

    head: HeadWeights
    decision: Any
    chosen: Tensor
    offsets: Tensor
    by_fold: Tensor
    believed: str


def decide_classes(
    head: HeadWeights, judge: Judge, train: Tensor, target: Tensor, classes: Sequence[Any] | None
) -> Decided:
    """Adjust and calibrate the logits, and tune the decision on validation rows."""
    rows = judge.rows
    found = adjustment(head.logits(rows.features), rows, train, target)
    head = head.changed(found.scale, found.shift)
    probabilities = head.logits(rows.features).double().softmax(1)
    chosen = torch.empty_like(rows.targets)
    by_fold = []
    for fold in range(int(judge.folds.max()) + 1):
        inside = judge.folds == fold
        known = rows.taken(~inside)
        rule = _tuned(probabilities[~inside], known, judge)
        chosen[inside] = rule.decide(probabilities[inside])
        by_fold.append(_offsets(probabilities[~inside], known, judge))
    decision = _tuned(probabilities, rows, judge, classes=classes)
    offsets = _offsets(probabilities, rows, judge)
    return Decided(head, decision, chosen, offsets, torch.stack(by_fold), found.believed)


def decide_labels(head: HeadWeights, judge: Judge) -> Decided:
    """Tune one threshold for each label on validation rows."""
    rows = judge.rows
    logits = head.logits(rows.features).double()
    chosen = torch.empty_like(rows.targets)
    by_fold = []
    for fold in range(int(judge.folds.max()) + 1):
        inside = judge.folds == fold
        shifts = _label_offsets(logits[~inside], rows.taken(~inside), judge)
        chosen[inside] = (logits[inside] + shifts > 0).long()
        by_fold.append(shifts)
    offsets = _label_offsets(logits, rows, judge)
    decision = LabelThresholds((1 / (1 + offsets.exp())).tolist())
    return Decided(head, decision, chosen, offsets, torch.stack(by_fold), "training")


def plain_decision(judge: Judge, classes: Sequence[Any] | None, prior: Tensor) -> Any:
    """Return the rule that decides for the most probable class, or for every label above one half."""
    if judge.rows.targets.dim() > 1:
        return LabelThresholds([0.5] * judge.size)
    return Decision(np.eye(judge.size), classes=classes, prior=prior.numpy(), metric=judge.metric)


def constrained_decision(
    logits: Tensor, judge: Judge, classes: Sequence[Any] | None, **constraints: Any
) -> Decision:
    """Tune the decision under constraints, on logits of validation rows that the network was not trained on."""
    return tune_decision(
        logits.double().softmax(1),
        judge.rows.targets,
        judge.metric,
        classes=classes,
        sample_weight=judge.rows.weight,
        random_state=judge.seed,
        on_infeasible="best",  # a refusal here would throw all training away
        **constraints,
    )


def _tuned(
    probabilities: Tensor, rows: HeadRows, judge: Judge, classes: Sequence[Any] | None = None
) -> Decision:
    # No guard is needed here, because all folds together decide whether the stage is kept.
    return tune_decision(
        probabilities,
        rows.targets,
        judge.metric,
        classes=classes,
        sample_weight=rows.weight,
        guard=None,
        random_state=judge.seed,
    )


def _offsets(probabilities: Tensor, rows: HeadRows, judge: Judge) -> Tensor:
    if judge.size > MOST_CLASSES_TO_SEARCH:
        return torch.zeros(judge.size, dtype=torch.float64)
    some = _some(len(rows), judge.seed)
    found = smoothed_offsets(
        probabilities[some].log().clamp_min(-100),
        rows.targets[some],
        judge.metric,
        sample_weight=rows.weight[some],
        random_state=judge.seed,
    )
    return found.double()


def _label_offsets(logits: Tensor, rows: HeadRows, judge: Judge) -> Tensor:
    known = (rows.targets >= 0).all(1)
    found = multilabel_thresholds(
        logits[known], rows.targets[known], judge.metric, sample_weight=rows.weight[known]
    )
    return found.double()


def _some(size: int, seed: int) -> Tensor:
    order = torch.randperm(size, generator=torch.Generator().manual_seed(seed))
    return order[:ROWS_TO_DECIDE].sort().values
