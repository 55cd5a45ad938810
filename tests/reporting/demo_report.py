"""A report on real data, for tests and for the picture in the README: nothing in it is invented.

``python tests/reporting/demo_report.py FOLDER`` writes the report there; with ``--pictures FOLDER`` also screenshots.
The data are scikit-learn's breast cancer table, with three of its thirty measurements so that the task is hard.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import brier_score_loss, f1_score, log_loss
from sklearn.model_selection import (
    StratifiedShuffleSplit,
    TunedThresholdClassifierCV,
    train_test_split,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import eastward as ew
from eastward.data import describe_task, load_task, profile_task
from eastward.reporting import (
    evaluation_summary,
    importance_summary,
    report_summary,
    write_report,
)
from eastward.reporting.calibration import calibration_summary
from eastward.reporting.notebook import classifier_view

COLUMNS = ["mean texture", "mean smoothness", "mean symmetry"]
LABELS = {
    "cross_entropy": "Logistic regression",
    "tuned": "Logistic regression, tuned threshold",
    "forest": "Random forest",
    "boosting": "Gradient boosting",
    "east": "EASTClassifier",
}
BASELINE = "tuned"
TEST_SHARE = 0.3


def measurements() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features, class indices and class names; the second class is the one to find."""
    table = load_breast_cancer()
    chosen = [list(table.feature_names).index(name) for name in COLUMNS]
    return table.data[:, chosen], 1 - table.target, np.array(["benign", "malignant"])


def methods(seed: int, max_epochs: int) -> dict[str, object]:
    return {
        "cross_entropy": make_pipeline(StandardScaler(), LogisticRegression()),
        # The alternative that a sceptic asks for: nothing new but a threshold tuned for the metric.
        "tuned": TunedThresholdClassifierCV(
            make_pipeline(StandardScaler(), LogisticRegression()), scoring="f1", random_state=seed
        ),
        "forest": RandomForestClassifier(100, random_state=seed),
        "boosting": HistGradientBoostingClassifier(max_iter=60, random_state=seed),
        "east": ew.EASTClassifier("f1", hidden=(32,), max_epochs=max_epochs, random_state=seed),
    }


def measured_comparison(
    X: np.ndarray, y: np.ndarray, n_splits: int, max_epochs: int
) -> dict[str, object]:
    """The dictionary of a comparison, measured here with a corrected paired interval."""
    cells = []
    splits = StratifiedShuffleSplit(n_splits, test_size=TEST_SHARE, random_state=1)
    for number, (train, test) in enumerate(splits.split(X, y)):
        for name, model in methods(number, max_epochs).items():
            start = time.perf_counter()
            model.fit(X[train], y[train])
            p = np.clip(model.predict_proba(X[test]), 1e-12, 1)
            p = p / p.sum(axis=1, keepdims=True)
            cells.append(
                {
                    "method": name,
                    "split": number,
                    "score": f1_score(y[test], model.predict(X[test])),
                    "log_loss": log_loss(y[test], p),
                    "brier": brier_score_loss(y[test], p[:, 1]),
                    "ece": calibration_summary(y[test], np.log(p), np.ones(len(test)))["ece"],
                    "seconds": time.perf_counter() - start,
                }
            )
    rows = [method_row(name, cells, n_splits) for name in LABELS]
    for rank, row in enumerate(sorted(rows, key=lambda row: -row["mean"]), start=1):
        row["rank"] = rank
    return {
        "metric": "f1",
        "higher_is_better": True,
        "baseline": BASELINE,
        "splits": n_splits,
        "methods": rows,
        "verdict": verdict(rows, n_splits),
        "cells": cells,
    }


def method_row(name: str, cells: list[dict], n_splits: int) -> dict[str, object]:
    of = {
        key: np.array([cell[key] for cell in cells if cell["method"] == name])
        for key in ("score", "log_loss", "brier", "ece", "seconds")
    }
    baseline = np.array([cell["score"] for cell in cells if cell["method"] == BASELINE])
    difference = of["score"] - baseline
    # Nadeau and Bengio: splits overlap, so their variance is scaled up.
    factor = np.sqrt(1 / n_splits + TEST_SHARE / (1 - TEST_SHARE))
    quantile = stats.t.ppf(0.975, n_splits - 1)
    half, own = (quantile * factor * values.std(ddof=1) for values in (difference, of["score"]))
    spread = factor * difference.std(ddof=1)
    probability = stats.t.cdf(difference.mean() / spread, n_splits - 1) if spread else 0.5
    return {
        "name": name,
        "label": LABELS[name],
        "mean": of["score"].mean(),
        "sd": of["score"].std(ddof=1),
        "interval": [of["score"].mean() - own, of["score"].mean() + own],
        "difference": {
            "mean": difference.mean(),
            "interval": [difference.mean() - half, difference.mean() + half],
            "probability": probability,
        },
        "wins": int((difference > 0).sum()),
        "ties": int((difference == 0).sum()),
        "losses": int((difference < 0).sum()),
        **{key: of[key].mean() for key in ("log_loss", "brier", "ece", "seconds")},
        "failures": 0,
    }


