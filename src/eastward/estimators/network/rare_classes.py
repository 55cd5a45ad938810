"""Warn if batches are far too small for the rarest class that the metric counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor

from eastward import theory
from eastward.decisions.estimating import notices_class
from eastward.metrics import Metric
from eastward.training import Stage

__all__ = ["Supply", "batch_notes"]

Source: TypeAlias = Literal["table", "stream", "loader"]

# A class that most batches miss hardly counts in training.
MISSED_TOO_OFTEN = 0.5
# Testing whether the metric counts a class takes two tables, so only the rarest few are tested.
ASKED, NAMED = 20, 5


@dataclass(frozen=True)
class Supply:
    """The number of training rows by class, and their source.

    Attributes
    ----------
    total : int
        Number of rows.
    of_class : Tensor
        ``(C,)`` rows of each class or label.
    source : {"table", "stream", "loader"}
        Where batches come from.
    batches : int, optional
        Batches of a user's loader in an epoch.
    """

    total: int
    of_class: Tensor
    source: Source = "table"
    batches: int | None = None

    @classmethod
    def of_codes(
        cls, codes: Tensor, num_classes: int, source: Source = "table", batches: int | None = None
    ) -> Supply:
        """Count rows with known class indices ``(N,)`` or indicators ``(N, L)``."""
        if codes.dim() == 2:
            return cls(len(codes), (codes == 1).sum(0), source, batches)
        return cls(len(codes), torch.bincount(codes, minlength=num_classes), source, batches)

    @property
    def rarest(self) -> float:
        """Share of the rarest class."""
        return float(self.of_class.min()) / self.total

    def batch_of(self, stage: Stage) -> int:
        """Return the batch size of ``stage``: an epoch has a whole number of nearly equal batches."""
        steps = self.batches or max(1, round(self.total / stage.rows_per_step))
        return round(self.total / steps)


def batch_notes(
    stages: Sequence[Stage],
    supply: Supply,
    metric: Metric,
    classes: Sequence[Any],
    *,
    multilabel: bool = False,
) -> list[str]:
    """Write a sentence for each stage whose batches mostly miss a class that the metric counts.

    Cross-entropy is a mean over rows and does not need every class in every batch. Stratified batches hold every class,
    unless they have no room for half of the classes.

    Examples
    --------
    >>> import torch
    >>> from eastward.metrics import get
    >>> stage = Stage("EAST", "metric", max_epochs=9, learning_rate=1e-3, batch_size=32)
    >>> supply = Supply(2000, torch.tensor([1990, 10]))
    >>> (note,) = batch_notes([stage], supply, get("f1_macro"), ["no", "yes"])
    >>> print(note[:68])
    stage 'EAST': most batches of 32 rows hold no row of classes ['yes']
    """
    notes = []
    for stage in stages:
        if stage.objective != "metric":
            continue
        stratified = stage.stratified and not multilabel and supply.source == "table"
        missed = _missed(supply, supply.batch_of(stage), stratified=stratified)[:ASKED]
        size = len(classes)
        counted = [c for c in missed if notices_class(metric, size, c, exclusive=not multilabel)]
        if counted:
            what = "labels" if multilabel else "classes"
            notes.append(
                f"stage {stage.name!r}: most batches of {supply.batch_of(stage)} rows hold no row of {what} "
                f"{[classes[c] for c in counted[:NAMED]]}, and {metric.name} of a batch leaves them out; "
                f"use {_advice(supply, counted[0], stratified=stratified, multilabel=multilabel)}"
            )
    return notes


def _missed(supply: Supply, batch: int, *, stratified: bool) -> list[int]:
    """Return the classes that most batches miss, rarest first."""
    order = supply.of_class.argsort(stable=True).tolist()
    present = [c for c in order if 0 < int(supply.of_class[c]) < supply.total]
    if stratified:
        return present if batch < (1 - MISSED_TOO_OFTEN) * len(present) else []
    if batch >= supply.total:
        return []
    shares = {c: int(supply.of_class[c]) / supply.total for c in present}
    return [c for c in present if theory.rows_of_class(batch, shares[c]).missing > MISSED_TOO_OFTEN]


def _advice(supply: Supply, label: int, *, stratified: bool, multilabel: bool) -> str:
    """Advise how batches can hold rows of the class ``label``."""
    if stratified:
        return f"batch_size={int((supply.of_class > 0).sum())} or more"
    enough = theory.batch_for_class(int(supply.of_class[label]) / supply.total)
    size = min(enough, supply.total)
    if supply.source == "loader":
        return f"a loader that stratifies its batches, or batches of {size} rows"
    if supply.source == "stream":
        return f"accumulate='exact' with effective_batch={size}"
    return (
        f"batch_size={size}"
        if multilabel
        else f"recipe='auto', which stratifies batches, or batch_size={size}"
    )
