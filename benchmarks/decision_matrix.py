"""Decision matrices against offsets, and calibration, on held-out predictions of trees, a linear model and their mean.

    EASTWARD_DATA=... python benchmarks/decision_matrix.py --splits 2

fits LightGBM, a forest and logistic regression to every table (at most 500 training rows, five shuffled folds), keeps
their predictions in ``build/decision_matrix``, tunes decisions for one metric on the cross-fitted ones and judges them
on test rows. Printed is the mean difference to today's offsets over tables, with tables better, equal within 0.005, and
worse.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from lightgbm import LGBMClassifier
from scipy.stats import wilcoxon
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import eastward as ew
from benchmarks.quality import data
from eastward import decisions, metrics
from eastward.decisions.tuning import decision_table

STORE = Path(__file__).parents[1] / "build" / "decision_matrix"
SMALLEST = 1e-12


def models() -> dict[str, Any]:
    return {
        "lgbm": LGBMClassifier(
            n_estimators=60, num_leaves=15, min_child_samples=5, n_jobs=1, verbose=-1
        ),
        "forest": RandomForestClassifier(100, min_samples_leaf=2, random_state=0),
        "linear": make_pipeline(StandardScaler(), LogisticRegression(max_iter=500)),
    }


def predictions(name: str, load: Any, split: int) -> dict[str, Any]:
    """Held-out and test probabilities of every model, from the store if they are there."""
    path = STORE / f"{name}-{split}.npz"
    if not path.exists():
        rows = data.make_split(load(), 0, split, 500)
        found = {"y": rows.train_codes, "truth": rows.test_codes}
        folds = StratifiedKFold(5, shuffle=True, random_state=0)
        for kind, model in models().items():
            held_out = cross_val_predict(
                model, rows.train, rows.train_codes, cv=folds, method="predict_proba"
            )
            found[f"{kind}_held_out"] = held_out / held_out.sum(1, keepdims=True)
            found[f"{kind}_test"] = model.fit(rows.train, rows.train_codes).predict_proba(rows.test)
        STORE.mkdir(parents=True, exist_ok=True)
        np.savez(path, **found)
    with np.load(path) as stored:
        found = dict(stored)
    for part in ("held_out", "test"):
        found[f"mean_{part}"] = np.mean([found[f"{kind}_{part}"] for kind in models()], axis=0)
    return found


def with_offsets(held_out: Any, y: Any, test: Any, metric: str) -> Any:
    logs, new = (np.log(np.maximum(part, SMALLEST)) for part in (held_out, test))
    tuned = decisions.smoothed_offsets(logs, y, metric)
    return (new + decisions.keep_classes(tuned, logs, y, metric).numpy()).argmax(1)


def judged(found: dict[str, Any], kind: str, metric: str) -> dict[str, float]:
    held_out, test = found[f"{kind}_held_out"], found[f"{kind}_test"]
    y, truth, size = found["y"], found["truth"], held_out.shape[1]
    calibration = decisions.fit_calibration(held_out, y)
    calibrated, new = calibration.apply(held_out), calibration.apply(test)
    chosen = {
        "offsets": with_offsets(held_out, y, test, metric),
        "argmax": test.argmax(1),
        "offsets, calibrated": with_offsets(calibrated, y, new, metric),
        "matrix": ew.tune_decision(held_out, y, metric).decide(test),
    }
    for share in (0.0, 0.25, 0.5):
        rule = ew.tune_decision(calibrated, y, metric, label_share=share)
        chosen[f"matrix, calibrated, {share:g} labels"] = rule.decide(new)
    values = {
        name: float(metrics.get(metric)(decision_table(truth, decided, None, size)))
        for name, decided in chosen.items()
    }
    own = np.arange(len(truth)), truth
    losses = [-np.log(np.maximum(part[own], 1e-6)).mean() for part in (test, new)]
    return values | {"log-loss": float(losses[1] - losses[0])}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--splits", type=int, default=2)
    parser.add_argument("--metric", default="f1_macro")
    parser.add_argument("--kinds", nargs="+", default=["mean", "lgbm"])
    parser.add_argument("--tables", nargs="+", default=None)
    options = parser.parse_args()
    torch.set_num_threads(1)
    values: dict[tuple[str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for name, load in data.tabular(data.data_folder() / "tabular").items():
        if options.tables and name not in options.tables:
            continue
        for split in range(options.splits):
            found = predictions(name, load, split)
            if found["mean_test"].shape[1] < 3:
                break
            for kind in options.kinds:
                result = judged(found, kind, options.metric)
                for method, value in result.items():
                    base = 0.0 if method == "log-loss" else result["offsets"]
                    values[kind, method][name].append(value - base)
    for (kind, method), by_table in values.items():
        means = np.array([np.mean(of_table) for of_table in by_table.values()])
        enough = len(means) > 5 and np.any(means)
        chance = f", p {wilcoxon(means).pvalue:.3f}" if enough else ""
        better, worse = (means > 0.005).sum(), (means < -0.005).sum()
        tally = f"{better}/{len(means) - better - worse}/{worse}"
        print(f"{kind:8s} {method:32s} {means.mean():+.4f} {tally}{chance}")


if __name__ == "__main__":
    main()
