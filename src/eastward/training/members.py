"""Networks that train side by side.

The trainer trains K *members*: networks of the same shape, each with its own rows. The default network holds all
members in one batched graph, so five cause little more overhead than one. Modules of a user are a single member, or K
members that run one after the other.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from eastward import _checks
from eastward.training.batches import take

__all__ = ["Members", "SeparateMembers", "SoloMember", "StackedMLP", "plain_mlp"]


class ByteDropout(nn.Module):
    """Dropout with a mask of random bytes: one random number serves eight units.

    Drawing a number for each unit takes a quarter of the training time of a small network on a CPU. The rate is rounded
    to a multiple of 1/256; 0.25 and 0.5 are exact.

    Examples
    --------
    >>> import torch
    >>> layer = ByteDropout(0.5)
    >>> set(layer(torch.ones(4, 64)).unique().tolist()) == {0.0, 2.0}
    True
    """

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate
        self.dropped = min(round(rate * 256), 255)  # a rate below one must not drop everything

    def forward(self, hidden: Tensor) -> Tensor:
        """Drop units in training mode, and scale up the rest."""
        if not self.training or self.dropped == 0:
            return hidden
        words = torch.empty(-(-hidden.numel() // 8), dtype=torch.int64, device=hidden.device)
        random_bytes = words.random_(-(2**63), None).view(torch.uint8)[: hidden.numel()]
        kept = (random_bytes >= self.dropped).view(hidden.shape)
        return hidden * kept.to(hidden.dtype).mul_(256 / (256 - self.dropped))


class StackedMLP(nn.Module):
    """K multilayer perceptrons with ReLU and dropout, computed as batched matrix products.

    Parameters
    ----------
    size : int
        Number of networks, K.
    widths : sequence of int
        Number of inputs, widths of the hidden layers, and number of outputs.
    dropout : float, default=0.25
        Dropout rate after each hidden layer.

    Examples
    --------
    >>> import torch
    >>> from eastward.training import StackedMLP
    >>> StackedMLP(5, [30, 64, 3])(torch.zeros(5, 8, 30)).shape
    torch.Size([5, 8, 3])
    """

    def __init__(self, size: int, widths: Sequence[int], dropout: float = 0.25) -> None:
        super().__init__()
        self.size, self.dropout = size, ByteDropout(dropout)
        pairs = list(pairwise(widths))
        self.weights = nn.ParameterList(torch.empty(size, a, b) for a, b in pairs)
        self.biases = nn.ParameterList(torch.empty(size, 1, b) for _, b in pairs)
        for (fan_in, _), weight, bias in zip(pairs, self.weights, self.biases, strict=True):
            bound = 1 / math.sqrt(max(fan_in, 1))  # the initial weights of nn.Linear
            nn.init.uniform_(weight, -bound, bound)
            nn.init.uniform_(bias, -bound, bound)

    def forward(self, inputs: Tensor) -> Tensor:
        """Compute logits ``(K, B, C)`` of inputs ``(K, B, F)``, or of shared inputs ``(B, F)``, in their dtype."""
        hidden = inputs if inputs.dim() == 3 else inputs.expand(self.size, *inputs.shape)
        last = len(self.weights) - 1
        for layer, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            hidden = torch.baddbmm(bias.to(hidden.dtype), hidden, weight.to(hidden.dtype))
            if layer < last:
                hidden = self.dropout(torch.relu_(hidden))
        return hidden

    def inputs_of(self, inputs: Tensor, rows: Tensor) -> Tensor:
        """Return the inputs ``(K, B, F)`` of the rows ``(K, B)``."""
        return inputs[rows]

    def member_state(self, index: int) -> dict[str, Tensor]:
        """Copy the parameters of one member."""
        return {name: value.detach()[index].clone() for name, value in self.state_dict().items()}

    def load_member(self, index: int, state: dict[str, Tensor]) -> None:
        """Load a copy that ``member_state`` made."""
        own = self.state_dict()
        with torch.no_grad():
            for name, value in state.items():
                own[name][index].copy_(value)

    def add_to_output_bias(self, offsets: Tensor) -> bool:
        """Add offsets ``(C,)`` to the last bias of every member, and return True."""
        with torch.no_grad():
            self.biases[-1].add_(offsets.to(self.biases[-1]))
        return True

    def member(self, index: int) -> nn.Sequential:
        """Return one member as an ordinary network."""
        widths = [self.weights[0].shape[1], *(weight.shape[2] for weight in self.weights)]
        network = plain_mlp(widths, self.dropout.rate)
        linear = [layer for layer in network if isinstance(layer, nn.Linear)]
        with torch.no_grad():
            for layer, weight, bias in zip(linear, self.weights, self.biases, strict=True):
                layer.weight.copy_(weight[index].T)
                layer.bias.copy_(bias[index, 0])
        return network.eval()


def plain_mlp(widths: Sequence[int], dropout: float = 0.25) -> nn.Sequential:
    """Make the papers' network for tables: linear layers with ReLU and dropout between them.

    Parameters
    ----------
    widths : sequence of int
        Number of inputs, widths of the hidden layers, and number of outputs.
    dropout : float, default=0.25
        Dropout rate after each hidden layer.

    Returns
    -------
    Sequential
        An untrained network that maps inputs ``(B, F)`` to logits ``(B, C)``.

    Examples
    --------
    >>> from eastward.training import plain_mlp
    >>> len(plain_mlp([30, 512, 256, 128, 3]))
    10
    """
    layers: list[nn.Module] = []
    for fan_in, fan_out in pairwise(widths[:-1]):
        layers += [nn.Linear(fan_in, fan_out), nn.ReLU(), ByteDropout(dropout)]
    return nn.Sequential(*layers, nn.Linear(widths[-2], widths[-1]))


class SoloMember(nn.Module):
    """A user's module as the only member.

    The inputs are a tensor of any rank, or a dictionary of tensors.

    Parameters
    ----------
    module : Module
        Maps a batch of inputs to logits ``(B, C)``. For two classes it may also return a single logit, ``(B,)`` or
        ``(B, 1)``.
    num_outputs : int
        Number of classes or labels, C. An output of another width is refused.
    multilabel : bool, default=False
        Whether the outputs are labels that do not exclude each other.

    Examples
    --------
    A single logit becomes two columns:

    >>> import torch
    >>> from eastward.training import SoloMember
    >>> SoloMember(torch.nn.Linear(4, 1), 2)(torch.zeros(8, 4)).shape
    torch.Size([1, 8, 2])
    """

    def __init__(self, module: nn.Module, num_outputs: int, *, multilabel: bool = False) -> None:
        super().__init__()
        self.size, self.module = 1, module
        self.num_outputs, self.multilabel = num_outputs, multilabel

    def forward(self, inputs: Any) -> Tensor:
        """Compute logits ``(1, B, C)``."""
        output: Tensor = self.module(inputs)
        if self.num_outputs == 2 and not self.multilabel and output.numel() == len(output):
            # softmax(0, z) is sigmoid(z), so the logit of the positive class becomes two columns.
            positive = output.reshape(-1, 1)
            output = torch.cat([torch.zeros_like(positive), positive], dim=1)
        if output.dim() != 2 or output.shape[1] != self.num_outputs:
            expected = f"a network with {self.num_outputs} outputs, one logit per class"
            advice = "Give its last layer that width."
            _checks.fail("EASTClassifier", "module", expected, _checks.describe(output), advice)
        return output.unsqueeze(0)

    def inputs_of(self, inputs: Any, rows: Tensor) -> Any:
        """Return the inputs ``(B, ...)`` of the rows ``(1, B)``."""
        return take(inputs, rows[0])

    def member_state(self, index: int) -> dict[str, Tensor]:  # noqa: ARG002 - there is only one
        """Copy the module's parameters and buffers."""
        return {name: value.detach().clone() for name, value in self.module.state_dict().items()}

    def load_member(self, index: int, state: dict[str, Tensor]) -> None:  # noqa: ARG002
        """Load a copy that ``member_state`` made."""
        self.module.load_state_dict(state)

    def add_to_output_bias(self, offsets: Tensor) -> bool:
        """Add offsets ``(C,)`` to the last bias; return False if there is none of that length."""
        bias = self._output_bias()
        if bias is not None and bias.shape == (1,) and offsets.shape == (2,):
            offsets = offsets[1:] - offsets[:1]  # one logit for two classes
        if bias is None or bias.shape != offsets.shape:
            return False
        with torch.no_grad():
            bias.add_(offsets.to(bias))
        return True

    def _output_bias(self) -> Tensor | None:
        biases = (getattr(layer, "bias", None) for layer in reversed(list(self.module.modules())))
        return next((bias for bias in biases if isinstance(bias, Tensor)), None)


