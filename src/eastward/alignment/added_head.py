"""A linear layer after the logits of a network that does not end in one.

Some networks do not end in a linear layer that can be changed, because its weights are normalised (a cosine
classifier), parametrised or scaled. Then `align` puts a linear layer after the logits, which starts as the identity,
and uses it as the head.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from eastward import _checks
from eastward.alignment.batches import CALLER, Batch, logits_in, output_of_loaded
from eastward.alignment.heads import Layout, layout_of

__all__ = ["ADDED", "WithHead", "with_added_head"]

ADDED = "added"
# Rounding may move a sum of probabilities this far from one.
ROUNDING = 1e-3


class WithHead(nn.Module):
    """A network followed by a linear layer that takes its logits and returns as many.

    Parameters
    ----------
    network : Module
        A network that returns logits.
    layout : Layout
        Shape of its output, with the axis of the classes.

    Examples
    --------
    >>> import torch
    >>> cosines = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Tanh())
    >>> both = WithHead(cosines, Layout(3, False, False, 1, False))
    >>> inputs = torch.randn(8, 4)
    >>> torch.equal(both(inputs), cosines(inputs))
    True
    """

    def __init__(self, network: nn.Module, layout: Layout) -> None:
        super().__init__()
        self.network, self.layout = network, layout
        size = 1 if layout.single else layout.size
        self.head = nn.Linear(size, size)
        nn.init.eye_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def forward(self, *inputs: Any, **named: Any) -> Tensor:
        """Compute logits with the shape of the network's own."""
        logits = logits_in(self.network(*inputs, **named))
        if self.layout.single:
            found: Tensor = self.head(logits.unsqueeze(-1)).squeeze(-1)
            return found
        rows: Tensor = self.head(logits.movedim(self.layout.class_axis, -1))
        return rows.movedim(-1, self.layout.class_axis)


def with_added_head(network: nn.Module, batch: Batch) -> WithHead:
    """Put a linear layer after the logits of a network; ``batch`` shows their shape."""
    with torch.no_grad():
        output = output_of_loaded(network, batch, None, argument="train_loader", number=1)
    layout = layout_of(output, batch.targets, classes_last=True)
    _check_logits(output, layout)
    return WithHead(network, layout).to(output.device)


def _check_logits(output: Tensor, layout: Layout) -> None:
    """Refuse probabilities, because a linear layer cannot turn them into logits."""
    inside = bool(((output >= 0) & (output <= 1)).all())
    if not (layout.single or layout.labels):
        sums = output.sum(layout.class_axis)
        inside = inside and bool(((sums - 1).abs() < ROUNDING).all())
    if inside:
        advice = "Leave out the softmax or sigmoid at its end."
        _checks.fail(CALLER, "model", "a network that returns logits", "probabilities", advice)
