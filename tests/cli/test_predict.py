"""`eastward predict` and `evaluate`: the same bits in a fresh process, and columns that are checked."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from command_runs import claims, fresh, run
from sklearn.metrics import f1_score, matthews_corrcoef

from eastward.data import describe_task, load_task, make_vectorizer, read_table
from eastward.estimators.network import EASTClassifier
from eastward.model_folder import TableModel, load_model, save_model

PROBABILITIES = ["probability_no", "probability_yes"]


@pytest.mark.parametrize("ending", ["parquet", "csv", "jsonl.gz", "arrow"])
def test_probabilities_are_the_models_to_the_last_bit(trained, tmp_path, ending):
    frame = claims(300, seed=1)
    expected = load_model(trained).predict_proba(frame)
    frame.to_parquet(tmp_path / "new.parquet")
    out = tmp_path / f"out.{ending}"
    done = run("predict", trained, tmp_path / "new.parquet", "-o", out, "--keep", "claim")
    assert done.code == 0, done.err
    written = read_table(out)
    assert list(written.columns) == ["claim", "prediction", *PROBABILITIES]
    assert np.array_equal(written[PROBABILITIES].to_numpy(), expected)
    assert written["claim"].tolist() == frame["claim"].tolist()
    assert written["prediction"].tolist() == load_model(trained).predict(frame).tolist()


@pytest.mark.slow
def test_training_saving_and_a_fresh_process_give_the_same_bits(table, tmp_path):
    task = load_task(table, "fraud", ignore=["claim"])
    vectorizer = make_vectorizer()
    classifier = EASTClassifier(hidden=(8,), max_epochs=4, n_folds=2, random_state=0)
    classifier.fit(vectorizer.fit_transform(task.features), task.labels)
    columns = describe_task(task)["columns"]
    model = TableModel(classifier, vectorizer, {"target": "fraud", "columns": columns})
    frame = claims(700, seed=2)
    here = model.predict_proba(frame)
    save_model(model, tmp_path / "m")
    frame.to_parquet(tmp_path / "new.parquet", row_group_size=90)
    out = tmp_path / "out.parquet"
    done = fresh("predict", tmp_path / "m", tmp_path / "new.parquet", "-o", out)
    assert done.code == 0, done.err
    assert np.array_equal(read_table(out)[PROBABILITIES].to_numpy(), here)


@pytest.mark.slow
def test_predicting_loads_nothing_that_only_training_needs():
    code = "import sys, eastward.model_folder; print([m for m in sys.modules if m == 'lightning_fabric'])"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert loaded.stdout.strip() == "[]"


def test_a_file_and_its_parts_give_the_same_bits(trained, tmp_path, monkeypatch):
    frame = claims(600, seed=3)
    monkeypatch.setattr("eastward.model_folder.FORWARD_BYTES", 0)  # blocks of 256 rows
    model = load_model(trained)
    monkeypatch.setattr(type(model), "batch_rows", 256)
    assert model.block_rows == 256
    frame.to_csv(tmp_path / "new.csv", index=False)
    done = run("predict", trained, tmp_path / "new.csv", "-o", tmp_path / "out.parquet", "--json")
    assert done.code == 0, done.err
    assert done.json["rows"] == 600
    written = read_table(tmp_path / "out.parquet")[PROBABILITIES].to_numpy()
    assert np.array_equal(written, model.predict_proba(frame))


def test_order_of_columns_does_not_matter_and_others_are_ignored_with_a_note(trained, tmp_path):
    frame = claims(50)
    shuffled = frame[frame.columns[::-1]].assign(colour="red")
    frame.to_parquet(tmp_path / "a.parquet")
    shuffled.to_parquet(tmp_path / "b.parquet")
    run("predict", trained, tmp_path / "a.parquet", "-o", tmp_path / "a.csv")
    done = run("predict", trained, tmp_path / "b.parquet", "-o", tmp_path / "b.csv")
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()
    assert "columns that the model does not know are ignored: claim, colour" in done.err


def test_missing_columns_are_named(trained, tmp_path):
    claims(50).drop(columns=["age", "city"]).to_parquet(tmp_path / "a.parquet")
    done = run("predict", trained, tmp_path / "a.parquet", "-o", tmp_path / "out.csv")
    assert done.code == 2
    assert "got none called 'city', 'age'" in done.err
    assert not (tmp_path / "out.csv").exists()
    done = run("predict", trained, tmp_path / "a.parquet", "-o", tmp_path / "out.csv", "--json")
    assert "got none called" in done.json["error"]


def test_a_wrong_value_is_named_by_row_and_nothing_is_left(trained, tmp_path):
    frame = claims(50)
    frame["amount"] = frame["amount"].astype(str)
    frame.loc[30, "amount"] = "a lot"
    for ending in ("parquet", "csv"):
        getattr(frame, f"to_{ending}")(tmp_path / f"a.{ending}")
        done = run("predict", trained, tmp_path / f"a.{ending}", "-o", tmp_path / "out.csv")
        assert done.code == 2
        assert "column 'amount'" in done.err
        assert "'a lot' in " in done.err
        assert sorted(path.name for path in tmp_path.iterdir() if "out" in path.name) == []


def test_rows_without_values_are_predicted_too(trained, tmp_path):
    frame = claims(5)
    frame[[c for c in frame.columns if c != "claim"]] = None
    frame.to_csv(tmp_path / "a.csv", index=False)
    done = run("predict", trained, tmp_path / "a.csv", "-o", tmp_path / "out.csv")
    assert done.code == 0, done.err
    assert np.isfinite(read_table(tmp_path / "out.csv")[PROBABILITIES].to_numpy()).all()


def test_evaluation_gives_scikit_learns_values_with_intervals(trained, tmp_path):
    frame = claims(200, seed=5)
    frame.to_parquet(tmp_path / "a.parquet")
    done = run("evaluate", trained, tmp_path / "a.parquet", "--json")
    assert done.code == 0, done.err
    values = {row["name"]: row for row in done.json["metrics"]}
    predicted = load_model(trained).predict(frame)
    assert values["f1_macro"]["value"] == pytest.approx(
        f1_score(frame["fraud"], predicted, average="macro")
    )
    mcc = values["matthews_corrcoef"]
    assert mcc["value"] == pytest.approx(matthews_corrcoef(frame["fraud"], predicted))
    assert mcc["interval"][0] < mcc["value"] < mcc["interval"][1]
    assert done.json["confusion"] == pd.crosstab(frame["fraud"], predicted).to_numpy().tolist()


def test_evaluation_shows_a_table_and_the_confusion_and_writes_a_report(trained, table, tmp_path):
    done = run("evaluate", trained, table, "--report", tmp_path / "may.md", "--bootstrap", "20")
    assert done.code == 0, done.err
    assert "f1_macro" in done.out
    assert "rows: true, columns: predicted" in done.out
    assert "fraud in claims.csv" in (tmp_path / "may.md").read_text()


def test_the_report_of_an_evaluation_says_which_columns_matter(trained, tmp_path, monkeypatch):
    claims(400, seed=3).to_csv(tmp_path / "may.csv", index=False)
    # Small parts: the sample must come from all of them.
    monkeypatch.setattr(TableModel, "batch_rows", 50)
    path = tmp_path / "may.json"
    done = run("evaluate", trained, tmp_path / "may.csv", "--report", path, "--bootstrap", "20")
    assert done.code == 0, done.err
    importance = json.loads(path.read_text())["importance"]
    assert importance["rows"] == 400
    names = [column["name"] for column in importance["columns"]]
    assert set(names) >= {"amount", "city", "age", "insured"}
    assert {"amount", "city"} & set(names[:2])


def test_evaluation_needs_labels_that_the_model_knows(trained, tmp_path):
    claims(30).drop(columns="fraud").to_csv(tmp_path / "a.csv", index=False)
    done = run("evaluate", trained, tmp_path / "a.csv")
    assert done.code == 2
    assert "a table with the target 'fraud'" in done.err
    claims(30).assign(fraud="maybe").to_csv(tmp_path / "a.csv", index=False)
    done = run("evaluate", trained, tmp_path / "a.csv")
    assert done.code == 2
    assert "unknown ['maybe'] in 30 rows" in done.err
    frame = claims(30)
    frame.loc[:9, "fraud"] = None
    frame.to_csv(tmp_path / "a.csv", index=False)
    assert "10 missing values" in run("evaluate", trained, tmp_path / "a.csv").err
    done = run("evaluate", trained, tmp_path / "a.csv", "--drop-missing-target", "--json")
    assert done.json["rows"] == 20
