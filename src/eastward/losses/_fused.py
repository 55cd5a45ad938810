"""The loss by kernels, where they apply; the composition of its parts remains the definition.

Float64, other steps than the linear one, functorch, forward-mode differentiation, compilation, and gradients by
something else than the logits take the definition.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad

from eastward.distributed import summed_gradient
from eastward.kernels.evaluation import Evaluation, evaluate
from eastward.kernels.problems import Problem
from eastward.kernels.scoring import Scoring
from eastward.kernels.selection import backend_for
from eastward.losses._batches import Batch, result_dtype
from eastward.losses._labels import labels_and_weights
from eastward.losses._tables import loss_of_tables, soft_tables, tables_of_all
from eastward.metrics import Metric
from eastward.protocols import Reduce, Step
from eastward.steps import STEPS

__all__ = ["Terms", "definition_of", "fused_losses", "gradient_of_losses", "loss_of_batch"]

_PLAIN_TENSORS = (Tensor, nn.Parameter)
_LINEAR = STEPS["linear"]
_is_wrapped = torch._C._functorch.is_functorch_wrapped_tensor  # noqa: SLF001 - torch has no public question for it


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


def loss_of_batch(
    prepare: Callable[..., Batch],
    terms: Terms,
    temperature: Tensor | float,
    *,
    reduce: Reduce | None,
    anchor: Callable[[Tensor], Tensor] | None = None,
    check_inputs: bool,
) -> Tensor:
    """The loss of one batch by the fastest way that applies, in the dtype of the result.

    ``prepare(check_inputs=...)`` gives the batch, flat; kernels look at the values themselves and ask it to do so
    when something seems wrong.
    """
    batch = prepare(check_inputs=False)
    # Where kernels apply values may be looked at; elsewhere ``prepare`` finds out whether they may.
    check = partial(prepare, check_inputs=True) if check_inputs else None
    loss = fused_losses(
        batch, terms, temperature, single=True, reduce=reduce, anchor=anchor, check=check
    )
    if loss is not None:
        return loss
    if check is not None:
        check()
    loss = definition_of(batch, terms, temperature, reduce=reduce, anchor=anchor, warn=check_inputs)
    return loss.to(result_dtype(batch.logits))


def fused_losses(
    batch: Batch,
    terms: Terms,
    temperature: Tensor | float,
    *,
    single: bool = False,
    reduce: Reduce | None = None,
    anchor: Callable[[Tensor], Tensor] | None = None,
    check: Callable[[], object] | None = None,
) -> Tensor | None:
    """The loss of a batch, or losses ``(K,)`` of K groups, or None where kernels do not apply.

    Parameters
    ----------
    batch : Batch
        Logits ``(K, N, C)``, targets ``(K, N)`` or ``(K, N, L)``, weights like the targets; ``single``: without K.
    terms : Terms
        Of the loss.
    temperature : Tensor or float
        Of the step.
    single : bool, default=False
        Whether there is one group, and no dimension for it.
    reduce : callable, optional
        Sum over processes.
    anchor : callable, optional
        Tables of the batch to those where the metric is taken.
    check : callable, optional
        Looks at every value and says what is wrong; called when something seems to be.
    """
    evaluation = _evaluation(batch, terms, temperature, single, reduce, anchor, check)
    if evaluation is None:
        return None
    losses = evaluate(batch.logits, evaluation)
    if check is not None and bool(evaluation.empty):
        warnings.warn(
            "every sample is ignored or has weight zero: the loss is 0 and has no gradient",
            stacklevel=4,
        )
    return losses


def gradient_of_losses(
    batch: Batch, terms: Terms, temperature: Tensor | float, *, reduce: Reduce | None = None
) -> tuple[Tensor, Tensor] | None:
    """Losses ``(K,)`` and the gradient of their sum at the logits, without a graph; None as above."""
    evaluation = _evaluation(batch, terms, temperature, False, reduce, None, None)
    if evaluation is None:
        return None
    with torch.no_grad():
        losses = evaluation.losses(batch.logits)
        return losses, evaluation.gradient(batch.logits, torch.ones_like(losses))


def _evaluation(
    batch: Batch,
    terms: Terms,
    temperature: Tensor | float,
    single: bool,
    reduce: Reduce | None,
    anchor: Callable[[Tensor], Tensor] | None,
    check: Callable[[], object] | None,
) -> Evaluation | None:
    if not _applies(batch, terms, temperature):
        return None
    backend = backend_for(batch.logits.device.type)
    if backend is None:
        return None
    problem = _problem(batch.logits.shape[-1], terms, float(temperature))
    labels, weights = labels_and_weights(
        _as_one_group(batch) if single else batch,
        problem,
        ignore_index=terms.ignore_index,
        prior=terms.prior,
        reduce=reduce,
        check=check,
    )
    definition = _Definition(batch, terms, temperature, single, reduce, anchor)
    at = None if anchor is None else definition.anchor_now
    scoring = Scoring(terms.metric, terms.virtual, definition.loss_of_tables, reduce, at)
    return Evaluation(
        backend,
        problem,
        scoring,
        labels,
        weights,
        definition,
        single=single,
        dtype=result_dtype(batch.logits),
        check=check,
    )


def _as_one_group(batch: Batch) -> Batch:
    weight = batch.sample_weight
    weight = None if weight is None else weight.unsqueeze(0)
    return Batch(batch.logits, batch.targets.unsqueeze(0), weight)


class _Definition:
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


def _applies(batch: Batch, terms: Terms, temperature: Tensor | float) -> bool:
    logits, targets, weights = batch
    if torch.compiler.is_compiling() or terms.step is not _LINEAR:
        return False
    if logits.dtype == torch.float64 or logits.is_meta or _learns(temperature):
        return False
    if forward_ad._current_level >= 0:  # noqa: SLF001 - torch has no public question for it
        return False
    if weights is not None and (weights.requires_grad or not _is_plain(weights)):
        return False
    return _is_plain(logits) and _is_plain(targets) and not _learns(terms.prior)


def _learns(value: Any) -> bool:
    return isinstance(value, Tensor) and value.requires_grad


def _is_plain(tensor: Tensor) -> bool:
    return type(tensor) in _PLAIN_TENSORS and not _is_wrapped(tensor)


def _problem(size: int, terms: Terms, temperature: float) -> Problem:
    if terms.multilabel:
        kind, thresholds = "labels", terms.thresholds or (0.5,)
    elif size <= 2:
        kind, thresholds = "pair", terms.thresholds or (0.5,)
    elif terms.thresholds is None:
        kind, thresholds = "dynamic", (0.5,)
    else:
        kind, thresholds = "fixed", terms.thresholds
    matrix = terms.metric.needs_matrix and kind in ("dynamic", "fixed")
    return Problem(kind, thresholds, temperature, terms.detach_threshold, matrix)
