"""What one process of a ``torchrun`` job does in the tests: python job.py SCENARIO FOLDER."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from scenarios import FEATURES, ROWS, SCENARIOS, batch, gradient, make_loss, network, part
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

import eastward as ew
from eastward.training import Callback
from eastward.training.launch import end_process

sys.path.insert(0, str(Path(__file__).parents[1] / "estimator"))
from small_models import clusters, quick


class Checkpointed(nn.Module):
    """Forgets its hidden layer and computes it again on the way back."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(4)
        self.first = nn.Linear(FEATURES, 8).double()
        self.last = nn.Linear(8, 3).double()

    def forward(self, inputs):
        hidden = checkpoint(lambda x: torch.tanh(self.first(x)), inputs, use_reentrant=False)
        return self.last(hidden)


def plain(folder: Path) -> None:
    """Plain DDP, gradient checkpointing, two passes over micro-batches, and sharded weights."""
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    scenario = SCENARIOS["sample weights"]
    inputs, targets, weights = part(batch(3, scenario, world, 0), scenario, world, rank)
    loss = make_loss("f1_macro", scenario)
    found = {}
    for name, model in (("ddp", network(3)), ("checkpointed", Checkpointed())):
        wrapped = DistributedDataParallel(model)
        loss(wrapped(inputs), targets, weights).backward()
        found[name] = gradient(wrapped)
    wrapped = DistributedDataParallel(network(3))
    sizes = [1, 3, len(targets) - 4]
    pieces = zip(inputs.split(sizes), targets.split(sizes), weights.split(sizes), strict=True)
    ew.exact_backward(loss, wrapped, pieces)
    found["exact_backward"] = gradient(wrapped)
    found["fsdp"] = sharded(inputs, targets, weights, loss)
    if rank == 0:
        torch.save(found, folder / "plain.pt")
    end_process()


def sharded(inputs, targets, weights, loss):
    """Gradient with weights that are split over processes (FSDP 2)."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    model = network(3)
    fully_shard(model, mesh=init_device_mesh("cpu", (dist.get_world_size(),)))
    loss(model(inputs), targets, weights).backward()
    return torch.cat([p.grad.full_tensor().flatten() for p in model.parameters()])


class DieOnce(Callback):
    """Kills one process of the first attempt in the middle of training, as a broken machine would."""

    def epoch_end(self, run):
        first = os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
        if first and run.processes.rank == 1 and run.epoch == 3 and run.stage.name == "aligned":
            os.kill(os.getpid(), signal.SIGKILL)


class Note(Callback):
    """Remembers which epochs were trained in this life."""

    def __init__(self):
        self.epochs = []

    def epoch_end(self, run):
        self.epochs.append((run.stage.name, run.epoch))


def elastic(folder: Path) -> None:
    """Train with a checkpoint; process 1 dies once, torchrun starts all of them again."""
    X, y = clusters(counts=(120, 60, 20))
    noted = Note()
    model = quick(
        strategy="ddp",
        dropout=0.25,
        checkpoint=folder / "checkpoints",
        callbacks=[noted, DieOnce()],
    )
    model.fit(X, y)
    rank = int(os.environ["RANK"])
    state = {name: value.clone() for name, value in model.members_.state_dict().items()}
    restarts = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    outcome = {"state": state, "epochs": noted.epochs, "restarts": restarts}
    torch.save({**outcome, "history": model.history_}, folder / f"elastic-{rank}.pt")


if __name__ == "__main__":
    torch.set_num_threads(1)
    assert ROWS  # the scenarios' rows
    {"plain": plain, "elastic": elastic}[sys.argv[1]](Path(sys.argv[2]))
