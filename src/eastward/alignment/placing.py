"""Place the network for alignment: a copy on one device, or one network that is split between processes."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import nn

from eastward import _checks
from eastward.alignment.added_head import ADDED
from eastward.alignment.batches import CALLER
from eastward.alignment.sharding import check_shards, is_sharded
from eastward.training.launch import in_a_job, make_fabric

__all__ = ["check_strategy", "fabric_of", "placed", "unwrapped"]

# Strategies of Lightning Fabric that split a network in their own way.
REFUSED = ("FSDPStrategy", "DeepSpeedStrategy", "XLAFSDPStrategy")
# The strategy that splits a network by a function of the user.
SPLITTING = "ModelParallelStrategy"


def _strategy(fabric: Any) -> str:
    return type(getattr(fabric, "strategy", None)).__name__


def check_strategy(fabric: Any) -> None:
    """Refuse strategies that split a network into pieces which cannot be read and written one by one."""
    found = _strategy(fabric)
    if found in REFUSED:
        advice = "Use ModelParallelStrategy with a function that calls fully_shard (FSDP 2)."
        expected = "None, or a Fabric with one device, DDP or ModelParallelStrategy"
        _checks.fail(CALLER, "fabric", expected, f"one with {found}", advice)


def unwrapped(model: nn.Module) -> nn.Module:
    """Return the sharded network that Fabric wrapped, and any other model as it is."""
    inner = getattr(model, "module", None)
    wrapped = type(model).__name__ == "_FabricModule" and isinstance(inner, nn.Module)
    return inner if wrapped and inner is not None and is_sharded(inner) else model


def fabric_of(model: nn.Module, options: dict[str, Any]) -> Any:
    """Make a Fabric for the device of the model."""
    device = next((value.device for value in model.parameters()), torch.device("cpu"))
    devices: Any = options["devices"]
    strategy = "auto"
    if is_sharded(model):
        strategy = "ddp"  # for its processes; the network is split already
        _check_job()
    elif device.type != "cpu" and devices == 1:
        devices = [device.index or 0]
    return make_fabric(
        {
            "accelerator": device.type,
            "devices": devices,
            "strategy": strategy,
            "precision": options["precision"],
        },
        caller=CALLER,
    )


def _check_job() -> None:
    if not in_a_job():
        advice = "Start the script with torchrun, or pass your launched Fabric as fabric=."
        got = "a process that was started without a launcher"
        _checks.fail(CALLER, "model", "in a job of several processes if it is sharded", got, advice)


def placed(model: nn.Module, fabric: Any, options: dict[str, Any]) -> nn.Module:
    """Return the network to align, in evaluation mode: a copy, unless ``model`` is sharded already."""
    if is_sharded(model):
        if not options["inplace"]:
            advice = "The network is then changed, so save its weights first if you need them."
            expected = "True for a sharded network, which cannot be copied"
            _checks.fail(CALLER, "inplace", expected, False, advice)
        network = model
    elif _strategy(fabric) == SPLITTING:
        network = fabric.setup_module(_copied(model)).module
    else:
        return _copied(model).to(fabric.device).eval()
    if options["head"] == ADDED:
        expected = "a layer of the network if the network is sharded"
        advice = "Add the layer before you call fully_shard."
        _checks.fail(CALLER, "head", expected, repr(ADDED), advice)
    check_shards(network, fabric.world_size)
    return network.eval()


def _copied(model: nn.Module) -> nn.Module:
    """Copy the user's model, so that it stays unchanged."""
    try:
        return copy.deepcopy(model)
    except (RuntimeError, TypeError) as error:
        advice = "Detach the tensors that its layers keep, or load its weights into a new network."
        got = f"one that copy.deepcopy refuses: {str(error).partition('. ')[0]}"
        return _checks.fail(CALLER, "model", "a network that can be copied", got, advice)
