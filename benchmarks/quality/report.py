"""From cells to ``results/quality``: tables in Markdown, two pictures, and every number in JSON."""

from __future__ import annotations

import argparse
import gzip
import json
import platform
from collections import Counter
from importlib.metadata import version
from typing import Any

import numpy as np

from benchmarks.quality import pictures, statistics
from benchmarks.quality.statistics import Versus

OURS, NETWORKS = "EASTEnsembleClassifier", "EASTClassifier"
# The same with nothing but a metric and a random state.
UNTOUCHED = (f"{OURS}()", f"{NETWORKS}()")
NAMES = {
    "f1": "F1 (macro-F1 for more than two classes)",
    "matthews_corrcoef": "MCC",
    "balanced_accuracy": "balanced accuracy",
    "cost": "minus expected cost",
}
# The table: opponent, gain, p-value.
TARGETS = [
    ("cross-entropy", 0.08, 0.001),
    ("balanced", 0.03, 0.01),
    ("cross-entropy + tuned", 0.02, 0.01),
    ("cross-entropy x5 + tuned", 0.015, 0.05),
    ("best tree + tuned", 0.01, 0.05),
    ("EAST paper", 0.02, 0.01),
]
Cells = list[dict[str, Any]]


def write(cells: Cells, options: argparse.Namespace) -> None:
    """Write everything that the cells say."""
    if not cells:
        raise SystemExit("There are no cells yet: run first.")
    sections = {
        "scale": _scale(cells, options),
        "targets": target_table(cells),
        "untouched": untouched_tables(cells),
        "methods": method_table(cells, "f1"),
        **{kind: versus_table(cells, kind) for kind in NAMES},
        "networks": versus_table(cells, "f1", NETWORKS),
        "collapse": collapse_text(cells),
        "sets": set_table(cells),
    }
    if not any(cell["method"] in UNTOUCHED for cell in cells):
        del sections["untouched"]
    text = readme(sections, len({cell["set"] for cell in cells}), options.regenerate)
    options.results.mkdir(parents=True, exist_ok=True)
    (options.results / "README.md").write_text(text)
    packed = "".join(json.dumps(cell) + "\n" for cell in cells).encode()
    (options.results / "cells.jsonl.gz").write_bytes(gzip.compress(packed, mtime=0))
    pictures.draw(cells, options.pictures)
    print(text)


def readme(sections: dict[str, str], sets: int, regenerate: str) -> str:
    """One page; comments mark the parts that the documentation shows."""
    titles = {
        "scale": f"# What wins on {sets} tables",
        "targets": "## Targets",
        "untouched": "## As users get them",
        "methods": "## All methods",
        **{kind: f"## By {name}" for kind, name in NAMES.items()},
        "networks": f"## {NETWORKS} by F1",
        "collapse": "## Classes that are never predicted",
        "sets": "## Each set",
    }
    parts = [
        f"{titles[name]}\n\n<!-- {name} -->\n\n{body}\n\n<!-- end {name} -->"
        for name, body in sections.items()
    ]
    return "\n\n".join([*parts, f"{regenerate} Every cell is in `cells.jsonl.gz`."]) + "\n"


def _scale(cells: Cells, options: argparse.Namespace) -> str:
    counts = Counter((cell["method"], cell["set"]) for cell in cells if cell["metric"] == "f1")
    by_method = {
        method: _range([n for (name, _), n in counts.items() if name == method])
        for method in dict.fromkeys(cell["method"] for cell in cells)
    }
    if len(set(by_method.values())) == 1:
        ran = f"{next(iter(by_method.values()))} for every method"
    else:
        ran = ", ".join(f"{method}: {splits}" for method, splits in by_method.items())
    packages = ("torch", "scikit-learn", "lightgbm", "xgboost", "numpy")
    versions = ", ".join(f"{name} {version(name)}" for name in packages)
    return (
        f"Splits of random state {options.random_state} (random state 0 was used to choose defaults), training rows "
        f"capped at {options.max_rows}, test rows at {3 * options.max_rows}; networks of hidden widths (128, 64), at "
        f"most 100 epochs, for every method alike. Differences are paired by split, averaged within a set, and tested "
        f"over sets. Python {platform.python_version()}, {versions}.\n\nSplits of each set: {ran}."
    )


def _range(counts: list[int]) -> str:
    return f"{min(counts)}" if min(counts) == max(counts) else f"{min(counts)}–{max(counts)}"


def target_table(cells: Cells, ours: str = OURS) -> str:
    """The issue's targets, met or missed."""
    found = {row.name: row for row in _versus(cells, "f1", ours)}
    lines = ["| against | target | measured | W–T–L | Wilcoxon p | |", "|---" * 6 + "|"]
    for name, gain, level in TARGETS:
        if name not in found:
            lines.append(f"| {name} | ≥ {gain}, p < {level} | not run | | | |")
            continue
        row = found[name]
        met = "met" if row.gain >= gain and row.p_value < level else "**missed**"
        lines.append(
            f"| {name} | ≥ {gain}, p < {level} | {_gain(row)} | {_counts(row)} | {row.p_value:.4f} | {met} |"
        )
    return "\n".join(lines)


