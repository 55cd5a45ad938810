"""A linear layer behind the logits of a network that does not end in one.

The head of some networks is no linear layer that can be changed: its weights are normalised (a classifier of cosines),
parametrised or scaled. A linear layer behind their logits, the identity at first, is a head as good as any for `align`.
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
# Sums of probabilities may differ from one by rounding.
ROUNDING = 1e-3


class WithHead(nn.Module):
    """A network, and a linear layer that takes its logits and returns as many.

    Parameters
    ----------
    network : Module
        Returns logits.
    layout : Layout
        Where the classes are in its output.

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
        """Compute logits in the shape of the network's."""
        logits = logits_in(self.network(*inputs, **named))
        if self.layout.single:
            found: Tensor = self.head(logits.unsqueeze(-1)).squeeze(-1)
            return found
        rows: Tensor = self.head(logits.movedim(self.layout.class_axis, -1))
        return rows.movedim(-1, self.layout.class_axis)


def with_added_head(network: nn.Module, batch: Batch) -> WithHead:
    """Put a linear layer behind the logits of a network; ``batch`` shows their shape."""
    with torch.no_grad():
        output = output_of_loaded(network, batch, None, argument="train_loader", number=1)
    layout = layout_of(output, batch.targets, classes_last=True)
    _check_logits(output, layout)
    return WithHead(network, layout).to(output.device)


def _check_logits(output: Tensor, layout: Layout) -> None:
    """Refuse probabilities, of which a linear layer makes no logits."""
    inside = bool(((output >= 0) & (output <= 1)).all())
    if not (layout.single or layout.labels):
        sums = output.sum(layout.class_axis)
        inside = inside and bool(((sums - 1).abs() < ROUNDING).all())
    if inside:
        advice = "Leave out the softmax or sigmoid at its end."
        _checks.fail(CALLER, "model", "a network that returns logits", "probabilities", advice)
