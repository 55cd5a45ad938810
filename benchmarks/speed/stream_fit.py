"""Memory and speed of ``EASTClassifier.fit`` on a Parquet table that is streamed.

    python -m benchmarks.speed.stream_fit [--rows 20000000] [--folder DIR] [--no-write]

Protocol. A table of 30 float32 columns and a rare class is generated as Parquet (files of 2 000 000 rows, row groups
of 250 000) in a temporary folder and deleted afterwards. A process of its own fits one epoch of cross-entropy on all of
it, batch 4096, one hidden layer of 64; the largest resident memory of the process, imports included, is noted. Then, on
a smaller table of such rows (``--timed-rows``), one epoch is timed both ways: streamed, and in memory (the same rows
read before ``fit``), in turn; the shortest time of each counts, because other work on the machine only ever adds.
One thread trains; the stream has a second one to read and to prepare rows. The processor time of both threads is noted,
too: its ratio is what is left of the speed where there is no second processor to read with.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

RESULTS = Path(__file__).parents[2] / "results" / "stream_fit"
COMMAND = "python -m benchmarks.speed.stream_fit"
COLUMNS, FILE_ROWS, GROUP_ROWS = 30, 2_000_000, 250_000
MEMORY_BAR = 1.5e9
# The same share both ways, and few enough for a stream to hold that many out.
TIMED_ROWS, HELD_OUT = 2_000_000, 0.05
NETWORKS = {"512-256-128": (512, 256, 128), "64": (64,)}

CHILD = textwrap.dedent(
    """
    import json, sys, time
    from pathlib import Path
    import numpy as np, pyarrow.parquet as pq, torch
    import eastward as ew
    from eastward.training import Callback

    class Clock(Callback):
        def epoch_start(self, run):
            self.started = time.process_time()
        def epoch_end(self, run):
            self.spent = time.process_time() - self.started

    how, source, widths = sys.argv[1], sys.argv[2], tuple(map(int, sys.argv[3].split(",")))
    torch.set_num_threads(1)
    clock = Clock()
    model = ew.EASTClassifier(
        "f1_macro", recipe="cross_entropy", hidden=widths, max_epochs=1, n_folds=1, batch_size=4096,
        validation_fraction=0.05, random_state=0, callbacks=[clock],
    )
    if how == "streamed":
        model.fit(source, "label")
    else:
        table = pq.read_table(source)
        y = table.column("label").to_numpy()
        X = np.column_stack([table.column(k).to_numpy() for k in range(table.num_columns - 1)])
        del table
        model.fit(X, y)
    status = Path("/proc/self/status").read_text().splitlines()
    peak = next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))
    record = model.history_[0]
    counts = sum(getattr(model, "class_counts_", {}).values())
    spent = {"seconds": record["seconds"], "processor": clock.spent}
    print(json.dumps({"peak": peak, **spent, "score": record["valid_score"], "counted": counts}))
    """
)


def generate(folder: Path, rows: int) -> int:
    """Write the table; returns its bytes on disk. Files differ in the order and the signs of the same numbers."""
    folder.mkdir(parents=True, exist_ok=True)
    names = [f"f{k:02d}" for k in range(COLUMNS)]
    numbers = np.random.default_rng(0).standard_normal(min(rows, FILE_ROWS), dtype=np.float32)
    for number, start in enumerate(range(0, rows, FILE_ROWS)):
        path = folder / f"part-{number:03d}.parquet"
        if path.exists():
            continue
        size = min(FILE_ROWS, rows - start)
        random = np.random.default_rng(number)
        columns = [random.choice([-1, 1]) * _moved(numbers, random)[:size] for _ in names]
        noise = _moved(numbers, random)[:size]
        label = (columns[0] + columns[1] + noise > 3.5).astype(np.int8)
        arrays = [pa.array(column.astype(np.float32)) for column in columns]
        table = pa.table([*arrays, pa.array(label)], names=[*names, "label"])
        unfinished = path.with_suffix(".part")
        # Random digits cannot be compressed; trying takes most of the time.
        pq.write_table(
            table, unfinished, row_group_size=GROUP_ROWS, compression="none", use_dictionary=False
        )
        unfinished.rename(path)
    return sum(path.stat().st_size for path in folder.glob("*.parquet"))


def _moved(numbers: np.ndarray, random: np.random.Generator) -> np.ndarray:
    return np.roll(numbers, int(random.integers(len(numbers))))


def measure(how: str, source: Path, widths: tuple[int, ...]) -> dict[str, Any]:
    command = [sys.executable, "-c", CHILD, how, str(source), ",".join(map(str, widths))]
    done = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603 - ours
    return dict(json.loads(done.stdout.splitlines()[-1]))


def speeds(folder: Path, network: str, repetitions: int, rows: int) -> dict[str, Any]:
    source = folder / f"timed-{rows}"
    generate(source, rows)
    found: dict[str, list[dict[str, Any]]] = {"streamed": [], "in memory": []}
    for _ in range(repetitions):
        for how, measured in found.items():
            measured.append(measure(how, source, NETWORKS[network]))
    best = {how: min(one["seconds"] for one in measured) for how, measured in found.items()}
    work = {how: min(one["processor"] for one in measured) for how, measured in found.items()}
    speed = {how: rows * (1 - HELD_OUT) / seconds for how, seconds in best.items()}
    return {
        "rows": rows,
        **speed,
        "ratio": best["in memory"] / best["streamed"],
        "processor": work,
        "processor_ratio": work["in memory"] / work["streamed"],
    }


def whole_table(folder: Path, rows: int) -> dict[str, Any]:
    size = generate(folder / "whole", rows)
    found = measure("streamed", folder / "whole", (64,))
    assert found["counted"] == rows
    return {"rows": rows, "bytes": size, **found}


def write(new: dict[str, Any]) -> None:
    """Add to what was measured before, and write the table of it."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    path = RESULTS / "results.json"
    found = {**(json.loads(path.read_text()) if path.exists() else {}), **new}
    path.write_text(json.dumps(found, indent=1))
    lines = [
        "# Streaming a table that is larger than memory",
        "",
        f"Made by `{COMMAND}`; how it is measured stands at the top of that file.",
        "",
    ]
    whole = found.get("whole")
    if whole:
        lines += [
            f"Table: {whole['rows']:,} rows, {COLUMNS} columns, {whole['bytes'] / 1e9:.2f} GB of Parquet.",
            f"One epoch over all of it: {whole['seconds']:.0f} s.",
            f"Largest resident memory: {whole['peak'] / 1e9:.2f} GB (bar: {MEMORY_BAR / 1e9} GB).",
            "",
        ]
    lines += [
        "| network | rows | streamed, rows/s | in memory, rows/s | ratio (bar: 0.70) | of processor time |",
        "|---|---|---|---|---|---|",
    ]
    for name in NETWORKS:
        if name in found:
            row = found[name]
            speed = f"{row['streamed']:,.0f} | {row['in memory']:,.0f}"
            ratios = f"{row['ratio']:.2f} | {row['processor_ratio']:.2f}"
            lines.append(f"| {name} | {row['rows']:,} | {speed} | {ratios} |")
    (RESULTS / "README.md").write_text("\n".join(lines) + "\n")


def run(given: argparse.Namespace, folder: Path) -> Iterator[dict[str, Any]]:
    """One part after the other: each is kept as soon as it is measured."""
    for part in given.parts:
        if part == "whole":
            found = whole_table(folder, given.rows)
        else:
            found = speeds(folder, part, given.repetitions, given.timed_rows)
        print(part, json.dumps(found))
        yield {part: found}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--timed-rows", type=int, default=TIMED_ROWS)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--parts", nargs="+", default=["whole", *NETWORKS])
    parser.add_argument("--no-write", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = given.folder or Path(name)
        for found in run(given, folder):
            if not given.no_write:
                write(found)


if __name__ == "__main__":
    main()
