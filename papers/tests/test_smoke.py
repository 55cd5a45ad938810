"""Every name of `python -m papers` runs on made-up data in the owners' formats, and writes its results."""

from __future__ import annotations

import json

import pytest

from papers.experiments import EXPERIMENTS, Run, get, run_experiment
from papers.experiments.overview import write_overview, write_page
from papers.experiments.running import CELLS_FILE
from papers.experiments.summary import summarise


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    return tmp_path_factory.mktemp("results")


QUICK = "btg-table4"


@pytest.mark.parametrize(
    "name", [n if n == QUICK else pytest.param(n, marks=pytest.mark.slow) for n in EXPERIMENTS]
)
def test_smoke(name, results):
    if name == "btg-table3":
        pytest.importorskip("torch_geometric")
    run = Run("smoke", results)
    run_experiment(get(name), run)
    summary = summarise(get(name), run, command=f"python -m papers run {name} --scale smoke")
    page = write_page(summary, results)
    assert summary["made_up_data"]
    for panel in summary["panels"]:
        for row in panel["rows"]:
            assert row["trials"] == 1, (panel["title"], row["method"])
            assert all(entry["verdict"] is None for entry in row["scores"].values())
    assert "Scale **smoke**" in page.read_text()
    assert (results / name / "picture.png").stat().st_size > 1000
    assert json.loads((results / name / "results.json").read_text())["name"] == name
    assert f"[{name}]({name}/README.md)" in write_overview(results).read_text()


def test_a_finished_experiment_computes_nothing_again(results):
    done = []
    run = Run("smoke", results)
    run_experiment(get("btg-table4"), run)
    run_experiment(get("btg-table4"), run, lambda *cell: done.append(cell))
    assert not done


def test_a_run_that_was_killed_while_writing_goes_on(tmp_path):
    run = Run("smoke", tmp_path)
    run_experiment(get("btg-table4"), run)
    path = tmp_path / CELLS_FILE
    lines = path.read_text().splitlines()
    path.write_text("\n".join(lines[:-1]) + "\n" + lines[-1][:40])
    done = []
    run_experiment(get("btg-table4"), run, lambda cell, *_: done.append(cell))
    assert len(done) == 1
    assert len(run.book._results) == len(lines)


@pytest.mark.slow
def test_two_processes_give_the_cells_of_one(tmp_path):
    alone, together = Run("smoke", tmp_path / "1"), Run("smoke", tmp_path / "2", jobs=2)
    for run in (alone, together):
        run_experiment(get("btg-table4"), run)
    scores = [
        {key: result["scores"]["grid_f1"] for key, result in run.book._results.items()}
        for run in (alone, together)
    ]
    assert scores[0] == scores[1]