def verdict(rows: list[dict], n_splits: int) -> dict[str, object]:
    """The best mean against the baseline; without a clear gain the baseline is recommended."""
    best = max(rows, key=lambda row: row["mean"])
    gain, (low, high) = best["difference"]["mean"], best["difference"]["interval"]
    numbers = f"{gain:+.3f} F1 ({low:+.3f} to {high:+.3f})".replace("-", "−")
    clear = low > 0
    sentence = (
        f"{best['label']} beats {LABELS[BASELINE]}: {numbers}."
        if clear
        else f"No clear gain over {LABELS[BASELINE]}: the best alternative, {best['label']}, brings {numbers}."
    )
    chance = best["difference"]["probability"]
    detail = [
        f"{best['label']} won {best['wins']} of {n_splits} splits and lost {best['losses']}.",
        f"On a new split {best['label']} is better with a probability of {chance:.0%}.",
    ]
    return {
        "sentence": sentence,
        "detail": detail,
        "recommended": best["name"] if clear else BASELINE,
    }


def demo_summary(n_splits: int = 10, max_epochs: int = 60) -> dict[str, object]:
    X, y, classes = measurements()
    train, test = train_test_split(np.arange(len(y)), test_size=0.4, stratify=y, random_state=0)
    model = methods(0, max_epochs)["east"].fit(X[train], y[train])
    evaluation = evaluation_summary(
        y[test], np.log(model.predict_proba(X[test])), classes, "f1", decision=model.decision_
    )
    frame = pd.DataFrame(X, columns=COLUMNS)
    importance = importance_summary(
        model.predict, X[test], COLUMNS, frame.iloc[test], y[test], classes, model.metric_
    )
    task = load_task(frame.assign(diagnosis=classes[y]), "diagnosis")
    return report_summary(
        "Breast cancer from three measurements",
        "f1",
        data={**describe_task(task), "name": "breast_cancer", "profile": profile_task(task)},
        importance=importance,
        comparison=measured_comparison(X, y, n_splits, max_epochs),
        evaluation=evaluation,
        training={**model.report_, "history": model.history_},
        commands={
            "train": "eastward train cancer.csv --target diagnosis --metric f1 --out cancer-model",
            "predict": "eastward predict cancer-model new.csv -o decisions.csv",
        },
    )


def notebook_page(folder: Path) -> Path:
    """A comparison and a fitted classifier as a dark notebook shows them."""
    X, y, classes = measurements()
    methods = ["logistic_regression_tuned", "logistic_regression", "random_forest_tuned"]
    compared = ew.compare(
        X, classes[y], "f1_macro", methods=methods, baseline=methods[0], n_splits=10
    )
    model = ew.TunedDecisionClassifierCV(
        make_pipeline(StandardScaler(), LogisticRegression()), metric="f1_macro"
    ).fit(X, classes[y])
    path = folder / "notebook.html"
    body = f"{compared._repr_html_()}<br>{classifier_view(model)}"
    dark = '<body data-jp-theme-light="false" style="margin: 16px; background: #111">'
    path.write_text(f"<!doctype html><meta charset=utf-8>{dark}{body}", encoding="utf-8")
    return path


def take_pictures(report: Path, folder: Path) -> None:
    """What the documentation shows: the top of the page, one section in the dark, a phone, a notebook."""
    from browser import opened, start_browser

    with start_browser() as browser:
        with opened(browser, report, width=1080, height=1130) as page:
            page.screenshot(path=folder / "report.png")
        with opened(browser, report, width=1080, color_scheme="dark") as page:
            page.locator("#importance").screenshot(path=folder / "report-matters.png")
        with opened(browser, report, width=390, height=844, device_scale_factor=2) as page:
            page.screenshot(path=folder / "report-phone.png")
        with opened(browser, notebook_page(report.parent), width=960) as page:
            page.screenshot(path=folder / "notebook.png", full_page=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--pictures", type=Path, help="a folder for screenshots, as PNG")
    options = parser.parse_args()
    path = write_report(demo_summary(), options.folder / "report.html")
    print(path)
    if options.pictures:
        take_pictures(path, options.pictures)


if __name__ == "__main__":
    main()
