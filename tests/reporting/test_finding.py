"""The verdict on one model: at most twenty words, and right."""

from __future__ import annotations

import numpy as np
import pytest

import eastward as ew
from eastward.reporting import evaluation_summary, finding, report_summary
from eastward.reporting.page_parts import next_command

LONG = "a class whose name takes more words than a headline has room for, by far"
COST = ew.metrics.get("expected_cost", cost=[[0, 1], [4, 0]])
COMMANDS = {"predict": "eastward predict m", "compare": "eastward compare d"}


def judged(quality: float, metric, *, rows: int = 200, labels=("no", "yes")) -> dict:
    """Decisions that follow the truth as often as ``quality`` says; at zero all are the first class."""
    rng = np.random.default_rng(0)
    targets = (rng.random(rows) < 0.3).astype(int)
    decisions = np.where(rng.random(rows) < quality, targets, rng.random(rows) < 0.3).astype(int)
    logs = np.log(np.where(np.eye(2)[decisions if quality else 0 * decisions] > 0, 0.8, 0.2))
    return evaluation_summary(targets, logs, labels, metric)


@pytest.mark.parametrize(
    ("quality", "metric", "start", "following"),
    [
        (0.9, "f1_macro", "Use this model: macro F1 0.9", "predict"),
        (0.9, COST, "Use this model: expected cost 0.", "predict"),
        (0.05, "f1_macro", "Not proven: macro F1 0.", "compare"),
        (0.05, COST, "Do not use this model: expected cost", "compare"),
        (0.05, "recall", "Do not use this model: recall 0.", "compare"),
        (0.0, "f1", "Do not use this model: every new row is decided as “no”.", "compare"),
    ],
)
def test_the_verdict_says_whether_to_use_the_model(quality, metric, start, following):
    rows = 12 if quality == 0.05 and metric == "f1_macro" else 200
    evaluation = judged(quality, metric, rows=rows)
    verdict = finding(evaluation, {}, ew.metrics.as_metric(metric))
    assert verdict["sentence"].startswith(start)
    summary = report_summary("t", metric, evaluation=evaluation, verdict=verdict, commands=COMMANDS)
    assert next_command(summary)["line"] == COMMANDS[following]


@pytest.mark.parametrize("quality", [0.9, 0.05, 0.0])
@pytest.mark.parametrize("labels", [("no", "yes"), (LONG, f"not {LONG}")], ids=["short", "long"])
@pytest.mark.parametrize("metric", ["f1_macro", "cohen_kappa_quadratic", COST])
def test_the_first_sentence_has_at_most_twenty_words_and_no_pronoun(quality, labels, metric):
    verdict = finding(judged(quality, metric, labels=labels), {}, ew.metrics.as_metric(metric))
    words = verdict["sentence"].split()
    assert len(words) <= 20
    assert not {"it", "its", "they", "that"} & {word.strip(":,.;").lower() for word in words}
    assert "95 % confidence" in verdict["detail"][0]


def test_the_verdict_without_held_out_rows_uses_folds_or_is_open():
    training = {"stages": [{"tuned": 0.75}], "sentences": ["a"]}
    metric = ew.metrics.get("f1")
    assert finding(None, training, metric)["sentence"].endswith("the model reaches F1 0.750.")
    assert "nothing is known" in finding(None, {}, metric)["sentence"]
