"""What the loss costs: time and memory of forward + backward, beside ``F.cross_entropy`` and other packages' losses.

    python -m benchmarks.speed.loss_cost [--threads 1] [--allocator warm|default] [--only time|memory] [--seconds 6]

Time. Every variant runs once per round, in random order, inside one process; the table shows the median over rounds of
the ratio to cross-entropy in the same round, at default options (inputs are checked). With one thread it is the
processor time of that thread, which other programs disturb least; with more, time on the clock. With the ``warm``
allocator the process starts itself anew with ``MALLOC_MMAP_THRESHOLD_`` and ``MALLOC_TRIM_THRESHOLD_`` raised, so that
nobody pays for fresh pages. With the ``default`` one, which is what most programs have, cross-entropy makes three
arrays of the logits' size from fresh pages, and is up to three times slower on large ones. A few rounds that
are not counted warm everything else.

Memory. The high-water mark of a fresh process over forward and backward, gradient included, in units of the logits.

Peers from an own folder: ``PYTHONPATH=folder``; those that are absent are left out, and the result says so.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

import eastward as ew
from benchmarks.speed.loss_peers import absent, peers
from eastward.metrics import quotients
from eastward.metrics.averaged_quotients import fastest, in_arrays

RESULTS = Path(__file__).parents[2] / "results" / "loss_cost"
WARM = {"MALLOC_MMAP_THRESHOLD_": "4294967296", "MALLOC_TRIM_THRESHOLD_": "8589934592"}
KERNELS = ("eager", "numba")
# size: bar of the compiled kernel, where one was set
SIZES = {
    (256, 2): 2.5,
    (1024, 2): None,
    (128, 10): None,
    (1024, 10): 1.2,
    (256, 257): 2.0,
    (1024, 1000): 1.0,
    (1_000_000, 21): 1.5,
}
MEMORY = {(1_000_000, 21): {"numba": 2.0}, (4096, 1000): {"numba": 2.0}}
# What other losses may cost more than macro-F1, in microseconds, and where that is measured.
MORE, OTHERS_AT = 100, ((256, 2), (1024, 10))
CALLABLE_ALONE = "the callable's function alone, at a table"
# Quadratic in the rows, or in rows times classes: minutes for one call.
SLOW_PEERS = {"il recall@q": 300_000}

CHILD = textwrap.dedent(
    """
    import sys
    from pathlib import Path
    import torch
    import eastward as ew
    from torch.nn import functional

    def memory(field):
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))

    rows, size, name = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    torch.set_num_threads(1)
    loss = functional.cross_entropy if name == "cross-entropy" else ew.EASTLoss()
    def run(rows):
        logits = torch.randn(rows, size, requires_grad=True)
        targets = torch.randint(size, (rows,))
        Path("/proc/self/clear_refs").write_text("5")  # the high-water mark starts anew
        before = memory("VmRSS")
        loss(logits, targets).backward()
        return (memory("VmHWM") - before) / logits.nbytes
    run(16)  # what is loaded or compiled on first use does not count
    print(run(rows))
    """
)


class East:
    """The loss by one kernel."""

    def __init__(self, kernel: str) -> None:
        self.kernel, self.loss = kernel, ew.EASTLoss("f1_macro")

    def choose(self) -> None:
        """Outside the clock: who has one kernel sets no variable, and without numba no metric is compiled either."""
        os.environ["EASTWARD_KERNEL"] = self.kernel
        quotients.fastest = (lambda: in_arrays) if self.kernel == "eager" else fastest

    def __call__(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Loss of a batch."""
        return self.loss(logits, targets)


