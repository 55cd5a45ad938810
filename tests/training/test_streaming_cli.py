"""`eastward train` on a folder of Parquet files with strings, dates and gaps."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from eastward.cli import app, stream_model
from eastward.estimators.network import streaming
from eastward.model_folder import load_model


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    rows = 1200
    city = np.array(["Graz", "Linz", "Wien"], dtype=object)[rng.integers(3, size=rows)]
    city[-5:] = "Rust"
    amount = np.where(rng.random(rows) < 0.1, np.nan, rng.gamma(2, size=rows))
    x = rng.normal(size=rows)
    fraud = np.where(x + (city == "Graz") > 1, "yes", "no")
    table = pa.table({"x": x, "city": city, "amount": amount, "fraud": fraud})
    data = tmp_path / "data"
    data.mkdir()
    for part in range(3):
        pq.write_table(table.slice(part * 400, 400), data / f"{part}.parquet", row_group_size=150)
    return data


@pytest.mark.slow
def test_a_folder_becomes_a_model_with_a_report(folder, tmp_path):
    out = tmp_path / "model"
    arguments = ["train", str(folder), "-t", "fraud", "-o", str(out), "--epochs", "40", "--quiet"]
    done = CliRunner().invoke(app, [*arguments, "--hidden", "32"])
    assert done.exit_code == 0, done.output
    assert "method   EASTEnsembleClassifier: a network that learns from all rows" in done.output
    assert (out / "report.html").is_file()
    assert not (out / "checkpoint").exists()
    model = load_model(out)
    frame = pq.read_table(folder).to_pandas()
    labels = model.predict(frame.drop(columns="fraud"))
    assert np.mean(labels == frame["fraud"]) > 0.75
    importance = json.loads((out / "summary.json").read_text())["importance"]
    matters = {column["name"]: column["matters"] for column in importance["columns"]}
    assert list(matters) == sorted(matters, key=["x", "city", "amount"].index)
    assert matters["x"]
    assert not matters["amount"]


def test_values_that_the_sample_did_not_have_are_counted(folder, monkeypatch):
    monkeypatch.setattr(streaming, "SAMPLE_ROWS", 100)
    monkeypatch.setattr(streaming, "SAMPLED_GROUPS", 2)
    monkeypatch.setattr(streaming.np.random, "default_rng", lambda seed: _FirstGroups())
    task = stream_model.open_stream(folder, "fraud", ignore=(), holdout=0.2, seed=0)
    (sentence,) = [text for text in task.facts["warnings"] if "does not contain" in text]
    assert sentence.startswith("'city': 5 rows have one of 1 values")
    assert "'Rust'" in sentence


class _FirstGroups:
    """A generator whose permutation is the order of the files: the last rows are not in the sample."""

    def permutation(self, count):
        return np.arange(count)


def test_a_missing_target_column_is_named(folder, tmp_path):
    done = CliRunner().invoke(app, ["train", str(folder), "-t", "frau", "-o", str(tmp_path / "m")])
    assert done.exit_code == 2
    assert "'frau'" in done.output
