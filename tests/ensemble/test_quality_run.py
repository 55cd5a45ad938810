"""The quality benchmark from a folder of tables to its page, and again after it was stopped."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.quality import __main__ as quality  # no installed package
from benchmarks.quality import data, report


def write_table(path, seed, rows=120):
    rng = np.random.default_rng(seed)
    y = np.repeat([0, 1], [rows - 30, 30])
    frame = pd.DataFrame(rng.normal(size=(rows, 3)) + y[:, None], columns=list("abc"))
    frame["word"] = rng.choice(["u", "v"], rows)
    frame.assign(target=np.array(["no", "yes"])[y]).to_parquet(path)


@pytest.fixture
def options(tmp_path, monkeypatch):
    folder = tmp_path / "tables"
    folder.mkdir()
    for seed, name in enumerate(("one", "two")):
        write_table(folder / f"{name}.parquet", seed)
    monkeypatch.setenv("EASTWARD_DATA", str(tmp_path))
    return Namespace(
        folder=folder,
        all_sets=False,
        sets=None,
        metrics=quality.METRICS,
        plan=["core:1", "key:1"],
        max_rows=60,
        random_state=7,
        minutes=float("inf"),
        store=tmp_path / "store",
        results=tmp_path / "results",
        pictures=tmp_path / "results",
        regenerate="Regenerate with care.",
    )


@pytest.mark.slow
def test_a_stopped_run_goes_on_and_the_report_reads_what_is_there(options, capsys):
    options.sets = ["one"]
    quality.run(options)
    cells = options.store / "7" / "cells.jsonl"
    first = cells.read_text()
    # A run that was killed while it wrote leaves half a line.
    cells.write_text(first + '{"set": "one", "sp')
    options.sets = None
    quality.run(options)
    read = quality.read_cells(cells)
    keys = [quality._key(cell) for cell in read]
    assert len(keys) == len(set(keys))
    assert {cell["set"] for cell in read} == {"one", "two"}
    assert [json.dumps(cell) for cell in read][: len(first.splitlines())] == first.splitlines()
    report.write(read, options)
    page = (options.results / "README.md").read_text()
    assert "| best tree + tuned |" in page
    assert (options.results / "ranks.svg").exists()


def test_splits_are_reproducible_and_share_no_row(options):
    task = data.tabular(options.folder)["one"]()
    first, again = (data.make_split(task, 1, 0, 60) for _ in range(2))
    assert np.array_equal(first.train, again.train)
    assert len(first.train) == 60
    assert first.train_codes.mean() == pytest.approx(0.25, abs=0.05)
    rows = {row.tobytes() for row in first.train}
    assert not rows & {row.tobytes() for row in first.test}
    assert not np.array_equal(first.train, data.make_split(task, 1, 1, 60).train)


def test_the_rarer_of_two_classes_is_number_one_and_tiny_classes_leave():
    labels = ["a"] * 20 + ["b"] * 40 + ["c"] * 3
    task = data.task_of("t", np.zeros((63, 1)), labels)
    assert np.bincount(task.codes).tolist() == [40, 20]


def test_a_plan_that_makes_no_sense_is_refused():
    assert quality._step("key:3") == ("key", 3)
    with pytest.raises(SystemExit, match="steps like core:10"):
        quality._step("everything")


def test_a_lost_class_is_told_from_one_that_nobody_predicts():
    def cell(method, never):
        facts = {"set": "s", "split": 0, "metric": "f1", "score": 0.5}
        return {**facts, "method": method, "never_predicted": never}

    cells = [cell("cross-entropy x5", [3]), cell("ours", [3]), cell("theirs", [2, 3])]
    assert report.collapsed(cells, "ours") == []
    assert report.collapsed(cells, "theirs") == [("s", 0)]