class Nothing(torch.autograd.Function):
    """A node that computes nothing: below its cost no loss written in Python can come."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, gradient: Tensor) -> Tensor:
        """Keep the gradient."""
        ctx.save_for_backward(logits)
        ctx.gradient = gradient
        return torch.empty(())

    @staticmethod
    def backward(ctx: Any, _: Tensor) -> tuple[Tensor, None]:
        """Hand it over."""
        found, ctx.gradient = ctx.gradient, None
        return found, None


def nothing(logits: Tensor, _: Tensor) -> Tensor:
    return Nothing.apply(logits, torch.empty_like(logits))


def seconds(loss: Callable[[Tensor, Tensor], Tensor], logits: Tensor, targets: Tensor) -> float:
    # Of this thread alone, where there is one: other programs on the machine do not count.
    clock = time.thread_time if torch.get_num_threads() == 1 else time.perf_counter
    logits.grad = None
    if isinstance(loss, East):
        loss.choose()
    started = clock()
    loss(logits, targets).backward()
    return clock() - started


def ratios(size: tuple[int, int], budget: float) -> dict[str, Any]:
    logits = torch.randn(size, requires_grad=True)
    targets = torch.randint(size[1], (size[0],))
    losses: dict[str, Any] = {"cross-entropy": functional.cross_entropy}
    losses |= {kernel: East(kernel) for kernel in KERNELS}
    losses["a node that does nothing"] = nothing
    losses |= {
        name: loss
        for name, loss in peers(size[1]).items()
        if size[0] * size[1] <= SLOW_PEERS.get(name, 10**9)
    }
    taken: dict[str, list[float]] = {name: [] for name in losses}
    order, warm, ends = list(losses), 2, time.perf_counter() + budget
    while warm or time.perf_counter() < ends or len(taken["eager"]) < 3:
        random.shuffle(order)
        found = {name: seconds(losses[name], logits, targets) for name in order}
        if warm:
            warm, ends = warm - 1, time.perf_counter() + budget
            continue
        for name, value in found.items():
            taken[name].append(value)
    base = taken["cross-entropy"]
    quick = statistics.median(base)
    each = {
        name: statistics.median(a / b for a, b in zip(values, base, strict=True))
        for name, values in taken.items()
    }
    least = {name: min(values) / min(base) for name, values in taken.items()}
    return {"microseconds": 1e6 * quick, "rounds": len(base), "ratio": each, "least": least}


def accuracy(confusion: Tensor) -> Tensor:
    """A function of a user's own."""
    return confusion.diagonal().sum() / confusion.sum()


def others(size: tuple[int, int], budget: float) -> dict[str, float]:
    """Microseconds that other metrics and options take more than macro-F1, compiled.

    The function of the callable is also measured without any loss: autograd forwards and back at a table.
    """
    os.environ["EASTWARD_KERNEL"] = "numba"
    quotients.fastest = fastest
    logits = torch.randn(size, requires_grad=True)
    targets = torch.randint(size[1], (size[0],))
    base = "macro-F1"
    losses: dict[str, Any] = {
        base: ew.EASTLoss("f1_macro"),
        "a callable": ew.EASTLoss(accuracy),
        "prior": ew.EASTLoss(prior=[1 / size[1]] * size[1]),
        "running": ew.EASTLoss(running=0.9),
        "weights": None,
    }
    losses |= {
        name: ew.EASTLoss(name)
        for name in ("matthews_corrcoef", "cohen_kappa_quadratic", "precision_macro", "markedness")
    }
    losses |= {"geometric_mean": ew.EASTLoss("geometric_mean")}
    weights = torch.rand(size[0])
    losses["weights"] = lambda z, y: losses[base](z, y, weights)
    table = torch.rand(size[1], size[1], requires_grad=True)
    losses[CALLABLE_ALONE] = lambda *_: accuracy(table)
    taken: dict[str, list[float]] = {name: [] for name in losses}
    order, ends = list(losses), time.perf_counter() + budget
    while time.perf_counter() < ends or len(taken[base]) < 20:
        random.shuffle(order)
        for name in order:
            taken[name].append(seconds(losses[name], logits, targets))
    more = {
        name: 1e6
        * statistics.median(a - b for a, b in zip(values[5:], taken[base][5:], strict=True))
        for name, values in taken.items()
        if name != base
    }
    return {**more, CALLABLE_ALONE: 1e6 * statistics.median(taken[CALLABLE_ALONE][5:])}


def memory(size: tuple[int, int], name: str) -> float:
    environment = {**os.environ, "EASTWARD_KERNEL": name if name in KERNELS else "auto"}
    environment = {key: value for key, value in environment.items() if key not in WARM}
    command = [sys.executable, "-c", CHILD, *map(str, size), name]
    done = subprocess.run(  # noqa: S603 - ours
        command, check=True, capture_output=True, text=True, env=environment
    )
    return float(done.stdout.split()[-1])


def judged(value: float, bar: float | None) -> str:
    shown = f"{value:.2f}" if isinstance(value, float) else str(value)
    if bar is None:
        return shown
    return f"{shown} ({'≤' if value <= bar else '**>**'} {bar})"


def other_table(found: dict[str, dict[str, float]]) -> list[str]:
    names = sorted({name for row in found.values() for name in row})
    lines = [
        "| more than macro-F1, µs | " + " | ".join(found) + " |",
        "|---|" + "---|" * len(found),
    ]
    for name in names:
        bar = None if name == CALLABLE_ALONE else MORE
        cells = [judged(round(row[name]), bar) for row in found.values()]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return lines


