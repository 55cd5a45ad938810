"""Sliders for constraints in a real browser, and what a decision promises and costs, drawn."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from browser import opened
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression

import eastward as ew
from eastward.reporting import evaluation_summary, report_summary, write_report
from eastward.reporting.training_words import training_words

# A browser takes a second to open a page: these belong to `make rest`.
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("browser")]

WISHES = {"subject_to": "recall[fraud] >= 0.7", "coverage": 0.8}


@pytest.fixture(scope="module")
def claims():
    """A decision that keeps a recall and leaves rows undecided, and one that does neither."""
    X, codes = make_classification(1500, weights=[0.8], flip_y=0.1, random_state=0)
    y = np.where(codes, "fraud", "honest")
    model = ew.TunedDecisionClassifierCV(LogisticRegression(), "f1_macro", random_state=0)
    return model.fit(X[::2], y[::2]), X[1::2], y[1::2]


def page_of(model, X, y, path, *, command):
    classes = model.classes_.tolist()
    evaluation = evaluation_summary(
        np.searchsorted(model.classes_, y),
        np.log(model.predict_proba(X)),
        classes,
        model.metric_,
        decision=model.decision_,
    )
    summary = report_summary(
        "Claims",
        model.metric_,
        evaluation=evaluation,
        training=training_words(model),
        commands={"train": command},
    )
    return summary, write_report(summary, path)


@pytest.fixture(scope="module")
def plain(claims, tmp_path_factory):
    path = tmp_path_factory.mktemp("claims") / "report.html"
    command = "eastward train claims.csv -t fraud --metric f1_macro --subject-to 'recall[fraud] >= 0.5' -o m"
    return page_of(*claims, path, command=command)


def matrix(page) -> np.ndarray:
    cells = page.locator("#live-matrix td").all_inner_texts()
    return np.array([float(cell.replace("\u202f", "")) for cell in cells]).reshape(2, 2)


def thresholds(scores) -> list[np.ndarray]:
    """Tables of every threshold; class 0 is in focus."""
    logs, truth = np.array(scores["log_probabilities"]), np.array(scores["targets"])
    margins = np.unique(np.r_[-99, logs[:, 1] - logs[:, 0], 99])
    tables = []
    for cut in (margins[1:] + margins[:-1]) / 2:
        decided = (logs[:, 1] - logs[:, 0] > cut).astype(int)
        tables.append(np.bincount(2 * truth + decided, minlength=4).reshape(2, 2))
    return tables


@pytest.mark.parametrize(
    "bounds",
    [{"recall": 0.85}, {"precision": 0.8}, {"share": 0.1}, {"recall": 0.5, "precision": 0.6}],
)
def test_sliders_find_the_best_decision_that_keeps_the_bounds(browser, plain, bounds):
    summary, path = plain
    metric = ew.metrics.get("f1_macro")
    with opened(browser, path) as page:
        page.check("input[value=constraint]")
        page.select_option("#explorer-class", label="fraud")
        for name, bound in bounds.items():
            page.locator(f"#bound-{name}").fill(str(bound))
        found = matrix(page)
        region = page.locator("#trade-off .region")
        assert float(region.get_attribute("x")) == pytest.approx(46 + 260 * bounds.get("recall", 0))
        assert float(region.get_attribute("height")) == pytest.approx(
            260 * (1 - bounds.get("precision", 0))
        )
        assert page.locator("#trade-off .kept").get_attribute("d").startswith("M")
    keeps = [table for table in thresholds(summary["evaluation"]["scores"]) if kept(table, bounds)]
    assert kept(found, bounds)
    best = max(float(metric(torch.tensor(table, dtype=torch.float64))) for table in keeps)
    assert float(metric(torch.tensor(found))) == pytest.approx(best, abs=2e-3)


def kept(table: np.ndarray, bounds: dict) -> bool:
    hit, decided = table[0, 0], table[:, 0].sum()
    return (
        hit / table[0].sum() >= bounds.get("recall", 0) - 1e-9
        and (hit / decided if decided else 0) >= bounds.get("precision", 0) - 1e-9
        and decided / table.sum() <= bounds.get("share", 1) + 1e-9
    )


def test_the_command_asks_for_the_bounds_and_other_modes_keep_the_old_ones(browser, plain):
    with opened(browser, plain[1]) as page:
        command = page.locator("#explorer-command")
        assert "--subject-to 'recall[fraud] >= 0.5'" in command.inner_text()
        page.check("input[value=constraint]")
        page.select_option("#explorer-class", label="fraud")
        page.locator("#bound-recall").fill("0.9")
        page.locator("#bound-share").fill("0.3")
        assert command.inner_text() == (
            "eastward train claims.csv -t fraud --metric f1_macro "
            "--subject-to 'recall[fraud] >= 0.90, predicted_rate[fraud] <= 0.30' --out m-constrained"
        )
        assert page.locator("#cost-file-part").is_hidden()
        page.click("#explorer-reset")
        assert page.locator("#bound-recall").input_value() == "0"
        assert page.locator("#trade-off .kept").get_attribute("d") == ""


def test_a_constraint_that_no_threshold_satisfies_is_reported(browser, plain):
    with opened(browser, plain[1]) as page:
        page.check("input[value=constraint]")
        page.select_option("#explorer-class", label="fraud")
        page.locator("#bound-recall").fill("1")
        page.locator("#bound-precision").fill("1")
        assert (
            "No offset keeps all of this" in page.locator('[data-show="bound-words"]').inner_text()
        )
        assert page.locator("#trade-off .kept").get_attribute("d") == ""


@pytest.mark.parametrize(("width", "scheme"), [(1200, "light"), (390, "dark")])
@pytest.mark.slow
def test_promises_and_their_cost_are_drawn(browser, claims, tmp_path, width, scheme):
    model, X, y = claims
    model.decide_by("f1_macro", **WISHES)
    try:
        _, path = page_of(model, X, y, tmp_path / "report.html", command="eastward train a -t y")
        with opened(browser, path, width=width, color_scheme=scheme) as page:
            section = page.locator("#decision")
            assert "recall[fraud] ≥ 0.70 with 95 % confidence" in section.inner_text()
            assert section.locator("svg").count() == 3, "two bounds, and accuracy against coverage"
            for picture in section.locator("svg").all():
                points = picture.locator("polyline").get_attribute("points").split()
                assert len(points) == 21
            assert page.evaluate("document.documentElement.scrollWidth") == width
    finally:
        model.decide_by("f1_macro", abstain_cost=None, coverage=None)
