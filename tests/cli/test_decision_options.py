"""Constraints, rows left undecided and other class frequencies, on the command line."""

from __future__ import annotations

import json
import re

import pandas as pd
import pytest
from command_runs import run

METHOD = ["--method", "logistic_regression_tuned", "--ignore", "claim", "--quiet"]


def trained_with(table, folder, *words):
    done = run("train", table, "-t", "fraud", "-o", folder, *METHOD, *words)
    assert done.code == 0, done.err
    return folder, json.loads((folder / "summary.json").read_text())


def predicted(folder, table, out, *words) -> pd.DataFrame:
    done = run("predict", folder, table, "-o", out, *words)
    assert done.code == 0, done.err
    return pd.read_csv(out)


@pytest.mark.parametrize("wish", [("--abstain-cost", "0.1"), ("--coverage", "0.7")])
@pytest.mark.slow
def test_rows_can_be_left_to_a_person(table, tmp_path, wish):
    folder, summary = trained_with(table, tmp_path / "model", "-m", "accuracy", *wish)
    curve = summary["training"]["coverage_curve"]
    assert curve["coverage"][-1] == pytest.approx(1)
    assert curve["accuracy"][0] >= curve["accuracy"][-1]
    assert 0.5 < summary["evaluation"]["coverage"] < 1
    page = (folder / "report.html").read_text()
    assert "Accuracy of decided rows against their share" in page
    found = predicted(folder, table, tmp_path / "out.csv")
    left = (found["prediction"] == "abstain").mean()
    assert 0 < left < 0.45
    unsure = found.filter(like="probability_").max(axis=1)
    undecided = found["prediction"] == "abstain"
    assert unsure[undecided].mean() < unsure[~undecided].mean()


def test_a_constraint_is_satisfied_printed_and_drawn(table, tmp_path):
    wish = "recall[yes] >= 0.6"
    folder, summary = trained_with(table, tmp_path / "model", "-m", "f1", "--subject-to", wish)
    (kept,) = summary["training"]["constraints"]
    assert kept.startswith("recall[yes] ≥ 0.60 with 95 % confidence: 0.")
    (curve,) = summary["training"]["constraint_curves"]
    assert curve["values"] == sorted(curve["values"], reverse=True), "more recall never costs less"
    page = (folder / "report.html").read_text()
    assert "Best F1 on held-out rows if recall[yes] is at least a bound" in page
    assert kept in page


def test_other_frequencies_change_decisions_and_probabilities(table, tmp_path):
    folder, _ = trained_with(table, tmp_path / "model", "-m", "f1")
    before = predicted(folder, table, tmp_path / "before.csv")
    rarer = predicted(folder, table, tmp_path / "rarer.csv", "--prior", "no=0.97,yes=0.03")
    assert (rarer["prediction"] == "yes").sum() < (before["prediction"] == "yes").sum()
    assert (rarer["probability_yes"] < before["probability_yes"]).all()
    wrong = run("predict", folder, table, "-o", tmp_path / "no.csv", "--prior", "no=0.5,yes=0.3")
    assert (wrong.code, "--prior of predict must be a distribution" in wrong.err) == (2, True)


def test_estimated_frequencies_are_printed_with_warnings(table, tmp_path):
    folder, _ = trained_with(table, tmp_path / "model", "-m", "f1")
    frame = pd.read_csv(table)
    for rows, doubts in ((frame.head(4), True), (pd.concat([frame] * 10), False)):
        rows.to_csv(tmp_path / "rows.csv", index=False)
        words = (tmp_path / "rows.csv", "-o", tmp_path / "out.csv", "--prior", "auto")
        done = run("predict", folder, *words)
        assert done.code == 0
        assert "class frequencies found in these rows: no 0." in " ".join(done.err.split())
        assert (
            f"{len(rows)} rows cannot tell how frequent" in " ".join(done.err.split())
        ) == doubts


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--coverage", "1.5"), "--coverage of train must be strictly between 0 and 1; got 1.5"),
        (("--abstain-cost", "-1"), "--abstain-cost of train must be >= 0; got -1"),
        (("--subject-to", "recall[maybe] >= 0.9"), "must be about known classes"),
        (("--subject-to", "recall[yes] >= 1.5"), "must be .*; got .*1.5"),
        (("--subject-to", "recall of yes"), "--subject-to of train must be"),
    ],
)
def test_bad_options_get_one_sentence(table, tmp_path, words, message):
    done = run("train", table, "-t", "fraud", "-o", tmp_path / "model", *METHOD, *words)
    assert done.code == 2
    assert not (tmp_path / "model").exists()
    assert re.search(message, " ".join(done.err.split()))
    assert "Traceback" not in done.err
