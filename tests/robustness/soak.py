"""Many training steps of every kind of loss in one process: memory must not grow with their number.

As a program it takes 100 000 steps and writes the memory after each tenth of them::

    python tests/robustness/soak.py --steps 100000 --out results/robustness/soak.json
"""

from __future__ import annotations

import argparse
import gc
import json
import time
from collections.abc import Callable
from pathlib import Path

import torch

import eastward as ew

ROWS, INPUTS, CLASSES = 64, 8, 4


def resident_megabytes() -> float:
    """Memory of this process that is in use, as Linux counts it."""
    text = Path("/proc/self/status").read_text(encoding="ascii")
    [line] = [line for line in text.splitlines() if line.startswith("VmRSS")]
    return int(line.split()[1]) / 1024


def steps() -> list[Callable[[], None]]:
    """One training step of each kind, with a network, an optimiser and a schedule of its own."""
    losses = {
        "macro F1": ew.EASTLoss("f1_macro"),
        "MCC, running": ew.EASTLoss("matthews_corrcoef", running=0.9),
        "cost": ew.EASTLoss(ew.metrics.get("expected_cost", cost=1 - torch.eye(CLASSES))),
        "prior": ew.EASTLoss("balanced_accuracy", prior=[0.1, 0.2, 0.3, 0.4]),
        "own metric": ew.EASTLoss(lambda table: table.diagonal().sum() / table.sum()),
        "bounded": ew.EASTLoss("f1_macro", subject_to="recall[1] >= 0.8"),
        "labels": ew.EASTLoss("f1_macro", multilabel=True),
        "AUROC": ew.AUROCLoss(thresholds=10),
        "focal": ew.baselines.FocalLoss(),
    }
    return [_step(loss, multilabel=name == "labels") for name, loss in losses.items()] + [_exact()]


def _step(loss: torch.nn.Module, *, multilabel: bool) -> Callable[[], None]:
    network = torch.nn.Sequential(
        torch.nn.Linear(INPUTS, 16), torch.nn.ReLU(), torch.nn.Linear(16, CLASSES)
    )
    optimizer = torch.optim.Adam(network.parameters())
    cooling = ew.annealing.PlateauCooling()

    def step() -> None:
        shape = (ROWS, CLASSES) if multilabel else (ROWS,)
        targets = torch.randint(2 if multilabel else CLASSES, shape)
        value = loss(network(torch.randn(ROWS, INPUTS)), targets)
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        if isinstance(loss, ew.EASTLoss) and not cooling.finished:
            loss.temperature = cooling.step(value.item())

    return step


def _exact() -> Callable[[], None]:
    network, loss = torch.nn.Linear(INPUTS, CLASSES), ew.EASTLoss("f1_macro")
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01)

    def step() -> None:
        parts = [
            (torch.randn(ROWS // 2, INPUTS), torch.randint(CLASSES, (ROWS // 2,))) for _ in range(2)
        ]
        optimizer.zero_grad()
        ew.exact_backward(loss, network, parts)
        optimizer.step()

    return step


def soak(count: int) -> dict[str, object]:
    """Take this many steps, all kinds in turn; return the memory after each tenth of them."""
    torch.manual_seed(0)
    kinds, started, seen = steps(), time.monotonic(), []
    for tenth in range(10):
        for number in range(tenth * count // 10, (tenth + 1) * count // 10):
            kinds[number % len(kinds)]()
        gc.collect()
        seen.append({"megabytes": round(resident_megabytes(), 1), "objects": len(gc.get_objects())})
    return {
        "steps": count,
        "kinds": len(kinds),
        "seconds": round(time.monotonic() - started),
        "seen": seen,
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(1)
    found = soak(given.steps)
    if given.out is not None:
        given.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(found))
