"""A report on real data, for tests and for the picture in the README: nothing in it is invented.

``python tests/reporting/demo_report.py FOLDER`` writes the report there; with ``--pictures FOLDER`` also screenshots.
The data are scikit-learn's breast cancer table, with three of its thirty measurements so that the task is hard.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
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
from eastward.reporting.notebook import classifier_view

COLUMNS = ["mean texture", "mean smoothness", "mean symmetry"]
METHODS = [
    "logistic_regression_tuned",
    "logistic_regression",
    "random_forest",
    "gradient_boosting",
    "eastward",
]


def measurements() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features, class indices and class names; the second class is the one to find."""
    table = load_breast_cancer()
    chosen = [list(table.feature_names).index(name) for name in COLUMNS]
    return table.data[:, chosen], 1 - table.target, np.array(["benign", "malignant"])


def demo_comparison(
    X: np.ndarray, labels: np.ndarray, n_splits: int, max_epochs: int
) -> ew.Comparison:
    """Ask the sceptic's question: does anything beat logistic regression with a tuned threshold?"""
    return ew.compare(
        X,
        labels,
        "f1",
        methods=METHODS,
        baseline=METHODS[0],
        n_splits=n_splits,
        test_size=0.3,
        method_options={"hidden": (32,), "max_epochs": max_epochs},
        random_state=1,
    )


def demo_summary(n_splits: int = 10, max_epochs: int = 60) -> dict[str, object]:
    X, y, classes = measurements()
    train, test = train_test_split(np.arange(len(y)), test_size=0.4, stratify=y, random_state=0)
    model = ew.EASTClassifier("f1", hidden=(32,), max_epochs=max_epochs, random_state=0)
    model.fit(X[train], y[train])
    evaluation = evaluation_summary(
        y[test], np.log(model.predict_proba(X[test])), classes, "f1", decision=model.decision_
    )
    frame = pd.DataFrame(X, columns=COLUMNS)
    importance = importance_summary(
        model.predict, X[test], COLUMNS, frame.iloc[test], y[test], classes, model.metric_
    )
    comparison = demo_comparison(X, classes[y], n_splits, max_epochs)
    chosen = f"--method {comparison.verdict['recommended']} --metric f1"
    task = load_task(frame.assign(diagnosis=classes[y]), "diagnosis")
    return report_summary(
        "Breast cancer from three measurements",
        "f1",
        data={**describe_task(task), "name": "breast_cancer", "profile": profile_task(task)},
        importance=importance,
        comparison=comparison.to_dict(),
        evaluation=evaluation,
        training={**model.report_, "history": model.history_},
        commands={
            "train": f"eastward train cancer.csv --target diagnosis {chosen} --out cancer-model",
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
