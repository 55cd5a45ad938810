"""A table gives identical models and predictions with points, decimal commas, or spaces after its commas."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_runs import SMALL, run

from eastward.datasets import load_embedded


def weather(rows: int = 200) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "day": pd.date_range("2023-01-01", periods=rows),
            "temperature": rng.normal(12, 8, rows).round(1),
            "rain": rng.gamma(1, 4, rows).round(1),
            "visitors": rng.integers(900, 20_000, rows),
        }
    )
    warm = frame["temperature"] + rng.normal(size=rows) > 15
    labels = np.where(warm, "sun", np.where(frame["rain"] > 5, "rain", "clouds"))
    return frame.assign(weather=labels)


def as_in_germany(frame: pd.DataFrame) -> pd.DataFrame:
    numbers = {
        name: [str(number).replace(".", ",") for number in frame[name]]
        for name in ("temperature", "rain")
    }
    visitors = [f"{number:,}".replace(",", ".") for number in frame["visitors"]]
    return frame.assign(**numbers, visitors=visitors, day=frame["day"].dt.strftime("%d.%m.%Y"))


def scores(path: Path, target: str, folder: Path) -> dict[str, object]:
    """Every metric of a random forest on its held-out rows."""
    options = ["--method", "random_forest_tuned", "--drop-rare-classes", "--quiet", "--json"]
    done = run("train", path, "-t", target, "-o", folder, *options)
    assert done.code == 0, done.err
    return done.json["metrics"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["embedded wine", "winequality-red", "glass"])
def test_a_real_table_scores_the_same_however_it_is_written(name, tmp_path):
    if name == "embedded wine":
        frame, target = load_embedded("wine")
    else:
        path = Path(
            os.environ.get("EASTWARD_DATA", "nowhere"), f"tabular/multiclass/{name}.parquet"
        )
        if not path.is_file():
            pytest.skip(f"EASTWARD_DATA has no tabular/multiclass/{name}.parquet")
        frame, target = pd.read_parquet(path), "target"
    points, commas, blanks = (tmp_path / f"{k}.csv" for k in ("points", "commas", "blanks"))
    frame.to_csv(points, index=False)
    frame.to_csv(commas, index=False, sep=";", decimal=",")
    text = points.read_text(encoding="utf-8")
    blanks.write_text(text.replace(",", ", "), encoding="utf-8")
    expected = scores(points, target, tmp_path / "points")
    assert scores(commas, target, tmp_path / "commas") == expected
    assert scores(blanks, target, tmp_path / "blanks") == expected
    written = []
    for path in (points, commas, blanks):
        out = tmp_path / f"{path.stem}-out.csv"
        assert run("predict", tmp_path / path.stem, path, "-o", out).code == 0
        written.append(out.read_bytes())
    assert written[0] == written[1] == written[2]


@pytest.mark.slow
def test_a_model_reads_new_rows_with_blanks_behind_commas(trained, table, tmp_path):
    """A model trained on ``a,b`` predicts ``a, b``: names, categories, dates and booleans included."""
    padded = tmp_path / "padded.csv"
    padded.write_text(table.read_text(encoding="utf-8").replace(",", " , "), encoding="utf-8")
    written = []
    for path in (table, padded):
        out = tmp_path / f"{path.stem}-out.csv"
        done = run("predict", trained, path, "-o", out)
        assert done.code == 0, done.err
        written.append(out.read_bytes())
    assert written[0] == written[1]


@pytest.mark.slow
def test_decimal_commas_score_and_predict_what_points_do(tmp_path):
    points, commas = tmp_path / "points.csv", tmp_path / "commas.csv"
    weather().to_csv(points, index=False)
    as_in_germany(weather()).to_csv(commas, index=False, sep=";")
    found, written = [], []
    for path in (points, commas):
        model, out = tmp_path / path.stem, tmp_path / f"{path.stem}-out.csv"
        done = run("train", path, "-t", "weather", "-o", model, "--json", *SMALL)
        assert done.code == 0, done.err
        found.append(done.json["metrics"])
        assert run("predict", model, path, "-o", out).code == 0
        written.append(out.read_bytes())
    assert found[0] == found[1]
    assert written[0] == written[1]
    columns = json.loads((tmp_path / "commas" / "task.json").read_text(encoding="utf-8"))["columns"]
    assert [column.get("format") for column in columns] == ["%d.%m.%Y", *["1.234,5"] * 3]


def test_what_was_decided_is_printed(tmp_path):
    as_in_germany(weather()).to_csv(tmp_path / "a.csv", index=False, sep=";")
    done = run("train", tmp_path / "a.csv", "-t", "weather", "-o", tmp_path / "m", *SMALL)
    said = " ".join(done.out.split())
    assert "read as numbers written like 1.234,5: 'temperature', 'rain', 'visitors'" in said
    assert "read as dates written like 31.12.2023: 'day'" in said


@pytest.mark.slow
def test_evaluation_renames_labels_as_training_did(tmp_path):
    frame = weather()
    frame["weather"] = frame["weather"].where(frame.index % 3 > 0, frame["weather"].str.upper())
    frame.to_csv(tmp_path / "a.csv", index=False)
    model = tmp_path / "m"
    options = ["--merge-labels", "--min-class-rows", "60", "--merge-rare", "other"]
    done = run("train", tmp_path / "a.csv", "-t", "weather", "-o", model, *options, *SMALL)
    assert done.code == 0, done.err
    done = run("evaluate", model, tmp_path / "a.csv", "--json")
    assert done.code == 0, done.err
    assert sum(map(sum, done.json["confusion"])) == len(frame)
