"""How well a batch stands for the data: bias and variance of the gradient, and the metric after training.

    EASTWARD_DATA=DIR python -m benchmarks.batch_size [--minutes 4] [--report]

Three binary data sets of falling positive rate (Adult 25 %, Mammography 2.3 %, credit card 0.17 %), F1 of the positive
class, temperature 0.2, network F-64-2 without dropout, half of the rows for training. All modes start from the same
network, trained with cross-entropy for two epochs.

Modes, for batches of B rows:
plain    the loss of the batch.
running  metric and derivative at a decayed table of past batches; decay 1 - B / 8192, between 0 and 0.99.
prior    batches with as many positives as negatives, corrected by the class distribution (``prior=``).
exact    micro-batches of B rows, one step for 8192 of them (``exact_backward``): one step costs 8192 rows.

Gradient, at the starting network: bias is the distance between the mean gradient of 200 batches and the gradient of all
training rows, noise the root of their mean squared distance from their own mean, both in units of the length of the
latter; the bias of a mean of 200 is itself noise of size noise / 14. Training: AdamW, learning rate 0.001, 500 steps
whatever the batch; F1 on the other half, two seeds. Where 20 passes over the data are over before that, F1 at that
point is noted as well: a large batch has fewer steps for the same work. "full" is all training rows in every step, for
which the modes are one.

Cells are kept in results/batch_size/cells.jsonl; the command goes on where it stopped, and ``--report`` writes the
table.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import eastward as ew
from eastward.training import StratifiedBatches
from papers.data import load

RESULTS = Path(__file__).parents[1] / "results" / "batch_size"
CELLS = RESULTS / "cells.jsonl"
COMMAND = "EASTWARD_DATA=DIR python -m benchmarks.batch_size"
SETS = {"adult": "Adult", "mammography": "Mammography", "credit_card": "credit card"}
SIZES = (16, 64, 256, 1024, 4096)
MODES = ("plain", "running", "prior", "exact")
FULL = 0
EFFECTIVE, BATCHES, STEPS, PASSES, SEEDS = 8192, 200, 500, 20, (0, 1)


@cache
def data(name: str) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Scaled inputs and labels, for training and for testing."""
    table = load(name)
    features, labels = np.asarray(table.features, np.float32), np.asarray(table.targets)
    labels = (labels == np.unique(labels)[np.argmin(np.unique(labels, return_counts=True)[1])]) * 1
    order = np.random.default_rng(0).permutation(len(labels))
    half = len(order) // 2
    train, test = order[:half], order[half:]
    mean, scale = features[train].mean(0), features[train].std(0) + 1e-6
    X = torch.from_numpy(np.clip((features - mean) / scale, -10, 10).astype(np.float32))
    y = torch.from_numpy(labels.astype(np.int64))
    return X[train], y[train], X[test], y[test]


def network(features: int) -> nn.Module:
    return nn.Sequential(nn.Linear(features, 64), nn.ReLU(), nn.Linear(64, 2))


@cache
def start(name: str, seed: int) -> dict[str, Tensor]:
    """The network after two epochs of cross-entropy."""
    X, y, _, _ = data(name)
    torch.manual_seed(seed)
    model = network(X.shape[1])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(2):
        for rows in torch.randperm(len(y)).split(256):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(X[rows]), y[rows]).backward()
            optimizer.step()
    return {key: value.clone() for key, value in model.state_dict().items()}


def started(name: str, seed: int) -> nn.Module:
    model = network(data(name)[0].shape[1])
    model.load_state_dict(start(name, seed))
    return model


def make_loss(mode: str, size: int, y: Tensor) -> ew.EASTLoss:
    options: dict[str, Any] = {"check_inputs": False}
    if mode == "running":
        options["running"] = min(0.99, max(0.0, 1 - size / EFFECTIVE))
    if mode == "prior":
        share = float(y.float().mean())
        options["prior"] = [1 - share, share]
    return ew.EASTLoss("f1", **options)


def batches(mode: str, size: int, y: Tensor, seed: int) -> Iterator[Tensor]:
    """Rows of one batch after the other, without end."""
    generator = torch.Generator().manual_seed(seed)
    every = torch.arange(len(y))
    if mode == "prior":
        source = StratifiedBatches([every], y, 2, size)
        while True:
            for rows in source.epoch(generator):
                yield rows[0]
    rows_per_step = min(len(y), EFFECTIVE if mode == "exact" else size or len(y))
    while True:
        order = torch.randperm(len(y), generator=generator)
        yield from (rows for rows in order.split(rows_per_step) if len(rows) == rows_per_step)


def backward(
    mode: str, loss: ew.EASTLoss, model: nn.Module, X: Tensor, y: Tensor, size: int
) -> None:
    if mode == "exact":
        ew.exact_backward(loss, model, zip(X.split(size), y.split(size), strict=True))
    else:
        loss(model(X), y).backward()


def flat_gradient(model: nn.Module) -> Tensor:
    return torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])


def gradients(name: str, mode: str, size: int) -> dict[str, float]:
    """Bias and noise of the gradient at the starting network."""
    X, y, _, _ = data(name)
    model = started(name, 0)
    make_loss("plain", size, y)(model(X), y).backward()
    whole = flat_gradient(model)
    loss, found = make_loss(mode, size, y), []
    # A running table has to fill up; the mode "exact" needs fewer batches, its noise is that of 8192 rows.
    warm = 100 if mode == "running" else 0
    count = 40 if mode == "exact" else BATCHES
    for number, rows in enumerate(batches(mode, size, y, seed=1)):
        if number == warm + count:
            break
        model.zero_grad()
        backward(mode, loss, model, X[rows], y[rows], size)
        if number >= warm:
            found.append(flat_gradient(model))
    stack = torch.stack(found)
    mean = stack.mean(0)
    length = whole.norm()
    noise = (stack - mean).square().sum(1).mean().sqrt() / length
    cosine = torch.nn.functional.cosine_similarity(mean, whole, dim=0)
    return {
        "bias": float((mean - whole).norm() / length),
        "noise": float(noise),
        "cosine": float(cosine),
    }


