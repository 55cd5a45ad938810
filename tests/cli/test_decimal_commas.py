"""A table with decimal commas trains and predicts to the bit what it does with points."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from command_runs import SMALL, run


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


@pytest.mark.slow
def test_decimal_commas_score_and_predict_what_points_do(tmp_path):
    points, commas = tmp_path / "points.csv", tmp_path / "commas.csv"
    weather().to_csv(points, index=False)
    as_in_germany(weather()).to_csv(commas, index=False, sep=";")
    scores, written = [], []
    for path in (points, commas):
        model, out = tmp_path / path.stem, tmp_path / f"{path.stem}-out.csv"
        done = run("train", path, "-t", "weather", "-o", model, "--json", *SMALL)
        assert done.code == 0, done.err
        scores.append(done.json["metrics"])
        assert run("predict", model, path, "-o", out).code == 0
        written.append(out.read_bytes())
    assert scores[0] == scores[1]
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
