"""The loss as the composition of its parts: the definition, and the oracle of every kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from eastward.distributed import summed_gradient
from eastward.losses._batches import Batch, result_dtype
from eastward.losses._tables import loss_of_tables, soft_tables, tables_of_all
from eastward.metrics import Metric
from eastward.protocols import Reduce, Step

__all__ = ["Definition", "Terms", "definition_of"]


class Terms(NamedTuple):
    """The options of a loss, checked."""

    metric: Metric
    thresholds: tuple[float, ...] | None
    step: Step
    detach_threshold: bool
    prior: Any
    virtual: bool
    multilabel: bool
    ignore_index: int | None


def definition_of(
    batch: Batch,
    terms: Terms,
    temperature: Tensor | float,
    *,
    reduce: Reduce | None = None,
    anchor: Callable[[Tensor], Tensor] | None = None,
    warn: bool = False,
) -> Tensor:
    """The loss of one batch as the composition of its parts: the oracle of every kernel."""
    tables = soft_tables(
        batch,
        terms.metric,
        temperature=temperature,
        thresholds=terms.thresholds,
        step=terms.step,
        detach_threshold=terms.detach_threshold,
        prior=terms.prior,
        multilabel=terms.multilabel,
        ignore_index=terms.ignore_index,
        reduce=reduce,
    )
    if reduce is not None:
        margins = not (terms.metric.needs_matrix or terms.multilabel)
        tables = tables_of_all(tables, reduce, margins=margins)
    if anchor is not None:
        now = tables.detach()
        tables = anchor(now) + (tables - now)
    loss = loss_of_tables(
        tables, terms.metric, virtual=terms.virtual, multilabel=terms.multilabel, warn=warn
    )
    return loss if reduce is None else summed_gradient(loss, reduce)


class Definition:
    """The same losses by plain operations, for derivatives that kernels do not know.

    A running estimate moves on when it is asked; a second derivative needs the answer of the first time.
    """

    __slots__ = ("anchor", "answer", "batch", "reduce", "single", "temperature", "terms")

    def __init__(
        self,
        batch: Batch,
        terms: Terms,
        temperature: Tensor | float,
        single: bool,
        reduce: Reduce | None,
        anchor: Callable[[Tensor], Tensor] | None,
    ) -> None:
        self.batch, self.terms, self.temperature = batch, terms, temperature
        self.single, self.reduce, self.anchor = single, reduce, anchor
        self.answer: Tensor | None = None

    def __call__(self, logits: Tensor) -> Tensor:
        """Losses of the logits, differentiable any number of times."""
        targets, weights = self.batch.targets, self.batch.sample_weight
        if self.single:
            return self._loss(logits, targets, weights)
        rows = [None] * len(logits) if weights is None else list(weights)
        parts = zip(logits, targets, rows, strict=True)
        return torch.stack([self._loss(*part) for part in parts])

    def _loss(self, logits: Tensor, targets: Tensor, weights: Tensor | None) -> Tensor:
        anchor = None if self.anchor is None else self._anchor_again
        batch = Batch(logits, targets, weights)
        loss = definition_of(batch, self.terms, self.temperature, reduce=self.reduce, anchor=anchor)
        return loss.to(result_dtype(logits))

    def anchor_now(self, now: Tensor) -> Tensor:
        """The anchor of these tables; remembered."""
        self.answer = now if self.anchor is None else self.anchor(now)
        return self.answer

    def _anchor_again(self, now: Tensor) -> Tensor:
        return now if self.answer is None else self.answer.to(now)

    def loss_of_tables(self, tables: Tensor) -> Tensor:
        """The loss as a function of tables, for metrics without a closed form."""
        terms = self.terms
        return loss_of_tables(
            tables, terms.metric, virtual=terms.virtual, multilabel=terms.multilabel, warn=False
        )
