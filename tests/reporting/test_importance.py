"""What matters: importance of the table's own columns for the user's metric, and how decisions depend on them."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from browser import opened
from hostile import IMAGE, SCRIPT
from sklearn.inspection import permutation_importance
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import eastward as ew
from eastward.data import feature_origins, make_vectorizer
from eastward.reporting import importance_summary, render_markdown, report_summary, write_report
from eastward.reporting.charts import effect_chart
from eastward.reporting.summary import plain

COST = ew.metrics.get("expected_cost", cost=[[0, 1], [4, 0]])


def people(rows: int = 600, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    """The amount and the city tell the class; noise, days and a copy do not."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "noise": rng.normal(size=rows),
            "amount": rng.gamma(2, 200, rows),
            "city": rng.choice(["Graz", "Linz", "Wien"], rows),
            "day": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 900, rows), "D"),
            "gaps": np.where(rng.random(rows) < 0.3, np.nan, rng.normal(size=rows)),
        }
    )
    score = frame["amount"] / 200 + 3 * (frame["city"] == "Wien") + rng.normal(size=rows)
    return frame, (score > 4).to_numpy().astype(int)


def fitted(frame, labels):
    vectorizer = make_vectorizer()
    vectors = vectorizer.fit_transform(frame)
    scaled = (vectors - vectors.mean(axis=0)) / (vectors.std(axis=0) + 1e-9)
    return vectorizer, scaled, LogisticRegression(max_iter=500).fit(scaled, labels)


@pytest.fixture(scope="module")
def judged():
    frame, labels = people()
    vectorizer, vectors, model = fitted(frame, labels)
    origins = feature_origins(vectorizer)

    def summary(metric, **options):
        return importance_summary(
            model.predict, vectors, origins, frame, labels, ["no", "yes"], metric, **options
        )

    return summary


@pytest.mark.parametrize("metric", [ew.metrics.get("f1"), COST], ids=["f1", "cost"])
def test_columns_that_tell_the_class_come_first_under_their_own_names(judged, metric):
    found = judged(metric)
    assert json.loads(json.dumps(plain(found))) == plain(found)
    assert {column["name"] for column in found["columns"][:2]} == {"amount", "city"}
    assert [column["name"] for column in found["columns"] if column["matters"]] == [
        column["name"] for column in found["columns"][:2]
    ]
    assert len(found["columns"]) == 5
    for column in found["columns"]:
        low, high = column["interval"]
        assert low <= column["mean"] <= high


def test_effects_say_how_decisions_depend_on_a_column(judged):
    effects = {effect["name"]: effect for effect in judged(ew.metrics.get("f1"))["effects"]}
    assert set(effects) == {"amount", "city"}
    amount, city = effects["amount"], effects["city"]
    assert (amount["kind"], city["kind"]) == ("number", "category")
    assert amount["values"] == sorted(amount["values"])
    assert amount["classes"] == ["yes"]
    assert amount["shares"][0] == sorted(amount["shares"][0])
    shares = dict(zip(city["values"], city["shares"][0], strict=True))
    assert shares["Wien"] > shares["Graz"] + 0.2


def test_importance_of_plain_columns_is_scikit_learns():
    frame, labels = people()
    frame = frame[["noise", "amount"]]
    model = LogisticRegression().fit(frame.to_numpy(), labels)
    rows = np.sort(np.random.default_rng(0).permutation(600)[:500])
    found = importance_summary(
        model.predict,
        frame.to_numpy(),
        ["noise", "amount"],
        frame,
        labels,
        ["no", "yes"],
        ew.metrics.get("f1"),
    )
    own = permutation_importance(
        model, frame.to_numpy()[rows], labels[rows], scoring="f1", n_repeats=10, random_state=0
    )
    means = {column["name"]: column["mean"] for column in found["columns"]}
    assert [means["noise"], means["amount"]] == pytest.approx(own.importances_mean)


def test_a_row_of_weight_zero_does_not_count(judged):
    weight = np.zeros(600)
    weight[:300] = 1
    with_weights = judged(ew.metrics.get("f1"), sample_weight=weight)
    assert with_weights["columns"] != judged(ew.metrics.get("f1"))["columns"]


def test_the_interval_of_noise_contains_zero_as_often_as_promised():
    inside = []
    for seed in range(12):
        frame, labels = people(200, seed)
        _, vectors, model = fitted(frame[["noise", "gaps"]], labels)
        found = importance_summary(
            model.predict,
            vectors,
            ["noise", "gaps", "gaps"],
            frame[["noise", "gaps"]],
            labels,
            ["no", "yes"],
            ew.metrics.get("balanced_accuracy"),
            random_state=seed,
        )
        inside += [low <= 0.02 for low, _ in (column["interval"] for column in found["columns"])]
    assert np.mean(inside) >= 0.9


def test_more_classes_show_those_that_depend_on_the_column_most():
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 10, (400, 1))
    targets = x[:, 0].astype(int)
    frame = pd.DataFrame({"x": x[:, 0]})
    found = importance_summary(
        lambda vectors: vectors[:, 0].astype(int),
        x,
        ["x"],
        frame,
        targets,
        [f"c{k}" for k in range(10)],
        ew.metrics.get("f1_macro"),
    )
    [effect] = found["effects"]
    assert len(effect["classes"]) == 4
    assert found["columns"][0]["mean"] > 0.8


def test_days_are_shown_in_their_order():
    effect = {
        "name": "day",
        "kind": "date",
        "values": ["2024-01-01 00:00:00", "2024-02-01 00:00:00", "2024-06-01 00:00:00"],
        "classes": ["yes"],
        "shares": [[0.1, 0.5, 0.9]],
    }
    picture = effect_chart(effect, 340)
    assert "2024-01-01" in picture
    assert "2024-06-01" in picture
    assert "yes from 10" in picture


def test_the_vectorizer_keeps_names_behind_other_steps():
    frame, labels = people(100)
    pipeline = make_pipeline(make_vectorizer(), LogisticRegression(max_iter=50)).fit(frame, labels)
    names = pipeline[:-1].get_feature_names_out()
    assert len(names) == pipeline[-1].n_features_in_
    assert {"amount", "city_Wien", "missingindicator_gaps"} <= set(names)


@pytest.mark.parametrize("width", [1200, 400])
def test_the_page_shows_importance_and_hostile_names_stay_text(browser, judged, tmp_path, width):
    importance = plain(judged(ew.metrics.get("f1")))
    for place, name in enumerate((SCRIPT, IMAGE)):
        importance["columns"][place]["name"] = importance["effects"][place]["name"] = name
        importance["effects"][place]["classes"] = [IMAGE]
    summary = report_summary("What matters", "f1", importance=importance)
    assert "may be chance" in render_markdown(summary)
    with opened(browser, write_report(summary, tmp_path / "report.html"), width=width) as page:
        section = page.locator("#importance")
        assert "2 of 5 columns matter with confidence" in section.inner_text()
        assert section.locator(".effect").count() == 2
        assert section.locator(".effect strong").all_inner_texts() == [SCRIPT, IMAGE]
        assert page.locator("img").count() == 0
        assert page.evaluate("document.documentElement.scrollWidth") == width
