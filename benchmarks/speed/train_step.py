"""A whole training step, EAST against cross-entropy, with a control that shows the noise.

    python -m benchmarks.speed.train_step [--seconds 12] [--no-write]

The 512-256-128 network on 30 features with AdamW, one thread. Variants alternate in random order in one process, each
on a network of its own; the tables show the median over rounds of the ratio to cross-entropy in the same round, in
processor time of the one thread. "Cross-entropy again" is a second network trained in the same way: whatever it
differs by is noise.

Training takes one step after the other with the same loss: in the first table twenty steps of a variant follow each
other, and their median counts. In the second every step is that of another variant, so that the code of each has left
the caches when its turn comes.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.speed.loss_cost import East

RESULTS = Path(__file__).parents[2] / "results" / "train_step"
CASES = [(128, 2), (128, 10), (1024, 2), (1024, 10)]
BARS = {"eager": {128: 1.25, 1024: 1.10}, "numba": {128: 1.05, 1024: 1.02}}
CONTROL = "cross-entropy again"
BLOCKS = {"20": "Twenty steps in a row", "1": "Single steps in turn"}


def network(size: int) -> nn.Module:
    widths = [30, 512, 256, 128, size]
    layers: list[nn.Module] = []
    for a, b in pairwise(widths):
        layers += [nn.Linear(a, b), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


class Trained:
    """A network, its optimiser and its loss."""

    def __init__(self, size: int, loss: Callable[[Tensor, Tensor], Tensor]) -> None:
        torch.manual_seed(0)
        self.network, self.loss = network(size), loss
        self.optimizer = torch.optim.AdamW(self.network.parameters(), fused=True)

    def step(self, inputs: Tensor, targets: Tensor) -> float:
        """Processor time of one step."""
        if isinstance(self.loss, East):
            self.loss.choose()
        started = time.thread_time()
        self.optimizer.zero_grad()
        self.loss(self.network(inputs), targets).backward()
        self.optimizer.step()
        return time.thread_time() - started


def measure(rows: int, size: int, budget: float, block: int) -> dict[str, Any]:
    losses = {
        "cross-entropy": functional.cross_entropy,
        CONTROL: functional.cross_entropy,
        **{kernel: East(kernel) for kernel in ("definition", "eager", "numba")},
    }
    trained = {name: Trained(size, loss) for name, loss in losses.items()}
    inputs, targets = torch.randn(rows, 30), torch.randint(size, (rows,))
    taken: dict[str, list[float]] = {name: [] for name in losses}
    order, warm, ends = list(losses), 3, 0.0
    while warm or time.perf_counter() < ends:
        random.shuffle(order)
        found = {
            name: statistics.median(trained[name].step(inputs, targets) for _ in range(block))
            for name in order
        }
        if warm:
            warm, ends = warm - 1, time.perf_counter() + budget
            continue
        for name, value in found.items():
            taken[name].append(value)
    base = taken["cross-entropy"]
    ratio = {
        name: statistics.median(a / b for a, b in zip(values, base, strict=True))
        for name, values in taken.items()
    }
    return {"milliseconds": 1e3 * statistics.median(base), "rounds": len(base), "ratio": ratio}


def table(found: dict[str, Any]) -> list[str]:
    head = "| batch × d | cross-entropy, ms | cross-entropy again | definition | eager (bar) | numba (bar) |"
    lines = [head, "|---|---|---|---|---|---|"]
    for rows, size in CASES:
        row = found[f"{rows}x{size}"]
        cells = [f"{rows} × {size}", f"{row['milliseconds']:.2f}"]
        cells += [f"{100 * (row['ratio'][name] - 1):+.1f} %" for name in (CONTROL, "definition")]
        for kernel in ("eager", "numba"):
            value, bar = row["ratio"][kernel], BARS[kernel][rows]
            verdict = "≤" if value <= bar else "**>**"
            cells.append(f"{100 * (value - 1):+.1f} % ({verdict} {100 * (bar - 1):.0f} %)")
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=12.0, help="for each case")
    parser.add_argument("--no-write", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    random.seed(0)
    before = os.getloadavg()[0]
    found = {
        block: {
            f"{rows}x{size}": measure(rows, size, options.seconds, int(block))
            for rows, size in CASES
        }
        for block in BLOCKS
    }
    lines = []
    for block, title in BLOCKS.items():
        lines += [f"{title}:", "", *table(found[block]), ""]
    print("\n".join(lines))
    if options.no_write:
        return
    RESULTS.mkdir(parents=True, exist_ok=True)
    load = [before, os.getloadavg()[0]]
    record = {"load": load, "cases": found}
    (RESULTS / "results.json").write_text(json.dumps(record, indent=1) + "\n")
    text = [
        "# A training step with the loss",
        "",
        "`python -m benchmarks.speed.train_step` writes this page. AdamW, 30-512-256-128-d, one thread, macro-F1;",
        "change of the processor time of a step against cross-entropy; the control shows the noise. Load of the",
        f"machine (2 cores, {torch.backends.cpu.get_cpu_capability()}) before and after: {load[0]:.1f}, {load[1]:.1f}.",
        "",
        *lines[:-1],
        "",
    ]
    (RESULTS / "README.md").write_text("\n".join(text))


if __name__ == "__main__":
    main()
