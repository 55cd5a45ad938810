"""What the exact loss adds to a step of DistributedDataParallel: bytes on the wire, and time.

    python -m benchmarks.speed.ddp [--repetitions 300] [--classes 2 10 100] [--no-write]

Protocol. Two processes with one thread each, gloo, one machine. The network is 30-512-256-128-d; a batch is 1024 rows
for each process. For each number of classes d: the time of a plain step (forward, cross-entropy, backward with the
averaging of gradients, AdamW); the time of the sums over processes that a step of ``EASTLoss`` asks for, with a metric
that needs margins (F1) and one that needs the matrix (weighted kappa); the time of gathering all logits instead, with
its backward pass; and, as the floor below all of these, that of two sums of one number. What is sent is noted while
the loss runs, and sent again with a clock beside it; bytes are counted there, too. They take turns in random order, the
two processes meet before each, and medians are those of the slower one: a message of a few bytes takes half a
millisecond or two, for seconds on end, as the machine happens to wake processes.
Rows of results that are there already are kept, so that numbers of classes can be measured one at a time.
"""

from __future__ import annotations

import argparse
import json
import random
import socket
import statistics
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

import eastward as ew

RESULTS = Path(__file__).parents[2] / "results" / "ddp"
COMMAND = "python -m benchmarks.speed.ddp"
WORLD, BATCH, FEATURES, BAR = 2, 1024, 30, 0.05
CLASSES = (2, 10, 100, 1000, 10_000)
# A matrix of more classes than this takes hundreds of megabytes, which nobody would send.
LARGEST_MATRIX = 1000
FLOAT = 4
MARGINS, MATRIX = "f1_macro", "cohen_kappa_linear"


def median_times(actions: dict[str, Callable[[], None]], repetitions: int) -> dict[str, float]:
    """Seconds of each action, of the slower process in each repetition; actions take turns in random order."""
    order, turns = list(actions), random.Random(0)  # noqa: S311 - the same in both processes
    times: dict[str, list[float]] = {name: [] for name in actions}
    for action in actions.values():
        action()
    for _ in range(repetitions):
        turns.shuffle(order)
        for name in order:
            dist.barrier()
            started = time.perf_counter()
            actions[name]()
            spent = torch.tensor([time.perf_counter() - started], dtype=torch.float64)
            dist.all_reduce(spent, op=dist.ReduceOp.MAX)
            times[name].append(float(spent))
    return {name: statistics.median(found) for name, found in times.items()}


def network(classes: int) -> nn.Module:
    widths = (FEATURES, 512, 256, 128)
    hidden = [(nn.Linear(a, b), nn.ReLU(), nn.Dropout(0.25)) for a, b in pairwise(widths)]
    return nn.Sequential(*(layer for part in hidden for layer in part), nn.Linear(128, classes))


def plain_step(classes: int) -> Callable[[], None]:
    torch.manual_seed(0)
    model = DistributedDataParallel(network(classes))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    inputs, targets = torch.randn(BATCH, FEATURES), torch.randint(classes, (BATCH,))

    def step() -> None:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), targets).backward()
        optimizer.step()

    return step


def messages(metric: str, classes: int) -> list[Tensor]:
    """What a step of the loss sums over processes, forward and backward."""
    sent: list[Tensor] = []
    send = dist.all_reduce

    def noted(tensor: Tensor, *arguments: Any, **options: Any) -> Any:
        sent.append(tensor.clone())
        return send(tensor, *arguments, **options)

    dist.all_reduce = noted  # type: ignore[assignment]
    try:
        logits = torch.randn(BATCH, classes, requires_grad=True)
        ew.EASTLoss(metric)(logits, torch.randint(classes, (BATCH,))).backward()
    finally:
        dist.all_reduce = send
    return sent


def sent_again(tensors: list[Tensor]) -> Callable[[], None]:
    def action() -> None:
        for tensor in tensors:
            dist.all_reduce(tensor)

    return action


def volume(tensors: list[Tensor]) -> int:
    return sum(tensor.nbytes for tensor in tensors)


