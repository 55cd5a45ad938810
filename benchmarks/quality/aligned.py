"""What each choice in the aligned stage of EASTClassifier is worth, on the development splits.

    EASTWARD_DATA=<data folder> python -m benchmarks.quality.aligned --splits 3

fits the default of ``EASTClassifier`` and variants that differ in one choice, as five networks and as one, on splits of
random state 0. Finished splits are kept in ``build/quality/aligned.jsonl``; the table goes to
``results/quality/aligned.md``.
"""

from __future__ import annotations

import argparse
import json
import logging
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from scipy.stats import wilcoxon

from benchmarks.quality import data
from benchmarks.quality.components import HIDDEN, TRAINING
from benchmarks.quality.methods import Problem, metric_named
from eastward import EASTClassifier
from eastward.training import Stage, recipe_stages

ROOT = Path(__file__).parents[2]
CELLS = ROOT / "build" / "quality" / "aligned.jsonl"
TABLE = ROOT / "results" / "quality" / "aligned.md"
DEFAULT = "default"
MAX_ROWS = 500


def _changed(**changes: Any) -> Callable[[list[Stage]], list[Stage]]:
    return lambda stages: [*stages[:-1], replace(stages[-1], **changes)]


def _of_length(epochs: int) -> Callable[[list[Stage]], list[Stage]]:
    """A fixed number of epochs, however long cross-entropy took."""

    def change(stages: list[Stage]) -> list[Stage]:
        ladder = stages[-1].temperatures or ()
        spread = tuple(ladder[k * len(ladder) // epochs] for k in range(epochs))
        fixed = {"max_epochs": epochs, "temperatures": spread, "as_long_as_before": False}
        return [*stages[:-1], replace(stages[-1], **fixed)]

    return change


VARIANTS: dict[str, Callable[[list[Stage]], list[Stage]]] = {
    DEFAULT: list,
    "no aligned stage": lambda stages: stages[:-1],
    "started at arg max": _changed(from_decision=False),
    "12 epochs": _of_length(12),
    "24 epochs": _of_length(24),
    "48 epochs": _of_length(48),
    "shuffled batches": _changed(stratified=False),
    "best epoch, no average": _changed(average_last=0.0),
    "one temperature, 0.2": _changed(temperatures=(0.2,)),
    "no collapse guard": _changed(guard="off"),
}


def score(split: data.Split, members: int, variant: str) -> tuple[float, int]:
    """F1 on the test rows, and how many of the classes there are never predicted."""
    metric = metric_named("f1", split.train_codes, split.num_classes)

    def stages(recipe: str, **options: Any) -> list[Stage]:
        return VARIANTS[variant](recipe_stages(recipe, **options))

    model = EASTClassifier(
        metric.name, hidden=HIDDEN, n_folds=members, random_state=split.seed % 2**31, **TRAINING
    )
    with patch("eastward.estimators.network.fitting.recipe_stages", stages):
        model.fit(split.train, split.train_codes)
    predicted = model.predict_proba(split.test).argmax(1)
    missing = set(split.test_codes.tolist()) - set(predicted.tolist())
    return Problem(split, metric, "f1").merit(predicted, split.test_codes), len(missing)


def read() -> list[dict[str, Any]]:
    lines = CELLS.read_text().splitlines() if CELLS.exists() else []
    return [json.loads(line) for line in lines]


def run(splits: int) -> None:
    """Whatever is missing; a split is finished for all sets before the next one begins."""
    done = {(cell["set"], cell["split"]) for cell in read()}
    CELLS.parent.mkdir(parents=True, exist_ok=True)
    tasks = data.tabular(data.data_folder() / "tabular")
    for number in range(splits):
        for name, load in tasks.items():
            if (name, number) in done:
                continue
            split = data.make_split(load(), 0, number, MAX_ROWS)
            found = {f"{v} x{k}": score(split, k, v) for v in VARIANTS for k in (5, 1)}
            with CELLS.open("a") as file:
                file.write(json.dumps({"set": name, "split": number, "scores": found}) + "\n")
            print(name, number, flush=True)


def table(cells: list[dict[str, Any]]) -> str:
    """Mean F1 over sets; the difference to the default, wins and losses over sets, p, and classes never predicted."""
    head = "| aligned stage | five networks | classes lost | one network | classes lost |"
    lines = [head, "|---" * 5 + "|"]
    for variant in VARIANTS:
        row = [variant]
        for members in (5, 1):
            means, missing = _by_set(cells, f"{variant} x{members}")
            gains = means - _by_set(cells, f"{DEFAULT} x{members}")[0]
            text = f"{means.mean():.3f}"
            if variant != DEFAULT:
                wins, losses = int((gains > 0).sum()), int((gains < 0).sum())
                text += f" ({gains.mean():+.3f}, {wins}–{losses}, p {wilcoxon(gains).pvalue:.2f})"
            row += [text, str(missing)]
        lines.append("| " + " | ".join(row) + " |")
    sets = len({cell["set"] for cell in cells})
    note = (
        f"\nMean F1 over {sets} development tables ({len(cells)} splits); in brackets the difference to the default, "
        "sets better–worse, and Wilcoxon's p. Classes lost: those of the test rows that are never predicted, summed "
        "over splits."
    )
    return "\n".join(lines) + "\n" + note + "\n"


def _by_set(cells: list[dict[str, Any]], column: str) -> tuple[Any, int]:
    names = sorted({cell["set"] for cell in cells})
    found = [[c["scores"][column] for c in cells if c["set"] == name] for name in names]
    means = np.array([np.mean([value for value, _ in pairs]) for pairs in found])
    return means, sum(missing for pairs in found for _, missing in pairs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--splits", type=int, default=3)
    options = parser.parse_args()
    torch.set_num_threads(1)
    logging.getLogger("eastward").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")
    run(options.splits)
    TABLE.parent.mkdir(parents=True, exist_ok=True)
    TABLE.write_text(table(read()))


if __name__ == "__main__":
    main()
