"""How long a user waits: an answer of the command line, a comparison, one row, a million rows.

    python -m benchmarks.speed.serving                      # all of it, about five minutes
    python -m benchmarks.speed.serving --only row million   # parts of it
    python -m benchmarks.speed.serving --write              # keep the figures under results/serving/

The table has 1 000 rows and 20 columns: 18 numbers, one of them with gaps, and two of words. The model is what
`eastward train` trains by default, loaded from its folder. Every part but `row` runs in processes of its own; wall and
processor seconds are both shown, because on a busy machine only the second means something.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.datasets import make_classification

RESULTS = Path(__file__).parents[2] / "results" / "serving"
COMMAND = [sys.executable, "-c", "from eastward.cli import main; main()"]
MILLION, CALLS = 1_000_000, 300
# The longest acceptable waits, in seconds.
BARS = {
    "help": 1.5,
    "wrong option": 1.5,
    "missing column": 1.5,
    "compare": 60,
    "row": 0.005,
    "million": 20,
}


def claims(rows: int = 1000) -> pd.DataFrame:
    """A made-up table with one class in six of the target ``bad``."""
    X, y = make_classification(
        rows, 18, n_informative=8, weights=[0.85], flip_y=0.02, random_state=0
    )
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(X.round(4)).add_prefix("x")
    frame.loc[rng.random(rows) < 0.1, "x0"] = np.nan
    frame["city"] = rng.choice(["Graz", "Linz", "Wien", "Bonn"], rows)
    frame["plan"] = rng.choice(["basic", "plus"], rows)
    return frame.assign(y=np.where(y, "bad", "good"))


def measured(*words: object, code: int = 0) -> dict[str, float]:
    """Wall and processor seconds of one command."""
    started = time.perf_counter()
    process = subprocess.Popen(  # noqa: S603 - commands made here
        [*COMMAND, *map(str, words)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(process.pid, 0)
    assert os.waitstatus_to_exitcode(status) == code, words
    return {
        "wall": time.perf_counter() - started,
        "processor": usage.ru_utime + usage.ru_stime,
    }


def best_of(count: int, run: Callable[[], dict[str, float]]) -> dict[str, float]:
    """The fastest of some runs: what else the machine does only adds."""
    return min((run() for _ in range(count)), key=lambda found: found["wall"])


def answers(folder: Path) -> dict[str, dict[str, float]]:
    """What the command line says before anything is computed."""
    table = folder / "table.csv"
    return {
        "help": best_of(3, lambda: measured("--help")),
        "wrong option": best_of(3, lambda: measured("train", table, "--tarmget", "y", code=2)),
        "missing column": best_of(
            3, lambda: measured("train", table, "-t", "z", "-o", folder / "none", code=2)
        ),
    }


def comparison(folder: Path) -> dict[str, dict[str, float]]:
    """`eastward compare` with its defaults, on all cores."""
    return {"compare": measured("compare", folder / "table.csv", "-t", "y")}


def trained(folder: Path) -> Path:
    """The default model of the table."""
    if not (folder / "model").exists():
        measured("train", folder / "table.csv", "-t", "y", "-o", folder / "model")
    return folder / "model"


def row(folder: Path) -> dict[str, dict[str, float]]:
    """One row at a time through a loaded folder, on one thread: the median of many calls."""
    import torch  # noqa: PLC0415  # for this part alone

    from eastward.model_folder import load_model  # noqa: PLC0415

    torch.set_num_threads(1)
    model = load_model(trained(folder))
    frame = claims().drop(columns="y")
    rows = [frame.iloc[[k]] for k in range(CALLS)]
    model.predict(rows[0])
    spent = []
    for one in rows:
        before = time.perf_counter(), time.process_time()
        model.predict(one)
        spent.append((time.perf_counter() - before[0], time.process_time() - before[1]))
    wall, processor = np.median(spent, axis=0)
    return {"row": {"wall": float(wall), "processor": float(processor)}}


def million(folder: Path) -> dict[str, dict[str, float]]:
    """`eastward predict` on a Parquet file of a million rows: reading and writing included, start-up taken off."""
    model = trained(folder)
    frame = pd.concat([claims().drop(columns="y")] * (MILLION // 1000), ignore_index=True)
    numbers = frame.columns[frame.dtypes == np.float64]
    # Rows of their own, not a thousand that repeat.
    frame[numbers] += np.random.default_rng(0).normal(scale=0.3, size=(MILLION, len(numbers)))
    for name, count in (("large", MILLION), ("small", 100)):
        frame.head(count).to_parquet(folder / f"{name}.parquet")
    output = folder / "predictions.parquet"
    small, large = (
        measured("predict", model, folder / f"{name}.parquet", "-o", output)
        for name in ("small", "large")
    )
    return {"million": {clock: large[clock] - small[clock] for clock in large}}


PARTS = {"answers": answers, "compare": comparison, "row": row, "million": million}


def shown(found: dict[str, dict[str, float]]) -> str:
    lines = ["| | wall | processor | bar | load before |", "|---|---|---|---|---|"]
    for name, seconds in found.items():
        bar = BARS[name]
        unit, factor = ("ms", 1000) if name == "row" else ("s", 1)
        wall, processor = (f"{seconds[k] * factor:.1f} {unit}" for k in ("wall", "processor"))
        counted = "processor" if name == "million" else "wall"
        asked = f"{bar * factor:g} {unit} ({counted})"
        lines.append(f"| {name} | {wall} | {processor} | {asked} | {seconds['load']:.1f} |")
    return "\n".join(lines)


def write(found: dict[str, dict[str, float]]) -> None:
    RESULTS.mkdir(parents=True, exist_ok=True)
    path = RESULTS / "results.json"
    kept = json.loads(path.read_text()) if path.exists() else {}
    kept |= found
    path.write_text(json.dumps(kept, indent=1) + "\n")
    text = f"""# How long a user waits

A made-up table of 1 000 rows and 20 columns, the model that `eastward train` trains by default, {os.cpu_count()}
cores, Python {platform.python_version()}. `compare` and the answers are whole commands, start-up included; `row` is the
median of {CALLS} calls through a loaded folder, on one thread; `million` is `eastward predict` from Parquet to Parquet
without its start-up. The load is what ran beside it: from two on, wall time says little on two cores.

{shown({name: kept[name] for name in BARS if name in kept})}

Regenerate with `python -m benchmarks.speed.serving --write`.
"""
    (RESULTS / "README.md").write_text(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--write", action="store_true", help="keep the figures under results/")
    options = parser.parse_args()
    found: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        claims().to_csv(folder / "table.csv", index=False)
        for part in options.only:
            load = os.getloadavg()[0]
            found |= {name: {**spent, "load": load} for name, spent in PARTS[part](folder).items()}
            print(shown(found), flush=True)
    if options.write:
        write(found)


if __name__ == "__main__":
    main()
