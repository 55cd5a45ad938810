"""Does the verdict of `compare` choose well? Rules judged on splits and tables that they have not seen.

Each table's splits are parted: a rule sees some of them and recommends a method; the others say what that method is
worth. The prior is fitted without the table: for the held-out tables on the 33 development tables, for those on four
fifths of the others.

    python -m benchmarks.quality.verdicts --write     # results/quality/verdict.md
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.quality.prior import METRICS, REFERENCE, ROOT, Tables, fitted_prior, read_tables
from eastward import metrics
from eastward.comparison.belief import Prior
from eastward.comparison.dropping import SPLITS_BETWEEN_LOOKS, beaten
from eastward.comparison.methods import BUILT_IN, DEFAULT_METHODS
from eastward.comparison.recommending import pair_belief, recommended
from eastward.comparison.statistics import corrected_mean, holm

HELD_OUT = ("results/quality/held_out/cells.jsonl.gz",)
RATIO, MARGIN, FOLDS, SPLITS = 0.25, 0.005, 5, 10
EFFORTS = {name: method.effort for name, method in BUILT_IN.items()}
# method -> gain over the reference on each of the splits seen
Gains = Mapping[str, NDArray[Any]]
Rule = Callable[[Gains, str, Prior], str]


@dataclass(frozen=True)
class Trial:
    """What a rule sees of a table, and what the splits that it does not see say."""

    metric: str
    seen: Gains
    truth: Mapping[str, float]
    prior: Prior


def baseline(seen: Gains, metric: str, prior: Prior) -> str:  # noqa: ARG001  # one shape for all rules
    return REFERENCE


def highest_mean(seen: Gains, metric: str, prior: Prior) -> str:  # noqa: ARG001
    means = {REFERENCE: 0.0} | {name: float(gains.mean()) for name, gains in seen.items()}
    return max(means, key=means.__getitem__)


def significant(seen: Gains, metric: str, prior: Prior) -> str:  # noqa: ARG001
    """The rule before: leave the baseline only for what is better at the 2.5 % level after Holm's adjustment."""
    found = {name: corrected_mean(gains, RATIO) for name, gains in seen.items()}
    adjusted = holm(np.array([1 - result.probability for result in found.values()]))
    sure = {
        name: result.mean
        for (name, result), p in zip(found.items(), adjusted, strict=True)
        if p < 0.025 and result.mean > MARGIN
    }
    if not sure:
        return REFERENCE
    close = [name for name, mean in sure.items() if max(sure.values()) - mean <= MARGIN]
    return min(close, key=EFFORTS.__getitem__)


def expected(seen: Gains, metric: str, prior: Prior | None) -> str:
    """The rule of `compare`."""
    count = max(len(gains) for gains in seen.values())
    scores = {REFERENCE: np.zeros(count), **seen}

    def pairs(one: str, other: str) -> Any:
        shared = min(len(scores[one]), len(scores[other]))
        difference = scores[one][:shared] - scores[other][:shared]
        return belief(difference, (one, other), metric, prior)

    means = {name: pairs(name, REFERENCE).expected for name in seen}
    return recommended({REFERENCE: 0.0, **means}, EFFORTS, pairs, REFERENCE, MARGIN)


def without_prior(seen: Gains, metric: str, prior: Prior) -> str:  # noqa: ARG001
    return expected(seen, metric, None)


def belief(gains: NDArray[Any], names: tuple[str, str], metric: str, prior: Prior | None) -> Any:
    return pair_belief(
        gains,
        np.zeros(len(gains)),
        names=names,
        metric=metrics.get(metric),
        test_ratio=RATIO,
        margin=MARGIN,
        prior=prior,
    )


RULES: Mapping[str, Rule] = {
    "always the baseline": baseline,
    "highest mean": highest_mean,
    "better with confidence (before)": significant,
    "expected score, `prior=None`": without_prior,
    "expected score": expected,
}


def trials(
    tables: Tables, count: int, prior_of: Callable[[str], Prior], repeats: int
) -> Iterator[Trial]:
    """Every table and metric, its splits parted at random into ``count`` seen and the rest."""
    rng = np.random.default_rng(0)
    for table in sorted(tables):
        for metric in METRICS:
            scores = tables[table][metric]
            names = [name for name in DEFAULT_METHODS if name in scores and name != REFERENCE]
            splits = sorted(set.intersection(*(set(scores[n]) for n in (*names, REFERENCE))))
            for _ in range(repeats):
                order = rng.permutation(splits)
                yield _trial(scores, names, order[:count], order[count:], metric, prior_of(table))


def _trial(
    scores: Any, names: Sequence[str], seen: Any, rest: Any, metric: str, prior: Prior
) -> Trial:
    def gains(name: str, splits: Any) -> NDArray[Any]:
        return np.array([scores[name][int(k)] - scores[REFERENCE][int(k)] for k in splits])

    truth = {REFERENCE: 0.0} | {name: float(gains(name, rest).mean()) for name in names}
    return Trial(metric, {name: gains(name, seen) for name in names}, truth, prior)


