"""How many rows equal votes should be worth in EASTEnsembleClassifier, on development splits.

    EASTWARD_DATA=<data folder> python -m benchmarks.quality run --random-state 0 --plan core:3
    EASTWARD_DATA=<data folder> python -m benchmarks.quality.votes

Votes are those under which held-out labels are most probable, with equal votes (half for networks) as a prior worth so
many rows. Nothing is fitted here but votes and decisions. Writes ``results/quality/votes.md``.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from benchmarks.quality import data, statistics
from benchmarks.quality.components import PARTS, Component
from benchmarks.quality.methods import DEFAULT, Components, Problem, blend_of, metric_named
from eastward.estimators.ensemble.votes import EVEN_ROWS

ROOT = Path(__file__).parents[2]
TABLE = ROOT / "results" / "quality" / "votes.md"
EQUAL = 1e12
# None: as the ensemble does it, by the number of rows.
PRIORS = (0, 100, 300, 1_000, 3_000, None)


def scores(
    problem: Problem, found: Components, priors: Sequence[float | None]
) -> dict[float | None, tuple[float, float]]:
    """F1 and log-loss on test rows for every worth of the equal votes."""
    truth, result = problem.split.test_codes, {}
    for prior in priors:
        held, test = blend_of(found, DEFAULT.parts, problem.split.train_codes, prior)
        loss = -float(test[np.arange(len(truth)), truth].mean())
        result[prior] = (problem.merit(problem.decided(held, test), truth), loss)
    return result


def table(found: dict[str, list[dict[float | None, tuple[float, float]]]]) -> str:
    """Means over tables, and differences to equal votes."""
    lines = [
        "| equal votes are worth | F1 | difference | better–equal–worse | p | log-loss |",
        "|---" * 6 + "|",
    ]
    means = {
        prior: np.array(
            [np.mean([each[prior] for each in splits], axis=0) for splits in found.values()]
        )
        for prior in next(iter(found.values()))[0]
    }
    for prior, values in means.items():
        gains = values[:, 0] - means[EQUAL][:, 0]
        name = _name(prior)
        wins, ties, losses = statistics.wins_ties_losses(gains, statistics.MARGIN)
        versus = (
            f"{gains.mean():+.4f} | {wins}–{ties}–{losses} | {statistics.signed_rank_p(gains):.2f}"
        )
        versus = " | | " if prior == EQUAL else versus
        lines.append(
            f"| {name} | {values[:, 0].mean():.4f} | {versus} | {values[:, 1].mean():.4f} |"
        )
    splits = sum(len(each) for each in found.values())
    return "\n".join([*lines, f"\n{len(found)} tables, {splits} splits."]) + "\n"


def _prior(text: str) -> float | None:
    return None if text == "rule" else float(text)


def _name(prior: float | None) -> str:
    if prior is None:
        return f"{EVEN_ROWS:,.0f}² / n rows: the rule"
    return "everything: they stay" if prior == EQUAL else f"{prior:,.0f} rows"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--random-state", type=int, default=0)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--priors", type=_prior, nargs="+", default=PRIORS)
    parser.add_argument("--results", type=Path, default=TABLE)
    parser.add_argument("--store", type=Path, default=ROOT / "build" / "quality")
    options = parser.parse_args()
    torch.set_num_threads(1)
    needed = [PARTS[part] for part in DEFAULT.parts]
    found: dict[str, list[dict[float | None, tuple[float, float]]]] = {}
    for name, load in data.tabular(data.data_folder() / "tabular").items():
        for number in range(options.first, options.first + options.splits):
            folder = options.store / str(options.random_state) / "components" / f"{name}-{number}"
            if not all((folder / f"{part}.npz").exists() for part in needed):
                continue
            split = data.make_split(load(), options.random_state, number, 500)
            metric = metric_named("f1", split.train_codes, split.num_classes)
            parts = {part: Component.load(folder / f"{part}.npz") for part in needed}
            found.setdefault(name, []).append(
                scores(Problem(split, metric, "f1"), parts, (EQUAL, *options.priors))
            )
    options.results.write_text(table(found))
    print(options.results.read_text())


if __name__ == "__main__":
    main()
