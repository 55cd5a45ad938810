"""Take one optimiser step for more rows than fit into memory, with the exact gradient of all rows.

The mean of a metric over micro-batches is not the metric of all rows. But the loss depends on the network only through
the logits. So a first pass, without a graph, collects the logits of all rows, and the loss gives their gradient. A
second pass carries this gradient back into the weights, one micro-batch at a time. The result is exact for any
objective, for all members at once and across processes.
"""

from __future__ import annotations

import warnings
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from eastward.losses.exact import (
    normalises_batches,
    random_state,
    restore_random_state,
    still_statistics,
)
from eastward.training.batches import take
from eastward.training.members import StackedMLP

__all__ = ["exact_gradient", "warn_of_batch_norm", "without_dust"]

# Too small to change any useful gradient in float32.
DUST = 1e-20


def exact_gradient(run: Any, batch: tuple[Any, Tensor, Tensor | None], parts: int) -> Tensor:
    """Compute the gradient of a batch in micro-batches, and return the loss of each member.

    Parameters
    ----------
    run : Run
        A stage in progress.
    batch : tuple
        Inputs, targets ``(K, B)`` and weights of this process. They stay on the CPU until a micro-batch is needed.
    parts : int
        Number of micro-batches, the same in every process.

    Returns
    -------
    Tensor
        ``(K,)`` losses of the whole batch, on the CPU.
    """
    inputs, targets, weights = batch
    stacked = isinstance(run.members, StackedMLP) and inputs.dim() == 3
    pieces = _pieces(inputs, targets.shape[1], parts, stacked=stacked)
    logits, states = _first_pass(run, pieces)
    losses, slope = _slope(run, logits, targets, weights)
    run.optimizer.zero_grad()
    start = 0
    for index, (piece, state) in enumerate(zip(pieces, states, strict=True)):
        restore_random_state(state)
        with run.fabric.no_backward_sync(run.model, enabled=index < len(pieces) - 1):
            output = run.model(run.fabric.to_device(piece))
            stop = start + output.shape[1]
            run.fabric.backward(output, gradient=slope[:, start:stop])
        start = stop
    return losses.detach().cpu()


def _first_pass(run: Any, pieces: list[Any]) -> tuple[Tensor, list[Any]]:
    """Compute the logits of all rows, and record the random state of each micro-batch to repeat its dropout."""
    logits, states = [], []
    with torch.no_grad(), still_statistics(run.members), run.fabric.autocast():
        for piece in pieces:
            states.append(random_state())
            logits.append(run.members(run.fabric.to_device(piece)))
    return torch.cat(logits, dim=1), states


def _slope(
    run: Any, logits: Tensor, targets: Tensor, weights: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Compute the losses of all rows together, and the gradient of their sum with respect to the logits."""
    leaf = logits.requires_grad_()
    targets, weights = run.fabric.to_device((targets, weights))
    losses = run.objective(leaf, targets, weights)
    (slope,) = torch.autograd.grad(losses.sum(), leaf)
    return losses, without_dust(slope)


def without_dust(gradient: Tensor) -> Tensor:
    """Set the entries of a gradient that are too small to matter to zero.

    Examples
    --------
    >>> import torch
    >>> without_dust(torch.tensor([1e-30, 0.5]))
    tensor([0.0000, 0.5000])
    """
    # Saturated rows have gradients such as 1e-40, which change no sum. But a CPU multiplies such subnormal numbers
    # about a hundred times more slowly. A network that fitted its data well took 2.5 times as long to train.
    return functional.hardshrink(gradient, DUST)


def _pieces(inputs: Any, rows: int, parts: int, *, stacked: bool) -> list[Any]:
    """Split rows into ``parts`` micro-batches whose sizes differ by at most one."""
    bounds = [round(rows * part / parts) for part in range(parts + 1)]
    slices = [slice(*pair) for pair in pairwise(bounds)]
    if isinstance(inputs, list):  # one entry for each member
        return [[take(own, part) for own in inputs] for part in slices]
    return [inputs[:, part] if stacked else take(inputs, part) for part in slices]


def warn_of_batch_norm(members: nn.Module) -> None:
    """Warn that batch norm normalises each micro-batch separately, if a member has batch norm."""
    if normalises_batches(members):
        warnings.warn(
            "accumulate='exact': batch norm normalises each micro-batch separately, so the network differs from "
            "one that sees all rows at once; use group norm or layer norm instead",
            stacklevel=2,
        )
