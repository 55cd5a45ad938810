"""Differentiable sums over processes.

Processes exchange the table of a batch, never the logits. The backward pass sums the incoming gradients over
processes as well. Each process holds the same loss of the summed table, so its own samples receive W times the
gradient. DistributedDataParallel averages over the W processes, which gives exactly the gradient of one process
that holds all the data.

A loss has the same slope at the summed table in every process. The sum of the gradients is therefore this slope times
the sum of the losses' own gradients, and processes exchange a single number in the backward pass
(:func:`total_table`, :func:`summed_gradient`).
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from eastward import _checks
from eastward.protocols import Reduce

__all__ = ["agree_on_classes", "process_sum", "resolve_reduce", "summed_gradient", "total_table"]

# Some builds of torch have no support for several processes.
_AVAILABLE = dist.is_available()


class _AllReduceSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, table: Tensor, group: dist.ProcessGroup | None) -> Tensor:
        ctx.group = group
        total = table.detach().clone(memory_format=torch.contiguous_format)
        dist.all_reduce(total, group=group)
        return total

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        total = gradient.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(total, group=ctx.group)
        return total, None


def process_sum(table: Tensor, group: dist.ProcessGroup | None = None) -> Tensor:
    """Sum ``table`` over the processes of ``group``, differentiably.

    Parameters
    ----------
    table : Tensor
        Of the same shape in every process.
    group : ProcessGroup, optional
        The processes to sum over; all of them by default.

    Returns
    -------
    Tensor
        The sum, equal in every process.
    """
    if table.requires_grad:
        reduced: Tensor = _AllReduceSum.apply(table, group)  # type: ignore[no-untyped-call]  # torch has no types here
        return reduced
    total = table.clone()
    dist.all_reduce(total, group=group)
    return total


class _TotalTable(torch.autograd.Function):
    @staticmethod
    def forward(_: Any, table: Tensor, total: Tensor) -> Tensor:  # noqa: ARG004 - for the graph alone
        return total.clone()

    @staticmethod
    def backward(_: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient, None


class _SummedGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, value: Tensor, reduce: Reduce) -> Tensor:
        ctx.reduce = reduce
        return value.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return ctx.reduce(gradient), None


def total_table(table: Tensor, total: Tensor) -> Tensor:
    """Return the sum ``total`` over processes, with gradients through this process's ``table``."""
    joined: Tensor = _TotalTable.apply(table, total)  # type: ignore[no-untyped-call]  # torch has no types here
    return joined


def summed_gradient(value: Tensor, reduce: Reduce) -> Tensor:
    """Return the value unchanged, but sum its gradient over processes in the backward pass.

    Examples
    --------
    >>> import torch
    >>> leaf = torch.tensor(2.0, requires_grad=True)
    >>> summed_gradient(leaf, lambda gradient: 4 * gradient).backward()
    >>> leaf.grad
    tensor(4.)
    """
    summed: Tensor = _SummedGradient.apply(value, reduce)  # type: ignore[no-untyped-call]
    return summed


def resolve_reduce(process_group: Any, *, caller: str = "EASTLoss") -> Reduce | None:
    """Return the sum over processes that ``process_group`` asks for, or None for a single process.

    Parameters
    ----------
    process_group : "auto", None, or ProcessGroup
        "auto" sums over all processes of an initialised job; None never sums.
    caller : str
        Function name to show in error messages.

    Examples
    --------
    >>> resolve_reduce("auto") is None
    True
    """
    if process_group is None:
        return None
    if isinstance(process_group, str):
        if process_group != "auto":
            _checks.one_of(
                caller, "process_group", process_group, ("auto",), otherwise="None, a group"
            )
        if not (_AVAILABLE and dist.is_initialized()):
            return None
        process_group = None
    elif _AVAILABLE and process_group is dist.GroupMember.NON_GROUP_MEMBER:
        # ``new_group`` returns this to processes outside the group.
        return None
    elif not (_AVAILABLE and isinstance(process_group, dist.ProcessGroup)):
        expected = "'auto', None, or a torch.distributed ProcessGroup"
        got = _checks.describe(process_group)
        _checks.fail(caller, "process_group", expected, got, error=TypeError)
    if dist.get_world_size(process_group) == 1:
        return None
    return lambda table: process_sum(table, process_group)


def agree_on_classes(caller: str, logits: Tensor, reduce: Reduce) -> None:
    """Raise an error in every process if the processes have logits with different numbers of columns.

    Tables of different shapes cannot be added, and the backend would end the program without an explanation.

    Examples
    --------
    >>> import torch
    >>> agree_on_classes("EASTLoss", torch.zeros(4, 3), lambda numbers: 2 * numbers)
    """
    columns = logits.shape[1] if logits.dim() > 1 else 1
    numbers = torch.tensor([1.0, columns, columns**2], dtype=torch.float64)
    processes, total, squares = reduce(numbers.to(logits.device)).tolist()
    if processes * squares != total**2:
        got = f"{columns} in this process and {total / processes:g} in the mean over {processes:g}"
        advice = (
            "Give every process the same classes, even those that its data lack; process_group=None "
            "turns the sum over processes off."
        )
        _checks.fail(caller, "logits", "equally many columns in every process", got, advice)
