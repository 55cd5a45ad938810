"""The three steps of every loss: tables of the logits, the metric at the tables, the gradient back at the logits."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from eastward import _checks
from eastward.distributed import summed_gradient, total_table
from eastward.losses._at_table import TableLoss
from eastward.losses._batches import Batch, is_ordinary, prepare_batch, result_dtype
from eastward.losses._definition import Terms
from eastward.losses._passes import Passes, Ways, soft_tables
from eastward.protocols import Reduce, Scalar

__all__ = ["Between", "Steps", "check_length"]


class Between(NamedTuple):
    """Operations on the tables of a batch before the metric is computed.

    Attributes
    ----------
    reduce : callable, optional
        Sum over processes.
    anchor : callable, optional
        A running estimate: takes the tables of this batch and a dtype, and returns the tables at which value and
        derivative are taken.
    """

    reduce: Reduce | None = None
    anchor: Callable[[Tensor, torch.dtype], Tensor] | None = None


class Steps:
    """The three steps with the options of one loss.

    Parameters
    ----------
    terms : Terms
        The options.

    Notes
    -----
    Right after a network's forward pass, this code is no longer in the processor's caches, and every function call
    costs about 3 µs. So an ordinary batch passes through few functions; only other batches are checked property by
    property.
    """

    def __init__(self, terms: Terms) -> None:
        self.terms, self.ways = terms, Ways(terms)
        self.at_table = TableLoss(terms.metric, virtual=terms.virtual, multilabel=terms.multilabel)

    def loss(
        self,
        caller: str,
        given: tuple[Any, Any, Any],
        temperature: Tensor | float,
        between: Between,
        *,
        check_inputs: bool = True,
    ) -> Scalar:
        """Compute the loss of the user's logits, targets and weights."""
        batch, passes, heat = self._prepared(
            caller, given, temperature, between.reduce, check_inputs
        )
        return self._losses(batch, passes, heat, between, warn=check_inputs)

    def tables(
        self,
        caller: str,
        given: tuple[Any, Any, Any],
        temperature: Tensor | float,
        *,
        reduce: Reduce | None = None,
        check_inputs: bool = True,
    ) -> Tensor:
        """Run only step one, differentiably; the tables add up over batches."""
        batch, passes, heat = self._prepared(caller, given, temperature, reduce, check_inputs)
        return soft_tables(passes, batch, self.terms, heat, reduce)

    def losses(self, batch: Batch, temperature: Tensor | float, between: Between) -> Tensor:
        """Compute losses ``(K,)`` of K separate groups of samples, without checking values."""
        passes = self.ways.passes(batch, temperature, between.reduce)
        return self._losses(batch, passes, temperature, between, warn=False)

    def _prepared(
        self,
        caller: str,
        given: tuple[Any, Any, Any],
        temperature: Tensor | float,
        reduce: Reduce | None,
        check_values: bool,
    ) -> tuple[Batch, Passes | None, Tensor | float]:
        """Prepare the flat batch, its passes (None: use the definition) and the temperature."""
        terms = self.terms
        prepare = partial(prepare_batch, caller, *given, terms.multilabel, terms.ignore_index)
        heat = _known_temperature(caller, temperature)
        ordinary = isinstance(heat, float) and not terms.multilabel and is_ordinary(*given)
        batch = Batch(*given) if ordinary else prepare(check_inputs=False)
        check = prepare if check_values else None
        if terms.prior is not None:
            check_length(caller, terms.prior, batch.logits, multilabel=terms.multilabel)
        passes = self.ways.passes(batch, heat, reduce, check, ordinary=ordinary)
        # A kernel checks logits and integer labels itself, and calls the full check when something is wrong.
        if check_values and (passes is None or batch.targets.is_floating_point()):
            prepare()
        elif check_values and batch.sample_weight is not None:
            _checks.weights(caller, batch.sample_weight)
        return batch, passes, heat

    def _losses(
        self,
        batch: Batch,
        passes: Passes | None,
        temperature: Tensor | float,
        between: Between,
        *,
        warn: bool,
    ) -> Tensor:
        logits = batch.logits
        dtype = torch.float64 if logits.dtype == torch.float64 else torch.float32
        if passes is None or not self.at_table.has_closed_form(logits):
            tables = soft_tables(passes, batch, self.terms, temperature, between.reduce)
            losses = self.at(tables, between, dtype, warn=warn)
        else:
            losses = self._in_closed_form(logits, passes, between, dtype, warn=warn)
        return losses if losses.dtype is logits.dtype else losses.to(result_dtype(logits))

    def _in_closed_form(
        self, logits: Tensor, passes: Passes, between: Between, dtype: torch.dtype, *, warn: bool
    ) -> Tensor:
        """Compute tables, loss and slope now, with one node of the graph for the backward pass."""
        learns = logits.requires_grad and torch.is_grad_enabled()
        tables = passes.tables(keep=learns)
        if between.reduce is not None:
            tables = between.reduce(torch.as_tensor(tables))
        if between.anchor is not None:
            tables = between.anchor(torch.as_tensor(tables), dtype)
        losses, slope = self.at_table.with_slope(tables, dtype=dtype, warn=warn)
        if not learns:
            return losses
        back = _Back(self, passes, between, tables, slope)
        joined: Tensor = _Loss.apply(logits, back, (losses,))  # type: ignore[no-untyped-call]  # torch has no types here
        return joined

    def at(self, tables: Tensor, between: Between, dtype: torch.dtype, *, warn: bool) -> Tensor:
        """Run step two on tables that are part of a graph."""
        reduce, anchor = between
        if reduce is not None:
            tables = total_table(tables, reduce(tables.detach()))
        if anchor is not None:
            now = tables.detach()
            tables = anchor(now, dtype) + (tables - now)
        losses = self.at_table(tables, dtype=dtype, warn=warn)
        return losses if reduce is None else summed_gradient(losses, reduce)


