"""`eastward predict` on a large Parquet file: memory beyond start-up, and rows per second against its parts.

    python -m benchmarks.speed.predict_stream                            # 500 000 rows
    python -m benchmarks.speed.predict_stream --rows 5000000 --write     # the size that the bar is about

A model is trained on a sample, then the command runs in processes of its own: once on a few rows, which is the
start-up, and once on the whole file. Reading, preprocessing and forward pass are timed one by one in a further
process, over the same file and the same parts. Wall and processor time are both shown: on a busy machine only the
second means something. ``--write`` puts the figures into ``results/predict_stream/``.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from eastward.data import iter_tables
from eastward.model_folder import load_model

RESULTS = Path(__file__).parents[2] / "results" / "predict_stream"
MEMORY_BAR, RATIO_BAR = 1000, 1.3
CHUNK = 250_000
CITIES = ["Graz", "Linz", "Wien", "Salzburg", "Innsbruck"]


def rows(count: int, seed: int) -> pd.DataFrame:
    """Claims with numbers, gaps, categories, dates, booleans and names of many shops."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.normal(size=(count, 8)), columns=[f"n{k}" for k in range(8)])
    frame.loc[rng.random(count) < 0.1, "n0"] = np.nan
    frame["city"] = rng.choice(CITIES, count)
    frame["insured"] = rng.random(count) > 0.2
    frame["seen"] = pd.Timestamp("2023-01-01") + pd.to_timedelta(rng.integers(0, 3e7, count), "s")
    frame["shop"] = np.char.add("shop number ", rng.integers(0, 3000, count).astype(str))
    score = frame["n1"] + frame["n2"] + (frame["city"] == "Wien") + rng.normal(size=count)
    frame["fraud"] = np.where(score > 2.2, "yes", "no")
    return frame


def write_table(path: Path, count: int) -> None:
    writer = None
    for start in range(0, count, CHUNK):
        part = rows(min(CHUNK, count - start), seed=start + 1)
        table = pa.Table.from_pandas(part, preserve_index=False)
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    writer.close()


def measured(words: list[str]) -> dict[str, float]:
    """Wall and processor seconds and peak memory of a process."""
    started = time.perf_counter()
    process = subprocess.Popen(words, stdout=subprocess.PIPE)  # noqa: S603 - commands made below
    output = process.stdout.read().decode()
    _, status, usage = os.wait4(process.pid, 0)
    assert status == 0, output
    wall = time.perf_counter() - started
    return {
        "wall": wall,
        "processor": usage.ru_utime + usage.ru_stime,
        "megabytes": usage.ru_maxrss / 1024,
        "output": output,
    }


def parts(model_folder: str, data: str) -> None:
    """Time reading, preprocessing and forward pass over the same parts; print wall and processor seconds."""
    model = load_model(model_folder)
    model.predict_proba(next(iter_tables(data, 1000)))  # what is loaded at first use is start-up
    names = [column.name for column in model.columns]
    spent = np.zeros((3, 2))
    batches = iter_tables(data, model.batch_rows, columns=names, kinds=model.columns)
    mark = now()
    while (frame := next(batches, None)) is not None:
        spent[0] += now() - mark
        mark = now()
        vectors = model.vectors(frame)
        spent[1] += now() - mark
        mark = now()
        model._in_blocks(model.classifier.predict_proba, vectors)  # noqa: SLF001 - the forward pass alone
        spent[2] += now() - mark
        mark = now()
    spent[0] += now() - mark
    print(json.dumps(spent.tolist()))


