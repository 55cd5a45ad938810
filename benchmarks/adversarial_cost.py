"""What the adversarial F1 of AP-Perf costs beside ours: by batch size, and for an epoch of Mammography.

    EASTWARD_DATA=<folder of data sets> python -m benchmarks.adversarial_cost [--part batch|epoch] [--no-write]

Protocol. One thread; seconds are the processor time of the process, which other work on the machine hardly changes.
*Batch*: forward and backward of one batch of n logits, drawn from a normal distribution with standard deviation 0.5, a
fifth of the labels positive; the median over several batches. The exponent is the slope of log seconds against log n
over the batch sizes. *Epoch*: the network of *Bridging the Gap* (32-16-1) on the training rows (64 %) of
Mammography, Adam. The adversarial loss has its published batch of 20 and learning rate of 0.0003, ours once the same
and once the papers' batch of 2048 and rate of 0.001. Without EASTWARD_DATA the rows are generated: as many, with as
many columns and positives. The game is solved exactly by a linear program (HiGHS), and approximately by 100 steps of
ADMM, as published, whose single step has cubic cost, in NumPy and not by the authors' compiled code; of its epoch the
first 20 batches are measured and scaled.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import platform
import statistics
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy
import torch

import eastward as ew
from eastward.datasets import data_folder
from papers import data
from papers.networks import btg_network

RESULTS = Path(__file__).parents[1] / "results" / "adversarial_cost"
COMMAND = (
    "EASTWARD_DATA=<folder of data sets> OMP_NUM_THREADS=1 python -m benchmarks.adversarial_cost"
)
SIZES = (5, 10, 15, 20, 25, 30, 40)
GRID = tuple(round(0.1 * step, 1) for step in range(1, 10))
ADMM_BATCHES = 20
ROWS, COLUMNS, POSITIVE_RATE = 11_183, 6, 0.0232
Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def seconds(work: Callable[[], object]) -> float:
    begin = time.process_time()
    work()
    return time.process_time() - begin


def ours() -> ew.EASTLoss:
    return ew.EASTLoss("f1", threshold=GRID)


def adversarial(solver: str) -> ew.baselines.AdversarialFBetaLoss:
    return ew.baselines.AdversarialFBetaLoss(solver=solver, max_batch=max(SIZES))


def batch_seconds(loss: Loss, size: int, repeats: int) -> float:
    """Median over batches of one forward and backward pass."""
    times = []
    for seed in range(repeats + 1):
        generator = torch.Generator().manual_seed(seed)
        logits = 0.5 * torch.randn(size, generator=generator)
        targets = (torch.arange(size) % 5 == 0).long()
        logits.requires_grad_()
        times.append(seconds(lambda: loss(logits, targets).backward()))  # noqa: B023 - called at once
    return statistics.median(times[1:])  # the first batch of a size also sets up its constraints


def cost_by_batch(repeats: int) -> dict[str, Any]:
    rows = [
        {
            "size": size,
            "exact": batch_seconds(adversarial("exact"), size, repeats),
            "admm": batch_seconds(adversarial("admm"), size, max(1, repeats // 2)),
            "ours": batch_seconds(ours(), size, 20 * repeats),
        }
        for size in SIZES
    ]
    return {"rows": rows}


def exponent(rows: list[dict[str, Any]], name: str, smallest: int) -> float:
    """Slope of log seconds against log batch size, from the smallest that counts."""
    large = [row for row in rows if row["size"] >= smallest]
    sizes, times = ([math.log(row[key]) for row in large] for key in ("size", name))
    return float(np.polyfit(sizes, times, 1)[0])


def mammography() -> tuple[torch.Tensor, torch.Tensor, str]:
    """Training rows, and where they come from."""
    folder = data_folder()
    if folder is None:
        random = np.random.default_rng(0)
        targets = (np.arange(ROWS) < POSITIVE_RATE * ROWS).astype(np.int64)
        features = random.standard_normal((ROWS, COLUMNS)) + targets[:, None]
        source = "generated, in the shape of Mammography"
    else:
        table = data.load("mammography", folder)
        features, targets, source = table.features, table.targets, "Mammography"
    order = np.random.default_rng(0).permutation(len(targets))[: round(0.64 * len(targets))]
    inputs = torch.as_tensor(np.asarray(features)[order], dtype=torch.float32)
    inputs = (inputs - inputs.mean(0)) / inputs.std(0)
    return inputs, torch.as_tensor(np.asarray(targets)[order]).long(), source


def batches(count: int, size: int, seed: int) -> Iterator[torch.Tensor]:
    order = torch.randperm(count, generator=torch.Generator().manual_seed(seed))
    yield from order.split(size)


def epoch_seconds(
    loss: Loss, size: int, rate: float, epochs: int, most_batches: int | None = None
) -> list[float]:
    """Processor time of each of the first epochs; of a part of it, scaled, where ``most_batches`` says so."""
    inputs, targets, _ = mammography()
    torch.manual_seed(0)
    network = btg_network(inputs.shape[1])
    optimizer = torch.optim.Adam(network.parameters(), lr=rate)

    count = -(-len(targets) // size)
    taken = min(count, most_batches or count)

    def epoch(seed: int) -> None:
        for rows in itertools.islice(batches(len(targets), size, seed), taken):
            optimizer.zero_grad()
            loss(network(inputs[rows]), targets[rows]).backward()
            optimizer.step()

    return [seconds(lambda seed=seed: epoch(seed)) * count / taken for seed in range(epochs)]


def cost_of_epochs() -> dict[str, Any]:
    inputs, targets, source = mammography()
    methods = {
        "adversarial, exact, batch 20": (adversarial("exact"), 20, 3e-4, 1, None),
        "adversarial, ADMM, batch 20": (adversarial("admm"), 20, 3e-4, 1, ADMM_BATCHES),
        "ours, batch 20": (ours(), 20, 3e-4, 4, None),
        "ours, batch 2048": (ours(), 2048, 1e-3, 12, None),
    }
    found = {}
    for name, (loss, size, rate, epochs, most_batches) in methods.items():
        times = epoch_seconds(loss, size, rate, epochs, most_batches)
        # an epoch to warm up, where there are enough
        found[name] = statistics.median(times[1:]) if epochs > 2 else statistics.mean(times)
        print(f"{name}: {found[name]:.3f} s an epoch", flush=True)
    return {
        "source": source,
        "rows": len(targets),
        "columns": inputs.shape[1],
        "positive": int(targets.sum()),
        "seconds": found,
    }


def rendered(results: dict[str, Any]) -> str:
    lines = ["# What the adversarial F1 costs", ""]
    if "batch" in results:
        lines += [
            "Seconds for one batch, forward and backward:",
            "",
            "| batch | adversarial, exact | adversarial, ADMM | ours | exact / ours | ADMM / ours |",
            "|---|---|---|---|---|---|",
        ]
        for row in results["batch"]["rows"]:
            exact, admm, own = row["exact"], row["admm"], row["ours"]
            lines.append(
                f"| {row['size']} | {exact:.4f} | {admm:.4f} | {own:.5f} "
                f"| {exact / own:,.0f} | {admm / own:,.0f} |"
            )
        lines.append("")
        for smallest in (10, 20):
            powers = [
                exponent(results["batch"]["rows"], name, smallest) for name in ("exact", "admm")
            ]
            lines.append(
                f"From {smallest} on the cost grows with the batch size to the power "
                f"{powers[0]:.1f} (exact) and {powers[1]:.1f} (ADMM)."
            )
        lines.append("")
    if "epoch" in results:
        part = results["epoch"]
        exact = part["seconds"]["adversarial, exact, batch 20"]
        admm = part["seconds"]["adversarial, ADMM, batch 20"]
        lines += [
            f"Seconds for one epoch, {part['source']}, {part['rows']:,} training rows:",
            "",
            "| method | seconds | exact takes | ADMM takes |",
            "|---|---|---|---|",
        ]
        for name, value in part["seconds"].items():
            lines.append(
                f"| {name} | {value:.3f} | {exact / value:,.1f} x | {admm / value:,.1f} x |"
            )
        lines += [
            "",
            "The papers: a median of 70 minutes against 2.3 for whole trainings on four tables, 30 times as long.",
            "",
        ]
    protocol = " ".join((__doc__ or "").split("Protocol. ")[1].split())
    lines += [
        textwrap.fill(f"Protocol: {protocol}", 120),
        "",
        f"{results['versions']}. Regenerate with",
        "",
        f"    {COMMAND}",
        "",
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description="cost of the adversarial F1")
    parser.add_argument("--part", choices=("batch", "epoch"), help="only one of the two")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--no-write", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    path = RESULTS / "results.json"
    results: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    if options.part != "epoch":
        results["batch"] = cost_by_batch(options.repeats)
    if options.part != "batch":
        results["epoch"] = cost_of_epochs()
    versions = (
        f"Python {platform.python_version()}, torch {torch.__version__}, scipy {scipy.__version__}"
    )
    results["versions"] = versions
    print(rendered(results))
    if not options.no_write:
        RESULTS.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(results, indent=1) + "\n")
        (RESULTS / "README.md").write_text(rendered(results))


if __name__ == "__main__":
    main()
