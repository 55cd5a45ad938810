"""What one process of a ``torchrun`` job with sharded networks does in the tests: python sharded_job.py FOLDER."""

from __future__ import annotations

import sys
from pathlib import Path

import torch
import torch.distributed as dist
from lightning_fabric import Fabric
from lightning_fabric.strategies import ModelParallelStrategy
from small_networks import KINDS, mlp, three_classes
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

import eastward as ew
from eastward.alignment import network_stage
from eastward.training.launch import end_process

OPTIONS = {"epochs": 3, "learning_rate": 1e-2, "evidence": -1e9}
KINDS_TO_SHARD = ("three classes", "stream", "one logit", "labels", "dense", "mappings")
HEAD_ONLY = {"stages": ("head",), "evidence": -1e9}


def split(network, mesh):
    """Shard the first layer by itself, and the rest of the network."""
    first = next(part for part in network.modules() if any(True for _ in part.parameters(False)))
    fully_shard(first, mesh=mesh)
    return fully_shard(network, mesh=mesh)


def whole(network):
    return {name: value.full_tensor() for name, value in network.state_dict().items()}


def through_fabric(fabric):
    """Align networks that Fabric shards, and look at what was given."""
    found = {}
    for kind in KINDS_TO_SHARD:
        network, train, valid, own = KINDS[kind]()
        before = {name: value.clone() for name, value in network.state_dict().items()}
        result = ew.align(network, train, valid, fabric=fabric, **{**OPTIONS, **own})
        assert all(torch.equal(before[name], value) for name, value in network.state_dict().items())
        found[kind] = {"weights": whole(result.model), "report": result.report}
    network, train, valid, _ = three_classes()
    ew.align(network, train, valid, fabric=fabric, inplace=True, **HEAD_ONLY)
    found["in place"] = network.state_dict()
    wrapped = fabric.setup_module(three_classes()[0])
    ew.align(wrapped, train, valid, fabric=fabric, inplace=True, **HEAD_ONLY)
    found["wrapped"] = whole(wrapped.module)
    return found


def of_my_own(mesh, folder):
    """Align a network that is sharded already; killed once, and called again."""
    _, train, valid, _ = three_classes()
    options = {**OPTIONS, "stages": ("network",), "inplace": True}

    def call(**more):
        network = split(three_classes()[0], mesh)
        result = ew.align(network, train, valid, **options, **more)
        assert result.model is network
        return whole(network)

    uninterrupted, save = call(), network_stage._state
    saved = []

    def killed(*given):
        saved.append(given)
        if len(saved) == 3:
            raise RuntimeError("killed")
        return save(*given)

    network_stage._state = killed
    try:
        call(checkpoint=folder / "checkpoints")
    except RuntimeError as error:
        assert str(error) == "killed"  # noqa: PT017 - no pytest in this process
    network_stage._state = save
    return {"whole": uninterrupted, "resumed": call(checkpoint=folder / "checkpoints")}


def refused(mesh, fabric):
    """Sentences about networks that cannot be aligned."""
    _, train, valid, _ = three_classes()
    bare = torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.Linear(16, 3, bias=False))
    partly = mlp(3)
    fully_shard(partly[0], mesh=mesh)
    calls = {
        "not in place": (split(mlp(3), mesh), {}),
        "no bias": (split(bare, mesh), {"inplace": True}),
        "partly": (partly, {"inplace": True}),
        "added": (mlp(3), {"head": "added", "fabric": fabric}),
    }
    found = {}
    for name, (network, options) in calls.items():
        try:
            ew.align(network, train, valid, **options)
        except ValueError as error:
            found[name] = str(error)
    return found


def main(folder: Path) -> None:
    strategy = ModelParallelStrategy(
        lambda network, mesh: split(network, mesh["data_parallel"]),
        data_parallel_size=2,
        tensor_parallel_size=1,
    )
    fabric = Fabric(accelerator="cpu", devices=2, strategy=strategy)
    fabric.launch()
    mesh = init_device_mesh("cpu", (2,))
    found = {
        **through_fabric(fabric),
        "own": of_my_own(mesh, folder),
        "refused": refused(mesh, fabric),
    }
    torch.save(found, folder / f"{dist.get_rank()}.pt")
    end_process()


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(Path(sys.argv[1]))
