"""Boosted trees on every table under ``EASTWARD_DATA/tabular``, trained and decided by the metric or not.

Run ``EASTWARD_DATA=<data folder> python -m benchmarks.quality.boosting`` for all of it (an hour or two on one core).
Finished cells are kept in ``build/boosting/cells.jsonl``: stop it at any time, and the same command goes on;
``--minutes`` stops it by itself. It writes ``results/boosting/README.md`` and ``results.json`` with the sets that are
complete. Delete the file of cells after changing what trains or decides.

Protocol. Label column ``target``; text columns are categorical features, missing values stay missing. For each random
state a table of more than ``--max-rows`` rows is cut to a stratified sample of that size, and 30 % of the rows are held
out, stratified. The libraries' default parameters with 100 rounds and learning rate 0.1. Macro-F1 of the held-out rows
for: ``plain``, the library as it is; ``balanced``, with weights inverse to the class frequencies
(``class_weight="balanced"``); ``scaled``, the same in the form of ``scale_pos_weight``, where the weight of the most
frequent class stays 1; ``tuned``, plain with offsets per class tuned on five-fold predictions and guarded
(``EASTBoostingClassifier(balanced=False, aligned=False)``); ``default``, ``EASTBoostingClassifier`` as it is: balanced
weights unless held-out rows favour none, metric-aligned rounds and offsets only where held-out rows favour them. Over
sets: mean, average rank, sets on which a method is better or worse than ``balanced`` by more than 0.005, and a
two-sided Wilcoxon signed-rank test on the differences of sets' means. The default was chosen on other random states
(``development.md``).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
import warnings
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from scipy.stats import rankdata, wilcoxon

from eastward.boosting.objectives import true_score
from eastward.comparison.splits import stratified_split
from eastward.estimators.boosting import EASTBoostingClassifier
from eastward.estimators.boosting.backends import Task, make_backend
from eastward.estimators.boosting.columns import Columns

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results" / "boosting"
KEY = ("set", "backend", "random_state", "max_rows", "bags")
METHODS = ("plain", "balanced", "scaled", "tuned", "default")
BASELINE, METRIC, MARGIN = "balanced", "f1_macro", 0.005


def tables() -> list[Path]:
    folder = os.environ.get("EASTWARD_DATA")
    if not folder:
        sys.exit("Set EASTWARD_DATA to the data folder, for example EASTWARD_DATA=~/data.")
    # Small ones first: most sets are complete when time runs out.
    return sorted((Path(folder) / "tabular").glob("*/*.parquet"), key=lambda p: p.stat().st_size)


def load(path: Path, max_rows: int, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    frame = pd.read_parquet(path)
    codes = pd.factorize(frame.pop("target").astype(str), sort=True)[0]
    if len(frame) > max_rows:
        _, chosen = stratified_split(codes, max_rows / len(frame), seed=seed)
        frame, codes = frame.iloc[chosen].reset_index(drop=True), codes[chosen]
        codes = np.unique(codes, return_inverse=True)[1]
    return frame, codes


def cell(X: pd.DataFrame, y: np.ndarray, backend: str, seed: int, bags: int) -> dict[str, Any]:
    """Scores of all methods on one split, with one library."""
    train, test = stratified_split(y, 0.3, seed=seed)
    parts, truth = (X.iloc[train], y[train], X.iloc[test]), y[test]
    started = time.perf_counter()
    chosen = {"n_bags": bags, "random_state": seed}
    model = EASTBoostingClassifier(METRIC, backend, **chosen).fit(*parts[:2])
    seconds = time.perf_counter() - started
    balanced = bool(model.report_["weights"]["balanced"])
    tuned = model
    if balanced or model.aligned_rounds_:
        options = {"balanced": False, "aligned": False, **chosen}
        tuned = EASTBoostingClassifier(METRIC, backend, **options).fit(*parts[:2])
    weights = class_weights(y[train])
    return {
        **{
            name: macro_f1(weighted_decisions(*parts, backend, seed, each), truth)
            for name, each in weights.items()
        },
        "tuned": macro_f1(tuned.predict(parts[2]), truth),
        "default": macro_f1(model.predict(parts[2]), truth),
        "kept_weights": balanced,
        "kept_offsets": not model.decision_.note,
        "kept_rounds": model.aligned_rounds_,
        "favoured": bool(model.aligned_rounds_),
        "seconds": seconds,
    }


def macro_f1(decisions: np.ndarray, truth: np.ndarray) -> float:
    size = int(max(decisions.max(), truth.max())) + 1
    return true_score(np.eye(size)[decisions], truth, METRIC)


def class_weights(y: np.ndarray) -> dict[str, np.ndarray | None]:
    """Weights of the rows ``y``, by the name of the method."""
    _, codes, counts = np.unique(y, return_inverse=True, return_counts=True)
    balanced = len(y) / len(counts) / counts
    return {
        "plain": None,
        "balanced": balanced[codes],
        "scaled": (balanced / balanced.min())[codes],
    }


def weighted_decisions(
    X: pd.DataFrame,
    y: np.ndarray,
    X_test: pd.DataFrame,
    backend: str,
    seed: int,
    weight: np.ndarray | None,
) -> np.ndarray:
    classes, codes = np.unique(y, return_inverse=True)
    columns = Columns.of(X, "from_dtype")
    library = make_backend(backend, Task(len(classes), columns.categorical, 0.1, seed, 1, {}))
    inputs = [columns.encode(table).to_numpy(dtype=float) for table in (X, X_test)]
    scores = library.raw_scores(library.train(inputs[0], codes, weight, 100), inputs[1])
    return classes[scores.argmax(1) if scores.ndim == 2 else (scores > 0).astype(int)]


def run(options: argparse.Namespace) -> list[dict[str, Any]]:
    """All finished cells; as many new ones as the time allows."""
    path = options.store / "cells.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    cells = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    done = {tuple(c[name] for name in KEY) for c in cells}
    deadline = time.monotonic() + 60 * options.minutes
    wanted = [
        (table, backend, state)
        for state in options.random_states
        for table in tables()
        for backend in ("lightgbm", "xgboost")
    ]
    for table, backend, state in wanted:
        named = (table.stem, backend, state, options.max_rows, options.bags)
        key = dict(zip(KEY, named, strict=True))
        if named in done:
            continue
        if time.monotonic() > deadline:
            print("out of time; the same command goes on from here")
            break
        X, y = load(table, options.max_rows, state)
        found = {
            **key,
            "rows": len(y),
            "classes": int(y.max()) + 1,
            **cell(X, y, backend, state, options.bags),
        }
        cells.append(found)
        with path.open("a") as handle:
            handle.write(json.dumps(found) + "\n")
        shown = " ".join(f"{name} {found[name]:.3f}" for name in METHODS)
        print(f"{table.stem} {backend} {state}: {shown} ({found['seconds']:.0f} s)", flush=True)
    scale = (options.max_rows, options.bags)
    wanted_states = set(options.random_states)
    return [
        c
        for c in cells
        if (c["max_rows"], c["bags"]) == scale and c["random_state"] in wanted_states
    ]


def means(cells: list[dict[str, Any]], backend: str) -> pd.DataFrame:
    """Mean score of each method on each set, over the random states that are there."""
    frame = pd.DataFrame([c for c in cells if c["backend"] == backend])
    if frame.empty:
        return frame
    grouped = frame.groupby("set")
    kept = ["kept_weights", "kept_offsets", "favoured"]
    return (
        grouped[[*METHODS, "rows", "classes", "seconds", *kept]]
        .mean()
        .assign(splits=grouped.size())
    )


def summary(table: pd.DataFrame) -> list[dict[str, Any]]:
    scores = table[list(METHODS)].to_numpy()
    ranks = rankdata(-scores, axis=1).mean(axis=0)
    rows = []
    for name, own, rank in zip(METHODS, scores.T, ranks, strict=True):
        gains = own - table[BASELINE].to_numpy()
        rows.append(
            {
                "method": name,
                "mean": float(own.mean()),
                "rank": float(rank),
                "difference": float(gains.mean()),
                "better": int((gains > MARGIN).sum()),
                "worse": int((gains < -MARGIN).sum()),
                "wilcoxon_p": float(wilcoxon(gains).pvalue) if np.any(gains != 0) else None,
            }
        )
    return rows


def method_lines(rows: list[dict[str, Any]], sets: int) -> str:
    lines = [
        "| method | mean macro-F1 | average rank | difference to balanced | better–equal–worse | Wilcoxon p |",
        "|---" * 6 + "|",
    ]
    for row in rows:
        equal = sets - row["better"] - row["worse"]
        p_value = "" if row["wilcoxon_p"] is None else f"{row['wilcoxon_p']:.3f}"
        versus = f"{row['difference']:+.4f} | {row['better']}–{equal}–{row['worse']}"
        if row["method"] == BASELINE:
            versus = "baseline |"
        lines.append(
            f"| {row['method']} | {row['mean']:.4f} | {row['rank']:.2f} | {versus} | {p_value} |"
        )
    return "\n".join(lines)


def set_lines(table: pd.DataFrame) -> str:
    shown = " | ".join((*METHODS, "splits", "kept weights", "offsets", "aligned rounds"))
    lines = [f"| set | rows | classes | {shown} |", "|---" * (7 + len(METHODS)) + "|"]
    for name, row in table.sort_index().iterrows():
        best = max(row[m] for m in METHODS)
        shown = [f"**{row[m]:.3f}**" if row[m] == best else f"{row[m]:.3f}" for m in METHODS]
        kept = [f"{row[each]:.0%}" for each in ("kept_weights", "kept_offsets", "favoured")]
        cells = [f"{row['rows']:.0f}", f"{row['classes']:.0f}", *shown, f"{row['splits']:.0f}"]
        lines.append(f"| {name} | {' | '.join([*cells, *kept])} |")
    return "\n".join(lines)


def write(cells: list[dict[str, Any]], options: argparse.Namespace) -> None:
    states = list(map(str, options.random_states))
    command = (
        "EASTWARD_DATA=<data folder> python -m benchmarks.quality.boosting "
        f"--random-states {' '.join(states)} --max-rows {options.max_rows} --bags {options.bags}"
    )
    packages = ("eastward", "lightgbm", "xgboost", "torch", "scikit-learn")
    facts: dict[str, Any] = {
        "command": command,
        "python": platform.python_version(),
        "packages": {name: version(name) for name in packages},
    }
    sections = []
    for backend in ("lightgbm", "xgboost"):
        table = means(cells, backend)
        if table.empty:
            continue
        rows = summary(table)
        facts[backend] = {"sets": len(table), "methods": rows}
        kept = (
            f"Of the fits of `default`, {table['kept_weights'].mean():.0%} kept balanced weights, "
            f"{table['kept_offsets'].mean():.0%} offsets and {table['favoured'].mean():.0%} aligned rounds; "
            f"a fit took {table['seconds'].mean():.0f} s on a busy core."
        )
        sections.append(
            f"## {backend}: {len(table)} of {len(tables())} sets\n\n{method_lines(rows, len(table))}\n\n"
            f"{kept} Mean macro-F1 of each set (best in bold):\n\n{set_lines(table)}\n"
        )
    protocol = __doc__.split("Protocol. ")[1].replace("``", "`").strip()
    scale = (
        f"Scale of this run: random states {', '.join(states)} (as far as the column of splits says), at "
        f"most {options.max_rows} rows of each set, offsets averaged "
        f"over {options.bags} bootstraps."
    )
    text = "\n".join(["# Boosted trees by the metric", "", scale, "", *sections])
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / "README.md").write_text(
        f"{text}\nProtocol: {protocol}\n\nRegenerate with `{command}`. Every cell is in `results.json`.\n"
    )
    (RESULTS / "results.json").write_text(json.dumps({**facts, "cells": cells}, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--random-states", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--max-rows", type=int, default=600)
    parser.add_argument("--bags", type=int, default=15)
    parser.add_argument("--minutes", type=float, default=float("inf"))
    parser.add_argument("--store", type=Path, default=ROOT / "build" / "boosting")
    options = parser.parse_args()
    torch.set_num_threads(1)
    # A class with one row left in training is said once per fit, in every fold.
    warnings.filterwarnings("ignore", "only one sample each of class")
    cells = run(options)
    if cells:
        write(cells, options)


if __name__ == "__main__":
    main()
