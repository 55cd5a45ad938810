"""What a notebook shows of a comparison and of fitted classifiers, in a real Chromium."""

from __future__ import annotations

import numpy as np
import pytest
from browser import opened
from hostile import CLASSES, IMAGE, SCRIPT, hostile_summary
from sklearn.linear_model import LogisticRegression

import eastward as ew
from eastward.reporting.notebook import classifier_view, comparison_view

# What JupyterLab does to tables in an output.
JUPYTER = """
.jp-RenderedHTMLCommon table { border: none; font-size: 12px; table-layout: fixed; color: red; }
.jp-RenderedHTMLCommon tbody tr:nth-child(odd) { background: rgb(1, 2, 3); }
.jp-RenderedHTMLCommon td, .jp-RenderedHTMLCommon th { text-align: right; max-width: none; }
"""


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 3))
    y = np.array(["low", "middle", "high"])[np.digitize(X[:, 0] + rng.normal(size=150), [-1, 1.2])]
    return X, y


@pytest.fixture(scope="module")
def comparison(rows):
    methods = ["logistic_regression", "logistic_regression_tuned", "random_forest"]
    return ew.compare(*rows, methods=methods, baseline="logistic_regression", n_splits=3)


@pytest.fixture(scope="module")
def classifiers(rows):
    return [
        ew.EASTClassifier(hidden=(4,), max_epochs=3, n_folds=2, random_state=0).fit(*rows),
        ew.TunedDecisionClassifierCV(LogisticRegression(), cv=3).fit(*rows),
        ew.EASTBoostingClassifier(random_state=0).fit(*rows),
    ]


def notebook(folder, *views: str, light: str | None = None):
    """A page around views, as JupyterLab has it, or without any theme of its own."""
    theme = "" if light is None else f' data-jp-theme-light="{light}"'
    path = folder / "notebook.html"
    path.write_text(
        f"<!doctype html><meta charset=utf-8><style>{JUPYTER}</style><body{theme}>"
        + "".join(f'<div class="jp-RenderedHTMLCommon">{view}</div>' for view in views),
        encoding="utf-8",
    )
    return path


def test_a_comparison_shows_verdict_picture_and_a_sorted_table(browser, comparison, tmp_path):
    with opened(browser, notebook(tmp_path, comparison._repr_html_())) as page:
        said = page.locator(".eastward-view").inner_text()
        assert " ".join(comparison.verdict["sentence"].split()) in " ".join(said.split())
        means = [float(text) for text in page.locator("tbody tr td:nth-child(2)").all_inner_texts()]
        assert means == sorted(means, reverse=True)
        assert len(means) == 3
        assert page.locator("svg.chart").first.is_visible()
        picture = page.locator(".wide svg.chart").get_attribute("aria-label")
        assert all(method["label"] in picture for method in comparison.methods)
        assert page.locator("tr.chosen").count() == 1


def test_classifiers_show_what_they_reach_and_how_they_decide(browser, classifiers, tmp_path):
    path = notebook(tmp_path, *(model._repr_mimebundle_()["text/html"] for model in classifiers))
    with opened(browser, path) as page:
        for view, model in zip(page.locator(".eastward-view").all(), classifiers, strict=True):
            said = view.inner_text()
            assert f"{type(model).__name__}, 3 classes" in said
            assert "acro F1" in said
            assert "with the tuned decision" in view.locator("svg.chart").first.inner_html()
            view.locator("summary", has_text="Parameters").click()
            assert "metric" in view.locator("details table").inner_text()
            factors = view.locator(".bar-cell").all_inner_texts()
            assert len(factors) in {0, 3}
            if model.offsets_ is not None and any(model.offsets_):
                assert max(map(float, factors)) == 1


@pytest.mark.parametrize(
    ("light", "scheme", "dark"),
    [
        (None, "light", False),
        (None, "dark", True),
        ("true", "dark", False),
        ("false", "light", True),
    ],
)
@pytest.mark.parametrize("width", [1000, 400])
def test_a_view_follows_the_notebooks_dark_mode_and_fits(
    browser, comparison, classifiers, tmp_path, light, scheme, dark, width
):
    views = [comparison._repr_html_(), classifier_view(classifiers[0])]
    path = notebook(tmp_path, *views, light=light)
    with opened(browser, path, width=width, color_scheme=scheme) as page:
        look = "getComputedStyle(document.querySelector('.eastward-view'))"
        card, text = page.evaluate(f"[{look}.backgroundColor, {look}.color]")
        brightness = [sum(map(int, colour[4:-1].split(","))) for colour in (card, text)]
        assert (brightness[0] < 150) == dark
        assert (brightness[1] > 600) == dark
        row = "getComputedStyle(document.querySelector('tbody tr')).backgroundColor"
        assert page.evaluate(row) == "rgba(0, 0, 0, 0)"
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        # Letters of a picture shrink with it: on a phone there is another one.
        sizes = """[...document.querySelectorAll("svg.chart text.label")].filter((text) => text.getClientRects().length)
            .map((text) => text.getBoundingClientRect().height)"""
        assert min(page.evaluate(sizes)) > 10


def test_hostile_names_stay_text(browser, rows, tmp_path):
    X, y = rows
    hostile = np.array(CLASSES)[np.unique(y, return_inverse=True)[1]]
    model = ew.TunedDecisionClassifierCV(LogisticRegression(), cv=3).fit(X, hostile)
    model.decision_ = ew.Decision(np.diag([1.0, 2.0, 3.0]), classes=model.classes_)
    model.report_["sentences"] = [SCRIPT]
    views = [comparison_view(hostile_summary()["comparison"]), classifier_view(model)]
    with opened(browser, notebook(tmp_path, *views)) as page:
        assert page.locator("img, script").count() == 0
        said = page.locator("body").inner_text()
        assert IMAGE in said
        assert SCRIPT in said
