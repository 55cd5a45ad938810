"""`eastward predict` on a large Parquet file: memory beyond start-up, and rows per second against its parts.

    python benchmarks/predict_stream.py                    # 500 000 rows
    python benchmarks/predict_stream.py --rows 5000000     # the size that the bar is about

A model is trained on a sample, then the command runs in processes of its own: once on a few rows, which is the
start-up, and once on the whole file. Reading, preprocessing and forward pass are timed one by one in a further
process, over the same file and the same parts. Wall and processor time are both shown: on a busy machine only the
second means something.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from eastward.model_folder import load_model
from eastward.tables import iter_tables

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
    show(options.rows, tiny, large, json.loads(single["output"]))


def show(count: int, tiny: dict, large: dict, single: list[list[float]]) -> None:
    print(
        f"memory   start-up {tiny['megabytes']:.0f} MB, beyond it "
        f"{large['megabytes'] - tiny['megabytes']:.0f} MB (bar: 1000 MB)"
    )
    for position, clock in enumerate(("wall", "processor")):
        whole = large[clock] - tiny[clock]
        read, prepared, forward = (part[position] for part in single)
        total = read + prepared + forward
        print(
            f"{clock:9} {count / whole:,.0f} rows/s: {whole:.1f} s; separately reading {read:.1f} s, "
            f"preprocessing {prepared:.1f} s, forward {forward:.1f} s, together {total:.1f} s; "
            f"ratio {whole / total:.2f} (bar: 1.3)"
        )


if __name__ == "__main__":
    main()
