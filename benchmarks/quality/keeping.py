"""How many held-out rows a class has to be given so that it is not given up: the choice behind ``keep_classes``.

    python -m benchmarks.quality.keeping

reads the components that ``run --random-state 0`` left (nothing is fitted), decides for the ensemble as it does by
default, with and without the rule and with other numbers in it, and writes ``results/quality/keeping.md``. A class is
lost if five networks of cross-entropy predict it on test rows by arg max and the ensemble never does.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from unittest import mock

import numpy as np
from scipy.stats import wilcoxon

from benchmarks.quality import data
from benchmarks.quality.components import Component
from benchmarks.quality.methods import ALL_PARTS, DEFAULT, Array, Problem, blend_of, metric_named
from eastward.decisions import keeping

ROOT = Path(__file__).parents[2]
TABLE = ROOT / "results" / "quality" / "keeping.md"
METRICS = {"f1": "F1", "balanced_accuracy": "balanced accuracy"}
# At least so many rows of a class, and at least this share of them; as far as it has them.
RULES = {
    "no rule": None,
    "three": (3, 0.0),
    "half": (0, 0.5),
    "half, and three": (3, 0.5),
    "three quarters": (0, 0.75),
    "all": (0, 1.0),
}
Scores = dict[tuple[str, str], dict[str, list[tuple[float, bool]]]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--max-rows", type=int, default=500)
    parser.add_argument("--random-state", type=int, default=0)
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--store", type=Path, default=ROOT / "build" / "quality")
    parser.add_argument("--results", type=Path, default=TABLE)
    options = parser.parse_args()
    state, scores = options.random_state, Scores()
    for name, load in data.tabular(data.data_folder() / "tabular").items():
        for number in range(options.splits):
            folder = options.store / str(state) / "components" / f"{name}-{number}"
            if not all((folder / f"{part}.npz").exists() for part in ALL_PARTS):
                continue
            found = {part: Component.load(folder / f"{part}.npz") for part in ALL_PARTS}
            split = data.make_split(load(), state, number, options.max_rows)
            for kind in METRICS:
                for rule, judged in decided(split, found, kind).items():
                    scores.setdefault((kind, rule), {}).setdefault(name, []).append(judged)
    options.results.parent.mkdir(parents=True, exist_ok=True)
    options.results.write_text(table(scores))


def decided(
    split: data.Split, found: dict[str, Component], kind: str
) -> dict[str, tuple[float, bool]]:
    """The metric on test rows, and whether a class is lost, under each rule."""
    problem = Problem(split, metric_named(kind, split.train_codes, split.num_classes), kind)
    with np.errstate(invalid="ignore"):  # rows that every model saw have no held-out prediction
        held, test = (blend_of(found, DEFAULT.parts, test=side) for side in (False, True))
    known = np.isfinite(held).all(axis=1)
    offsets = problem.offsets(held, label_share=DEFAULT.label_share)
    there = np.intersect1d(found["ce"].test_mean.argmax(1), split.test_codes)
    result = {}
    for name, numbers in RULES.items():
        kept = offsets if numbers is None else _kept(numbers, offsets, held, known, problem)
        predicted = (test + kept).argmax(1)
        lost = np.setdiff1d(there, predicted)
        result[name] = problem.merit(predicted, split.test_codes), len(lost) > 0
    return result


def _kept(
    numbers: tuple[int, float], offsets: Array, held: Array, known: Array, problem: Problem
) -> Array:
    codes = problem.split.train_codes[known]
    with mock.patch.multiple(keeping, FEWEST_ROWS=numbers[0], SHARE_OF_ROWS=numbers[1]):
        return keeping.keep_classes(offsets, held[known], codes, problem.metric).numpy()


def table(scores: Scores) -> str:
    """Mean over sets, the difference to no rule, sets better and worse, and splits on which a class is lost."""
    head = ["rows of a class"]
    head += [cell for name in METRICS.values() for cell in (name, "splits that lose a class")]
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for rule in RULES:
        row = [rule]
        for kind in METRICS:
            found, plain = scores[kind, rule], scores[kind, "no rule"]
            means, before = (
                np.array([np.mean([value for value, _ in values]) for values in each.values()])
                for each in (found, plain)
            )
            row += [
                _difference(means, before),
                str(sum(lost for values in found.values() for _, lost in values)),
            ]
        lines.append("| " + " | ".join(row) + " |")
    sets = scores["f1", "no rule"]
    splits = sum(len(values) for values in sets.values())
    note = (
        f"Mean over {len(sets)} tables ({splits} splits); in brackets the difference to no rule, sets better–worse, "
        "and Wilcoxon's p."
    )
    return "\n".join(lines) + "\n\n" + note + "\n"


def _difference(means: Array, before: Array) -> str:
    gains = means - before
    if not gains.any():
        return f"{means.mean():.4f}"
    wins, losses = int((gains > 0).sum()), int((gains < 0).sum())
    p_value = wilcoxon(gains).pvalue
    return f"{means.mean():.4f} ({gains.mean():+.4f}, {wins}–{losses}, p {p_value:.2f})"


if __name__ == "__main__":
    main()
