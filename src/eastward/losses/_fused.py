"""The loss by kernels, where they apply; the composition of its parts remains the definition."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from eastward.kernels.evaluation import Evaluation, evaluate
from eastward.kernels.scoring import Scoring
from eastward.kernels.selection import backend_for
from eastward.losses._applicability import kernels_apply, problem_of
from eastward.losses._batches import Batch, prepare_batch, result_dtype
from eastward.losses._definition import Definition, Terms, definition_of
from eastward.losses._labels import labels_and_weights
from eastward.losses._whole import plain_loss, whole_loss
from eastward.protocols import Reduce

__all__ = ["fused_losses", "gradient_of_losses", "loss_of_batch"]


def loss_of_batch(
    caller: str,
    logits: Tensor,
    targets: Tensor,
    sample_weight: Tensor | None,
    terms: Terms,
    temperature: Tensor | float,
    reduce: Reduce | None,
    anchor: Callable[[Tensor], Tensor] | None,
    check_inputs: bool,
) -> Tensor:
    """The loss of one batch by the fastest way that applies, in the dtype of the result."""
    alone = reduce is None and anchor is None
    if alone and sample_weight is None:
        loss = plain_loss(logits, targets, terms, temperature, check_inputs)
        if loss is not None:
            return loss
    # Kernels look at the values themselves, and ask for it to be done again when something seems wrong.
    prepare = partial(
        prepare_batch, caller, logits, targets, sample_weight, terms.multilabel, terms.ignore_index
    )
    batch = prepare(check_inputs=False)
    if alone:
        loss = whole_loss(batch, terms, temperature, check_inputs=check_inputs)
        if loss is not None:
            return loss
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
    if not kernels_apply(batch, terms, temperature):
        return None
    backend = backend_for(batch.logits.device.type)
    if backend is None:
        return None
    problem = problem_of(batch.logits.shape[-1], terms, float(temperature))
    labels, weights = labels_and_weights(
        _as_one_group(batch) if single else batch,
        problem,
        ignore_index=terms.ignore_index,
        prior=terms.prior,
        reduce=reduce,
        check=check,
    )
    definition = Definition(batch, terms, temperature, single, reduce, anchor)
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
