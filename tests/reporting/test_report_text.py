"""Summary, Markdown, files and pictures: everything of the report but the page."""

from __future__ import annotations

import json
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from hostile import CLASSES, IMAGE, TEMPLATE, hostile_summary
from markdown_it import MarkdownIt
from PIL import Image

import eastward as ew
from eastward.reporting import render_markdown, report_summary, write_figures, write_report
from eastward.reporting.charts import interval_chart
from eastward.reporting.page_parts import key_figures
from eastward.reporting.svg import ticks
from eastward.reporting.training_chart import closing_gap
from eastward.reporting.wording import number

PARTS = ("data", "verdict", "comparison", "evaluation", "training")


def test_a_summary_is_json_and_says_what_the_metric_is(summary):
    assert json.loads(json.dumps(summary, allow_nan=False)) == summary
    assert summary["metric"]["name"] == "f1"
    assert summary["metric"]["higher_is_better"] is True
    assert summary["verdict"] == summary["comparison"]["verdict"]
    assert "cells" not in summary["comparison"]
    assert set(summary["training"]["history"][0]) == {
        "stage",
        "epoch",
        "temperature",
        "train_loss",
        "valid_loss",
        "valid_score",
    }


def test_a_range_without_bounds_and_numbers_that_are_none_become_null():
    metric = ew.metrics.get("expected_cost", cost=[[0, 1], [1, 0]])
    summary = report_summary("t", metric, data={"imbalance": np.float32("nan"), 1: (np.int64(2),)})
    assert summary["metric"]["low"] is None
    assert summary["metric"]["higher_is_better"] is False
    assert summary["data"] == {"imbalance": None, "1": [2]}


def test_a_verdict_of_ones_own_comes_before_the_comparisons(summary):
    own = {"sentence": "Use the old one.", "detail": [], "recommended": None}
    again = report_summary("t", "f1", comparison=summary["comparison"], verdict=own)
    assert again["verdict"] == own


def test_a_title_that_is_no_text_is_refused():
    with pytest.raises(TypeError, match="title of report_summary must be a string"):
        report_summary(3, "f1")


@pytest.mark.parametrize("missing", [*PARTS, "all"])
@pytest.mark.parametrize("ending", ["html", "md", "json"])
def test_every_part_may_be_missing(summary, tmp_path, missing, ending):
    gone = PARTS if missing == "all" else (missing,)
    partial = {**summary, **dict.fromkeys(gone), "commands": {}}
    text = write_report(partial, tmp_path / f"report.{ending}").read_text("utf-8")
    assert summary["title"] in text


def test_markdown_shows_the_numbers_of_the_summary(summary):
    text = render_markdown(summary)
    html = MarkdownIt("commonmark").enable("table").render(text)
    best = summary["evaluation"]["metrics"][0]
    assert f"<strong>{best['value']:.3f}</strong>" in html
    for method in summary["comparison"]["methods"]:
        assert f'<td style="text-align:left">{method["label"]}</td>' in html
        assert f"{method['mean']:.3f}" in html
    assert html.count("<table>") == 9
    assert "differences are against logistic regression with a tuned threshold" in html


def test_markdown_shows_hostile_names_as_text():
    html = MarkdownIt("gfm-like", {"linkify": False, "html": True}).render(
        render_markdown(hostile_summary())
    )
    assert "<script" not in html
    assert "<img" not in html
    # Parsed as HTML the text is what was put in, in every cell that shows a class.
    shown = "".join(ET.fromstring(f"<body>{html.replace('<br>', '<br/>')}</body>").itertext())
    for text in (*CLASSES, TEMPLATE, IMAGE):
        assert " ".join(text.split()) in shown


def test_a_name_cannot_add_a_cell_to_a_table():
    summary = hostile_summary()
    summary["data"]["classes"] = [{"label": "a | b\n| c", "count": 1}]
    html = MarkdownIt("commonmark").enable("table").render(render_markdown(summary))
    assert '<td style="text-align:left">a | b | c</td>\n<td style="text-align:right">1</td>' in html


def test_backticks_in_a_command_do_not_end_its_block():
    summary = report_summary("t", "f1", commands={"train": "eastward train ```x``` y"})
    html = MarkdownIt("commonmark").render(render_markdown(summary))
    assert "eastward train ```x``` y\n</code></pre>" in html