def by_fold(tables: Tables) -> Callable[[str], Prior]:
    """A prior for each table that was fitted without it."""
    order = sorted(tables)
    folds = {table: k % FOLDS for k, table in enumerate(order)}
    priors = [fitted_prior(tables, [t for t in order if folds[t] != k]) for k in range(FOLDS)]
    return lambda table: priors[folds[table]]


def judged(found: Sequence[Trial]) -> dict[str, tuple[float, float]]:
    """For each rule: mean gain over the baseline of what it chose, and mean regret against the best in hindsight."""
    rows = {}
    for name, rule in RULES.items():
        gains = np.array(
            [trial.truth[rule(trial.seen, trial.metric, trial.prior)] for trial in found]
        )
        best = np.array([max(trial.truth.values()) for trial in found])
        rows[name] = float(gains.mean()), float((best - gains).mean())
    return rows


def calibration(found: Sequence[Trial], edges: Sequence[float]) -> list[tuple[float, float, int]]:
    """Probability that a method is better, against how often it was on the splits not seen; ties count half."""
    pairs = [
        (
            belief(gains, (name, REFERENCE), trial.metric, trial.prior).better,
            0.5 * (1 + np.sign(round(trial.truth[name], 9))),
        )
        for trial in found
        for name, gains in trial.seen.items()
    ]
    told, was = np.array(pairs).T
    bins = np.digitize(told, edges)
    return [
        (float(told[bins == k].mean()), float(was[bins == k].mean()), int((bins == k).sum()))
        for k in range(len(edges) + 1)
        if (bins == k).any()
    ]


def sequential(
    tables: Tables, prior_of: Callable[[str], Prior], metric: str = "f1"
) -> tuple[float, float, float]:
    """Dropping methods between ten splits against running all: share of fits, same recommendations, mean loss."""
    shares, same, losses = [], [], []
    for table in sorted(tables):
        scores, prior = tables[table][metric], prior_of(table)
        names = [name for name in DEFAULT_METHODS if name in scores and name != REFERENCE]
        gains = {
            n: np.array([scores[n][k] - scores[REFERENCE][k] for k in range(SPLITS)]) for n in names
        }
        alive, runs, seen = list(names), {REFERENCE: SPLITS}, dict.fromkeys(names, 0)
        for split in range(SPLITS):
            if split and split % SPLITS_BETWEEN_LOOKS == 0:
                alive = _alive(alive, gains, split, metric, prior)
            for name in alive:
                seen[name] = split + 1
        runs |= seen
        shown = {name: gains[name][: seen[name]] for name in names}
        taken = expected(shown, metric, prior)
        best = expected(gains, metric, prior)
        shares.append(sum(runs.values()) / (SPLITS * len(runs)))
        same.append(taken == best)
        means = {REFERENCE: 0.0} | {name: float(values.mean()) for name, values in gains.items()}
        losses.append(means[best] - means[taken])
    return float(np.mean(shares)), float(np.mean(same)), float(np.mean(losses))


def _alive(alive: Sequence[str], gains: Gains, split: int, metric: str, prior: Prior) -> list[str]:
    shown = {REFERENCE: np.zeros(split)} | {name: gains[name][:split] for name in alive}

    def pairs(one: str, other: str) -> Any:
        return belief(shown[one] - shown[other], (one, other), metric, prior)

    means = {name: pairs(name, REFERENCE).expected for name in alive}
    out = beaten(means, pairs, REFERENCE, MARGIN)
    return [name for name in alive if name not in out]


def page() -> str:
    """The tables of results/quality/verdict.md."""
    development, held = read_tables(), read_tables(HELD_OUT)
    shipped = fitted_prior(development)
    cases = {
        "118 held-out tables, 2 splits seen": list(trials(held, 2, lambda _: shipped, 3)),
        "33 development tables, 3 splits seen": list(
            trials(development, 3, by_fold(development), 4)
        ),
    }
    lines = ["# What the verdict is worth", "", (__doc__ or "").split("\n\n")[1], ""]
    for title, found in cases.items():
        lines += [f"## {title}", "", "| rule | gain over the baseline | regret |", "|---|---|---|"]
        lines += [
            f"| {name} | {gain:+.4f} | {regret:.4f} |"
            for name, (gain, regret) in judged(found).items()
        ]
        lines += ["", "| said to be better with | was better | cases |", "|---|---|---|"]
        rows = calibration(found, (0.05, 0.2, 0.4, 0.6, 0.8, 0.95))
        lines += [f"| {told:.2f} | {was:.2f} | {count} |" for told, was, count in rows]
        lines.append("")
    share, same, loss = sequential(development, by_fold(development))
    lines += [
        "## Methods dropped between ten splits, 33 development tables",
        "",
        "| fits that were run | same recommendation as from all fits | mean loss of F1 |",
        "|---|---|---|",
        f"| {share:.0%} | {same:.0%} | {loss:.4f} |",
        "",
    ]
    return "\n".join(lines)


def main() -> None:
    """Print the tables, and perhaps write them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true")
    text = page()
    if parser.parse_args().write:
        (Path(ROOT) / "results/quality/verdict.md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
