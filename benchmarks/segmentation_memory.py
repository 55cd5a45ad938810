"""Memory and time of one backward pass over a megapixel of logits with 21 classes, beside cross-entropy and Dice.

Run ``python benchmarks/segmentation_memory.py``; each loss runs in a process of its own, and what is printed is the
peak of the process above what it held with the logits (88 MB in float32) in memory.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time

CLASSES, SIDE = 21, 1024


def measure(name: str) -> None:
    import torch  # noqa: PLC0415 - in the child process only

    import eastward as ew  # noqa: PLC0415

    torch.set_num_threads(1)
    torch.manual_seed(0)

    def dice(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        truth = torch.nn.functional.one_hot(targets, CLASSES).movedim(-1, 1)
        guess = logits.softmax(1)
        overlap, mass = (truth * guess).sum((0, 2, 3)), (truth + guess).sum((0, 2, 3))
        return 1 - (2 * overlap / mass).mean()

    losses = {
        "cross-entropy": torch.nn.CrossEntropyLoss(),
        "Dice, as usually written": dice,
        "EASTLoss('jaccard_macro')": ew.EASTLoss("jaccard_macro"),
        "EASTLoss('jaccard_macro'), unchecked": ew.EASTLoss("jaccard_macro", check_inputs=False),
    }
    # A small call first: what is compiled or loaded once does not count.
    small = torch.randn(1, CLASSES, 8, 8, requires_grad=True)
    losses[name](small, torch.randint(CLASSES, (1, 8, 8))).backward()
    logits = torch.randn(1, CLASSES, SIDE, SIDE, requires_grad=True)
    targets = torch.randint(CLASSES, (1, SIDE, SIDE))
    held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.perf_counter()
    losses[name](logits, targets).backward()
    seconds = time.perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"| {name} | {(peak - held) / 1024:.0f} MB | {seconds:.2f} s |", flush=True)


def main() -> None:
    print(
        "| loss | peak above the logits | forward and backward, one core |\n|---|---|---|",
        flush=True,
    )
    for name in (
        "cross-entropy",
        "Dice, as usually written",
        "EASTLoss('jaccard_macro')",
        "EASTLoss('jaccard_macro'), unchecked",
    ):
        subprocess.run([sys.executable, __file__, name], check=True)  # noqa: S603 - this file


if __name__ == "__main__":
    if len(sys.argv) > 1:
        measure(sys.argv[1])
    else:
        main()