def score(model: nn.Module, X: Tensor, y: Tensor) -> float:
    with torch.no_grad():
        predicted = model(X).argmax(1)
    tp, wrong = int(((predicted == 1) & (y == 1)).sum()), int((predicted != y).sum())
    return 2 * tp / (2 * tp + wrong) if tp else 0.0


def trained(name: str, mode: str, size: int, seed: int) -> dict[str, float]:
    """F1 on the other half of the data after training."""
    X, y, X_test, y_test = data(name)
    model, loss = started(name, seed), make_loss(mode, size, y)
    found = {"before": score(model, X_test, y_test)}
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    clock, seen = time.perf_counter(), 0
    for rows in islice(batches(mode, size, y, seed=seed + 10), STEPS):
        if seen >= PASSES * len(y) and "f1_passes" not in found:
            found["f1_passes"] = score(model, X_test, y_test)
        optimizer.zero_grad()
        backward(mode, loss, model, X[rows], y[rows], size)
        optimizer.step()
        seen += len(rows)
    found["f1"] = score(model, X_test, y_test)
    return {**found, "seconds": time.perf_counter() - clock}


def sizes(mode: str, *, training: bool) -> tuple[int, ...]:
    """Rows in a batch; with all of them there is nothing to measure about the gradient."""
    if mode == "exact":
        return (256,)
    return (*SIZES, FULL) if training and mode == "plain" else SIZES


def wanted() -> Iterator[dict[str, Any]]:
    for name in ("mammography", "credit_card", "adult"):
        for mode in MODES:
            for size in sizes(mode, training=False):
                yield {"kind": "gradient", "data": name, "mode": mode, "size": size}
    for seed in SEEDS:
        for name in ("mammography", "credit_card", "adult"):
            for mode in MODES:
                for size in sizes(mode, training=True):
                    yield {
                        "kind": "training",
                        "data": name,
                        "mode": mode,
                        "size": size,
                        "seed": seed,
                    }


def measure(cell: dict[str, Any]) -> dict[str, Any]:
    torch.manual_seed(0)
    if cell["kind"] == "gradient":
        return {**cell, **gradients(cell["data"], cell["mode"], cell["size"])}
    return {**cell, **trained(cell["data"], cell["mode"], cell["size"], cell["seed"])}


def kept() -> list[dict[str, Any]]:
    return [json.loads(line) for line in CELLS.read_text().splitlines()] if CELLS.exists() else []


def run(minutes: float) -> None:
    RESULTS.mkdir(parents=True, exist_ok=True)
    names = ("kind", "data", "mode", "size", "seed")
    done = {tuple(cell.get(name) for name in names) for cell in kept()}
    end = time.monotonic() + 60 * minutes
    for cell in wanted():
        if time.monotonic() > end:
            print("time is up; run it again to go on")
            return
        if tuple(cell.get(name) for name in names) not in done:
            with CELLS.open("a") as handle:
                handle.write(json.dumps(measure(cell)) + "\n")


def table(cells: list[dict[str, Any]], name: str, label: str) -> list[str]:
    mine = [cell for cell in cells if cell["data"] == name]
    trainings = [cell for cell in mine if cell["kind"] == "training"]
    start_score = np.mean([cell["before"] for cell in trainings]) if trainings else float("nan")
    rate = float(data(name)[1].float().mean())
    lines = [
        f"## {label}, {100 * rate:.2g} % positive",
        "",
        f"F1 of the start (cross-entropy, arg max): {start_score:.3f}.",
        "",
        "| mode | rows in a batch | bias | noise | cosine | F1 after 500 steps (each seed within) | after 20 passes |",
        "|---|---|---|---|---|---|---|",
    ]
    for mode in MODES:
        for size in sizes(mode, training=True):
            same = [cell for cell in mine if (cell["mode"], cell["size"]) == (mode, size)]
            lines.append(row(mode, size, same))
    return [*lines, ""]


def row(mode: str, size: int, cells: list[dict[str, Any]]) -> str:
    shown = "full" if size == FULL else f"{size}"
    shown += f", steps of {EFFECTIVE}" if mode == "exact" else ""
    slopes = [cell for cell in cells if cell["kind"] == "gradient"]
    numbers = (
        " | ".join(f"{slopes[0][key]:.2f}" for key in ("bias", "noise", "cosine"))
        if slopes
        else "0 | 0 | 1"
    )
    trainings = [cell for cell in cells if cell["kind"] == "training"]
    scores = [cell["f1"] for cell in trainings]
    early = [cell["f1_passes"] for cell in trainings if "f1_passes" in cell]
    reached = f"{np.mean(scores):.3f} ({min(scores):.3f} to {max(scores):.3f})" if scores else "–"
    return (
        f"| {mode} | {shown} | {numbers} | {reached} | {f'{np.mean(early):.3f}' if early else ''} |"
    )


def report() -> None:
    cells = kept()
    lines = [
        "# How well a batch stands for the data",
        "",
        f"Made by `{COMMAND}`; protocol there.",
        "",
    ]
    for name, label in SETS.items():
        lines += table(cells, name, label)
    (RESULTS / "README.md").write_text("\n".join(lines))
    print("\n".join(lines))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=4)
    parser.add_argument("--report", action="store_true")
    given = parser.parse_args()
    torch.set_num_threads(1)
    if not given.report:
        run(given.minutes)
    report()


if __name__ == "__main__":
    main()
