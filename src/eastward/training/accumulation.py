"""One optimiser step for more rows than fit into memory at once, with the gradient of all of them together.

The mean of a metric over micro-batches is not the metric. But the loss reaches the network through the logits alone:
a first pass without graph collects them, the loss of all rows gives their slope, and a second pass carries it into
the weights, micro-batch by micro-batch. Any objective is exact this way, for all members at once and over processes.
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

# Far below what float32 can add to a gradient that still teaches something.
DUST = 1e-20


def exact_gradient(run: Any, batch: tuple[Any, Tensor, Tensor | None], parts: int) -> Tensor:
    """Put the gradient of ``batch`` into the parameters, in ``parts`` micro-batches; its losses ``(K,)``.

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
    """Logits of all rows, and the random state before each micro-batch, so that dropout can be repeated."""
    logits, states = [], []
    with torch.no_grad(), still_statistics(run.members), run.fabric.autocast():
        for piece in pieces:
            states.append(random_state())
            logits.append(run.members(run.fabric.to_device(piece)))
    return torch.cat(logits, dim=1), states


def _slope(
    run: Any, logits: Tensor, targets: Tensor, weights: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Losses of all rows together, and the gradient of their sum by the logits."""
    leaf = logits.requires_grad_()
    targets, weights = run.fabric.to_device((targets, weights))
    losses = run.objective(leaf, targets, weights)
    (slope,) = torch.autograd.grad(losses.sum(), leaf)
    return losses, without_dust(slope)


def without_dust(gradient: Tensor) -> Tensor:
    """The gradient without its smallest entries.

    Examples
    --------
    >>> import torch
    >>> without_dust(torch.tensor([1e-30, 0.5]))
    tensor([0.0000, 0.5000])
    """
    # Saturated rows have gradients like 1e-40. No sum notices them, but a CPU multiplies such subnormal numbers some
    # hundred times more slowly: a network that fits its data well trained 2.5 times as long.
    return functional.hardshrink(gradient, DUST)


def _pieces(inputs: Any, rows: int, parts: int, *, stacked: bool) -> list[Any]:
    """Consecutive rows in ``parts`` micro-batches whose sizes differ by one at most."""
    bounds = [round(rows * part / parts) for part in range(parts + 1)]
    slices = [slice(*pair) for pair in pairwise(bounds)]
    if isinstance(inputs, list):  # of inputs, one entry for each member
        return [[take(own, part) for own in inputs] for part in slices]
    return [inputs[:, part] if stacked else take(inputs, part) for part in slices]


def warn_of_batch_norm(members: nn.Module) -> None:
    """Say, once for a stage, what batch norm makes of micro-batches."""
    if normalises_batches(members):
        warnings.warn(
            "accumulate='exact': batch norm normalises each micro-batch by itself, so that the network differs from "
            "one that sees all rows at once; use group norm or layer norm to have the same",
            stacklevel=2,
        )
