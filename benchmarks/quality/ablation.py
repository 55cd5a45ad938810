"""Which votes and which decision: the choices behind EASTEnsembleClassifier, on the development splits.

    python -m benchmarks.quality.ablation

reads the components that ``run --random-state 0`` left (nothing is fitted) and writes ``results/quality/ablation.md``.
Offsets are tuned on 65 % of a split's held-out predictions and judged by F1 on the others and on the test rows, twice
with other rows: what differs is the decision and nothing else. Sets of more than twelve classes are left out.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import wilcoxon

from benchmarks.quality import data
from benchmarks.quality.components import Component
from benchmarks.quality.methods import Problem, metric_named
from eastward.comparison.splits import stratified_split
from eastward.decisions import smoothed_offsets

ROOT = Path(__file__).parents[2]
TABLE = ROOT / "results" / "quality" / "ablation.md"
Array = NDArray[Any]
TREES = ("lgb", "extra", "forest")
# Votes of each component, by the name of the variant.
VOTES: dict[str, dict[str, float]] = {
    "networks": {"ce": 1},
    "LightGBM": {"lgb": 1},
    "networks, LightGBM": {"ce": 1, "lgb": 1},
    "networks, LightGBM, random forest": {"ce": 2, "lgb": 1, "forest": 1},
    "all, equal votes": dict.fromkeys(("ce", *TREES), 1),
    "all, half for networks": {"ce": 3, **dict.fromkeys(TREES, 1)},
}
SHARES = (1.0, 0.5, 0.25, 0.0)
REFERENCE = ("networks", 1.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--max-rows", type=int, default=500)
    parser.add_argument("--store", type=Path, default=ROOT / "build" / "quality" / "0")
    options = parser.parse_args()
    scores: dict[tuple[str, float], dict[str, list[float]]] = {}
    for name, load in data.tabular(data.data_folder() / "tabular").items():
        for number in range(10):
            folder = options.store / "components" / f"{name}-{number}"
            if not all((folder / f"{c}.npz").exists() for c in ("ce", *TREES)):
                continue
            split = data.make_split(load(), 0, number, options.max_rows)
            if split.num_classes > 12:
                continue
            found = {c: Component.load(folder / f"{c}.npz") for c in ("ce", *TREES)}
            for variant, value in judged(split, found).items():
                scores.setdefault(variant, {}).setdefault(name, []).append(value)
    TABLE.parent.mkdir(parents=True, exist_ok=True)
    TABLE.write_text(table(scores))


def judged(split: data.Split, found: dict[str, Component]) -> dict[tuple[str, float], float]:
    """F1 of every variant on one split."""
    problem = Problem(split, metric_named("f1", split.train_codes, split.num_classes), "f1")
    result: dict[tuple[str, float], list[float]] = {}
    for repeat in range(2):
        tuning, judging = stratified_split(split.train_codes, 0.35, repeat)
        for name, votes in VOTES.items():
            held = _mean({c: found[c].held_out for c in votes}, votes)
            known = np.isfinite(held).all(axis=1)
            tune, judge = tuning[known[tuning]], judging[known[judging]]
            rows = np.vstack([held[judge], _mean({c: found[c].test_mean for c in votes}, votes)])
            truth = np.concatenate([split.train_codes[judge], split.test_codes])
            for share in SHARES:
                codes, kind = split.train_codes[tune], problem.metric.name
                offsets = smoothed_offsets(
                    held[tune], codes, kind, n_bags=8, label_share=share
                ).numpy()
                value = problem.merit((rows + offsets).argmax(1), truth)
                result.setdefault((name, share), []).append(value)
    return {variant: float(np.mean(values)) for variant, values in result.items()}


def _mean(tables: dict[str, Array], votes: dict[str, float]) -> Array:
    logs = [table + np.log(votes[c] / sum(votes.values())) for c, table in tables.items()]
    return np.logaddexp.reduce(np.stack(logs), axis=0)


def table(scores: dict[tuple[str, float], dict[str, list[float]]]) -> str:
    """Mean F1 over sets; the difference to networks tuned by labels alone, wins and losses, and p."""
    reference = {name: np.mean(values) for name, values in scores[REFERENCE].items()}
    head = ["who votes", *(f"label share {share:g}" for share in SHARES)]
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for votes in VOTES:
        row = [votes]
        for share in SHARES:
            means = np.array([np.mean(scores[votes, share][name]) for name in reference])
            gains = means - np.array(list(reference.values()))
            text = f"{means.mean():.3f}"
            if (votes, share) != REFERENCE:
                wins, losses = int((gains > 0).sum()), int((gains < 0).sum())
                text += f" ({gains.mean():+.3f}, {wins}–{losses}, p {wilcoxon(gains).pvalue:.3f})"
            row.append(text)
        lines.append("| " + " | ".join(row) + " |")
    splits = sum(len(values) for values in scores[REFERENCE].values())
    note = (
        f"\nMean F1 over {len(reference)} development tables ({splits} splits); in brackets the difference to networks "
        "tuned by labels alone, sets better–worse, and Wilcoxon's p."
    )
    return "\n".join(lines) + "\n" + note + "\n"


if __name__ == "__main__":
    main()
