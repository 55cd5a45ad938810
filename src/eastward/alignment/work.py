"""An alignment on its way: what all stages share, the candidates that they make, and the best so far."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from eastward.alignment.batches import in_order
from eastward.alignment.decision_stage import Decided
from eastward.alignment.evidence import Gain, Judge
from eastward.alignment.heads import Head, HeadWeights
from eastward.alignment.rows import Collected, HeadRows, collect_rows
from eastward.metrics import Metric

__all__ = ["Candidate", "Work", "collected"]


@dataclass(frozen=True)
class Candidate:
    """A network with its head, and what it makes of validation rows that it did not learn from.

    Attributes
    ----------
    name : str
        The stage that made it.
    network : Module
        Its body.
    head : HeadWeights
        The last layer.
    chosen : Tensor
        Decisions.
    judged : Tensor
        ``(N, C)`` logits whose largest is the decision (of labels: positive where one is given).
    logits : Tensor
        ``(N, C)`` logits of probabilities.
    decision : Decision, optional
        None where the largest logit decides.
    """

    name: str
    network: nn.Module
    head: HeadWeights
    chosen: Tensor
    judged: Tensor
    logits: Tensor
    decision: Any = None


@dataclass
class Work:
    """An alignment on its way: what all stages share, and the best so far."""

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
        """Frequencies for the loss; labels have none."""
        return None if self.head.layout.labels else self.target

    def features(self, network: nn.Module, argument: str, loader: Any) -> Collected:
        """One pass over a loader."""
        return collected(network, self.head, argument, loader, self.fabric, self.options)

    def decided(self, logits: Tensor) -> Tensor:
        """Classes, or indicators of labels, that the logits alone decide for."""
        return (logits > 0).long() if self.head.layout.labels else logits.argmax(1)

    def consider(self, candidate: Candidate, found: Gain, seconds: float) -> bool:
        """Note a stage, and keep it if the validation rows prefer it."""
        kept = found.passes(self.options["evidence"])
        self.note(candidate.name, self.judge.value(candidate.chosen), seconds, found, kept=kept)
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
        kept: bool = True,
    ) -> None:
        """Put a stage into the report."""
        gain, error = (None, None) if found is None else found
        entry = {"stage": stage, "value": value, "gain": gain, "error": error}
        self.stages.append({**entry, "kept": kept, "seconds": seconds})


def collected(
    network: nn.Module, head: Head, argument: str, loader: Any, fabric: Any, options: dict[str, Any]
) -> Collected:
    """What the head sees of every row of a loader, in one pass."""
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
