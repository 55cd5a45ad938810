"""The loss by kernels, where they apply; the composition of its parts remains the definition.

Float64, other steps than the linear one, functorch, forward-mode differentiation, compilation, and gradients by
something else than the logits take the definition.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad

from eastward import _checks
from eastward._numerics import safe_divide
from eastward.kernels.evaluation import Evaluation, evaluate
from eastward.kernels.problems import Problem
from eastward.kernels.scoring import Scoring
from eastward.kernels.selection import backend_for
from eastward.losses._batches import Batch
from eastward.losses._tables import loss_of_tables, soft_tables
from eastward.metrics import Metric
from eastward.protocols import Reduce, Step
from eastward.steps import STEPS

__all__ = ["Terms", "definition_of", "fused_losses", "gradient_of_losses", "loss_of_batch"]

_PLAIN_TENSORS = (Tensor, nn.Parameter)


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
    tables = reduce(tables) if reduce is not None else tables
    if anchor is not None:
        now = tables.detach()
        tables = anchor(now) + (tables - now)
    return loss_of_tables(
        tables, terms.metric, virtual=terms.virtual, multilabel=terms.multilabel, warn=warn
    )


def loss_of_batch(
    prepare: Callable[..., Batch],
    terms: Terms,
    temperature: Tensor | float,
    *,
    reduce: Reduce | None,
    anchor: Callable[[Tensor], Tensor] | None = None,
    check_inputs: bool,
) -> Tensor:
    """The loss of one batch by the fastest way that applies.

    ``prepare(check_inputs=...)`` gives the batch, flat; kernels look at the values themselves and ask it to do so
    when something seems wrong.
    """
    batch = prepare(check_inputs=False)
    inspect = check_inputs and _checks.can_inspect(batch.logits, batch.targets)
    check = partial(prepare, check_inputs=True) if inspect else None
    losses = fused_losses(
        _as_one_group(batch),
        terms,
        temperature,
        reduce=reduce,
        anchor=anchor,
        check=check,
    )
    if losses is not None:
        return losses[0]
    if check is not None:
        check()
    return definition_of(batch, terms, temperature, reduce=reduce, anchor=anchor, warn=check_inputs)


def _as_one_group(batch: Batch) -> Batch:
    weight = batch.sample_weight
    weight = None if weight is None else weight.unsqueeze(0)
    return Batch(batch.logits.unsqueeze(0), batch.targets.unsqueeze(0), weight)


def fused_losses(
    batch: Batch,
    terms: Terms,
    temperature: Tensor | float,
    *,
    reduce: Reduce | None = None,
    anchor: Callable[[Tensor], Tensor] | None = None,
    check: Callable[[], object] | None = None,
) -> Tensor | None:
    """Losses ``(K,)`` of K groups, or None where kernels do not apply.

    Parameters
    ----------
    batch : Batch
        Stacked: logits ``(K, N, C)``, targets ``(K, N)`` or ``(K, N, L)``, weights like the targets.
    terms : Terms
        Of the loss.
    temperature : Tensor or float
        Of the step.
    reduce : callable, optional
        Sum over processes.
    anchor : callable, optional
        Tables of the batch to those where the metric is taken.
    check : callable, optional
        Looks at every value and says what is wrong; called when something seems to be.
    """
    evaluation = _evaluation(batch, terms, temperature, reduce, anchor, check)
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
    evaluation = _evaluation(batch, terms, temperature, reduce, None, None)
    if evaluation is None:
        return None
    with torch.no_grad():
        losses = evaluation.losses(batch.logits)
        slope = evaluation.gradient(batch.logits, torch.ones_like(losses))
    return losses.to(slope.dtype), slope


def _evaluation(
    batch: Batch,
    terms: Terms,
    temperature: Tensor | float,
    reduce: Reduce | None,
    anchor: Callable[[Tensor], Tensor] | None,
    check: Callable[[], object] | None,
) -> Evaluation | None:
    if not _applies(batch, terms, temperature):
        return None
    backend = backend_for(batch.logits.device.type)
    if backend is None:
        return None
    problem = _problem(batch, terms, float(temperature))
    labels, weights = _labels_and_weights(batch, problem, terms, reduce, check)
    scoring = Scoring(terms.metric, terms.virtual, _TableLoss(terms), reduce, anchor)
    past = _Remembered(anchor)

    def definition(logits: Tensor) -> Tensor:
        parts = zip(logits, batch.targets, _rows(batch), strict=True)
        losses = [
            definition_of(Batch(*part), terms, temperature, reduce=reduce, anchor=past.again)
            for part in parts
        ]
        return torch.stack(losses)

    scoring = scoring._replace(anchor=past.first) if anchor is not None else scoring
    return Evaluation(backend, problem, scoring, labels, weights, definition, check)


class _TableLoss:
    """The loss as a function of tables, for metrics without a closed form."""

    def __init__(self, terms: Terms) -> None:
        self.terms = terms

    def __call__(self, tables: Tensor) -> Tensor:
        terms = self.terms
        return loss_of_tables(
            tables, terms.metric, virtual=terms.virtual, multilabel=terms.multilabel, warn=False
        )


class _Remembered:
    """A running estimate moves on when it is asked; a second derivative needs the answer of the first time."""

    def __init__(self, anchor: Callable[[Tensor], Tensor] | None) -> None:
        self.anchor = anchor
        self.answer: Tensor | None = None
        self.again = None if anchor is None else self._again

    def first(self, now: Tensor) -> Tensor:
        """The anchor of these tables."""
        if self.anchor is None:
            return now
        self.answer = self.anchor(now)
        return self.answer

    def _again(self, now: Tensor) -> Tensor:
        return now if self.answer is None else self.answer.to(now)


def _rows(batch: Batch) -> Any:
    return [None] * len(batch.logits) if batch.sample_weight is None else batch.sample_weight


def _applies(batch: Batch, terms: Terms, temperature: Tensor | float) -> bool:
    if torch.compiler.is_compiling() or terms.step is not STEPS["linear"]:
        return False
    if batch.logits.dtype == torch.float64 or batch.logits.is_meta:
        return False
    constants = (batch.sample_weight, terms.prior, temperature)
    if any(isinstance(value, Tensor) and value.requires_grad for value in constants):
        return False
    if forward_ad._current_level >= 0:  # noqa: SLF001 - torch has no public question for it
        return False
    given = (batch.logits, batch.targets, batch.sample_weight)
    return all(value is None or _is_plain(value) for value in given)


def _is_plain(tensor: Tensor) -> bool:
    wrapped = torch._C._functorch.is_functorch_wrapped_tensor  # noqa: SLF001 - the same
    return type(tensor) in _PLAIN_TENSORS and not wrapped(tensor)


def _problem(batch: Batch, terms: Terms, temperature: float) -> Problem:
    size = batch.logits.shape[2]
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


def _labels_and_weights(
    batch: Batch,
    problem: Problem,
    terms: Terms,
    reduce: Reduce | None,
    check: Callable[[], object] | None,
) -> tuple[Tensor, Tensor | None]:
    """Labels that are safe to index with, and weights in which ignoring and the prior are folded."""
    targets, size = batch.targets, 2 if problem.binary else batch.logits.shape[2]
    weights = None if batch.sample_weight is None else batch.sample_weight.float()
    if weights is not None and check is not None and not _are_weights(weights):
        check()
    ignored = terms.ignore_index
    labels = targets if targets.dtype == torch.int64 else targets.long()
    exact = not targets.is_floating_point()
    if not (exact and _all_within(labels, size) and (ignored is None or not 0 <= ignored < size)):
        if check is not None:
            check()
        labels, weights = _masked(targets, labels, weights, problem, ignored, size)
    if terms.prior is not None:
        weights = _corrected(batch, labels, weights, terms.prior, problem, reduce)
    return labels.contiguous(), None if weights is None else weights.contiguous()


def _are_weights(weights: Tensor) -> bool:
    """Whether no weight is negative, and none NaN or infinite: a sum is finite only if its terms are."""
    return weights.numel() == 0 or (float(weights.min()) >= 0 and math.isfinite(weights.sum()))


def _all_within(labels: Tensor, size: int) -> bool:
    if labels.numel() == 0 or labels.device.type != "cpu":
        # On a GPU looking would stall; masking without looking costs less.
        return labels.numel() == 0
    low, high = labels.aminmax()
    return int(low) >= 0 and int(high) < size


def _masked(
    targets: Tensor,
    labels: Tensor,
    weights: Tensor | None,
    problem: Problem,
    ignored: int | None,
    size: int,
) -> tuple[Tensor, Tensor | None]:
    if problem.kind == "labels":
        labels = (targets == 1).long()
    if ignored is not None:
        # Masked before anything indexes: 255 or -100 must never be a place in an array.
        gone = targets == ignored
        blank = torch.ones_like(labels, dtype=torch.float32) if weights is None else weights
        labels, weights = labels.masked_fill(gone, 0), blank.masked_fill(gone, 0.0)
    if labels.device.type == "cpu" and not _all_within(labels, size):
        low, high = labels.aminmax()
        raise IndexError(f"labels lie in [{int(low)}, {int(high)}], outside [0, {size})")
    return labels, weights


def _corrected(
    batch: Batch,
    labels: Tensor,
    weights: Tensor | None,
    prior: Any,
    problem: Problem,
    reduce: Reduce | None,
) -> Tensor:
    """Weights by which every class has the mass that the prior gives it."""
    if weights is None:
        weights = torch.ones_like(labels, dtype=torch.float32)
    if problem.kind == "labels":
        rate = _checks.prior("multilabel_counts", prior, labels.shape[2], sums_to_one=False)
        rate = rate.to(weights)
        on = weights * labels
        mass = torch.stack([(weights - on).sum(1), on.sum(1)])
        mass = reduce(mass) if reduce is not None else mass
        scale = safe_divide(torch.stack([1 - rate, rate]).unsqueeze(1), mass).unsqueeze(2)
        return weights * torch.where(labels > 0, scale[1], scale[0])
    size = max(batch.logits.shape[2], 2)
    wanted = _checks.prior("soft_confusion", prior, size).to(weights)
    present = weights.new_zeros(len(labels), size).scatter_add_(1, labels, weights)
    present = reduce(present) if reduce is not None else present
    return weights * safe_divide(wanted, present).gather(1, labels)