def now() -> np.ndarray:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return np.array([time.perf_counter(), usage.ru_utime + usage.ru_stime])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--hidden", default="64,32")
    parser.add_argument("--write", action="store_true", help="keep the figures under results/")
    parser.add_argument("--parts", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.parts:
        parts(*options.parts)
        return
    command = [sys.executable, "-c", "from eastward.cli import main; main()"]
    with tempfile.TemporaryDirectory() as folder:
        run(Path(folder), command, options)


def run(folder: Path, command: list[str], options: argparse.Namespace) -> None:
    write_table(folder / "large.parquet", options.rows)
    rows(100, seed=0).to_parquet(folder / "tiny.parquet")
    rows(5_000, seed=0).to_parquet(folder / "train.parquet")
    size = (folder / "large.parquet").stat().st_size / 1e6
    print(f"{options.rows:,} rows, {size:.0f} MB of Parquet; hidden {options.hidden}, 5 networks")
    model = str(folder / "model")
    words = ["train", str(folder / "train.parquet"), "-t", "fraud", "-o", model, "--epochs", "3"]
    measured([*command, *words, "--hidden", options.hidden, "--quiet", "--json"])
    predict = [*command, "predict", model]
    output = ["-o", str(folder / "out.parquet"), "--json"]
    tiny = measured([*predict, str(folder / "tiny.parquet"), *output])
    large = measured([*predict, str(folder / "large.parquet"), *output])
    assert pq.read_metadata(folder / "out.parquet").num_rows == options.rows
    single = measured([sys.executable, __file__, "--parts", model, str(folder / "large.parquet")])
    found = figures(options, size, tiny, large, json.loads(single["output"]))
    print(table(found))
    if options.write:
        write(found)


def figures(
    options: argparse.Namespace, size: float, tiny: dict, large: dict, single: list[list[float]]
) -> dict:
    """What was measured, as plain numbers: memory, and for each clock the whole against its parts."""
    clocks = {}
    for position, clock in enumerate(("wall", "processor")):
        whole = large[clock] - tiny[clock]
        parts_spent = [part[position] for part in single]
        clocks[clock] = {
            "seconds": whole,
            "rows_per_second": options.rows / whole,
            **dict(zip(("reading", "preprocessing", "forward"), parts_spent, strict=True)),
            "ratio": whole / sum(parts_spent),
        }
    return {
        "rows": options.rows,
        "file_megabytes": size,
        "hidden": options.hidden,
        "start_up": {"megabytes": tiny["megabytes"], "processor_seconds": tiny["processor"]},
        "megabytes_beyond_start_up": large["megabytes"] - tiny["megabytes"],
        "clocks": clocks,
        "python": platform.python_version(),
        "packages": {n: version(n) for n in ("eastward", "pyarrow", "skrub", "torch")},
    }


def table(found: dict) -> str:
    beyond, alone = found["megabytes_beyond_start_up"], found["start_up"]["megabytes"]
    memory = f"Memory beyond start-up: {beyond:.0f} MB (bar: {MEMORY_BAR} MB; start-up alone: {alone:.0f} MB)."
    head = (
        "| clock | rows/s | predict | reading | preprocessing | forward pass | the three together "
    )
    lines = [memory, "", f"{head}| ratio (bar: {RATIO_BAR}) |", "|---" * 8 + "|"]
    for clock, row in found["clocks"].items():
        spent = [row["reading"], row["preprocessing"], row["forward"]]
        shown = " | ".join(f"{seconds:.1f} s" for seconds in (row["seconds"], *spent, sum(spent)))
        lines.append(f"| {clock} | {row['rows_per_second']:,.0f} | {shown} | {row['ratio']:.2f} |")
    return "\n".join(lines)


def write(found: dict) -> None:
    text = f"""# eastward predict on {found["rows"]:,} rows

A Parquet file of {found["file_megabytes"]:.0f} MB with eight numbers (one with gaps), a category, a boolean, a date and
a text of 3 000 shops; five networks of hidden widths {found["hidden"]}; predictions are written as Parquet.
Start-up is taken off.

{table(found)}

The machine was shared while this ran: processor time is the measure, wall time shows what waiting adds.

Regenerate with `python -m benchmarks.speed.predict_stream --rows {found["rows"]} --write`. All numbers: `results.json`.
"""
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / "README.md").write_text(text)
    (RESULTS / "results.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
