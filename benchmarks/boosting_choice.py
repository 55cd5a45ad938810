"""How the default of ``EASTBoostingClassifier`` was chosen: weights and offsets, kept by held-out rows or not.

Run ``EASTWARD_DATA=../shared/data python -m benchmarks.boosting_choice`` (twenty minutes on one core). Each table is
cut and split as in ``benchmarks/boosting_tabular.py``, with other random states. The library's model is cross-fitted
over five folds with and without balanced weights; what that gives is kept in ``build/boosting/held_out`` and judged by
rules that differ in how sure a change must be. It writes ``results/boosting/development.md``.
"""

from __future__ import annotations

import argparse
import warnings
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.stats import wilcoxon

from benchmarks.boosting_tabular import MARGIN, RESULTS, ROOT, load, tables
from benchmarks.quality.offsets import KINDS, _ascent
from eastward.comparison.splits import stratified_split
from eastward.decisions._merit import Merit
from eastward.decisions.bagging import Bags
from eastward.decisions.cross_fitting import partition
from eastward.decisions.guard import CAUTIOUS_FACTOR, CAUTIOUS_GUARD, FEWEST_ROWS_PER_CLASS
from eastward.estimators.boosting.backends import Task, make_backend
from eastward.estimators.boosting.columns import Columns
from eastward.estimators.boosting.folds import Problem, columns, fold_gain, fold_tables
from eastward.estimators.boosting.weighting import train_weighted
from eastward.metrics import get

METRICS = ("f1_macro", "matthews_corrcoef", "balanced_accuracy", "accuracy")
STORE = ROOT / "build" / "boosting" / "held_out"
BAGS, ROUNDS = 5, 100


def held_out(path: Path, backend: str, state: int, max_rows: int) -> dict[str, Any]:
    """Scores of held-out training rows and of test rows, with balanced weights and without."""
    file = STORE / f"{path.stem}-{backend}-{state}-{max_rows}.npz"
    if file.exists():
        return dict(np.load(file))
    X, y = load(path, max_rows, state)
    train, test = stratified_split(y, 0.3, seed=state)
    classes, codes = np.unique(y[train], return_inverse=True)
    encoder = Columns.of(X.iloc[train], "from_dtype")
    features, others = (encoder.encode(X.iloc[r]).to_numpy(float) for r in (train, test))
    folds = np.empty(len(codes), dtype=int)
    for k, (_, inside) in enumerate(partition(5, features, codes)):
        folds[inside] = k
    library = make_backend(backend, Task(len(classes), encoder.categorical, 0.1, state, 1, {}))
    problem = Problem(library, features, codes, None, folds, get("f1_macro"), len(classes))
    found = {"codes": codes, "folds": folds, "classes": classes, "truth": y[test]}
    for name, balanced in (("plain", False), ("balanced", True)):
        scores = np.zeros((len(codes), len(classes)))
        for outside, inside in problem.parts:
            model = train_weighted(problem, outside, ROUNDS, balanced=balanced)
            scores[inside] = columns(library.raw_scores(model, features[inside]))
        model = train_weighted(problem, problem.every, ROUNDS, balanced=balanced)
        found[name] = scores
        found[f"test {name}"] = columns(library.raw_scores(model, others))
    STORE.mkdir(parents=True, exist_ok=True)
    np.savez(file, **found)
    return found


def shrunk_offsets(scores: np.ndarray, codes: np.ndarray, metric: str, limit: float) -> np.ndarray:
    """Bagged offsets by the compiled search, shrunk as :func:`eastward.decisions.offset_evidence` does."""
    size, rng = scores.shape[1], np.random.default_rng(0)
    labels, nothing = np.eye(size)[codes], np.zeros((len(codes), size))
    bags = []
    for _ in range(BAGS):
        rows = [
            rng.choice(np.flatnonzero(codes == c), (codes == c).sum()) for c in np.unique(codes)
        ]
        weight = np.bincount(np.concatenate(rows), minlength=len(codes)).astype(float)
        kept = weight > 0
        part = scores[kept], labels[kept], weight[kept], KINDS[metric], nothing[kept]
        bags.append(_ascent(*part))
    found = np.stack(bags)
    mean, length = found.mean(0), float((found.mean(0) ** 2).sum())
    noise = float(found.var(0, ddof=1).sum()) / length if length else 0.0
    return min(limit, Bags(torch.from_numpy(mean), noise).agreement_factor()) * mean