class SeparateMembers(nn.Module):
    """K modules of a user, each with its own rows, which run one after the other.

    The modules may contain batch norm and dropout, and take inputs of any kind. They take K times as long as one.

    Parameters
    ----------
    modules : iterable of Module
        Each maps a batch of inputs to logits ``(B, C)``. No two may share a parameter.
    num_outputs : int
        Number of classes or labels, C.
    multilabel : bool, default=False
        Whether the outputs are labels that do not exclude each other.

    Examples
    --------
    The members take shared inputs, or a list with the inputs of each member:

    >>> import torch
    >>> from eastward.training import SeparateMembers
    >>> members = SeparateMembers([torch.nn.Linear(4, 3) for _ in range(2)], 3)
    >>> shared, own = torch.zeros(8, 4), [torch.zeros(5, 4), torch.ones(5, 4)]
    >>> members(shared).shape, members(own).shape
    (torch.Size([2, 8, 3]), torch.Size([2, 5, 3]))
    """

    def __init__(
        self, modules: Iterable[nn.Module], num_outputs: int, *, multilabel: bool = False
    ) -> None:
        super().__init__()
        self.networks = nn.ModuleList(
            SoloMember(module, num_outputs, multilabel=multilabel) for module in modules
        )
        self.size = len(self.networks)
        self.resting: frozenset[int] = frozenset()
        _check_nothing_is_shared(self.networks)

    def forward(self, inputs: Any) -> Tensor:
        """Compute logits ``(K, B, C)`` of shared inputs, or of a list with the inputs of each member."""
        own = inputs if isinstance(inputs, list) else [inputs] * self.size
        learning = torch.is_grad_enabled()
        logits = []
        for k, (network, batch) in enumerate(zip(self.networks, own, strict=True)):
            with torch.set_grad_enabled(learning and k not in self.resting):
                logits.append(network(batch))
        return torch.cat(logits)

    def rest(self, members: Iterable[int]) -> None:
        """Skip the backward pass of these members from now on, and of no others."""
        self.resting = frozenset(members)

    def inputs_of(self, inputs: Any, rows: Tensor) -> list[Any]:
        """Return the inputs of the rows ``(K, B)``, one entry for each member."""
        return [take(inputs, own) for own in rows]

    def member_state(self, index: int) -> dict[str, Tensor]:
        """Copy the parameters and buffers of one member."""
        return self._solo(index).member_state(0)

    def load_member(self, index: int, state: dict[str, Tensor]) -> None:
        """Load a copy that ``member_state`` made."""
        self._solo(index).load_member(0, state)

    def add_to_output_bias(self, offsets: Tensor) -> bool:
        """Add offsets ``(C,)`` to the last bias of every member; return False if one has none of that length."""
        return all(self._solo(k).add_to_output_bias(offsets) for k in range(self.size))

    def _solo(self, index: int) -> SoloMember:
        member: Any = self.networks[index]
        solo: SoloMember = member
        return solo


def _check_nothing_is_shared(networks: nn.ModuleList) -> None:
    """Refuse shared parameters, because they would learn from the validation rows of a member."""
    counted = sum(len(list(network.parameters())) for network in networks)
    if len(list(networks.parameters())) < counted:
        expected = "a factory that builds a new network at each call, or a module"
        advice = "Create the network, and all of its layers, inside the factory."
        got = "networks that share parameters"
        _checks.fail("EASTClassifier", "module", expected, got, advice)


Members: TypeAlias = StackedMLP | SoloMember | SeparateMembers
"""K networks that map inputs ``(K, B, ...)`` to logits ``(K, B, C)``."""
