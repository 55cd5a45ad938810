"""--group and --time: what the command line says and does with them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from command_runs import SMALL, claims, run

from eastward.cli.fit_model import FitPlan, split_rows
from eastward.data import describe_task, load_task


def visits() -> pd.DataFrame:
    frame = claims(160)
    patients = np.random.default_rng(0).integers(0, 40, 160)
    return frame.assign(patient=[f"P{k}" for k in patients], year=2024)


@pytest.fixture
def path(tmp_path):
    visits().to_csv(tmp_path / "visits.csv", index=False)
    return tmp_path / "visits.csv"


def test_training_holds_out_other_groups_and_later_rows(path):
    task = load_task(path, "fraud", group="patient")
    assert "patient" not in task.features
    trained, held = split_rows(task, FitPlan())
    assert held.any()
    assert not set(task.groups[trained]) & set(task.groups[held])
    assert (trained | held).all()  # whole groups are held out, so no row is lost
    task = load_task(path, "fraud", time="seen")
    trained, held = split_rows(task, FitPlan())
    assert task.features["seen"][trained].max() < task.features["seen"][held].min()
    task = load_task(path, "fraud", time="seen", group="patient")
    trained, held = split_rows(task, FitPlan())
    assert task.features["seen"][trained].max() < task.features["seen"][held].min()
    assert not set(task.groups[trained]) & set(task.groups[held])


def test_dates_are_hinted_at_until_they_are_used(path):
    said = " ".join(describe_task(load_task(path, "fraud"))["warnings"])
    assert "judge the model by later rows with --time: 'seen'" in said
    said = " ".join(describe_task(load_task(path, "fraud", time="seen"))["warnings"])
    assert "--time" not in said
    assert "judged by rows that are later in 'seen'" in said


def test_the_time_may_be_left_out_as_a_feature(path):
    task = load_task(path, "fraud", time="seen", ignore=["seen"])
    assert "seen" not in task.features
    assert task.times is not None


@pytest.mark.slow
@pytest.mark.parametrize("options", [["--group", "patient"], ["--time", "seen"]])
def test_models_are_trained_with_either(path, tmp_path, options):
    done = run("train", path, "-t", "fraud", "-o", tmp_path / "m", *options, *SMALL)
    assert done.code == 0, done.err
    assert f"'{options[1]}'" in done.out
    done = run("predict", tmp_path / "m", path, "-o", tmp_path / "out.csv")
    assert done.code == 0, done.err


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--group", "fraud"], "--group of train must be another column than target"),
        (["--time", "fraud"], "--time of train must be another column than target"),
        (["--time", "city"], "a column of dates or numbers; got text such as"),
        (["--time", "age"], "--time 'age' of train must be filled in for every row"),
        (["--time", "year"], "--time 'year' of train must be of at least two values; got one"),
        (["--group", "nobody"], "--group of train must be a column of visits.csv"),
    ],
)
def test_columns_that_do_not_fit_are_refused(path, tmp_path, options, sentence):
    done = run("train", path, "-t", "fraud", "-o", tmp_path / "m", *options, *SMALL)
    assert done.code == 2
    assert sentence in done.err


def test_streamed_tables_refuse_what_needs_all_rows(tmp_path):
    (tmp_path / "parts").mkdir()
    visits().to_parquet(tmp_path / "parts" / "a.parquet")
    done = run(
        "train", tmp_path / "parts", "-t", "fraud", "-o", tmp_path / "m", "--group", "patient"
    )
    assert done.code == 2
    assert "--group of train must be left out for a table that is streamed" in done.err


@pytest.mark.slow
def test_compare_takes_both(path):
    words = ["-t", "fraud", "--methods", "random_forest,random_forest_tuned", "--splits", "2"]
    small = ["--hidden", "4", "--epochs", "2", "--jobs", "1"]
    for options in (["--group", "patient"], ["--time", "seen"]):
        done = run("compare", path, *words, *small, *options)
        assert done.code == 0, done.err
        assert "failed" not in done.out
