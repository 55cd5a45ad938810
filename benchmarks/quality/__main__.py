"""Data sets × methods × metrics × splits: run what is missing, then write tables and pictures.

    EASTWARD_DATA=<data folder> python -m benchmarks.quality run --plan core:3 paper:3
    python -m benchmarks.quality report

``run`` fits what is missing of ``build/quality/<random state>`` and appends one line for each cell to ``cells.jsonl``
there: stop it at any time, and the same command goes on. A step of the plan is a level of methods and a number of
splits; a split is finished for all sets before the next one begins. ``report`` reads the cells and writes
``results/quality``.

``--random-state 0`` was used to choose, and the ensemble was first confirmed on 1; the tables are those of
``--random-state 3``, whose splits were never used to choose.
"""

from __future__ import annotations

import argparse
import json
import logging
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.quality import data, report
from benchmarks.quality.components import fitted
from benchmarks.quality.methods import LEVELS, Method, Problem, metric_named

ROOT = Path(__file__).parents[2]
METRICS = ("f1", "matthews_corrcoef", "balanced_accuracy", "cost")


def read_cells(path: Path) -> list[dict[str, Any]]:
    """Cells of a file; a line that a killed run left unfinished is dropped."""
    cells = []
    for line in path.read_text().splitlines() if path.exists() else ():
        try:
            cells.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return cells


def run(options: argparse.Namespace) -> None:
    """Fit and judge whatever is missing."""
    torch.set_num_threads(1)
    store = options.store / str(options.random_state)
    store.mkdir(parents=True, exist_ok=True)
    done = {_key(cell) for cell in read_cells(store / "cells.jsonl")}
    deadline = time.monotonic() + 60 * options.minutes
    for level, split, name, load in _order(options):
        wanted = [
            (method, kind)
            for method in LEVELS[level]
            for kind in options.metrics
            if (name, split, method.name, kind) not in done
        ]
        if not wanted or time.monotonic() > deadline:
            continue
        _run_split(load(), split, wanted, store, options)
        # A later step of the plan may ask for the same again.
        done |= {(name, split, method.name, kind) for method, kind in wanted}


def _order(options: argparse.Namespace) -> Iterator[tuple[str, int, str, Callable[[], data.Task]]]:
    tasks = data.tabular(data.data_folder() / "tabular")
    if options.folder is not None:
        tasks = data.tabular(options.folder)
    elif options.all_sets:
        tasks |= data.further()
    for level, splits in map(_step, options.plan):
        for split in range(splits):
            for name in options.sets or tasks:
                yield level, split, name, tasks[name]


def _step(text: str) -> tuple[str, int]:
    level, _, splits = text.partition(":")
    if level not in LEVELS or not splits.isdigit():
        raise SystemExit(
            f"--plan takes steps like core:10, levels {', '.join(LEVELS)}; got {text!r}"
        )
    return level, int(splits)


def _run_split(
    task: data.Task,
    number: int,
    wanted: list[tuple[Method, str]],
    store: Path,
    options: argparse.Namespace,
) -> None:
    started = time.perf_counter()
    split = data.make_split(task, options.random_state, number, options.max_rows)
    target = metric_named("f1", split.train_codes, split.num_classes)
    lines = []
    for method, kind in wanted:
        if not method.suits(split.num_classes, kind):
            continue
        folder = store / "components" / f"{task.name}-{number}"
        found = fitted(method.needs, split, target.name, folder)
        problem = Problem(split, metric_named(kind, split.train_codes, split.num_classes), kind)
        cell = {"set": task.name, "split": number, "method": method.name, "metric": kind}
        lines.append(json.dumps({**cell, **_judged(method, found, problem)}))
    with (store / "cells.jsonl").open("a") as file:
        file.writelines(line + "\n" for line in lines)
    print(f"{task.name} {number}: {time.perf_counter() - started:.1f} s", flush=True)


def _judged(method: Method, found: Any, problem: Problem) -> dict[str, Any]:
    """Mean merit over the predictions of a method, and the classes that none of them ever gives."""
    split = problem.split
    predictions = method.predict(found, problem)
    merits = [problem.merit(predicted, split.test_codes) for predicted in predictions]
    predicted = np.unique(np.concatenate(predictions))
    never = np.setdiff1d(np.unique(split.test_codes), predicted)
    facts = {"rows": len(split.train), "classes": split.num_classes}
    return {"score": float(np.mean(merits)), "never_predicted": never.tolist(), **facts}


def _key(cell: dict[str, Any]) -> tuple[str, int, str, str]:
    return cell["set"], cell["split"], cell["method"], cell["metric"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("action", choices=("run", "report"))
    parser.add_argument(
        "--plan", nargs="+", default=["core:10", "key:10", "paper:10", "default:10", "further:10"]
    )
    parser.add_argument("--max-rows", type=int, default=500, help="training rows of a split")
    parser.add_argument("--random-state", type=int, default=3)
    parser.add_argument("--sets", nargs="+")
    parser.add_argument("--metrics", nargs="+", choices=METRICS, default=METRICS)
    parser.add_argument(
        "--folder", type=Path, help="a folder of parquet files with a column target"
    )
    parser.add_argument("--all-sets", action="store_true", help="also those beside tabular/")
    parser.add_argument("--minutes", type=float, default=float("inf"))
    parser.add_argument("--store", type=Path, default=ROOT / "build" / "quality")
    parser.add_argument("--results", type=Path, default=ROOT / "results" / "quality")
    parser.add_argument("--pictures", type=Path, default=ROOT / "docs" / "_static" / "quality")
    parser.add_argument(
        "--regenerate",
        default="Regenerate with `EASTWARD_DATA=<data folder> make quality`.",
        help="what the report says of how it came about",
    )
    options = parser.parse_args()
    logging.getLogger("eastward").setLevel(logging.ERROR)
    if options.action == "run":
        run(options)
    else:
        cells = read_cells(options.store / str(options.random_state) / "cells.jsonl")
        report.write(cells, options)


if __name__ == "__main__":
    main()
