"""What a loss costs: time and memory of forward + backward, as a ratio to ``F.cross_entropy``.

    python benchmarks/loss_cost.py [--rounds 30] [--metric f1_macro] [--quick]

Time: every variant runs once per round, in random order, inside one process with one thread; the table shows the
median over rounds of the ratio to cross-entropy in the same round. The allocator is warmed by a few rounds that
are not counted. Memory: the largest tensor and the bytes allocated by one forward + backward, in units of the
logits; a loss that needs only diagonal and margins must never build a d x d matrix.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

import eastward as ew

SIZES = [
    (256, 2),
    (1024, 2),
    (8192, 2),
    (128, 10),
    (1024, 10),
    (8192, 10),
    (256, 257),
    (1024, 1000),
    (4096, 1000),
]
MEMORY_SIZES = [(8192, 10), (4096, 1000), (1024, 10_000)]


def soft_f1(logits: Tensor, targets: Tensor) -> Tensor:
    """The plain soft macro-F1 that people write by hand, for scale."""
    p = torch.softmax(logits, 1)
    truth = functional.one_hot(targets, logits.shape[1]).to(p)
    tp = (p * truth).sum(0)
    return 1 - (2 * tp / (p.sum(0) + truth.sum(0)).clamp_min(1e-8)).mean()


def variants(metric: str) -> dict[str, Callable[[Tensor, Tensor], Tensor]]:
    return {
        "cross-entropy": functional.cross_entropy,
        "EASTLoss": ew.EASTLoss(metric),
        "EASTLoss, unchecked": ew.EASTLoss(metric, check_inputs=False),
        "soft F1 by hand": soft_f1,
    }


def seconds(loss: Callable[[Tensor, Tensor], Tensor], logits: Tensor, targets: Tensor) -> float:
    logits.grad = None
    started = time.perf_counter()
    loss(logits, targets).backward()
    return time.perf_counter() - started


def ratios(size: tuple[int, int], metric: str, rounds: int) -> dict[str, float]:
    logits = torch.randn(size, requires_grad=True)
    targets = torch.randint(size[1], (size[0],))
    losses = variants(metric)
    per_round: dict[str, list[float]] = {name: [] for name in losses}
    shuffled = list(losses)
    for index in range(rounds + 3):
        random.shuffle(shuffled)
        taken = {name: seconds(losses[name], logits, targets) for name in shuffled}
        if index >= 3:
            for name, value in taken.items():
                per_round[name].append(value / taken["cross-entropy"])
    return {name: statistics.median(values) for name, values in per_round.items()}


class Allocations(TorchDispatchMode):
    """Records the sizes of all tensors that operations produce."""

    def __init__(self) -> None:
        super().__init__()
        self.largest = 0
        self.storages: dict[int, int] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for item in result if isinstance(result, (tuple, list)) else (result,):
            if isinstance(item, Tensor):
                self.largest = max(self.largest, item.numel())
                storage = item.untyped_storage()
                self.storages[storage.data_ptr()] = storage.nbytes()
        return result


def memory(size: tuple[int, int], metric: str) -> tuple[float, float]:
    """Largest tensor in units of N*d elements, and in units of d*d."""
    logits = torch.randn(size, requires_grad=True)
    targets = torch.randint(size[1], (size[0],))
    with Allocations() as seen:
        ew.EASTLoss(metric)(logits, targets).backward()
    return seen.largest / logits.numel(), seen.largest / size[1] ** 2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--metric", default="f1_macro")
    parser.add_argument("--quick", action="store_true", help="small sizes and few rounds")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    random.seed(0)
    sizes, rounds = (SIZES[:4], 5) if options.quick else (SIZES, options.rounds)
    names = list(variants(options.metric))[1:]
    print(
        f"forward + backward, ratio to F.cross_entropy; {options.metric}, 1 thread, torch {torch.__version__}"
    )
    print(f"{'N x d':>12}  " + "  ".join(f"{name:>20}" for name in names))
    for size in sizes:
        found = ratios(
            size, options.metric, rounds if size[0] * size[1] < 10**6 else rounds // 3 + 1
        )
        print(
            f"{size[0]:>6} x {size[1]:<5}" + "  ".join(f"{found[name]:>20.2f}" for name in names),
            flush=True,
        )
    print("\nlargest tensor made by one forward + backward of EASTLoss")
    for size in MEMORY_SIZES[: 1 if options.quick else None]:
        per_logits, per_square = memory(size, options.metric)
        print(f"{size[0]:>6} x {size[1]:<6} {per_logits:.2f} x N*d = {per_square:.3f} x d*d")
        assert per_logits <= 1.01, "a tensor larger than the logits was built"


if __name__ == "__main__":
    main()
