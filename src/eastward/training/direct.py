"""The default network's training step without an autograd graph.

A small network spends most of a step on bookkeeping: a graph of a dozen nodes, hooks, a gradient tensor and an
optimiser entry for every parameter. The default network is known, so its gradient can be written down: one pass
forward that keeps the activations, one pass backward that writes into one flat buffer, one optimiser entry. The
objective alone goes through autograd, unless it can do without (:func:`gradient_of`). Everything that this module
does not know (other modules, devices, precisions, several processes) takes the ordinary way.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from eastward.training.batches import Rows
from eastward.training.members import Members, StackedMLP

if TYPE_CHECKING:
    from lightning_fabric import Fabric

__all__ = ["DirectGradient", "direct_gradient", "gradient_of", "without_dust"]

# Far below what float32 can add to a gradient that still teaches something.
DUST = 1e-20


def direct_gradient(members: Members, rows: Rows, fabric: Fabric) -> DirectGradient | None:
    """The short way, where everything is as it knows it."""
    precision = str(getattr(fabric.strategy.precision, "precision", "32-true"))
    plain = fabric.world_size == 1 and fabric.device.type == "cpu" and precision == "32-true"
    known = isinstance(rows.inputs, Tensor) and rows.inputs.dtype == torch.float32
    # A subclass may compute something else.
    return DirectGradient(members) if plain and known and type(members) is StackedMLP else None


class DirectGradient:
    """Gradient of a :class:`StackedMLP`, written by hand into one flat parameter.

    Parameters
    ----------
    members : StackedMLP
        In float32 on the CPU. Its parameters become views of ``parameter``, and their ``grad`` views of its gradient.

    Attributes
    ----------
    parameter : Parameter
        All weights and biases, ``(P,)``: what the optimiser gets.

    Examples
    --------
    >>> import torch
    >>> direct = DirectGradient(StackedMLP(1, [3, 4, 2], dropout=0.0))
    >>> logits = direct.forward(torch.ones(1, 8, 3))
    >>> direct.backward(torch.ones(1, 8, 2))
    >>> direct.parameter.grad[-2:]
    tensor([8., 8.])
    """

    def __init__(self, members: StackedMLP) -> None:
        self.members = members
        own = [*members.weights, *members.biases]
        flat = torch.cat([parameter.detach().reshape(-1) for parameter in own])
        gradient = torch.zeros_like(flat)
        for parameter, values, slopes in zip(
            own, _views(flat, own), _views(gradient, own), strict=True
        ):
            parameter.data = values
            parameter.grad = slopes
        self.parameter = nn.Parameter(flat)
        self.parameter.grad = gradient
        depth = len(members.weights)
        self._weights = [weight.data for weight in members.weights]
        self._biases = [bias.data for bias in members.biases]
        views = list(_views(gradient, own))
        self._weight_slopes, self._bias_slopes = views[:depth], views[depth:]
        self._activations: list[Tensor] = []

    def forward(self, inputs: Tensor) -> Tensor:
        """Logits ``(K, B, C)`` of a training batch ``(K, B, F)``; the activations are kept for the way back."""
        dropout = self.members.dropout
        hidden = inputs
        self._activations = [hidden]
        for weight, bias in zip(self._weights[:-1], self._biases[:-1], strict=True):
            hidden = dropout(torch.baddbmm(bias, hidden, weight).relu_())
            self._activations.append(hidden)
        return torch.baddbmm(self._biases[-1], hidden, self._weights[-1])

    def evaluate(self, inputs: Tensor) -> Tensor:
        """Logits ``(K, B, C)`` with every unit in place; nothing is kept."""
        hidden = inputs
        for weight, bias in zip(self._weights[:-1], self._biases[:-1], strict=True):
            hidden = torch.baddbmm(bias, hidden, weight).relu_()
        return torch.baddbmm(self._biases[-1], hidden, self._weights[-1])

    def backward(self, slope: Tensor) -> None:
        """Write the parameters' gradient, given the losses' gradient ``(K, B, C)`` by the logits."""
        scale = 256 / (256 - self.members.dropout.dropped)
        for layer in reversed(range(len(self._weights))):
            hidden = self._activations[layer]
            torch.bmm(hidden.transpose(1, 2), slope, out=self._weight_slopes[layer])
            torch.sum(slope, dim=1, keepdim=True, out=self._bias_slopes[layer])
            if layer:
                # A unit that ReLU or dropout made zero passes nothing on; the others were scaled up.
                slope = torch.bmm(slope, self._weights[layer].transpose(1, 2))
                slope = torch.ops.aten.threshold_backward(slope, hidden, 0.0)
                if scale != 1:
                    slope.mul_(scale)
        self._activations = []

    def of_batch(self, rows: Rows, chosen: Tensor, objective: Any) -> Tensor:
        """Put the gradient of the rows ``chosen``, ``(K, B)``, into the parameters; the members' losses."""
        inputs = rows.inputs.index_select(0, chosen.flatten()).view(*chosen.shape, -1)
        weights = None if rows.weights is None else rows.weights[chosen]
        losses, slope = gradient_of(objective, self.forward(inputs), rows.targets[chosen], weights)
        self.backward(without_dust(slope))
        return losses


def without_dust(gradient: Tensor) -> Tensor:
    """The gradient without its smallest entries."""
    # Saturated rows have gradients like 1e-40. No sum notices them, but a CPU multiplies such subnormal numbers some
    # hundred times more slowly: a network that fits its data well trained 2.5 times as long.
    return functional.hardshrink(gradient, DUST)


def _views(flat: Tensor, shaped: list[nn.Parameter]) -> Iterator[Tensor]:
    """Consecutive pieces of ``flat`` in the shapes of the parameters."""
    start = 0
    for parameter in shaped:
        yield flat[start : start + parameter.numel()].view(parameter.shape)
        start += parameter.numel()


def gradient_of(
    objective: Any, logits: Tensor, targets: Tensor, weights: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Losses ``(K,)`` of an objective and the gradient of their sum by the logits.

    An objective that knows its gradient has a method ``with_gradient``; for the others autograd finds it.

    Examples
    --------
    >>> import torch
    >>> from eastward.training.objectives import CrossEntropyObjective
    >>> losses, slope = gradient_of(
    ...     CrossEntropyObjective(), torch.zeros(1, 1, 2), torch.zeros(1, 1, dtype=torch.long), None
    ... )
    >>> slope
    tensor([[[-0.5000,  0.5000]]])
    """
    known = getattr(objective, "with_gradient", None)
    if known is not None:
        found: tuple[Tensor, Tensor] | None = known(logits, targets, weights)
        if found is not None:
            return found
    leaf = logits.detach().requires_grad_()
    losses: Tensor = objective(leaf, targets, weights)
    (slope,) = torch.autograd.grad(losses.sum(), leaf)
    return losses.detach(), slope