def time_table(times: dict[str, Any]) -> list[str]:
    names = sorted({name for row in times.values() for name in row["ratio"]})
    others = [name for name in names if name not in (*KERNELS, "cross-entropy")]
    head = ["N × d", "cross-entropy, µs", "eager", "numba (bar)", *others]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for size, bar in SIZES.items():
        row = times.get(f"{size[0]}x{size[1]}")
        if row is None:
            continue
        cells = [f"{size[0]} × {size[1]}", f"{row['microseconds']:.0f}"]
        cells += [judged(row["ratio"]["eager"], None), judged(row["ratio"]["numba"], bar)]
        cells += [f"{row['ratio'][name]:.2f}" if name in row["ratio"] else "" for name in others]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def memory_table(found: dict[str, Any]) -> list[str]:
    lines = ["| N × d | cross-entropy | eager | numba |", "|---|---|---|---|"]
    for size, bars in MEMORY.items():
        row = found[f"{size[0]}x{size[1]}"]
        cells = [f"{row['cross-entropy']:.2f}"]
        cells += [judged(row[k], bars[k]) if k in bars else f"{row[k]:.2f}" for k in KERNELS]
        lines.append(f"| {size[0]} × {size[1]} | " + " | ".join(cells) + " |")
    return lines


def write(found: dict[str, Any]) -> None:
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / "results.json").write_text(json.dumps(found, indent=1) + "\n")
    lines = [
        "# What the loss costs",
        "",
        "`python -m benchmarks.speed.loss_cost` writes this page.",
        "",
    ]
    for setting, part in sorted(found.get("time", {}).items()):
        threads, allocator = setting.split()
        load = f"load of the machine before and after {part['load'][0]:.1f}, {part['load'][1]:.1f}"
        lines += [
            f"## Forward + backward, ratio to `F.cross_entropy`, {threads} thread(s), {allocator} allocator",
            "",
            f"Macro-F1, float32, T = 0.2, inputs checked, torch {torch.__version__}; {load}.",
            f"Not installed, so not measured: {', '.join(part['absent']) or 'none'}.",
            "",
            *time_table(part["sizes"]),
            "",
        ]
    if "others" in found:
        lines += ["## Other losses, one thread, numba", "", *other_table(found["others"]), ""]
    if "memory" in found:
        lines += [
            "## Peak memory beyond the inputs, gradient included, in units of the logits",
            "",
            *memory_table(found["memory"]),
            "",
        ]
    (RESULTS / "README.md").write_text("\n".join(lines))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--allocator", choices=["warm", "default"], default="warm")
    parser.add_argument("--only", choices=["time", "memory"])
    parser.add_argument("--seconds", type=float, default=6.0, help="for each size")
    parser.add_argument("--no-write", action="store_true")
    options = parser.parse_args()
    is_warm = all(os.environ.get(name) == value for name, value in WARM.items())
    if options.allocator == "warm" and not is_warm:
        command = [sys.executable, "-m", "benchmarks.speed.loss_cost", *sys.argv[1:]]
        os.execve(sys.executable, command, {**os.environ, **WARM})  # noqa: S606 - ourselves
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    random.seed(0)
    known = RESULTS / "results.json"
    found: dict[str, Any] = json.loads(known.read_text()) if known.exists() else {}
    if options.only != "memory":
        load, sizes = os.getloadavg()[0], {}
        for size in SIZES:
            row = sizes[f"{size[0]}x{size[1]}"] = ratios(size, options.seconds)
            shown = "  ".join(f"{name} {value:.2f}" for name, value in row["ratio"].items())
            print(
                f"{size[0]:>8} x {size[1]:<6} {row['microseconds']:>8.0f} us  {shown}", flush=True
            )
        if options.threads == 1:
            found["others"] = {
                f"{rows} × {columns}": others((rows, columns), options.seconds)
                for rows, columns in OTHERS_AT
            }
            print("\n".join(other_table(found["others"])))
        part = {"sizes": sizes, "absent": absent(), "load": [load, os.getloadavg()[0]]}
        found.setdefault("time", {})[f"{options.threads} {options.allocator}"] = part
    if options.only != "time":
        names = ("cross-entropy", *KERNELS)
        found["memory"] = {
            f"{size[0]}x{size[1]}": {name: memory(size, name) for name in names} for size in MEMORY
        }
        print("\n".join(memory_table(found["memory"])))
    if not options.no_write:
        write(found)


if __name__ == "__main__":
    main()
