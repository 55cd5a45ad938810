"""EASTClassifier on the papers' four binary tables: F1, accuracy and MCC over repeated splits.

    EASTWARD_DATA=<folder of data sets> python benchmarks/paper_sets.py [--only mammography] [--table]

Protocol. Each data set is split several times at random into 80 % for training (of which the estimator holds out
its own validation rows) and 20 % for testing, stratified by class. On every split each method is fitted with
``metric="f1"``, and the same split serves all methods, so differences are paired. Nothing is searched: learning
rate, dropout, patience and cooling are the defaults of ``EASTClassifier``; what differs from the defaults stands
above the table. The papers searched batch size, learning rate, dropout and cooling rate for each data set and loss
on one split, and then varied the initial weights ten times.

Finished cells are appended to ``results/paper_sets/cells.jsonl`` at once; a run that was stopped goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef
from sklearn.model_selection import train_test_split

import eastward as ew
from eastward import datasets

RESULTS = Path(__file__).parents[1] / "results" / "paper_sets"
CELLS = RESULTS / "cells.jsonl"
COMMAND = "EASTWARD_DATA=<folder of data sets> make paper-sets"
METHODS: dict[str, dict[str, Any]] = {
    "cross_entropy": {"recipe": "cross_entropy", "n_folds": 1},
    "paper": {"recipe": "paper", "n_folds": 1},
    "auto": {"recipe": "auto"},
    "auto, not aligned": {"recipe": "auto", "aligned": False},
}
NAMES = {
    "cross_entropy": "cross-entropy, one network",
    "paper": '`recipe="paper"`, one network',
    "auto": '`recipe="auto"`',
    "auto, not aligned": '`recipe="auto", aligned=False`',
}
SCORES = {"f1": f1_score, "accuracy": accuracy_score, "mcc": matthews_corrcoef}
Table = tuple[pd.DataFrame, "pd.Series[int]"]


def loaded(name: str, **options: Any) -> Callable[[Path], Table]:
    def load(folder: Path) -> Table:
        table = datasets.load(name, folder, **options)
        return pd.DataFrame(table.features, columns=list(table.columns)), pd.Series(table.targets)

    return load


@dataclass(frozen=True)
class PaperSet:
    """A data set, how it is read, what the papers report, and what is run differently on it."""

    title: str
    file: str
    load: Callable[[Path], Table]
    # EAST v2, Table 1: F1, accuracy, MCC of cross-entropy (CE) and of the F1 loss (F1*)
    published: dict[str, tuple[float, float, float]]
    comment: str
    splits: int = 3
    options: dict[str, Any] = field(default_factory=dict)
    by_time: bool = False


# Enough for the papers' cooling to end by itself; early stopping ends everything else long before.
LONG = {"max_epochs": 300}
# a quarter of the papers' 512-256-128: five to ten times as quick, which two cores need
SMALL = {"hidden": (128, 64)}
COCKTAIL_PAPER = {"CE": (0.730, 0.843, 0.626), "F1*": (0.734, 0.844, 0.624)}
ADULT_PAPER = {"CE": (0.148, 0.782, 0.247), "F1*": (0.364, 0.806, 0.369)}
SETS = {
    "mammography": PaperSet(
        "Mammography",
        "mammography/mammography.parquet",
        loaded("mammography"),
        {"CE": (0.755, 0.990, 0.753), "F1*": (0.750, 0.989, 0.745)},
        "260 of 11 183 rows are positive, so a test set has 52: one of them is 0.01 of F1.",
        options=LONG | SMALL,
    ),
    "cocktail_party": PaperSet(
        "CocktailParty, pairs split at random",
        "cocktail_party/dyads.parquet",
        loaded("cocktail_party"),
        COCKTAIL_PAPER,
        "Positive: the two stand in different groups. The papers do not say how frames were split; here pairs of one "
        "frame fall on both sides, and neighbouring frames are nearly alike, which flatters every method.",
        options=LONG | SMALL,
    ),
    "cocktail_party_by_time": PaperSet(
        "CocktailParty, a fifth of the time held out",
        "cocktail_party/dyads.parquet",
        loaded("cocktail_party"),
        COCKTAIL_PAPER,
        "The same pairs, but test frames are one stretch of time (split k: the k-th fifth), which a model has to "
        "foresee.",
        options=LONG | SMALL,
        by_time=True,
    ),
    "adult_numeric": PaperSet(
        "Adult, its six numeric features",
        "adult/adult.data.gz",
        loaded("adult"),
        ADULT_PAPER,
        "The papers' F1 of 0.15 to 0.36 suggests that they used these alone.",
        options=LONG | SMALL,
    ),
    "adult_all": PaperSet(
        "Adult, all features (categories one-hot)",
        "adult/adult.data.gz",
        loaded("adult", features="all"),
        ADULT_PAPER,
        "Both official files joined; a missing value is a category of its own.",
        options=LONG | SMALL,
    ),
    "credit_card": PaperSet(
        "Credit-card fraud (the papers' Kaggle)",
        "creditcard/creditcard.parquet",
        loaded("credit_card"),
        {"CE": (0.855, 1.000, 0.856), "F1*": (0.824, 0.999, 0.824)},
        "492 of 284 807 rows are positive. One network under every recipe, because there are more than 50 000 rows.",
        options=SMALL | {"batch_size": 4096, "max_epochs": 100},
    ),
}


def split_rows(X: pd.DataFrame, y: Any, number: int, *, by_time: bool) -> tuple[Any, Any]:
    """Row numbers for training and testing; rows are in order of time where there is one."""
    rows = np.arange(len(X))
    if by_time:
        test = np.array_split(rows, 5)[number]
        return np.setdiff1d(rows, test), test
    return tuple(train_test_split(rows, test_size=0.2, stratify=y, random_state=number))


def run_cell(name: str, method: str, number: int, table: Table) -> dict[str, Any]:
    X, y = table
    chosen = SETS[name]
    train, test = split_rows(X, y, number, by_time=chosen.by_time)
    options = {**chosen.options, **METHODS[method], "random_state": number}
    started, used = time.perf_counter(), time.process_time()
    model = ew.EASTClassifier("f1", **options)
    model.fit(X.iloc[train], y.iloc[train])
    seconds = {"seconds": time.perf_counter() - started, "cpu": time.process_time() - used}
    decided = model.predict(X.iloc[test])
    scores = {key: float(score(y.iloc[test], decided)) for key, score in SCORES.items()}
    return {
        "set": name,
        "method": method,
        "split": number,
        **scores,
        **{key: round(value, 2) for key, value in seconds.items()},
        "epochs": model.n_iter_,
        "stages": model.report_["stages"],
        "notes": model.report_["notes"],
    }


def finished_cells() -> list[dict[str, Any]]:
    if not CELLS.exists():
        return []
    return [json.loads(line) for line in CELLS.read_text().splitlines()]


def run_missing(folder: Path, wanted: list[str]) -> None:
    """Run every cell that is not there yet, the three recipes before the control."""
    done = {(cell["set"], cell["method"], cell["split"]) for cell in finished_cells()}
    tables = {name: SETS[name].load(folder) for name in wanted}
    for control in (False, True):
        for name in wanted:
            for number in range(SETS[name].splits):
                for method in METHODS:
                    missing = (name, method, number) not in done
                    if missing and (method == "auto, not aligned") == control:
                        store(run_cell(name, method, number, tables[name]))


def store(cell: dict[str, Any]) -> None:
    CELLS.parent.mkdir(parents=True, exist_ok=True)
    with CELLS.open("a") as file:
        file.write(json.dumps(cell) + "\n")
    print(
        "{set:>22} {method:>18} split {split}: F1 {f1:.4f}  MCC {mcc:.4f}  {seconds:.0f} s".format(
            **cell
        ),
        flush=True,
    )


def available(folder: Path | None, only: list[str]) -> list[str]:
    wanted = only or list(SETS)
    if folder is None:
        print("EASTWARD_DATA is not set: nothing is run, the table is written from stored cells")
        return []
    present = [name for name in wanted if (folder / SETS[name].file).exists()]
    for name in sorted(set(wanted) - set(present)):
        print(f"skipped {name}: EASTWARD_DATA has no {SETS[name].file}")
    return present


def summary_row(cells: list[dict[str, Any]], title: str) -> str:
    parts = []
    for key in SCORES:
        values = np.array([cell[key] for cell in cells])
        spread = f" ± {values.std(ddof=1):.3f}" if len(values) > 1 else ""
        parts.append(f"{values.mean():.3f}{spread}")
    seconds = np.median([cell["cpu"] for cell in cells])
    epochs = np.median([cell["epochs"] for cell in cells])
    return f"| {title} | {' | '.join(parts)} | {epochs:.0f} | {seconds:.0f} |"


def against(cells: dict[str, dict[int, dict[str, Any]]], method: str, other: str) -> str:
    """The paired difference in F1 between two methods, in words."""
    shared = sorted(set(cells.get(method, {})) & set(cells.get(other, {})))
    gains = np.array([cells[method][k]["f1"] - cells[other][k]["f1"] for k in shared])
    if len(gains) < 2:
        return ""
    counts = f"{(gains > 0).sum()} better, {(gains < 0).sum()} worse"
    return f"{NAMES[method]} against {NAMES[other]}: {gains.mean():+.3f} ± {gains.std(ddof=1):.3f} ({counts})"


def section(name: str, every: list[dict[str, Any]]) -> str:
    chosen = SETS[name]
    cells: dict[str, dict[int, dict[str, Any]]] = {}
    for cell in every:
        if cell["set"] == name:
            cells.setdefault(cell["method"], {})[cell["split"]] = cell
    if not cells:
        return ""
    counts = {len(splits) for splits in cells.values()}
    options = ", ".join(f"{key}={value}" for key, value in chosen.options.items())
    lines = [f"## {chosen.title}", "", f"{chosen.comment}", ""]
    missing = [
        f"{NAMES[m]} {len(cells.get(m, {}))}"
        for m in METHODS
        if len(cells.get(m, {})) < chosen.splits
    ]
    lines += [f"{max(counts)} splits; `{options}`.", ""]
    if missing:
        lines += [f"Not complete; splits run so far: {'; '.join(missing)}.", ""]
    lines += [
        "| method | F1 | accuracy | MCC | epochs | CPU seconds |",
        "|---|---|---|---|---|---|",
    ]
    lines += [summary_row(list(cells[m].values()), NAMES[m]) for m in METHODS if m in cells]
    for label, scores in chosen.published.items():
        published = " | ".join(f"*{value:.3f}*" for value in scores)
        lines.append(f"| *EAST v2, Table 1: {label}* | {published} | | |")
    pairs = [("paper", "cross_entropy"), ("auto", "cross_entropy"), ("auto", "auto, not aligned")]
    compared = [text for pair in pairs if (text := against(cells, *pair))]
    return "\n".join(
        [*lines, "", "F1, paired by split:", "", *(f"- {text}" for text in compared), ""]
    )


def write_table() -> None:
    every = finished_cells()
    protocol = (__doc__ or "").split("Protocol. ")[1].split("\n\n")[0].replace("``", "`")
    text = f"""# The papers' four binary tables

Test scores, mean ± standard deviation over splits. Epochs and CPU seconds are medians (one thread).

{protocol}

Regenerate with `{COMMAND}` (one thread; a stopped run goes on where it was). Every cell is in `cells.jsonl`.

"""
    sections = [section(name, every) for name in SETS]
    absent = [SETS[name].title for name, part in zip(SETS, sections, strict=True) if not part]
    if absent:
        text += f"Not run yet: {'; '.join(absent)}.\n\n"
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / "README.md").write_text(text + "\n".join(part for part in sections if part))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--only", nargs="*", default=[], choices=list(SETS))
    parser.add_argument("--table", action="store_true", help="write the table from stored cells")
    options = parser.parse_args()
    torch.set_num_threads(1)
    folder = os.environ.get("EASTWARD_DATA")
    if not options.table:
        wanted = available(None if folder is None else Path(folder), options.only)
        if folder is not None:
            run_missing(Path(folder), wanted)
    write_table()


if __name__ == "__main__":
    main()