def untouched_tables(cells: Cells) -> str:
    """The targets with estimators that have all their defaults."""
    ensemble, networks = UNTOUCHED
    parts = [f"`{ensemble}`:", target_table(cells, ensemble)]
    parts += [f"`{networks}`:", network_table(cells, networks)]
    return "\n\n".join(parts)


def network_table(cells: Cells, ours: str = NETWORKS) -> str:
    """Networks alone against the opponents of the targets."""
    found = {row.name: row for row in _versus(cells, "f1", ours)}
    lines = ["| against | measured | W–T–L | Wilcoxon p |", "|---" * 4 + "|"]
    lines += [
        f"| {name} | {_gain(found[name])} | {_counts(found[name])} | {found[name].p_value:.4f} |"
        for name in (target[0] for target in TARGETS)
        if name in found
    ]
    return "\n".join(lines)


def _versus(cells: Cells, kind: str, ours: str = OURS) -> list[Versus]:
    others = list(dict.fromkeys(c["method"] for c in cells if c["metric"] == kind))
    if ours not in others:
        return []
    return statistics.versus_all(cells, kind, ours, [name for name in others if name != ours])


def _gain(row: Versus) -> str:
    return f"{row.gain:+.3f} ({row.low:+.3f} to {row.high:+.3f})"


def _counts(row: Versus) -> str:
    return f"{row.wins}–{row.ties}–{row.losses}"


def versus_table(cells: Cells, kind: str, ours: str = OURS) -> str:
    """The ensemble, or another method, against every other one, by one metric."""
    head = (
        f"| {ours} against | sets | mean gain (95 %) | W–T–L ±{statistics.MARGIN} | p | p (Holm) "
        "| P(better) | P(equal) | P(worse) |"
    )
    lines = [head, "|---" * 9 + "|"]
    lines += [
        f"| {row.name} | {row.sets} | {_gain(row)} | {_counts(row)} | {row.p_value:.4f} | {row.p_holm:.4f} "
        f"| {row.better:.2f} | {row.equal:.2f} | {row.worse:.2f} |"
        for row in sorted(_versus(cells, kind, ours), key=lambda row: row.gain)
    ]
    return "\n".join(lines)


def method_table(cells: Cells, kind: str) -> str:
    """Mean score and average rank over the sets that every shown method was run on."""
    methods, sets, table = statistics.mean_table(cells, kind)
    complete = [k for k in range(len(methods)) if np.isfinite(table[k]).all()]
    ranks = statistics.ranks(table[complete])
    rows = sorted(zip(ranks, [methods[k] for k in complete], table[complete].mean(1), strict=True))
    distance = statistics.critical_difference(len(complete), len(sets))
    lines = ["| method | mean F1 | average rank |", "|---|---|---|"]
    lines += [f"| {name} | {mean:.3f} | {rank:.2f} |" for rank, name, mean in rows]
    lines.append(f"\nCritical difference of average ranks (Nemenyi, 5 %): {distance:.2f}.")
    return "\n".join(lines)


def set_table(cells: Cells) -> str:
    """Mean F1 of each set for the methods of the target table."""
    methods, sets, table = statistics.mean_table(cells, "f1")
    shown = [name for name in (OURS, NETWORKS, *(t[0] for t in TARGETS)) if name in methods]
    lines = ["| set | " + " | ".join(shown) + " |", "|---" * (len(shown) + 1) + "|"]
    for column, name in enumerate(sets):
        scores = [table[methods.index(method), column] for method in shown]
        best = np.nanmax(scores)
        cells_of = [f"**{s:.3f}**" if s == best else f"{s:.3f}" for s in scores]
        lines.append(f"| {name} | " + " | ".join(cells_of) + " |")
    return "\n".join(lines)


def collapsed(
    cells: Cells, ours: str, reference: str = "cross-entropy x5"
) -> list[tuple[str, int]]:
    """Sets and splits on which a method never gives a class that cross-entropy does give."""
    never = {
        (cell["method"], cell["set"], cell["split"]): set(cell["never_predicted"])
        for cell in cells
        if cell["metric"] == "f1" and cell["method"] in {ours, reference}
    }
    return [
        (name, split)
        for (method, name, split), lost in sorted(never.items())
        if method == ours and lost - never.get((reference, name, split), lost)
    ]


def collapse_text(cells: Cells) -> str:
    """Which defaults lose a class that five networks of cross-entropy predict."""
    lines = []
    for name in (OURS, NETWORKS, *UNTOUCHED, "EAST paper"):
        runs = sum(cell["metric"] == "f1" and cell["method"] == name for cell in cells)
        if not runs:
            continue
        lost = collapsed(cells, name)
        where = "" if not lost else ": " + ", ".join(f"{s} (split {k})" for s, k in lost)
        lines.append(f"- {name}: {len(lost)} of {runs} runs{where}")
    head = "Runs in which some class of the test rows is never predicted although cross-entropy x5 predicts it:"
    return head + "\n\n" + "\n".join(lines)