class _Back(NamedTuple):
    """What the backward pass needs: the slope of the metric at its tables."""

    steps: Steps
    passes: Passes
    between: Between
    anchored: Any
    slope: Any


class _Loss(torch.autograd.Function):
    """The three steps as one node of the graph."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, back: _Back, losses: tuple[Tensor]) -> Tensor:
        # Inside a tuple the losses do not count as inputs of this node, and can be its output without a copy.
        ctx.back = back
        ctx.save_for_backward(logits, *back.passes.kept())
        return losses[0]

    @staticmethod
    def backward(ctx: Any, by_losses: Tensor) -> tuple[Tensor, None, None]:
        logits, *kept = ctx.saved_tensors
        back: _Back = ctx.back
        if torch.is_grad_enabled():
            return _differentiable(back, logits, by_losses), None, None
        if back.between.reduce is not None:
            # All processes have the same slope at the summed table, so only the factors have to be summed.
            by_losses = back.between.reduce(by_losses)
        return back.passes.pullback(logits, tuple(kept), back.slope, by_losses), None, None


def _differentiable(back: _Back, logits: Tensor, by_losses: Tensor) -> Tensor:
    """Compute the gradient by the definition, which can be differentiated again."""
    # A running estimate changes with every call, so the tables of the first call are reused.
    again = None if back.between.anchor is None else lambda *_: back.anchored
    between = Between(back.between.reduce, again)
    losses = back.steps.at(back.passes.again(logits), between, by_losses.dtype, warn=False)
    (found,) = torch.autograd.grad(losses, logits, by_losses, create_graph=True)
    return found


def check_length(caller: str, prior: Any, logits: Tensor, *, multilabel: bool) -> None:
    """Check that the prior has one number for each class or label; a single logit has two classes."""
    columns = logits.shape[1]
    _checks.prior(caller, prior, columns if multilabel else max(columns, 2), check_values=False)


def _known_temperature(caller: str, temperature: Tensor | float) -> Tensor | float:
    """Return the checked temperature as a number, if it can be read without waiting for a device."""
    if not isinstance(temperature, Tensor):
        return temperature
    if torch.compiler.is_compiling() or not temperature.is_cpu:
        return temperature
    if temperature.requires_grad or not _checks.has_memory(temperature):
        return temperature
    number = float(temperature)
    if not _checks.MIN_TEMPERATURE <= number <= _checks.MAX_TEMPERATURE:
        _checks.one_temperature(caller, number)
    return number
