"""Commands that would lose data, or cannot mean what they say, are refused in one sentence."""

from __future__ import annotations

import pandas as pd
import pytest
from command_runs import SMALL, claims, run

from eastward.data import read_table

HYPERLINK = '=HYPERLINK("http://example.org","look")'


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--ignore", "fraud"], "--ignore of train must be another column than target"),
        (["--weight", "fraud"], "--weight of train must be another column than target"),
        (["--weight", "age", "--ignore", "age"], "--weight of train must be another column"),
        (["--decimal", ";"], "--decimal of train must be one of '.', ','"),
        (["--text", "nothing"], "--text of train must be a column of claims.csv"),
    ],
)
def test_a_column_has_one_role(table, tmp_path, options, sentence):
    done = run("train", table, "-t", "fraud", "-o", tmp_path / "m", *options, *SMALL)
    assert done.code == 2
    assert sentence in done.err
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize("command", ["train", "compare", "tune"])
def test_an_empty_folder_name_is_not_the_current_folder(table, command):
    done = run(command, table, "-t", "fraud", "--out", "")
    assert done.code == 2
    assert "must be a path; got an empty string" in done.err


def test_constant_features_are_named_before_anything_is_written(tmp_path):
    pd.DataFrame({"a": 1, "b": "x", "y": ["p", "q"] * 10}).to_csv(tmp_path / "c.csv", index=False)
    done = run("train", tmp_path / "c.csv", "-t", "y", "-o", tmp_path / "m", *SMALL)
    assert done.code == 2
    assert "got c.csv, where all 2 are constant. There is nothing to learn from." in done.err
    assert "--resume" not in done.err
    assert not (tmp_path / "m").exists()


def test_predictions_never_replace_the_table_they_are_made_from(trained, tmp_path):
    path = tmp_path / "new.csv"
    claims(5).to_csv(path, index=False)
    before = path.read_bytes()
    (tmp_path / "link.csv").symlink_to(path)
    for output in (path, tmp_path / "link.csv", tmp_path / "." / "new.csv"):
        done = run("predict", trained, path, "-o", output)
        assert done.code == 2
        assert "must be another file than the input" in done.err
    assert path.read_bytes() == before


@pytest.mark.parametrize("ending", ["csv", "tsv.gz", "parquet", "arrow"])
def test_a_header_without_rows_gives_a_header_without_rows(trained, tmp_path, ending):
    claims(5).head(0).to_csv(tmp_path / "new.csv", index=False)
    out = tmp_path / f"out.{ending}"
    done = run("predict", trained, tmp_path / "new.csv", "-o", out, "--keep", "claim")
    assert done.code == 0, done.err
    assert "0 rows" in done.out
    names = ["claim", "prediction", "probability_no", "probability_yes"]
    reader = {"csv": pd.read_csv, "parquet": pd.read_parquet, "arrow": pd.read_feather}
    frame = reader.get(ending, lambda path: pd.read_csv(path, sep="\t"))(out)
    assert list(frame.columns) == names
    assert len(frame) == 0


@pytest.mark.slow
def test_labels_that_a_spreadsheet_would_run_are_made_harmless_on_request(tmp_path):
    frame = claims(80).assign(fraud=lambda frame: frame["fraud"].replace("yes", HYPERLINK))
    frame.to_csv(tmp_path / "a.csv", index=False)
    model, out = tmp_path / "m", tmp_path / "out.csv"
    assert run("train", tmp_path / "a.csv", "-t", "fraud", "-o", model, *SMALL).code == 0
    done = run("predict", model, tmp_path / "a.csv", "-o", out)
    assert "add --for-spreadsheet" in done.err
    plain = read_table(out)["prediction"]
    assert set(plain) <= {"no", HYPERLINK}
    done = run("predict", model, tmp_path / "a.csv", "-o", out, "--for-spreadsheet")
    assert "spreadsheet" not in done.err
    assert read_table(out)["prediction"].tolist() == [
        f"'{label}" if label == HYPERLINK else label for label in plain
    ]
