"""The page as text: what is in it, and what can never be."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest
from hostile import CLASSES, IMAGE, SCRIPT, hostile_summary

from eastward.reporting import evaluation_summary, render_html, report_summary
from eastward.reporting.charts import importance_chart, interval_chart
from eastward.reporting.training_chart import closing_gap


class Page(HTMLParser):
    """Elements with their attributes, and the text of scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data):
        if self.elements and self.elements[-1][0] == "script" and data.strip():
            self.scripts.append(data)

    def having(self, name: str) -> list[str | None]:
        return [attributes[name] for _, attributes in self.elements if name in attributes]


def test_the_page_refers_to_nothing_outside_itself(summary):
    page = Page(render_html(summary))
    assert {tag for tag, _ in page.elements} & {"img", "link", "iframe", "object", "base"} == set()
    assert page.having("src") == []
    assert all(link.startswith("#") for link in page.having("href"))
    assert "url(" not in render_html(summary)
    assert "@import" not in render_html(summary)


def test_only_the_script_of_the_page_may_run(summary):
    page = Page(render_html(summary))
    data, script = page.scripts
    assert json.loads(data)["classes"] == ["benign", "malignant"]
    policy = next(value for value in page.having("content") if value.startswith("default-src"))
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy


def test_hostile_names_are_text_everywhere():
    text = render_html(hostile_summary())
    page = Page(text)
    assert len(page.scripts) == 2
    assert [tag for tag, _ in page.elements].count("script") == 2
    assert "img" not in {tag for tag, _ in page.elements}
    assert not any(name.startswith("on") for _, attributes in page.elements for name in attributes)
    assert SCRIPT not in text
    assert IMAGE not in text
    assert json.loads(page.scripts[0])["classes"] == CLASSES
    assert any(SCRIPT in (value or "") for value in page.having("aria-label"))


def test_every_picture_has_words_and_every_control_a_name(summary):
    page = Page(render_html(summary))
    for tag, attributes in page.elements:
        if tag == "svg":
            assert attributes.get("aria-label") or attributes.get("aria-hidden") == "true"
    targets = set(page.having("for"))
    for tag, attributes in page.elements:
        if tag in {"select", "input"} and attributes.get("type") != "radio":
            assert attributes.get("aria-label") or attributes.get("id") in targets


def test_ids_are_unique(summary):
    found = Page(render_html(summary)).having("id")
    assert len(found) == len(set(found))


def test_the_page_shows_the_numbers_of_the_summary(summary):
    text = re.sub(r"<[^>]+>", " ", render_html(summary))
    for row in summary["evaluation"]["metrics"]:
        assert f"{row['value']:.4f}".replace("-", "−") in text
    for method in summary["comparison"]["methods"]:
        assert f"{method['mean']:.3f}" in text
        assert f"{method['log_loss']:.3f}" in text
    headline, reasons = summary["verdict"]["sentence"].split(". ", 1)
    assert headline in text
    assert reasons in text


def test_methods_stand_from_best_to_worst_and_marks_where_their_means_are(summary):
    comparison = summary["comparison"]
    drawing = str(interval_chart(comparison, summary["verdict"]["recommended"], 900))
    labels = re.findall(r'class="label[^"]*">([^<]+)<', drawing)
    ranked = sorted(comparison["methods"], key=lambda method: -method["mean"])
    assert [label.split(", ")[0] for label in labels] == [method["label"] for method in ranked]
    lines = re.findall(r'<line x1="([\d.]+)" x2="([\d.]+)"[^>]*class="whisker', drawing)
    ends = np.array([[float(a), float(b)] for a, b in lines])
    # Without an interval, the line has no length.
    alone = [[method["mean"]] * 2 for method in ranked]
    known = [method["interval"][0] is not None for method in ranked]
    wanted = np.where(
        np.array(known)[:, None], np.array([m["interval"] for m in ranked], float), alone
    )
    assert any(known)
    slope, start = np.polyfit(wanted.ravel(), ends.ravel(), 1)
    assert slope > 0
    assert slope * wanted + start == pytest.approx(ends, abs=0.05)


@pytest.mark.parametrize(("higher", "words"), [(True, "lost when"), (False, "added when")])
def test_a_cost_is_added_and_a_score_is_lost(higher, words):
    column = {"name": "bmi", "mean": 0.2, "interval": [0.1, 0.3], "matters": True}
    still = {"name": "age", "mean": 0.0, "interval": [0.0, 0.0], "matters": False}
    drawing = str(importance_chart([column, still], "expected_cost", higher, 900))
    assert f"expected cost {words} the column is shuffled" in drawing
    assert "0.200  (0.100 to 0.300)" in drawing
    assert "0.000" in re.findall(r">([^<]*)</text>", drawing)


def test_a_comparison_where_lower_is_better_stands_lowest_first(summary):
    comparison = {**summary["comparison"], "higher_is_better": False}
    drawing = str(interval_chart(comparison, None, 900))
    labels = re.findall(r'class="label[^"]*">([^<]+)<', drawing)
    ranked = sorted(comparison["methods"], key=lambda method: method["mean"])
    assert [label.split(", ")[0] for label in labels] == [method["label"] for method in ranked]


@pytest.mark.slow
@pytest.mark.parametrize("size", [100, 150])
def test_many_classes_stay_well_under_five_megabytes(size):
    rng = np.random.default_rng(0)
    targets = rng.integers(size, size=4000)
    logits = rng.normal(size=(4000, size)) * 3
    logs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    evaluation = evaluation_summary(targets, logs, range(size), "f1_macro", n_bootstrap=5)
    text = render_html(report_summary("Many", "f1_macro", evaluation=evaluation))
    assert len(text.encode()) < 3_000_000
    assert "does not fit on a page" in text


@pytest.mark.parametrize(
    ("temperatures", "expected"),
    [
        ((0.2, 0.05), "were 0.300 apart at temperature 0.2 and 0.100 apart at temperature 0.05."),
        ((0.2, 0.2), "Here it stayed at 0.2: surrogate and metric were 0.300 apart at first"),
        ((None, None), ""),
    ],
)
def test_the_gap_between_surrogate_and_metric_is_said_as_it_was(temperatures, expected):
    history = [
        {"stage": "s", "temperature": temperature, "valid_loss": loss, "valid_score": 0.7}
        for temperature, loss in zip(temperatures, (0.6, 0.4), strict=True)
    ]
    sentence = closing_gap(history, higher_is_better=True)
    assert (expected in sentence) if expected else (sentence == "")
