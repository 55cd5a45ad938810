"""`eastward train`: what it leaves behind, what it refuses, and what a person reads."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from command_runs import SMALL, claims, run

from eastward.cli.fit_model import held_out_rows
from eastward.model_folder import load_model


def test_the_folder_holds_model_preprocessing_task_summary_and_report(trained):
    names = sorted(
        path.relative_to(trained).as_posix() for path in trained.rglob("*") if path.is_file()
    )
    assert names == [
        "README.md",
        "model/model.json",
        "model/weights.safetensors",
        "preprocessing.skops",
        "report.html",
        "summary.json",
        "task.json",
    ]
    task = json.loads((trained / "task.json").read_text())
    assert (task["target"], task["metric"], task["trained_rows"]) == ("fraud", "f1_macro", 192)
    assert {"name": "seen", "kind": "date"} in task["columns"]
    summary = json.loads((trained / "summary.json").read_text())
    assert summary["evaluation"]["rows"] == 48
    assert "on new rows" in summary["verdict"]["sentence"]
    assert "Judged on 48 rows that the model has not seen" in summary["verdict"]["detail"][0]
    assert summary["commands"]["train"].startswith("eastward train ")
    assert "--ignore claim" in summary["commands"]["train"]
    assert "<html" in (trained / "report.html").read_text()


def test_the_card_says_what_the_model_is_for_and_where_it_ends(trained):
    card = (trained / "README.md").read_text()
    for section in ("Metric", "Data", "Decision", "Calibration", "Limits", "Use"):
        assert f"## {section}" in card
    assert "Trained for and judged by macro F1. On 48 held-out rows: 0." in card
    assert "- yes: 41 rows" in card
    assert "There are no constraints." in card


@pytest.mark.slow
def test_a_person_sees_classes_warnings_confusion_and_where_the_report_is(table, tmp_path):
    done = run("train", table, "-t", "fraud", "-o", tmp_path / "m", *SMALL)
    assert done.code == 0, done.err
    assert "claims: 240 rows, 7 features, 2 classes of 'fraud'" in done.out
    assert "warning: each row has its own value" in done.out
    assert "rows: true, columns: predicted" in done.out
    assert "report.html" in done.out
    assert "eastward predict" in done.out


@pytest.mark.slow
def test_batches_too_small_for_a_class_are_in_the_report_and_on_the_screen(tmp_path):
    rare = claims()
    rare["fraud"] = np.where(np.arange(len(rare)) % 60 == 0, "yes", "no")
    rare.to_csv(tmp_path / "rare.csv", index=False)
    words = ["train", tmp_path / "rare.csv", "-t", "fraud", "-o", tmp_path / "m", *SMALL]
    done = run(*words, "--recipe", "paper")
    assert done.code == 0, done.err
    sentence = "hold no row of classes ['yes'], and f1_macro of a batch leaves them out"
    assert f"note: stage 'EAST': most batches of 32 rows {sentence}" in " ".join(done.err.split())
    (note, *_) = json.loads((tmp_path / "m" / "summary.json").read_text())["training"]["notes"]
    assert sentence in note
    page = (tmp_path / "m" / "report.html").read_text()
    assert "most batches of 32 rows hold no row" in page


@pytest.mark.slow
def test_a_program_gets_one_document(table, tmp_path):
    done = run("train", table, "-t", "fraud", "-o", tmp_path / "m", *SMALL, "--json")
    assert done.code == 0, done.err
    assert done.json["metrics"][0]["name"] == "f1_macro"
    assert done.json["report"].endswith("report.html")
    assert "warning: " in done.err


@pytest.mark.slow
def test_a_preference_becomes_a_beta_and_moves_the_decision(table, tmp_path):
    words = ["train", table, "-t", "fraud", "--ignore", "claim", *SMALL]
    predicted = {}
    for what in ("recall", "precision"):
        done = run(*words, "-o", tmp_path / what, "--prefer", f"{what}:yes=20")
        assert done.code == 0, done.err
        model = load_model(tmp_path / what)
        assert model.classifier.metric_.name == "f_beta"
        predicted[what] = int((model.predict(claims()) == "yes").sum())
    betas = json.loads((tmp_path / "precision" / "model" / "model.json").read_text())["metric"][
        "options"
    ]
    assert betas["beta"] == {"pairs": [[1, 0.05]]}
    assert predicted["recall"] > predicted["precision"]


@pytest.mark.slow
def test_a_table_of_costs_is_the_metric(table, tmp_path):
    costs = tmp_path / "costs.csv"
    costs.write_text("true,no,yes\nyes,10,0\nno,0,1\n")
    words = ["train", table, "-t", "fraud", "--cost", costs, *SMALL]
    done = run(*words, "-o", tmp_path / "m", "--json")
    assert done.code == 0, done.err
    assert done.json["metric"]["name"] == "expected_cost"
    assert load_model(tmp_path / "m").classifier.metric_.options["cost"] == [[0, 1], [10, 0]]


@pytest.mark.slow
def test_a_prior_is_what_the_model_is_judged_by(table, tmp_path):
    for name, prior in (("even", "balanced"), ("said", "no=0.5,yes=0.5")):
        words = ("train", table, "-t", "fraud", "-o", tmp_path / name, "--prior", prior, *SMALL)
        assert run(*words).code == 0
    even, said = (load_model(tmp_path / name) for name in ("even", "said"))
    np.testing.assert_allclose(even.classifier.decision_.prior, 0.5, atol=1e-6)
    np.testing.assert_array_equal(even.decision.matrix, said.decision.matrix)
    summary = json.loads((tmp_path / "even" / "summary.json").read_text())
    assert "judged by equal class frequencies" in " ".join(summary["training"]["notes"])
    # 48 held-out rows, weighted so that both classes count alike.
    counts = np.asarray(summary["evaluation"]["confusion"], dtype=float).sum(1)
    np.testing.assert_allclose(counts, 24.0, rtol=1e-6)


@pytest.mark.slow
def test_all_rows_can_be_trained_on(table, tmp_path):
    done = run("train", table, "-t", "fraud", "-o", tmp_path / "m", "--holdout", "0", *SMALL)
    assert done.code == 0, done.err
    summary = json.loads((tmp_path / "m" / "summary.json").read_text())
    assert summary["evaluation"] is None
    assert "Cross-validated while training" in summary["verdict"]["sentence"]


def test_a_finished_model_is_replaced_only_on_request(table, trained, tmp_path):
    before = (trained / "task.json").read_bytes()
    done = run("train", table, "-t", "fraud", "-o", trained, *SMALL)
    assert done.code == 2
    assert "with a finished model" in done.err
    assert "--overwrite" in done.err
    assert (trained / "task.json").read_bytes() == before
    (tmp_path / "m" / "checkpoint").mkdir(parents=True)
    done = run("train", table, "-t", "fraud", "-o", tmp_path / "m", *SMALL)
    assert done.code == 2
    assert "with an unfinished run" in done.err
    assert "--resume" in done.err


MISTAKES = [
    (["-t", "frau"], "Did you mean 'fraud'?"),
    (["-t", "fraud", "-m", "f1_macor"], "Did you mean 'f1_macro'"),
    (
        ["-t", "fraud", "--prefer", "recall:yess=5"],
        "must be one of no, yes; got 'yess'. Did you mean 'yes'?",
    ),
    (["-t", "fraud", "--prefer", "speed:yes=5"], "must be WHAT:CLASS=FACTOR"),
    (["-t", "fraud", "--prefer", "recall:yes=much"], "must be WHAT:CLASS=FACTOR"),
    (["-t", "fraud", "--prefer", "recall:yes=-1"], "must be > 0"),
    (["-t", "fraud", "-m", "accuracy", "--prefer", "recall:yes=5"], "Leave --metric out"),
    (["-t", "fraud", "-m", "expected_cost"], "--cost of eastward must be given"),
    (["-t", "fraud", "--cost", "nowhere.csv"], "must be a file that exists"),
    (["-t", "fraud", "--hidden", "wide"], "must be widths such as 512,256,128"),
    (["-t", "fraud", "--folds", "few"], "must be auto or a number"),
    (["-t", "fraud", "--holdout", "2"], "must be in [0, 1)"),
    (["-t", "fraud", "--recipe", "magic"], "must be one of 'auto'"),
    (["-t", "fraud", "--prior", "yes=0.5"], "must be a share for each class, no, yes"),
    (["-t", "age"], "missing values"),
]


@pytest.mark.parametrize(
    ("words", "sentence"), MISTAKES, ids=[" ".join(words) for words, _ in MISTAKES]
)
def test_a_mistake_is_explained_and_leaves_no_model(table, tmp_path, words, sentence):
    done = run("train", table, *words, "-o", tmp_path / "m", *(["--quiet"]))
    assert done.code == 2, done.err
    assert sentence in done.err
    assert "Traceback" not in done.err
    assert not (tmp_path / "m" / "task.json").exists()


@pytest.mark.slow
def test_the_same_seed_gives_the_same_bits(table, trained, tmp_path):
    done = run("train", table, "-t", "fraud", "-o", tmp_path / "m", "--ignore", "claim", *SMALL)
    assert done.code == 0
    first, second = load_model(trained), load_model(tmp_path / "m")
    assert np.array_equal(first.predict_proba(claims()), second.predict_proba(claims()))


def test_each_class_is_held_out_in_proportion_and_never_whole():
    labels = np.array(["a"] * 50 + ["b"] * 10 + ["c"] * 2)
    held = held_out_rows(labels, 0.2, seed=3)
    assert [int(held[labels == name].sum()) for name in "abc"] == [10, 2, 0]
    assert [int(held_out_rows(labels, 0.9, seed=3)[labels == name].sum()) for name in "abc"] == [
        45,
        9,
        1,
    ]
    assert not np.array_equal(held, held_out_rows(labels, 0.2, seed=4))


@pytest.mark.slow
def test_copies_on_both_sides_of_the_split_are_counted(tmp_path):
    frame = claims(60).drop(columns="claim")
    pd.concat([frame] * 4).to_csv(tmp_path / "a.csv", index=False)
    done = run("train", tmp_path / "a.csv", "-t", "fraud", "-o", tmp_path / "m", *SMALL)
    assert done.code == 0, done.err
    assert "180 rows (75.0%) are copies of others" in " ".join(done.out.split())
    summary = json.loads((tmp_path / "m" / "summary.json").read_text())
    held = summary["evaluation"]["rows"]
    assert f"of the {held} held-out rows are copies of training rows" in done.err
    assert any("held-out rows are copies" in warning for warning in summary["data"]["warnings"])