class _Gathered(torch.autograd.Function):
    """All logits in every process: what a loss does that knows no tables."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor) -> Tensor:
        parts = [torch.empty_like(logits) for _ in range(WORLD)]
        dist.all_gather(parts, logits.detach())
        ctx.rows = len(logits)
        return torch.cat(parts)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        whole = gradient.clone()
        dist.all_reduce(whole)
        return whole[dist.get_rank() * ctx.rows :][: ctx.rows]


def gathered(classes: int) -> Callable[[], None]:
    logits = torch.rand(BATCH, classes, requires_grad=True)
    slope = torch.rand(WORLD * BATCH, classes)

    def action() -> None:
        _Gathered.apply(logits).backward(slope)

    return action


def worker(rank: int, port: int, repetitions: int, path: str, chosen: list[int]) -> None:
    torch.set_num_threads(1)
    address = f"tcp://127.0.0.1:{port}"
    dist.init_process_group("gloo", init_method=address, rank=rank, world_size=WORLD)
    rows = [row_of(classes, repetitions) for classes in chosen]
    if rank == 0:
        Path(path).write_text(json.dumps(rows))
    dist.destroy_process_group()


def row_of(classes: int, repetitions: int) -> dict[str, Any]:
    margins = messages(MARGINS, classes)
    actions = {
        "step": plain_step(classes),
        "margins": sent_again(margins),
        "logits": gathered(classes),
        "floor": sent_again([torch.zeros(1), torch.zeros(1)]),
    }
    row: dict[str, Any] = {
        "classes": classes,
        "repetitions": repetitions,
        # there and back
        "margins_bytes": volume(margins),
        "matrix_bytes": 8 * classes**2 + FLOAT,
        "logits_bytes": 2 * WORLD * BATCH * classes * FLOAT,
        "gradient_bytes": FLOAT * sum(p.numel() for p in network(classes).parameters()),
    }
    if classes <= LARGEST_MATRIX:
        matrix = messages(MATRIX, classes)
        actions["matrix"] = sent_again(matrix)
        row["matrix_bytes"] = volume(matrix)
    return row | median_times(actions, repetitions)


def shown(row: dict[str, Any]) -> str:
    def added(name: str) -> str:
        seconds = row.get(name)
        return (
            "–"
            if seconds is None
            else f"{1e3 * seconds:.2f} ms, {100 * seconds / row['step']:.1f} %"
        )

    cells = [
        f"{row['classes']:,}",
        f"{1e3 * row['step']:.1f} ms",
        f"{1e3 * row['floor']:.2f} ms" if "floor" in row else "–",
        added("margins"),
        added("matrix"),
        added("logits"),
        f"{row['margins_bytes']:,} / {row['matrix_bytes']:,} / {row['logits_bytes']:,}",
        f"{row['logits_bytes'] / row['margins_bytes']:.0f}",
        f"{row['repetitions']}",
    ]
    return "| " + " | ".join(cells) + " |"


def write(new: list[dict[str, Any]]) -> None:
    RESULTS.mkdir(parents=True, exist_ok=True)
    path = RESULTS / "results.json"
    kept = {row["classes"]: row for row in (json.loads(path.read_text()) if path.exists() else [])}
    kept.update({row["classes"]: row for row in new})
    rows = [kept[classes] for classes in sorted(kept)]
    path.write_text(json.dumps(rows, indent=1))
    head = [
        "classes",
        "plain step",
        "two numbers",
        "margins added",
        "matrix added",
        "all logits added",
    ]
    head += ["bytes: margins / matrix / logits", "logits / margins", "repetitions"]
    lines = [
        "# What the exact loss adds to a step of DistributedDataParallel",
        "",
        f"Made by `{COMMAND}`; the protocol stands at the top of that file.",
        "Bytes are what one process hands over in a step, there and back.",
        "",
        "| " + " | ".join(head) + " |",
        "|---" * len(head) + "|",
        *map(shown, rows),
    ]
    (RESULTS / "README.md").write_text("\n".join(lines) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=300)
    parser.add_argument("--classes", type=int, nargs="+", default=list(CLASSES))
    parser.add_argument("--no-write", action="store_true")
    given = parser.parse_args()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.json"
        arguments = (port, given.repetitions, str(path), given.classes)
        torch.multiprocessing.spawn(worker, args=arguments, nprocs=WORLD)
        rows = json.loads(path.read_text())
    print("\n".join(map(shown, rows)))
    if not given.no_write:
        write(rows)


if __name__ == "__main__":
    main()