def test_scores(data: dict[str, Any], metric: str) -> dict[str, float]:
    """Value on the test rows of every rule."""
    codes, folds, classes = data["codes"], data["folds"], data["classes"]
    problem = Problem(None, codes, codes, None, folds, get(metric), len(classes))  # type: ignore[arg-type]
    merit = Merit(problem.metric, len(classes))
    few = np.bincount(codes).min() < FEWEST_ROWS_PER_CLASS
    names = np.unique(np.concatenate([classes, data["truth"]]))

    def judged(scores: np.ndarray) -> float:
        chosen, truth = (
            np.searchsorted(names, x) for x in (classes[scores.argmax(1)], data["truth"])
        )
        table = np.zeros((len(names), len(names)))
        np.add.at(table, (truth, chosen), 1)
        return float(problem.metric(torch.from_numpy(table)))

    tables_of = {k: fold_tables(problem, data[k][None])[0] for k in ("plain", "balanced")}
    offsets = {k: (np.zeros(len(classes)), 0.0, 1.0) for k in tables_of}
    for name in tables_of if metric in KINDS else ():
        limit = CAUTIOUS_FACTOR if few else 1.0
        by_fold = np.stack(
            [
                shrunk_offsets(data[name][folds != k], codes[folds != k], metric, limit)
                for k in range(folds.max() + 1)
            ]
        )
        shifted = fold_tables(problem, (data[name] + by_fold[folds])[None])[0]
        gain = fold_gain(merit, tables_of[name], shifted)
        offsets[name] = (shrunk_offsets(data[name], codes, metric, limit), *gain)

    def tuned(name: str, guard: float | None) -> float:
        shift, gain, error = offsets[name]
        guarded = guard is None or gain <= (max(guard, CAUTIOUS_GUARD) if few else guard) * error
        return judged(data[f"test {name}"] + (0 if guarded else shift))

    gain, error = fold_gain(merit, tables_of["plain"], tables_of["balanced"])
    found = {}
    for guard in (None, 0.5, 1.0):
        words = "" if guard is None else f", offsets by {guard:g} SE"
        for name in tables_of:
            found[f"{name}{words}"] = tuned(name, guard)
        for hurdle in (0.0, 0.5, 1.0):
            rule = f"balanced unless plain leads by {hurdle:g} SE{words}"
            found[rule] = tuned("plain" if gain < -hurdle * error else "balanced", guard)
            if hurdle:  # without one, it is the same rule
                rule = f"plain unless balanced leads by {hurdle:g} SE{words}"
                found[rule] = tuned("balanced" if gain > hurdle * error else "plain", guard)
    return found


def section(metric: str, by_set: dict[str, dict[str, list[float]]]) -> str:
    """A table of rules, best first, for both libraries."""
    lines = [f"## {metric}", ""]
    for backend, sets in by_set.items():
        rules = list(next(iter(sets.values())))
        means = np.array([[np.mean(one[rule]) for rule in rules] for one in sets.values()])
        lines += [f"{backend}, {len(means)} sets:", ""]
        lines += ["| rule | mean | to balanced | W–T–L | p |", "|---|---|---|---|---|"]
        for column in np.argsort(-means.mean(0), kind="stable"):
            gains = means[:, column] - means[:, rules.index("balanced")]
            won, lost = int((gains > MARGIN).sum()), int((gains < -MARGIN).sum())
            p_value = f"{wilcoxon(gains).pvalue:.3f}" if np.any(gains != 0) else ""
            score = f"{means[:, column].mean():.4f} | {gains.mean():+.4f}"
            lines.append(
                f"| {rules[column]} | {score} | {won}–{len(gains) - won - lost}–{lost} | {p_value} |"
            )
        lines.append("")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--random-states", type=int, nargs="+", default=[0, 100, 101])
    parser.add_argument("--max-rows", type=int, default=600)
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", "only one sample each of class")
    found: dict[str, Any] = {m: defaultdict(lambda: defaultdict(dict)) for m in METRICS}
    for state in options.random_states:
        for path in tables():
            for backend in ("lightgbm", "xgboost"):
                data = held_out(path, backend, state, options.max_rows)
                for metric in METRICS:
                    for rule, value in test_scores(data, metric).items():
                        found[metric][backend][path.stem].setdefault(rule, []).append(value)
    states = " ".join(map(str, options.random_states))
    command = f"python -m benchmarks.boosting_choice --random-states {states} --max-rows {options.max_rows}"
    head = (
        "# How the default of EASTBoostingClassifier was chosen\n\n"
        f"Random states {states}, at most {options.max_rows} rows of each table, 30 % of them held out for the test. "
        "Rules say which weights and offsets are taken from five-fold predictions of the other rows; SE are standard "
        "errors of the gain. No rule looks at test rows, but the choice of the rule did: the figures that count are "
        "those of other random states in `README.md`. W–T–L counts sets better, equal within ±0.005, and worse than "
        f"balanced weights.\n\nRegenerate with `EASTWARD_DATA=<data folder> {command}`.\n\n"
    )
    text = head + "\n".join(section(metric, by_set) for metric, by_set in found.items())
    (RESULTS / "development.md").write_text(text.rstrip() + "\n")


if __name__ == "__main__":
    main()
