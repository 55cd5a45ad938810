"""How often constraints hold on new rows, and what a change of class frequencies costs.

    EASTWARD_DATA=<data folder> python -m benchmarks.quality.decision_studies constraints
    python -m benchmarks.quality.decision_studies made-up
    EASTWARD_DATA=<data folder> python -m benchmarks.quality.decision_studies shift
    python -m benchmarks.quality.decision_studies report

``constraints`` asks for ``recall >= 0.8`` of the rarest class that has at least 100 test rows, on the predictions that
``benchmarks.quality.decisions fit`` keeps; ``made-up`` asks the same of tables of known truth, judged on 20 000 rows.
``shift`` trains at one positive row for three negative ones, decides at one for thirty, and the other way round. Every
cell is a line of ``build/quality/decision_studies.jsonl``; the same command goes on where it was stopped.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from lightgbm import LGBMClassifier
from scipy.stats import wilcoxon
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score

from benchmarks.quality import data
from benchmarks.quality import decisions as harness
from benchmarks.quality.methods import metric_named
from eastward import decisions
from eastward.estimators.tuned import TunedDecisionClassifierCV

CELLS = harness.STORES / "decision_studies.jsonl"
RECALL, CONFIDENCE = 0.8, 0.9
FEWEST_TEST_ROWS = 100
KINDS = ("ensemble", "networks")
MADE_UP = {
    "two classes, 1:9": (0.9, 0.1),
    "two classes, 1:19": (0.95, 0.05),
    "three classes": (0.7, 0.2, 0.1),
}
RATIOS = {"1:3": 3, "1:30": 30}
# Positive rows to train on at each ratio, to tune on with labels, and to judge by.
TRAINED, LABELLED, JUDGED = {"1:3": 200, "1:30": 50}, 20, 100
Cell = dict[str, Any]


def constraints(split: int) -> Iterator[Cell]:
    """Real tables: the decision that keeps a recall by a bound, and a threshold without one."""
    for name, load in harness.tables().items():
        found = harness.split_of(name, load, 1, split)
        for kind in KINDS if found else ():
            own = found[kind]
            counts = np.bincount(own.truth, minlength=own.num_classes)
            enough = np.flatnonzero(counts >= FEWEST_TEST_ROWS)
            if len(enough):
                label = int(enough[counts[enough].argmin()])
                cell = _bounded(own, label, harness.calibrated(own))
                yield {"study": "constraints", "set": name, "kind": kind, **cell}


def _bounded(own: Any, label: int, tables: tuple[Any, Any]) -> Cell:
    """Recalls and F1 on test rows of three rules: without a constraint, with one, and a bare threshold."""
    held, new = tables
    metric = metric_named("f1", own.held.codes, own.num_classes)
    codes = own.held.codes
    free = decisions.tune_decision(held, codes, metric)
    rules = {"free": free.decide(new).numpy(), "threshold": _threshold(held, codes, new, label)}
    wish = f"recall[{label}] >= {RECALL}"
    try:
        kept = decisions.tune_decision(held, codes, metric, subject_to=wish, confidence=CONFIDENCE)
        rules["bound"] = kept.decide(new).numpy()
    except ValueError:
        pass  # the rows cannot prove it, and the user is told so
    of_class = own.truth == label
    cell: Cell = {"rows": int((codes == label).sum()), "classes": own.num_classes}
    for name, decided in rules.items():
        recall = float((decided[of_class] == label).mean())
        cell[name] = {"recall": recall, "f1": harness.merit(metric, own, decided)}
    return cell


def _threshold(held: Any, codes: Any, new: Any, label: int) -> Any:
    """The class from the highest probability on that reaches the recall on held-out rows; the best other one below."""
    own = np.sort(held[:, label].numpy()[codes == label])
    limit = own[int(np.floor((1 - RECALL) * len(own)))]
    others = new.numpy().copy()
    others[:, label] = -1.0
    return np.where(new[:, label].numpy() >= limit, label, others.argmax(1))


def made_up(split: int) -> Iterator[Cell]:
    """Tables of known truth, decided from end to end by an estimator as its users have it."""
    for name, prior in MADE_UP.items():
        generator = np.random.default_rng([split, len(prior), int(1000 * prior[-1])])
        X, y = _clouds(generator, prior, 1200)
        X_new, y_new = _clouds(generator, prior, 20_000)
        label = len(prior) - 1
        options = {"subject_to": f"recall[{label}] >= {RECALL}", "confidence": CONFIDENCE}
        model = TunedDecisionClassifierCV(
            LogisticRegression(), "f1" if label == 1 else "f1_macro", random_state=split, **options
        ).fit(X, y)
        own = harness.Predictions(model.held_out_, np.log(model.raw_predict_proba(X_new)), y_new)
        probabilities = torch.from_numpy(model.predict_proba(X_new))
        held = model.calibration_.apply(model.held_out_.probabilities)
        cell = _bounded(own, label, (held, probabilities))
        cell["bound"]["recall"] = float((model.predict(X_new)[y_new == label] == label).mean())
        yield {"study": "made-up", "set": name, "kind": "logistic regression", **cell}


def _clouds(generator: Any, prior: Any, rows: int) -> tuple[Any, Any]:
    """Normal clouds of six features, of which three tell the classes apart."""
    y = generator.choice(len(prior), p=prior, size=rows)
    centres = np.zeros((len(prior), 6))
    centres[:, :3] = 1.4 * np.eye(3)[: len(prior)]
    return generator.normal(centres[y]), y


def shift(split: int) -> Iterator[Cell]:
    """F1 at other frequencies than those of training, for four ways to deal with it."""
    for name, load in _large_tables():
        features, truth = load()
        for source, target in (("1:3", "1:30"), ("1:30", "1:3")):
            seed = [split, len(truth), RATIOS[source]]
            train, labelled, test = _folds_of(truth, source, target, np.random.default_rng(seed))
            booster = LGBMClassifier(n_estimators=80, num_leaves=15, n_jobs=1, verbosity=-1)
            model = TunedDecisionClassifierCV(booster, "f1", random_state=split)
            model.fit(features[train], truth[train])
            new = [1 - 1 / (1 + RATIOS[target]), 1 / (1 + RATIOS[target])]
            retuned = decisions.tune_decision(
                model.predict_proba(features[labelled]), truth[labelled], "f1"
            )
            decided = {
                "none": model.predict(features[test]),
                "known frequencies": model.predict(features[test], prior=new),
                "estimated frequencies": model.predict(features[test], prior="auto"),
                "retuned with labels": retuned.decide(model.predict_proba(features[test])),
            }
            values = {way: float(f1_score(truth[test], labels)) for way, labels in decided.items()}
            yield {"study": "shift", "set": name, "kind": f"{source} to {target}", "f1": values}


def _large_tables() -> Iterator[tuple[str, Callable[[], tuple[Any, Any]]]]:
    """Tables with a class rare enough, and rows enough: that class against the rest."""
    positives = TRAINED["1:3"] + JUDGED + LABELLED
    negatives = TRAINED["1:30"] * RATIOS["1:30"] + (LABELLED + JUDGED) * RATIOS["1:30"]
    found = {**harness.tables(), "adult": data.further().get("adult")}
    for name, load in found.items():
        task = load() if load is not None else None
        counts = np.bincount(task.codes) if task is not None else np.zeros(1)
        fit = np.flatnonzero((counts >= positives) & (counts.sum() - counts >= negatives))
        if len(fit):
            label = int(fit[counts[fit].argmin()])

            def rows(task: Any = task, label: int = label) -> tuple[Any, Any]:
                table = task.preprocess.fit_transform(task.features)
                return np.asarray(table, dtype=np.float32), (task.codes == label).astype(int)

            yield name, rows


def _folds_of(truth: Any, source: str, target: str, generator: Any) -> tuple[Any, Any, Any]:
    """Rows to train on, rows with labels and rows to judge by, each at its ratio."""
    of = [generator.permutation(np.flatnonzero(truth == value)) for value in (0, 1)]
    parts = []
    for count, ratio in (
        (TRAINED[source], RATIOS[source]),
        (LABELLED, RATIOS[target]),
        (JUDGED, RATIOS[target]),
    ):
        sizes = (count * ratio, count)
        parts.append(np.concatenate([rows[:size] for rows, size in zip(of, sizes, strict=True)]))
        of = [rows[size:] for rows, size in zip(of, sizes, strict=True)]
    return parts[0], parts[1], parts[2]


STUDIES = {"constraints": constraints, "made-up": made_up, "shift": shift}


def run(study: str, splits: range) -> None:
    """Every split that is missing."""
    done = {(cell["study"], cell["split"]) for cell in read_cells()}
    for split in splits:
        if (study, split) in done:
            continue
        lines = [json.dumps({**cell, "split": split}) for cell in STUDIES[study](split)]
        with CELLS.open("a") as file:
            file.write("".join(f"{line}\n" for line in lines))


def read_cells() -> list[Cell]:
    """Cells of the file."""
    lines = CELLS.read_text().splitlines() if CELLS.exists() else []
    return [json.loads(line) for line in lines]


def report() -> None:
    """Print how often constraints hold and what they cost, and F1 at other frequencies."""
    cells = read_cells()
    for study, kind in (
        *(("constraints", kind) for kind in KINDS),
        ("made-up", "logistic regression"),
    ):
        _print_bounds(study, kind, [c for c in cells if (c["study"], c["kind"]) == (study, kind)])
    for kind in ("1:3 to 1:30", "1:30 to 1:3"):
        own = [cell for cell in cells if cell["kind"] == kind]
        if own:
            _print_shift(kind, own)


def _print_bounds(study: str, kind: str, cells: list[Cell]) -> None:
    proven = [cell for cell in cells if "bound" in cell]
    if not proven:
        return
    sets = len({cell["set"] for cell in proven})
    print(f"\n{study}, {kind}: {len(proven)} of {len(cells)} runs have a rule, {sets} tables")
    for rule in ("bound", "threshold", "free"):
        holds = np.mean([cell[rule]["recall"] >= RECALL for cell in proven])
        recall = np.mean([cell[rule]["recall"] for cell in proven])
        f1 = np.mean([cell[rule]["f1"] for cell in proven])
        print(f"  {rule:10s} holds {holds:.1%}, mean recall {recall:.3f}, F1 {f1:.3f}")


def _print_shift(kind: str, cells: list[Cell]) -> None:
    print(f"\n{kind}: {len({c['set'] for c in cells})} tables, {len(cells)} runs")
    for way in cells[0]["f1"]:
        own = harness.by_table(cells, lambda cell, way=way: cell["f1"][way])
        gain = own - harness.by_table(cells, lambda cell: cell["f1"]["none"])
        chance = wilcoxon(gain).pvalue if gain.any() else float("nan")
        print(f"  {way:22s} F1 {own.mean():.3f} ({gain.mean():+.3f}, p {chance:.3f})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("action", choices=(*STUDIES, "report"))
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--splits", type=int, default=10)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.action == "report":
        report()
    else:
        run(options.action, range(options.first, options.first + options.splits))


if __name__ == "__main__":
    main()
