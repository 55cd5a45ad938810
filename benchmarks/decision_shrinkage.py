"""Why offsets are shrunk by how far bootstraps disagree: the comparison behind the defaults.

Run ``python benchmarks/decision_shrinkage.py``; with ``EASTWARD_DATA`` set to a folder that has
``tabular/{binary,multiclass}/*.parquet`` it also runs on 20 small tables. It prints a table and writes
``results/decision_gain/shrinkage.md`` and ``shrinkage.json``.

Protocol. Digits: the long-tailed splits of ``decision_gain.py``, but other ones than that benchmark reports (100, 101,
...); test classes equally frequent. Tables: 20 % for testing, stratified; macro-F1, or F1 of the rarer of two classes.
Each classifier is cross-fitted on five folds; offsets are tuned on these predictions in several ways and all are
applied to the same model, fitted on all training rows.
"""

from __future__ import annotations

import argparse
import json
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from decision_gain import Array, classifier, long_tailed_split, macro_f1
from sklearn.datasets import load_digits
from sklearn.metrics import f1_score
from sklearn.model_selection import cross_val_predict, train_test_split

from eastward.decisions import bagged_offsets, offset_evidence, tune_offsets
from eastward.decisions.cross_fitting import log_scores

RESULTS = Path(__file__).parents[1] / "results" / "decision_gain"
COMMAND = "python benchmarks/decision_shrinkage.py"
FIRST_SPLIT = 100
NAMES = (
    "random forest",
    "random forest, balanced",
    "logistic regression",
    "logistic regression, balanced",
)
TABLES = [
    "abalone9-18",
    "ecoli3",
    "flare-F",
    "german_credit",
    "haberman",
    "oil_spill",
    "pima",
    "vehicle1",
    "winequality-red-4",
    "yeast4",
    "yeast5",
    "car",
    "contraceptive",
    "dermatology",
    "ecoli",
    "flare",
    "glass",
    "winequality-red",
    "yeast",
    "vowel",
]
GUARDS = (-0.5, 0.0, 0.5, 1.0)
RULES = ("exact", "bagged", "half", "shrunk", *(f"guard {guard:g}" for guard in GUARDS))


def offsets_by_rule(
    scores: Array, targets: Array, metric: str, seed: int
) -> tuple[dict[str, Array], dict[str, float]]:
    """Offsets of each rule, and what the shrunk ones rest on."""
    found = offset_evidence(scores, targets, metric, guard=None, random_state=seed)
    bagged = bagged_offsets(scores, targets, metric, random_state=seed)
    offsets = {
        "exact": tune_offsets(scores, targets, metric),
        "bagged": bagged,
        "half": bagged / 2,
        "shrunk": found.offsets,
    }
    for guard in GUARDS:
        passed = found.gain > guard * found.standard_error
        offsets[f"guard {guard:g}"] = found.offsets * passed
    facts = {
        "disagreement": found.disagreement,
        "cross-validated gain": found.gain,
        "standard error": found.standard_error,
    }
    return {name: value.numpy() for name, value in offsets.items()}, facts


def compare(
    data: tuple[Array, Array, Array, Array], name: str, seed: int, score: Any
) -> dict[str, Any]:
    X, y, X_test, y_test = data
    model = classifier(name, seed)
    responses = cross_val_predict(model, X, y, cv=5, method="predict_proba")
    metric = "f1" if y.max() == 1 else "f1_macro"
    rules, facts = offsets_by_rule(log_scores(responses, "predict_proba"), y, metric, seed)
    scores = log_scores(model.fit(X, y).predict_proba(X_test), "predict_proba")
    row = {"classifier": name, "split": seed, **facts}
    row["argmax"] = score(y_test, scores.argmax(1))
    return row | {rule: score(y_test, (scores + b).argmax(1)) for rule, b in rules.items()}


def digit_rows(n_splits: int) -> list[dict[str, Any]]:
    X, y = load_digits(return_X_y=True)
    rows = []
    for seed in range(FIRST_SPLIT, FIRST_SPLIT + n_splits):
        train, test = long_tailed_split(y, seed)
        data = X[train], y[train], X[test], y[test]
        rows += [
            compare(data, name, seed, lambda t, d: macro_f1(t, d, np.full(10, 0.1)))
            for name in NAMES
        ]
        print(".", end="", flush=True)
    return [{"data": "digits", **row} for row in rows]


