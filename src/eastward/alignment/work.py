"""The state of an alignment: what all stages share, their candidates, and the best so far."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from eastward import _checks
from eastward.alignment.batches import CALLER, in_order
from eastward.alignment.decision_stage import MOST_CLASSES_TO_SEARCH, Decided
from eastward.alignment.evidence import Gain, Judge
from eastward.alignment.heads import Head, HeadWeights
from eastward.alignment.rows import Collected, HeadRows, collect_rows
from eastward.alignment.sharding import is_sharded
from eastward.metrics import Metric
from eastward.training.processes import Processes

__all__ = ["Candidate", "Work", "collected"]


@dataclass(frozen=True)
class Candidate:
    """A network with its head, and its predictions for validation rows that it did not learn from.

    Attributes
    ----------
    name : str
        The stage that produced the candidate.
    weights : dict
        Weights of the network; ``head`` replaces those of the head.
    head : HeadWeights
        The last layer.
    chosen : Tensor
        Decisions for the validation rows.
    judged : Tensor
        ``(N, C)`` logits whose largest is the decision. For labels, a positive logit means that the label is given.
    logits : Tensor
        ``(N, C)`` logits whose softmax or sigmoid gives probabilities.
    decision : Decision, optional
        The rule that decides; None if the largest logit decides.
    """

    name: str
    weights: dict[str, Any]
    head: HeadWeights
    chosen: Tensor
    judged: Tensor
    logits: Tensor
    decision: Any = None


@dataclass
class Work:
    """The state of an alignment: what all stages share, and the best candidate so far."""

    base: nn.Module
    head: Head
    metric: Metric
    judge: Judge
    train: Collected
    valid: HeadRows
    frequencies: Tensor
    target: Tensor
    fabric: Any
    loaders: tuple[Any, Any]
    options: dict[str, Any]
    given: Candidate
    best: Candidate
    start: Decided
    deciding: float
    stages: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def prior(self) -> Tensor | None:
        """Class frequencies for the loss; None for labels."""
        return None if self.head.layout.labels else self.target

    @property
    def starts_at_decision(self) -> bool:
        """Whether training starts at the tuned decision; with many classes it starts at the adjusted logits."""
        return self.judge.size <= MOST_CLASSES_TO_SEARCH or self.head.layout.labels

    def features(self, network: nn.Module, argument: str, loader: Any) -> Collected:
        """Collect features in one pass over a loader."""
        return collected(network, self.head, argument, loader, self.fabric, self.options)

    def valid_again(self, network: nn.Module) -> HeadRows:
        """Collect the features of the validation rows again, and check that the rows are the same."""
        rows = self.features(network, "valid_loader", self.loaders[1]).rows
        if not torch.equal(rows.targets, self.valid.targets):
            advice = "Do not shuffle or augment these rows, or pass list(valid_loader)."
            expected = "a loader of the same rows in every pass"
            got = "other rows, or another order, in the second pass"
            _checks.fail(CALLER, "valid_loader", expected, got, advice)
        return rows

    def fresh_network(self) -> nn.Module:
        """Return a network with the given weights to train: a copy, or the network itself if it is sharded."""
        if not is_sharded(self.base):
            return copy.deepcopy(self.base)
        self.base.load_state_dict(self.given.weights)
        return self.base

    def decided(self, logits: Tensor) -> Tensor:
        """Turn logits into class indices, or into indicators of labels."""
        return (logits > 0).long() if self.head.layout.labels else logits.argmax(1)

    def consider(self, candidate: Candidate, before: Candidate, seconds: float) -> bool:
        """Record a stage, and keep it if the validation rows prefer it to the candidate ``before``.

        A decision is a hard rule, and is judged by hard counts. So is what follows, if the logits of a candidate
        are not its decision. All else is judged by soft decisions.
        """
        rule = before.decision is not None and not self.starts_at_decision
        if rule or candidate.name == "decision":
            found = self.judge.counted_gain(before.chosen, candidate.chosen)
        else:
            found = self.judge.soft_gain(before.judged, candidate.judged)
        # Processes that disagree would wait for each other forever.
        kept = bool(Processes(self.fabric).agreed(found.passes(self.options["evidence"])))
        value = self.judge.value(candidate.chosen)
        self.note(candidate.name, value, seconds, found, over=before.name, kept=kept)
        if kept:
            self.best = candidate
        return kept

    def note(
        self,
        stage: str,
        value: float | None,
        seconds: float,
        found: Gain | None = None,
        *,
        over: str | None = None,
        kept: bool = True,
    ) -> None:
        """Add a stage to the report."""
        gain, error, counts = (None, None, None) if found is None else found
        entry = {"stage": stage, "value": value, "gain": gain, "error": error}
        self.stages.append(
            {**entry, "counts": counts, "over": over, "kept": kept, "seconds": seconds}
        )


def collected(
    network: nn.Module, head: Head, argument: str, loader: Any, fabric: Any, options: dict[str, Any]
) -> Collected:
    """Collect the input of the head for every row of a loader, in one pass."""
    return collect_rows(
        network,
        head,
        in_order(loader),
        argument=argument,
        fabric=fabric,
        forward=options["forward"],
        ignore_index=options["ignore_index"],
        max_rows=options["max_rows"],
        generator=torch.Generator().manual_seed(options["random_state"]),
    )
