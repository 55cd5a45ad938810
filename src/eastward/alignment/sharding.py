"""Networks whose weights are split between processes by ``torch.distributed.fsdp.fully_shard`` (FSDP 2).

A network that is split cannot be copied. So there is only one network, and every process keeps copies of its own pieces
of the weights. Only the head is put together, because every process trains it on the same features.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import get_swa_avg_fn

from eastward import _checks
from eastward.alignment.batches import CALLER

__all__ = [
    "ShardedMean",
    "check_shards",
    "gathered",
    "is_sharded",
    "load_optimizer",
    "load_weights",
    "pieces_like",
    "settle",
    "weights_of",
    "whole",
]


def _sharded_parts(network: nn.Module) -> list[Any]:
    # If the module is not imported, nothing is sharded; importing it would take most of a second.
    fsdp: Any = sys.modules.get("torch.distributed.fsdp")
    kind = getattr(fsdp, "FSDPModule", None)
    return [] if kind is None else [part for part in network.modules() if isinstance(part, kind)]


def is_sharded(network: nn.Module) -> bool:
    """Return whether ``fully_shard`` was called on the network or a part of it.

    Examples
    --------
    >>> is_sharded(torch.nn.Linear(4, 3))
    False
    """
    return bool(_sharded_parts(network))


def settle(network: nn.Module) -> None:
    """Free the weights that a forward pass put together, so that the parameters are pieces again."""
    for part in _sharded_parts(network):
        part.reshard()


def whole(value: Tensor) -> Tensor:
    """Put the pieces of a tensor together, in all processes at once; return other tensors as they are."""
    found: Tensor = value.full_tensor() if hasattr(value, "full_tensor") else value
    return found


def pieces_like(value: Any, example: Any) -> Any:
    """Split a whole tensor in the same way as ``example``, with the values of process zero."""
    if not hasattr(example, "full_tensor"):
        return value
    from torch.distributed.tensor import distribute_tensor  # noqa: PLC0415 - few need it

    placed = value.to(dtype=example.dtype, device=example.device)
    return distribute_tensor(placed, example.device_mesh, example.placements)


def weights_of(network: nn.Module) -> dict[str, Any]:
    """Return the weights of a network, as copies if it is sharded, because that network is trained further."""
    state = network.state_dict()
    if is_sharded(network):
        state.update({name: _copied(value) for name, value in state.items()})
    return state


def _copied(value: Any) -> Any:
    return value.clone() if isinstance(value, Tensor) else value


def gathered(tree: Any) -> Any:
    """Put the pieces of all tensors in nested dictionaries and lists together, on the CPU.

    Examples
    --------
    >>> gathered({"step": 3, "weights": [torch.zeros(1)]})
    {'step': 3, 'weights': [tensor([0.])]}
    """
    if isinstance(tree, dict):
        found = copy.copy(tree)  # keeps the version metadata of a state dict
        found.update({name: gathered(value) for name, value in tree.items()})
        return found
    if isinstance(tree, list):
        return [gathered(value) for value in tree]
    return whole(tree).cpu() if hasattr(tree, "full_tensor") else tree


def load_weights(network: nn.Module, state: dict[str, Any]) -> None:
    """Load whole weights into a network whose own weights may be split."""
    if is_sharded(network):
        own = network.state_dict()
        state.update({name: pieces_like(value, own[name]) for name, value in state.items()})
    network.load_state_dict(state)


def load_optimizer(optimizer: Any, state: Mapping[str, Any]) -> None:
    """Load a state of whole tensors into an optimiser whose parameters may be split."""
    owners = [value for group in optimizer.param_groups for value in group["params"]]
    pieces = {
        index: {
            name: pieces_like(value, owners[index])
            if isinstance(value, Tensor) and value.shape == owners[index].shape
            else value
            for name, value in entries.items()
        }
        for index, entries in state["state"].items()
    }
    optimizer.load_state_dict({**state, "state": pieces})


class ShardedMean:
    """The mean of the weights of a sharded network; each process averages its own pieces."""

    def __init__(self, model: nn.Module) -> None:
        self.count, self.weights = 0, weights_of(model)

    def update_parameters(self, model: nn.Module) -> None:
        """Add the current weights to the mean."""
        average = get_swa_avg_fn()
        with torch.no_grad():
            for name, value in model.state_dict().items():
                mean = self.weights[name]
                if not isinstance(value, Tensor):
                    self.weights[name] = value
                elif self.count and value.is_floating_point():
                    mean.copy_(average(mean, value, self.count))
                else:
                    mean.copy_(value)
        self.count += 1

    def state_dict(self) -> dict[str, Any]:
        """Return the count and the whole mean; every process must call this."""
        return {"n_averaged": self.count, "weights": gathered(self.weights)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a state that ``state_dict`` returned."""
        self.count = int(state["n_averaged"])
        self.weights = {
            name: pieces_like(value, self.weights[name]) for name, value in state["weights"].items()
        }


def check_shards(network: nn.Module, processes: int) -> None:
    """Check that all weights are split over all processes, because each process sees different rows."""
    settle(network)
    for name, value in network.named_parameters():
        wrong = _wrong_pieces(value, processes)
        if wrong is not None:
            advice = "Call fully_shard on the whole network last, with a mesh of all processes."
            expected = "a network with every parameter split over all processes by fully_shard"
            _checks.fail(CALLER, "model", expected, f"{name} {wrong}", advice)


def _wrong_pieces(value: Any, processes: int) -> str | None:
    if not hasattr(value, "full_tensor"):
        return "in one piece" if value.requires_grad else None
    mesh = value.device_mesh
    if mesh.size() != processes:
        return f"split over {mesh.size()} of {processes} processes"
    # Replicas of shards (hybrid sharding) have the replicas first; tensor parallelism has shards of shards.
    if mesh.ndim > 1 and not all(place.is_replicate() for place in value.placements[:-1]):
        return "split along two axes of the mesh (tensor parallelism)"
    return None
