"""Data, losses and scenarios that one process and many processes run alike."""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
import torch.multiprocessing
from torch import Tensor, nn

import eastward as ew

ROWS, FEATURES = 32, 5
IGNORED = -100
POSITIVE_CLASS_METRICS = ("f1", "precision", "recall", "jaccard", "specificity", "fowlkes_mallows")


@dataclass(frozen=True)
class Scenario:
    """How rows are distributed over processes, and further options of the loss."""

    name: str
    cuts: Callable[[int], list[int]] = lambda world: [ROWS // world] * world
    options: dict = field(default_factory=dict)
    weighted: bool = False
    prior: bool = False
    steps: int = 1
    first_without_positives: bool = False
    last_ignored: bool = False


def _uneven(world: int) -> list[int]:
    """The last process has a few rows left, as at the end of an epoch."""
    share = (ROWS - 3) // (world - 1)
    return [*([share] * (world - 2)), ROWS - 3 - share * (world - 2), 3]


def _nothing_for_the_last(world: int) -> list[int]:
    share = ROWS // (world - 1)
    return [*([share] * (world - 2)), ROWS - share * (world - 2), 0]


SCENARIOS = {
    scenario.name: scenario
    for scenario in (
        Scenario("even"),
        Scenario("uneven last batch", cuts=_uneven),
        Scenario("a rank without rows", cuts=_nothing_for_the_last),
        Scenario("a rank without positives", first_without_positives=True),
        Scenario("a rank all ignored", last_ignored=True),
        Scenario("running", options={"running": 0.9}, steps=3),
        Scenario("prior", prior=True),
        Scenario("sample weights", weighted=True),
        Scenario(
            "prior, weights, uneven, running",
            cuts=_uneven,
            options={"running": 0.8},
            weighted=True,
            prior=True,
            steps=2,
        ),
    )
}


def num_classes(metric: str) -> int:
    return 2 if metric in POSITIVE_CLASS_METRICS else 3


def make_loss(metric: str, scenario: Scenario, process_group="auto") -> ew.EASTLoss:
    classes = num_classes(metric)
    needed = {"cost": [[0, 1, 0.3], [0.2, 0, 1], [0.5, 0.7, 0]]}
    chosen = ew.metrics.get(metric, **(needed if metric == "expected_cost" else {}))
    options = dict(scenario.options)
    if scenario.prior:
        options["prior"] = [0.6, 0.4] if classes == 2 else [0.5, 0.3, 0.2]
    return ew.EASTLoss(chosen, process_group=process_group, **options)


def network(classes: int) -> nn.Module:
    torch.manual_seed(classes)
    return nn.Linear(FEATURES, classes).double()


def batch(classes: int, scenario: Scenario, world: int, step: int) -> tuple[Tensor, ...]:
    """All rows of one step: what one process would hold."""
    generator = torch.Generator().manual_seed(100 * classes + step)
    inputs = torch.randn(ROWS, FEATURES, generator=generator, dtype=torch.float64)
    targets = torch.randint(classes, (ROWS,), generator=generator)
    targets[:classes] = targets[-classes:] = torch.arange(classes)
    weights = torch.rand(ROWS, generator=generator, dtype=torch.float64) + 0.1
    sizes = scenario.cuts(world)
    if scenario.first_without_positives:
        targets[: sizes[0]] = 0
    if scenario.last_ignored:
        targets[ROWS - sizes[-1] :] = IGNORED
    return inputs, targets, weights if scenario.weighted else None


def part(tensors: tuple[Tensor, ...], scenario: Scenario, world: int, rank: int) -> tuple:
    sizes = scenario.cuts(world)
    mine = slice(sum(sizes[:rank]), sum(sizes[: rank + 1]))
    return tuple(None if tensor is None else tensor[mine] for tensor in tensors)


def gradient(model: nn.Module) -> Tensor:
    return torch.cat([parameter.grad.flatten() for parameter in model.parameters()])


def one_process(metric: str, scenario: Scenario, world: int) -> tuple[float, Tensor]:
    """Loss and gradient of the last step by one process that holds all the data."""
    classes = num_classes(metric)
    model, loss = network(classes), make_loss(metric, scenario, process_group=None)
    for step in range(scenario.steps):
        model.zero_grad()
        inputs, targets, weights = batch(classes, scenario, world, step)
        value = loss(model(inputs), targets, weights)
        value.backward()
    return value.item(), gradient(model)


def run_processes(worker: Callable, world: int, *arguments) -> None:
    """Run ``worker(rank, world, address, *arguments)`` in real processes."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{probe.getsockname()[1]}"
    torch.multiprocessing.spawn(worker, args=(world, address, *arguments), nprocs=world)
