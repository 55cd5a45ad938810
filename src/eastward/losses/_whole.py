"""The shortest way: loss and gradient of a batch by one compiled call, and one node in the graph.

The gradient is computed together with the loss and handed over by the first backward pass, without a copy. A second
backward pass through the same graph computes it again; second derivatives are those of the definition.
"""

from __future__ import annotations

import importlib
import warnings
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from eastward.kernels.rules import rule_of
from eastward.kernels.selection import backend_for, wanted_kernel
from eastward.losses._applicability import (
    LINEAR,
    PLAIN_TENSORS,
    is_first_order,
    kernels_apply,
    problem_of,
)
from eastward.losses._batches import Batch
from eastward.losses._definition import Definition, Terms
from eastward.losses._labels import are_weights, version_of
from eastward.metrics import Metric

if TYPE_CHECKING:
    from eastward.kernels.compiled_plan import Plan

__all__ = ["plain_loss", "whole_loss"]

# Plans used last, each beside the metric whose id is in its key.
_PLANS: dict[tuple[Any, ...], tuple[Metric, Plan | None]] = {}
# By the id of the terms, the last plan that they had, and for what.
_LAST: dict[int, _Last] = {}
_REMEMBERED = 64


class _Last(NamedTuple):
    terms: Terms
    temperature: Tensor | float
    version: int
    size: int
    wanted: str
    plan: Plan | None


def plain_loss(
    logits: Tensor,
    targets: Tensor,
    terms: Terms,
    temperature: Tensor | float,
    *,
    check_inputs: bool,
) -> Tensor | None:
    """The loss of logits ``(N, C)`` and labels ``(N,)`` as most people have them; None for anything else.

    All questions of :func:`whole_loss` and of those who prepare a batch, asked once: after a network has run the code
    that answers them is in no cache, and each takes a microsecond or two.
    """
    if torch.compiler.is_compiling() or not (
        type(logits) in PLAIN_TENSORS
        and type(targets) is Tensor
        and logits.is_cpu
        and logits.dtype is torch.float32
        and targets.dtype is torch.int64
        and not terms.multilabel
        and is_first_order(temperature)
    ):
        return None
    shape = logits.shape
    if len(shape) != 2 or shape[1] < 2 or targets.shape != shape[:1]:
        return None
    if not (logits.is_contiguous() and targets.is_contiguous()):
        return None
    plan = _last_plan(terms, shape[1], temperature)
    if plan is None or not plan.suits(shape[0] * shape[1]):
        return None
    return _loss_of(plan, Batch(logits, targets, None), terms, temperature, check_inputs)


def whole_loss(
    batch: Batch, terms: Terms, temperature: Tensor | float, *, check_inputs: bool
) -> Tensor | None:
    """The loss of one batch; None where this way does not exist or something is wrong with the batch."""
    if not kernels_apply(batch, terms, temperature) or not _is_ready(batch):
        return None
    plan = _plan(terms, batch.logits.shape[1], float(temperature))
    if plan is None or not plan.suits(batch.logits.numel()):
        return None
    weights = batch.sample_weight
    if weights is not None:
        weights = weights.float().contiguous()
        if check_inputs and not are_weights(weights):
            return None
        batch = batch._replace(sample_weight=weights)
    return _loss_of(plan, batch, terms, temperature, check_inputs)


def _loss_of(
    plan: Plan, batch: Batch, terms: Terms, temperature: Tensor | float, check_inputs: bool
) -> Tensor | None:
    logits, labels, weights = batch
    recorded = logits.requires_grad and torch.is_grad_enabled()
    gradient = torch.empty_like(logits) if recorded else None
    found = plan.run(logits, labels, weights, gradient)
    if found is None:
        return None
    loss, empty = found
    if empty and check_inputs:
        _warn()
    if gradient is None:
        return loss
    whole = _Whole(loss, gradient, plan, (batch, terms, temperature))
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
        stacklevel=6,
    )


def _last_plan(terms: Terms, size: int, temperature: Tensor | float) -> Plan | None:
    """The plan of these options; at once if they, their objects included, are those of the last time."""
    wanted, version = wanted_kernel(), version_of(temperature)
    known = _LAST.get(id(terms))
    if (
        known is not None
        and known.terms is terms
        and known.temperature is temperature
        and known.version == version
        and known.size == size
        and known.wanted == wanted
    ):
        return known.plan
    plan = _plan(terms, size, float(temperature))
    if len(_LAST) >= _REMEMBERED:
        _LAST.clear()
    _LAST[id(terms)] = _Last(terms, temperature, version, size, wanted, plan)
    return plan


def _plan(terms: Terms, size: int, temperature: float) -> Plan | None:
    """The plan of these options, from the last time they were seen."""
    metric, thresholds, step, detached, prior, virtual, multilabel, ignored = terms
    backend = backend_for("cpu")
    if prior is not None or step is not LINEAR or backend is None:
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

    __slots__ = ("given", "gradient", "loss", "plan")

    def __init__(
        self,
        loss: Tensor,
        gradient: Tensor,
        plan: Plan,
        given: tuple[Batch, Terms, Tensor | float],
    ) -> None:
        self.loss, self.plan, self.given = loss, plan, given
        self.gradient: Tensor | None = gradient

    def take(self, logits: Tensor) -> Tensor:
        """The gradient; whoever takes it may write on it."""
        found, self.gradient = self.gradient, None
        if found is None:
            found = torch.empty_like(logits, requires_grad=False)
            _, labels, weights = self.given[0]
            self.plan.run(logits, labels, weights, found)
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