def table_rows(folder: Path, n_splits: int) -> list[dict[str, Any]]:
    rows = []
    for stem in TABLES:
        (path,) = folder.glob(f"tabular/*/{stem}.parquet")
        X, y = read_table(path)
        average = "binary" if y.max() == 1 else "macro"
        for seed in range(FIRST_SPLIT, FIRST_SPLIT + n_splits):
            parts = train_test_split(X, y, test_size=0.2, stratify=y, random_state=seed)
            data = parts[0], parts[2], parts[1], parts[3]
            for name in NAMES:
                row = compare(data, name, seed, lambda t, d, a=average: f1_score(t, d, average=a))
                rows.append({"data": stem, "kind": path.parent.name, **row})
        print(".", end="", flush=True)
    return rows


def read_table(path: Path) -> tuple[Array, Array]:
    """Features as numbers, labels as codes; the rarer of two classes is class 1; classes under 5 rows go."""
    frame = pd.read_parquet(path)
    labels = frame.pop("target").astype(str)
    kept = labels.map(labels.value_counts()) >= 5
    by_size = labels[kept].value_counts().index
    y = pd.Categorical(labels[kept], categories=by_size).codes.astype(int)
    features = pd.get_dummies(frame[kept]).to_numpy(float)
    return np.nan_to_num(features), y


def summaries(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    frame = pd.DataFrame(rows)
    frame["set"] = np.where(frame["data"] == "digits", "digits", frame.get("kind", "") + " tables")
    per_data = frame.groupby(["set", "classifier", "data"], as_index=False).mean(numeric_only=True)
    # Digits are one data set: there the worst case is over splits.
    units = pd.concat([frame[frame["data"] == "digits"], per_data[per_data["data"] != "digits"]])
    out = []
    for (kind, name), part in units.groupby(["set", "classifier"]):
        gains = {rule: part[rule] - part["argmax"] for rule in RULES}
        means = {rule: float(gain.mean()) for rule, gain in gains.items()}
        worst = {rule: float(gain.min()) for rule, gain in gains.items()}
        quartiles = part["disagreement"].quantile([0.25, 0.5, 0.75]).tolist()
        facts = {"argmax": float(part["argmax"].mean()), "disagreement": quartiles}
        out.append({"set": kind, "classifier": name, **facts, "gain": means, "worst": worst})
    return out


def markdown(table: list[dict[str, Any]]) -> str:
    lines = [
        "| data | classifier | disagreement q (quartiles) | argmax | " + " | ".join(RULES) + " |",
        "|---" * (4 + len(RULES)) + "|",
    ]
    for row in table:
        quartiles = " / ".join(f"{value:.2f}" for value in row["disagreement"])
        gains = [f"{row['gain'][rule]:+.4f} ({row['worst'][rule]:+.3f})" for rule in RULES]
        cells = [row["set"], row["classifier"], quartiles, f"{row['argmax']:.3f}", *gains]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--digit-splits", type=int, default=10)
    parser.add_argument("--table-splits", type=int, default=1)
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # logistic regression on raw tables stops early now and then
    rows = digit_rows(options.digit_splits)
    folder = os.environ.get("EASTWARD_DATA")
    if folder:
        rows += table_rows(Path(folder), options.table_splits)
    table = summaries(rows)
    text = markdown(table)
    print(f"\n{text}")
    RESULTS.mkdir(parents=True, exist_ok=True)
    content = {"command": COMMAND, "summaries": table, "rows": rows}
    (RESULTS / "shrinkage.json").write_text(json.dumps(content, indent=1) + "\n")
    protocol = __doc__.split("Protocol. ")[1].replace("``", "`").strip()
    (RESULTS / "shrinkage.md").write_text(
        f"# Rules for offsets, compared\n\nMean gain over the plain argmax on test rows, in brackets the worst case "
        f"(over splits of the digits, over data sets of the tables). Guard k: shrunk, and zero unless the "
        f"cross-validated gain exceeds k standard errors.\n\n{text}\n\nProtocol: {protocol}\n\n"
        f"Regenerate with `{COMMAND}` (tables: with `EASTWARD_DATA` set).\n"
    )


if __name__ == "__main__":
    main()
