"""The three steps of every loss: tables of the logits, the metric at the table, the way back to the logits."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from eastward import _checks
from eastward.distributed import summed_gradient, total_table
from eastward.losses._at_table import TableLoss
from eastward.losses._batches import Batch, prepare_batch, result_dtype
from eastward.losses._definition import Terms
from eastward.losses._passes import Passes, Way, soft_tables, way_of
from eastward.protocols import Reduce, Scalar

__all__ = ["Between", "Steps"]


class Between(NamedTuple):
    """What happens to the tables of a batch before the metric sees them.

    Attributes
    ----------
    reduce : callable, optional
        Sum over processes.
    anchor : callable, optional
        From the tables of this batch, and the dtype of the logits in float32 at least, to the tables where value and
        derivative are taken (a running estimate).
    """

    reduce: Reduce | None = None
    anchor: Callable[[Tensor, torch.dtype], Tensor] | None = None


class Steps:
    """The three steps with the options of one loss, which owns them.

    Parameters
    ----------
    terms : Terms
        The options.
    """

    def __init__(self, terms: Terms) -> None:
        self.terms = terms
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
        """The loss of logits, targets and weights as a user gives them, in the dtype of the result."""
        batch, way, heat, check = self._prepared(caller, given, temperature, check_inputs)
        return self._losses(batch, way, heat, between, check)

    def tables(
        self,
        caller: str,
        given: tuple[Any, Any, Any],
        temperature: Tensor | float,
        *,
        reduce: Reduce | None = None,
        check_inputs: bool = True,
    ) -> Tensor:
        """Step one alone, differentiable: tables add up over batches."""
        batch, way, heat, check = self._prepared(caller, given, temperature, check_inputs)
        return soft_tables(way, batch, self.terms, heat, reduce=reduce, check=check)

    def losses(self, batch: Batch, temperature: Tensor | float, between: Between) -> Tensor:
        """Losses ``(K,)`` of K groups of samples that share nothing; values are not looked at."""
        way = way_of(batch, self.terms, temperature)
        return self._losses(batch, way, temperature, between, None)

    def _prepared(
        self, caller: str, given: tuple[Any, Any, Any], temperature: Tensor | float, looks: bool
    ) -> tuple[Batch, Way, Tensor | float, Callable[[], object] | None]:
        """The flat batch, its way, the temperature, and what looks at every value."""
        terms = self.terms
        prepare = partial(prepare_batch, caller, *given, terms.multilabel, terms.ignore_index)
        batch = prepare(check_inputs=False)
        heat = _known_temperature(caller, temperature)
        way = way_of(batch, terms, heat)
        check = partial(prepare, check_inputs=True) if looks else None
        # A kernel looks at logits and whole labels by itself, and asks for a check when something is wrong.
        if check is not None and (way.kernel is None or batch.targets.is_floating_point()):
            check()
        elif check is not None and batch.sample_weight is not None:
            _checks.weights(caller, batch.sample_weight)
        return batch, way, heat, check

    def _losses(
        self,
        batch: Batch,
        way: Way,
        temperature: Tensor | float,
        between: Between,
        check: Callable[[], object] | None,
    ) -> Tensor:
        dtype = torch.float64 if batch.logits.dtype == torch.float64 else torch.float32
        warn = check is not None
        if way.kernel is None:
            tables = soft_tables(way, batch, self.terms, temperature, reduce=between.reduce)
            losses = self.at(tables, between, dtype, warn=warn)
        else:
            number = float(temperature)
            passes = Passes(way, batch, self.terms, number, between.reduce, check)
            losses = self._by_kernel(batch.logits, passes, between, dtype, warn=warn)
        wanted = result_dtype(batch.logits)
        return losses if losses.dtype == wanted else losses.to(wanted)

    def _by_kernel(
        self, logits: Tensor, passes: Passes, between: Between, dtype: torch.dtype, *, warn: bool
    ) -> Tensor:
        """Tables, loss and slope now, and one node of the graph that knows the way back."""
        learns = logits.requires_grad and torch.is_grad_enabled()
        tables = passes.tables(keep=learns)
        if between.reduce is not None:
            tables = between.reduce(tables)
        if between.anchor is not None:
            tables = between.anchor(tables, dtype)
        losses, slope = self.at_table.with_slope(tables, dtype=dtype, warn=warn)
        if not learns:
            return losses
        joined: Tensor = _Loss.apply(logits, _Back(self, passes, between, tables, slope), (losses,))  # type: ignore[no-untyped-call]  # torch has no types here
        return joined

    def at(self, tables: Tensor, between: Between, dtype: torch.dtype, *, warn: bool) -> Tensor:
        """Step two of tables that are part of a graph."""
        reduce, anchor = between
        if reduce is not None:
            tables = total_table(tables, reduce(tables.detach()))
        if anchor is not None:
            now = tables.detach()
            tables = anchor(now, dtype) + (tables - now)
        losses = self.at_table(tables, dtype=dtype, warn=warn)
        return losses if reduce is None else summed_gradient(losses, reduce)


class _Back(NamedTuple):
    """What the way back needs: the slope at the tables where the metric was taken."""

    steps: Steps
    passes: Passes
    between: Between
    anchored: Tensor
    slope: Tensor


class _Loss(torch.autograd.Function):
    """The three steps as one node of the graph."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, back: _Back, losses: tuple[Tensor]) -> Tensor:
        # In a tuple, the losses are no input of this node, and can be its output as they are.
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
            # Slopes at the summed table are alike in all processes: their sum needs the factors alone.
            by_losses = back.between.reduce(by_losses)
        factors = by_losses.view(-1, 1, 1, 1) if by_losses.dim() else by_losses
        return back.passes.pullback(logits, tuple(kept), back.slope * factors), None, None


def _differentiable(back: _Back, logits: Tensor, by_losses: Tensor) -> Tensor:
    """The gradient by the definition, since someone wants to differentiate once more."""
    # A running estimate moved on when it was asked; the answer of the first time is needed.
    again = None if back.between.anchor is None else lambda *_: back.anchored
    between = Between(back.between.reduce, again)
    losses = back.steps.at(back.passes.again(logits), between, by_losses.dtype, warn=False)
    (found,) = torch.autograd.grad(losses, logits, by_losses, create_graph=True)
    return found


def _known_temperature(caller: str, temperature: Tensor | float) -> Tensor | float:
    """The temperature as a number where it can be read without waiting for a device, and checked."""
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
