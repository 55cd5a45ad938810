"""``compare`` on every table under ``EASTWARD_DATA/tabular``: which method is best, over many data sets.

Set EASTWARD_DATA to a folder of data sets. For the whole of it (hours on two cores), and for a small run:

    python -m benchmarks.quality.compare_tables
    python -m benchmarks.quality.compare_tables --splits 3 --max-rows 600 --hidden 64 32 --max-epochs 60 --minutes 20

Finished cells are kept under ``build/compare``: stop it at any time, and the same command goes on. It
writes ``results/compare/README.md`` and ``results.json`` with the sets that are complete. Cells know the version of
eastward but not its code: delete the folder after changing what trains or decides.

Protocol. Label column ``target``; text columns become indicators (unknown values: none of them), missing numbers the
median of the training rows. With ``--max-rows`` a larger table is cut to a stratified sample of that size, drawn once.
Macro-F1, ``cross_entropy_tuned`` as the baseline. Over sets: the rank of each method by its mean score (1 is best),
sets on which it is better or worse than the baseline by more than 0.005, and a two-sided Wilcoxon signed-rank test on
the differences of the sets' means.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shlex
import sys
import time
from collections import Counter
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import rankdata, wilcoxon
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import OneHotEncoder

from eastward.comparison import Comparison, Progress, compare
from eastward.comparison.splits import stratified_split

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results" / "compare"
BASELINE, METRIC, MARGIN = "cross_entropy_tuned", "f1_macro", 0.005


class OutOfTimeError(Exception):
    """The minutes are used up; what is finished is stored."""


def tables() -> list[Path]:
    folder = os.environ.get("EASTWARD_DATA")
    if not folder:
        sys.exit("Set EASTWARD_DATA to the data folder, for example EASTWARD_DATA=~/data.")
    # Small ones first: most sets are complete when time runs out.
    return sorted((Path(folder) / "tabular").glob("*/*.parquet"), key=lambda p: p.stat().st_size)


def load(path: Path, max_rows: int | None) -> tuple[pd.DataFrame, np.ndarray]:
    frame = pd.read_parquet(path)
    labels = frame.pop("target").astype(str).to_numpy()
    if max_rows is not None and len(frame) > max_rows:
        codes = np.unique(labels, return_inverse=True)[1]
        _, chosen = stratified_split(codes, max_rows / len(frame), seed=0)
        frame, labels = frame.iloc[chosen].reset_index(drop=True), labels[chosen]
    return frame, labels


def preprocessing() -> Any:
    numbers = make_column_selector(dtype_include="number")
    words = make_column_selector(dtype_exclude="number")
    indicators = OneHotEncoder(handle_unknown="ignore", max_categories=30, sparse_output=False)
    return make_column_transformer((SimpleImputer(strategy="median"), numbers), (indicators, words))


def run_set(path: Path, options: argparse.Namespace, deadline: float) -> Comparison:
    X, y = load(path, options.max_rows)

    def watch(progress: Progress) -> None:
        if progress.cell is not None:
            print(".", end="", flush=True)
        if time.monotonic() > deadline and progress.done < progress.total:
            raise OutOfTimeError

    return compare(
        X,
        y,
        METRIC,
        n_splits=options.splits,
        n_jobs=options.jobs,
        store=options.store,
        preprocess=preprocessing(),
        progress=watch,
        method_options={"hidden": tuple(options.hidden), "max_epochs": options.max_epochs},
        baseline=BASELINE,
        tie_margin=MARGIN,
    )


def run_all(options: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """Facts of each complete set by name; the rest comes with the next run."""
    deadline = time.monotonic() + 60 * options.minutes
    complete = {}
    for path in tables():
        try:
            result = run_set(path, options, deadline)
        except OutOfTimeError:
            print(f" {path.stem}: out of time; the same command goes on from here.")
            continue  # another set may be complete already
        rows, classes = (
            len(load(path, options.max_rows)[1]),
            len(pd.read_parquet(path)["target"].unique()),
        )
        facts = {"rows": rows, "classes": classes, "kind": path.parent.name}
        complete[path.stem] = {**facts, **result.to_dict()}
        print(f" {path.stem}: {result.verdict['sentence']}", flush=True)
    return complete


def over_sets(sets: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """One row for each method: mean, rank, wins and the signed-rank test, over sets."""
    names = [row["name"] for row in next(iter(sets.values()))["methods"]]
    by_set = [{row["name"]: row for row in facts["methods"]} for facts in sets.values()]
    means = np.array([[_mean(rows[name]) for rows in by_set] for name in names])
    ranks = rankdata(np.where(np.isnan(means), np.inf, -means), axis=0).mean(axis=1)
    reference = means[names.index(BASELINE)]
    summary = []
    for name, own, rank in zip(names, means, ranks, strict=True):
        gains = (own - reference)[np.isfinite(own - reference)]
        summary.append(
            {
                "name": name,
                "mean": float(np.nanmean(own)),
                "rank": float(rank),
                "difference": float(gains.mean()),
                "better": int((gains > MARGIN).sum()),
                "worse": int((gains < -MARGIN).sum()),
                "wilcoxon_p": float(wilcoxon(gains).pvalue) if np.any(gains != 0) else None,
                "log_loss": float(np.mean([rows[name]["log_loss"] for rows in by_set])),
                "seconds": float(np.mean([rows[name]["seconds"] for rows in by_set])),
                "failures": sum(rows[name]["failures"] for rows in by_set),
            }
        )
    return sorted(summary, key=lambda row: row["rank"])


def _mean(row: dict[str, Any]) -> float:
    return float("nan") if row["mean"] is None else row["mean"]


def method_table(summary: list[dict[str, Any]]) -> str:
    head = (
        "| method | mean macro-F1 | average rank | difference to baseline | better–equal–worse "
        "| Wilcoxon p | log-loss | seconds a fit | failed fits |"
    )
    return "\n".join([head, "|---" * 9 + "|", *map(_method_line, summary)])


def _method_line(row: dict[str, Any]) -> str:
    versus = (
        "baseline | |"
        if row["name"] == BASELINE
        else (
            f"{row['difference']:+.3f} | {row['better']}–{row['sets'] - row['better'] - row['worse']}–{row['worse']} |"
        )
    )
    p_value = "" if row["wilcoxon_p"] is None else f"{row['wilcoxon_p']:.3f}"
    return (
        f"| {row['name']} | {row['mean']:.3f} | {row['rank']:.2f} | {versus} {p_value} | {row['log_loss']:.3f} "
        f"| {row['seconds']:.1f} | {row['failures']} |"
    )


def set_table(sets: dict[str, dict[str, Any]]) -> str:
    names = [row["name"] for row in next(iter(sets.values()))["methods"]]
    lines = [
        "| set | rows | classes | " + " | ".join(names) + " | recommended |",
        "|---" * (len(names) + 4) + "|",
    ]
    for name, facts in sorted(sets.items()):
        scores = [_mean(row) for row in facts["methods"]]
        shown = [
            f"**{score:.3f}**" if score == np.nanmax(scores) else f"{score:.3f}" for score in scores
        ]
        recommended = facts["verdict"]["recommended"]
        lines.append(
            f"| {name} | {facts['rows']} | {facts['classes']} | {' | '.join(shown)} | {recommended} |"
        )
    return "\n".join(lines)


def write(sets: dict[str, dict[str, Any]], options: argparse.Namespace) -> None:
    summary = [{**row, "sets": len(sets)} for row in over_sets(sets)]
    command = shlex.join(
        ["python", "-m", "benchmarks.quality.compare_tables", *_scale_arguments(options)]
    )
    packages = {name: version(name) for name in ("eastward", "numpy", "scikit-learn", "torch")}
    facts = {"command": command, "python": platform.python_version(), "packages": packages}
    RESULTS.mkdir(parents=True, exist_ok=True)
    content = {
        **facts,
        "methods": summary,
        "sets": {name: _brief(each) for name, each in sets.items()},
    }
    (RESULTS / "results.json").write_text(json.dumps(content, indent=1) + "\n")
    (RESULTS / "README.md").write_text(readme(sets, summary, command, options))
    print(method_table(summary))


def _scale_arguments(options: argparse.Namespace) -> list[str]:
    rows = [] if options.max_rows is None else ["--max-rows", str(options.max_rows)]
    hidden = ["--hidden", *map(str, options.hidden)]
    return [
        "--splits",
        str(options.splits),
        *rows,
        *hidden,
        "--max-epochs",
        str(options.max_epochs),
    ]


def _brief(facts: dict[str, Any]) -> dict[str, Any]:
    kept = ("method", "split", "score", "log_loss", "brier", "ece", "seconds", "error")
    cells = [{name: cell[name] for name in kept} for cell in facts["cells"]]
    return {**facts, "cells": cells}


def readme(
    sets: dict[str, dict[str, Any]],
    summary: list[dict[str, Any]],
    command: str,
    options: argparse.Namespace,
) -> str:
    verdicts = Counter(facts["verdict"]["recommended"] for facts in sets.values())
    counted = ", ".join(f"{name} on {count}" for name, count in verdicts.most_common())
    protocol = __doc__.split("Protocol. ")[1].replace("``", "`").strip()
    limit = "all rows" if options.max_rows is None else f"at most {options.max_rows} rows of each"
    return f"""# compare on {len(sets)} of {len(tables())} tables

Scale of this run: {options.splits} splits, {limit}, networks of hidden widths {tuple(options.hidden)}, at most \
{options.max_epochs} epochs a stage. Seconds are wall-clock on a shared machine and only tell orders of magnitude.

{method_table(summary)}

What the verdicts recommend: {counted}. With {options.splits} splits a verdict leaves the baseline only for large and \
steady gains.

Mean macro-F1 of each set (best in bold):

{set_table(sets)}

Protocol: {protocol}

Regenerate with `EASTWARD_DATA=<data folder> {command}`. Every cell is in `results.json`.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--max-rows", type=int, default=None)
    parser.add_argument("--hidden", type=int, nargs="+", default=[512, 256, 128])
    parser.add_argument("--max-epochs", type=int, default=200)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=float("inf"))
    parser.add_argument("--store", type=Path, default=ROOT / "build" / "compare")
    options = parser.parse_args()
    sets = run_all(options)
    if sets:
        write(sets, options)


if __name__ == "__main__":
    main()
