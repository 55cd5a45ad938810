"""The shortest way: loss and gradient of a batch by one compiled call, and one node in the graph.

The gradient is computed together with the loss and handed over by the first backward pass, without a copy. A second
backward pass through the same graph computes it again; second derivatives are those of the definition.
"""

from __future__ import annotations

import importlib
import warnings
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.compiler import is_compiling

from eastward.kernels.rules import rule_of
from eastward.kernels.selection import KEY, VARIABLES, backend_for
from eastward.losses._applicability import (
    LINEAR,
    PLAIN_TENSORS,
    kernels_apply,
    problem_of,
    transforms,
)
from eastward.losses._batches import Batch
from eastward.losses._definition import Definition, Terms
from eastward.losses._labels import are_weights
from eastward.metrics import Metric

if TYPE_CHECKING:
    from eastward.kernels.compiled_plan import Plan

__all__ = ["plain_loss", "whole_loss"]

# Plans used last, each beside the metric whose id is in its key.
_PLANS: dict[tuple[Any, ...], tuple[Metric, Plan | None]] = {}
# By the id of the terms, the last plan that they had, and for what.
_LAST: dict[int, _Last] = {}
_REMEMBERED = 64
_Given: TypeAlias = tuple[Tensor, Tensor, Tensor | None]
# What it takes to compute a loss again.
_Again: TypeAlias = "tuple[Plan, _Given, Terms, Tensor | float]"


class _Last(NamedTuple):
    terms: Terms
    temperature: Tensor | float
    version: int
    size: int
    asked: Any
    plan: Plan | None


def plain_loss(
    logits: Tensor,
    targets: Tensor,
    terms: Terms,
    temperature: Tensor | float,
    check_inputs: bool,
) -> Tensor | None:
    """The loss of logits ``(N, C)`` and labels ``(N,)`` as most people have them; None for anything else.

    All questions of :func:`whole_loss` and of those who prepare a batch, asked once and in one place: after a network
    has run the code that answers them is in no cache, and every function on the way takes a microsecond or two.
    """
    if is_compiling() or not (
        type(logits) in PLAIN_TENSORS
        and type(targets) is Tensor
        and logits.is_cpu
        and logits.dtype is torch.float32
        and targets.dtype is torch.int64
        and not terms.multilabel
        and not getattr(temperature, "requires_grad", False)
        and forward_ad._current_level < 0  # noqa: SLF001 - no public question
        and transforms() is None
    ):
        return None
    shape, version = logits.shape, getattr(temperature, "_version", -1)
    if not (
        len(shape) == 2
        and shape[1] > 1
        and targets.shape == shape[:1]
        and logits.is_contiguous()
        and targets.is_contiguous()
    ):
        return None
    asked, known = VARIABLES.get(KEY), _LAST.get(id(terms))
    if (
        known is None
        or known.terms is not terms
        or known.temperature is not temperature
        or known.version != version
        or known.size != shape[1]
        or known.asked != asked
    ):
        known = _remember(_Last(terms, temperature, version, shape[1], asked, None))
    plan = known.plan
    if plan is None or not plan.suits(shape[0] * shape[1]):
        return None
    return _loss_of(plan, (logits, targets, None), terms, temperature, check_inputs)


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
    given = (batch.logits, batch.targets, weights)
    return _loss_of(plan, given, terms, temperature, check_inputs)


def _loss_of(
    plan: Plan, given: _Given, terms: Terms, temperature: Tensor | float, check_inputs: bool
) -> Tensor | None:
    logits, labels, weights = given
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
    # In a tuple, because a tensor that comes in and goes out again would be copied to a view of itself.
    node: Tensor = _apply(logits, (loss, gradient), (plan, given, terms, temperature))
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


def _remember(new: _Last) -> _Last:
    """With the plan of these options, which is at hand as long as they, their objects included, stay the same."""
    found = new._replace(plan=_plan(new.terms, new.size, float(new.temperature)))
    if len(_LAST) >= _REMEMBERED:
        _LAST.clear()
    _LAST[id(new.terms)] = found
    return found


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


class _Node(torch.autograd.Function):
    """Hands a gradient over that is known already."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, known: tuple[Tensor, Tensor], again: _Again) -> Tensor:
        ctx.save_for_backward(logits)
        loss, ctx.gradient = known
        ctx.again = again
        return loss

    @staticmethod
    def backward(ctx: Any, by_loss: Tensor) -> tuple[Tensor, None, None]:
        (logits,) = ctx.saved_tensors
        plan, (_, labels, weights), terms, temperature = ctx.again
        if torch.is_grad_enabled():
            # Someone wants to differentiate once more: plain operations know how.
            batch = Batch(logits, labels, weights)
            loss = Definition(batch, terms, temperature, True, None, None)(logits)
            (found,) = torch.autograd.grad(loss, logits, by_loss, create_graph=True)
            return found, None, None
        # Whoever takes the gradient may write on it: a second backward pass computes it again.
        found, ctx.gradient = ctx.gradient, None
        if found is None:
            found = torch.empty_like(logits, requires_grad=False)
            plan.run(logits, labels, weights, found)
        factor = by_loss.item()
        return found if factor == 1 else found.mul_(factor), None, None


# What ``_Node.apply`` ends in where no transform of torch.func is active, which has been asked before.
_apply: Any = super(torch.autograd.Function, _Node).apply
