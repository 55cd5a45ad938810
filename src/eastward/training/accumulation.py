"""Take one optimiser step for more rows than fit into memory, with the exact gradient of all.

The mean of a metric over micro-batches is not the metric. But the loss depends on the network only through the logits.
A first pass without a graph collects them, and the loss of all rows gives their slope. A second pass carries the slope
into the weights, micro-batch by micro-batch. This is exact for any objective, for all members at once and over
processes.
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
    """Compute the gradient of ``batch`` in ``parts`` micro-batches, and return its losses ``(K,)``.

    Parameters
    ----------
    run : Run
        A stage in progress.
    batch : tuple
        Inputs, targets ``(K, B)`` and weights of this process; on the CPU until a micro-batch is needed.
    parts : int
        Micro-batches, equally many in every process.
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
    """Compute logits of all rows, and record the random state of each micro-batch to repeat its dropout."""
    logits, states = [], []
    with torch.no_grad(), still_statistics(run.members), run.fabric.autocast():
        for piece in pieces:
            states.append(random_state())
            logits.append(run.members(run.fabric.to_device(piece)))
    return torch.cat(logits, dim=1), states


def _slope(
    run: Any, logits: Tensor, targets: Tensor, weights: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Compute the losses of all rows together, and the gradient of their sum at the logits."""
    leaf = logits.requires_grad_()
    targets, weights = run.fabric.to_device((targets, weights))
    losses = run.objective(leaf, targets, weights)
    (slope,) = torch.autograd.grad(losses.sum(), leaf)
    return losses, without_dust(slope)


def without_dust(gradient: Tensor) -> Tensor:
    """Set the smallest entries of a gradient to zero.

    Examples
    --------
    >>> import torch
    >>> without_dust(torch.tensor([1e-30, 0.5]))
    tensor([0.0000, 0.5000])
    """
    # Saturated rows have gradients such as 1e-40, which change no sum. But a CPU multiplies such subnormal numbers
    # about a hundred times more slowly: a network that fitted its data well took 2.5 times as long to train.
    return functional.hardshrink(gradient, DUST)


def _pieces(inputs: Any, rows: int, parts: int, *, stacked: bool) -> list[Any]:
    """Split rows into ``parts`` micro-batches whose sizes differ by at most one."""
    bounds = [round(rows * part / parts) for part in range(parts + 1)]
    slices = [slice(*pair) for pair in pairwise(bounds)]
    if isinstance(inputs, list):  # of inputs, one entry for each member
        return [[take(own, part) for own in inputs] for part in slices]
    return [inputs[:, part] if stacked else take(inputs, part) for part in slices]


def warn_of_batch_norm(members: nn.Module) -> None:
    """Warn, once per stage, that batch norm normalises each micro-batch on its own."""
    if normalises_batches(members):
        warnings.warn(
            "accumulate='exact': batch norm normalises each micro-batch by itself, so that the network differs from "
            "one that sees all rows at once; use group norm or layer norm to have the same",
            stacklevel=2,
        )