def test_a_report_is_written_whole_or_not_at_all(summary, tmp_path, monkeypatch):
    path = write_report(summary, tmp_path / "new" / "report.md")
    before = path.read_text("utf-8")

    def full_disk(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full_disk)
    with pytest.raises(OSError, match="No space left"):
        write_report({**summary, "title": "other"}, path)
    assert path.read_text("utf-8") == before
    assert [entry.name for entry in path.parent.iterdir()] == ["report.md"]


def test_an_unknown_ending_is_named(summary, tmp_path):
    with pytest.raises(ValueError, match=r"the end of path of write_report must be one of '.html'"):
        write_report(summary, tmp_path / "report.docx")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("hostile", [False, True])
def test_figures_are_drawn_as_png_and_svg(summary, tmp_path, hostile):
    paths = write_figures(hostile_summary() if hostile else summary, tmp_path / "figures")
    names = ["comparison", "confusion", "calibration", "training"]
    assert [path.name for path in paths] == [f"{n}.{e}" for n in names for e in ("png", "svg")]
    for path in paths:
        if path.suffix == ".png":
            with Image.open(path) as picture:
                colours = picture.convert("RGB").getcolors(1 << 24)
                assert min(picture.size) > 300
            assert len(colours) > 20
        else:
            drawing = ET.parse(path)
            assert not drawing.findall(".//{*}script")
            assert len(list(drawing.iter())) > 40


@pytest.mark.slow
def test_a_figure_of_a_missing_part_is_not_drawn(summary, tmp_path):
    paths = write_figures({**summary, "comparison": None, "training": None}, tmp_path)
    assert {path.stem for path in paths} == {"confusion", "calibration"}


@pytest.mark.parametrize(("low", "high"), [(0, 1), (0.83, 0.97), (-3, 250), (1e-4, 2e-4), (1, 2)])
def test_ticks_are_few_round_and_inside(low, high):
    found = ticks(low, high, 6)
    assert 2 <= len(found) <= 7
    assert low <= min(found)
    assert max(found) <= high
    steps = np.diff(found)
    assert steps == pytest.approx(np.full(len(steps), steps[0]))


def test_a_cost_has_the_right_sign_everywhere():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 2))
    y = (X[:, 0] + rng.normal(size=120) > 0.7).astype(int)
    options = {"cost": [[0, 1], [5, 0]]}
    model = ew.EASTClassifier(
        "expected_cost", metric_options=options, hidden=(4,), max_epochs=4, n_folds=2
    ).fit(X, y)
    training = {**model.report_, "history": model.history_}
    rows = [
        method("old", 0.8, {"mean": 0.0, "interval": [0.0, 0.0], "probability": 0.5}),
        method("new", 0.5, {"mean": -0.3, "interval": [-0.4, -0.2], "probability": 0.99}),
    ]
    comparison = {
        "metric": "expected_cost",
        "higher_is_better": False,
        "baseline": "old",
        "splits": 5,
        "methods": rows,
        "verdict": {"sentence": "Use new.", "detail": [], "recommended": "new"},
    }
    summary = report_summary("t", model.metric_, training=training, comparison=comparison)
    scores = [row["valid_score"] for row in summary["training"]["history"]]
    assert all(0 <= score <= 5 for score in scores)
    for stage in summary["training"]["stages"]:
        assert 0 <= stage["tuned"] <= 5
    gap = closing_gap(summary["training"]["history"], higher_is_better=False)
    last = next(row for row in reversed(summary["training"]["history"]) if row["temperature"])
    assert number(abs(last["valid_loss"] - last["valid_score"])) in gap
    [change] = [figure for figure in key_figures(summary) if "expected cost" in figure["name"]]
    assert change["name"] == "change in expected cost"
    assert (change["value"], change["note"][-15:]) == ("−0.300", "lower is better")
    picture = interval_chart(comparison, "new", 940)
    assert "expected cost (lower is better)" in picture
    assert picture.index(">new<") < picture.index(">old<")


def method(name: str, mean: float, difference: dict) -> dict:
    return {"name": name, "label": name, "mean": mean, "interval": None, "difference": difference}
