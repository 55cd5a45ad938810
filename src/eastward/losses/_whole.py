"""The shortest way: loss and gradient of a batch by one compiled call, and one node in the graph.

The gradient is computed together with the loss and handed over by the first backward pass, without a copy. A second
backward pass through the same graph computes it again; second derivatives are those of the definition.
"""

from __future__ import annotations

import importlib
import warnings
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from eastward.kernels.rules import rule_of
from eastward.kernels.selection import backend_for
from eastward.losses._applicability import kernels_apply, problem_of
from eastward.losses._batches import Batch
from eastward.losses._definition import Definition, Terms
from eastward.losses._labels import are_weights
from eastward.metrics import Metric

if TYPE_CHECKING:
    from eastward.kernels.compiled_plan import Plan

__all__ = ["whole_loss"]

# Plans used last, each beside the metric whose id is in its key.
_PLANS: dict[tuple[Any, ...], tuple[Metric, Plan | None]] = {}
_REMEMBERED = 64


def whole_loss(
    batch: Batch, terms: Terms, temperature: Tensor | float, *, check_inputs: bool
) -> Tensor | None:
    """The loss of one batch; None where this way does not exist or something is wrong with the batch."""
    if not kernels_apply(batch, terms, temperature) or not _is_ready(batch):
        return None
    logits, labels, weights = batch
    plan = _plan(terms, logits.shape[1], float(temperature))
    if plan is None or not plan.suits(logits):
        return None
    if weights is not None:
        weights = weights.float().contiguous()
        if check_inputs and not are_weights(weights):
            return None
    recorded = logits.requires_grad and torch.is_grad_enabled()
    gradient = torch.empty_like(logits, requires_grad=False) if recorded else None
    found = plan.run(logits, labels, weights, gradient)
    if found is None:
        return None
    loss, empty = found
    if empty and check_inputs:
        _warn()
    if gradient is None:
        return loss
    whole = _Whole(loss, gradient, plan, (labels, weights), (batch, terms, temperature))
    node: Tensor = _Node.apply(logits, whole)  # type: ignore[no-untyped-call]  # torch has no types here
    return node


def _is_ready(batch: Batch) -> bool:
    """Whether arrays can be read where they are."""
    logits, labels, _ = batch
    return (
        logits.is_cpu
        and logits.dtype is torch.float32
        and labels.dtype is torch.int64
        and logits.is_contiguous()
        and labels.is_contiguous()
    )


def _warn() -> None:
    warnings.warn(
        "every sample is ignored or has weight zero: the loss is 0 and has no gradient",
        stacklevel=5,
    )


def _plan(terms: Terms, size: int, temperature: float) -> Plan | None:
    """The plan of these options, from the last time they were seen."""
    metric, thresholds, _, detached, prior, virtual, multilabel, ignored = terms
    backend = backend_for("cpu")
    if prior is not None or backend is None:
        return None
    key = (
        backend,
        id(metric),
        size,
        temperature,
        thresholds,
        detached,
        virtual,
        multilabel,
        ignored,
    )
    known = _PLANS.get(key)
    if known is not None and known[0] is metric:
        return known[1]
    if len(_PLANS) >= _REMEMBERED:
        _PLANS.clear()
    plan = _new_plan(backend, terms, size, temperature)
    _PLANS[key] = (metric, plan)
    return plan


def _new_plan(backend: Any, terms: Terms, size: int, temperature: float) -> Plan | None:
    plans = getattr(backend, "PLANS", None)
    if plans is None:
        return None
    if terms.metric.needs_matrix and not terms.multilabel:
        return None
    width = size if terms.multilabel else max(size, 2)
    rule = rule_of(terms.metric, width, exclusive=not terms.multilabel, virtual=terms.virtual)
    plan: Plan | None = importlib.import_module(plans).plan_of(
        problem_of(size, terms, temperature), rule, size, terms.ignore_index
    )
    return plan


class _Whole:
    """Loss and gradient of a batch, and what it takes to compute them again."""

    __slots__ = ("given", "gradient", "labels", "loss", "plan", "weights")

    def __init__(
        self,
        loss: Tensor,
        gradient: Tensor,
        plan: Plan,
        samples: tuple[Tensor, Tensor | None],
        given: tuple[Batch, Terms, Tensor | float],
    ) -> None:
        self.loss, self.plan, self.given = loss, plan, given
        self.gradient: Tensor | None = gradient
        self.labels, self.weights = samples

    def take(self, logits: Tensor) -> Tensor:
        """The gradient; whoever takes it may write on it."""
        found, self.gradient = self.gradient, None
        if found is None:
            found = torch.empty_like(logits, requires_grad=False)
            self.plan.run(logits, self.labels, self.weights, found)
        return found

    def definition(self, logits: Tensor) -> Tensor:
        """The same loss by plain operations, which can be differentiated any number of times."""
        return Definition(*self.given, True, None, None)(logits)


class _Node(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, whole: _Whole) -> Tensor:
        ctx.save_for_backward(logits)
        ctx.whole = whole
        return whole.loss

    @staticmethod
    def backward(ctx: Any, by_loss: Tensor) -> tuple[Tensor, None]:
        (logits,) = ctx.saved_tensors
        if torch.is_grad_enabled():
            # Someone wants to differentiate once more: plain operations know how.
            loss = ctx.whole.definition(logits)
            (found,) = torch.autograd.grad(loss, logits, by_loss, create_graph=True)
            return found, None
        found, factor = ctx.whole.take(logits), by_loss.item()
        return found if factor == 1 else found.mul_(factor), None
