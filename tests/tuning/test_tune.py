"""The search tries, stops, remembers and shares."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import optuna
import pytest
from typer.testing import CliRunner

from eastward import _studies
from eastward.tuning import SPACES, Space, tune

sys.path.insert(0, str(Path(__file__).parents[1] / "estimator"))
from small_models import clusters

QUICK = {"hidden": (8,), "max_epochs": 3, "n_folds": 1}
GRID = Space({"learning_rate": (1e-3, 1e-2), "dropout": (0.0, 0.25)}, {}, {"recipe": "paper"})


@pytest.fixture(scope="module")
def data():
    return clusters(counts=(60, 40, 20))


def test_a_grid_is_tried_once_and_the_best_is_returned(data):
    result = tune(*data, space=GRID, trials=4, parameters=QUICK)
    tried = [tuple(sorted(trial["parameters"].items())) for trial in result.trials]
    assert len(set(tried)) == 4
    scores = [trial["score"] for trial in result.trials if trial["state"] == "complete"]
    assert result.score == max(scores)
    assert result.parameters["recipe"] == "paper"
    best = next(trial for trial in result.trials if trial["score"] == result.score)
    assert best["parameters"].items() <= result.parameters.items()


def test_a_study_goes_on_where_it_was_left(data, tmp_path):
    storage = tmp_path / "study.log"
    first = tune(*data, space=GRID, trials=2, storage=storage, parameters=QUICK)
    second = tune(*data, space=GRID, trials=4, storage=storage, parameters=QUICK)
    assert second.trials[:2] == first.trials
    assert len(second.trials) == 4
    assert len({tuple(trial["parameters"].items()) for trial in second.trials}) == 4
    # enough is enough: nothing is trained again
    assert tune(*data, space=GRID, trials=4, storage=storage, parameters=QUICK) == second


@pytest.mark.slow
def test_a_database_is_a_storage_too(data, tmp_path):
    url = f"sqlite:///{tmp_path / 'study.db'}"
    tune(*data, space=GRID, trials=1, storage=url, parameters=QUICK)
    assert len(tune(*data, space=GRID, trials=2, storage=url, parameters=QUICK).trials) == 2


WORKER = """
import json, sys
sys.path[:0] = json.loads(sys.argv[2])
from test_tune import GRID, QUICK
from small_models import clusters
from eastward.tuning import tune
tune(*clusters(counts=(60, 40, 20)), space=GRID, trials=4, storage=sys.argv[1], parameters=QUICK)
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["journal", "database"])
def test_two_workers_share_one_study(data, tmp_path, kind):
    """The second one looks for the study while the first one works on it."""
    storage = tmp_path / "study.log" if kind == "journal" else f"sqlite:///{tmp_path / 'study.db'}"
    tune(*data, space=GRID, trials=1, storage=storage, parameters=QUICK)
    paths = json.dumps([str(Path(__file__).parent), str(Path(__file__).parents[1] / "estimator")])
    command = [sys.executable, "-c", WORKER, str(storage), paths]
    workers = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    for worker in workers:
        _, errors = worker.communicate(timeout=600)
        assert worker.returncode == 0, errors[-2000:]
    result = tune(*data, space=GRID, trials=4, storage=storage, parameters=QUICK)
    tried = {tuple(sorted(trial["parameters"].items())) for trial in result.trials}
    # a worker that is in the middle of a trial when the last one ends still finishes it
    assert 4 <= len(result.trials) <= 5
    assert len(tried) >= 3
    assert [trial["number"] for trial in result.trials] == list(range(len(result.trials)))


def test_trials_of_dead_processes_on_this_machine_alone_are_given_up():
    study = optuna.create_study()
    here = _studies.this_process()
    dead = {**here, "process": 999_999_999}
    reused = {**here, "born": "another time"}
    elsewhere = {**dead, "host": "another machine"}
    for owner in (here, dead, reused, elsewhere):
        study.ask().set_user_attr(_studies.OWNER, owner)
    _studies.give_up_dead_trials(study)
    states = [trial.state.name for trial in study.trials]
    assert states == ["RUNNING", "FAIL", "FAIL", "RUNNING"]


def test_a_study_of_other_data_is_refused(data, tmp_path):
    X, y = data
    storage = tmp_path / "study.log"
    tune(X, y, space=GRID, trials=1, storage=storage, parameters=QUICK)
    with pytest.raises(ValueError, match="study of tune must be a study of the same data"):
        tune(X, y, "accuracy", space=GRID, trials=1, storage=storage, parameters=QUICK)


@pytest.mark.slow
def test_trials_that_fall_behind_are_stopped(data):
    """After four trials that learn, one that learns nothing is stopped by the metric."""
    rates = (3e-2, 2e-2, 1.5e-2, 1e-2, 1e-9, 2e-9, 3e-9, 4e-9)
    space = Space({"learning_rate": rates}, {}, {"recipe": "paper"})
    result = tune(*data, space=space, trials=8, parameters={**QUICK, "max_epochs": 12})
    stopped = [t for t in result.trials if t["state"] == "pruned"]
    assert stopped
    assert all(trial["parameters"]["learning_rate"] < 1e-8 for trial in stopped)
    assert result.parameters["learning_rate"] > 1e-3


def test_a_metric_where_lower_is_better_is_minimised(data):
    options = {"metric_options": {"cost": [[0, 1, 1], [1, 0, 1], [1, 1, 0]]}}
    result = tune(*data, "expected_cost", space=GRID, trials=2, parameters={**QUICK, **options})
    assert -1 <= result.score <= 0


def test_a_wrong_metric_is_refused_before_the_first_trial(data, tmp_path):
    with pytest.raises(ValueError, match=r"metric of tune must be a known name .* order of rows"):
        tune(*data, "roc_auc", space=GRID, storage=tmp_path / "study.log", parameters=QUICK)
    assert not (tmp_path / "study.log").exists()


def test_the_papers_grids_are_there():
    """EAST, appendix E.4."""
    sizes = {name: SPACES[name].choices["batch_size"] for name in SPACES if name != "auto"}
    assert sizes == {
        "east_tables": (128, 256, 512, 1024, 2048),
        "east_kaggle": (128, 256, 512, 1024, 2048, 4096, 8192),
        "east_cifar10": (32, 64, 128, 256),
        "east_caltech256": (32, 64),
    }
    for name in sizes:
        space = SPACES[name]
        assert space.is_grid
        assert space.choices["learning_rate"] == (0.01, 0.001, 0.0001)
        assert space.choices["dropout"] == (0.25, 0.5)
        assert space.choices["cooling_rate"] == (0.8, 0.9)
        assert space.fixed == {"recipe": "paper", "temperature": 0.2}


def test_bad_arguments_are_named(data):
    with pytest.raises(ValueError, match="space of tune must be one of"):
        tune(*data, space="east_table")
    with pytest.raises(ValueError, match="trials of tune must be"):
        tune(*data, trials=0)


@pytest.mark.slow
def test_the_command_writes_the_best_parameters(data, tmp_path):
    from eastward.cli import app

    X, y = data
    columns = [f"f{k}" for k in range(X.shape[1])]
    table = np.column_stack([X, y])
    path = tmp_path / "table.csv"
    np.savetxt(path, table, delimiter=",", header=",".join([*columns, "label"]), comments="")
    out = tmp_path / "search"
    arguments = ["tune", str(path), "-t", "label", "-o", str(out), "--trials", "2", "--epochs", "2"]
    done = CliRunner().invoke(app, [*arguments, "--space", "east_caltech256"])
    assert done.exit_code == 0, done.output
    best = json.loads((out / "best.json").read_text())
    assert best["parameters"]["recipe"] == "paper"
    assert len(optuna.load_study(study_name="eastward", storage=_journal(out)).trials) == 2


def _journal(folder):
    backend = optuna.storages.journal.JournalFileBackend(str(folder / "study.log"))
    return optuna.storages.JournalStorage(backend)


KILLED = """
import os, signal, sys
sys.path.insert(0, sys.argv[2])
from small_models import clusters
from eastward.training import Callback
from eastward.tuning import SPACES, tune
from test_tune import GRID, QUICK

class Kills(Callback):
    epochs = 0
    def epoch_end(self, run):
        Kills.epochs += 1
        if Kills.epochs == int(sys.argv[3]):
            os.kill(os.getpid(), signal.SIGKILL)

space = GRID if sys.argv[4] == "grid" else SPACES["auto"]
tune(*clusters(counts=(60, 40, 20)), space=space, trials=4, storage=sys.argv[1],
     parameters={**QUICK, "callbacks": [Kills()]})
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["grid", "auto"])
def test_after_kill_9_the_study_ends_as_if_nothing_had_happened(data, tmp_path, kind):
    space = GRID if kind == "grid" else SPACES["auto"]
    # in the middle of the second trial, and once more in that of the one after
    for epoch in (5, 4):
        words = [str(tmp_path / "study.log"), str(Path(__file__).parents[1] / "estimator")]
        done = subprocess.run(
            [sys.executable, "-c", KILLED, *words, str(epoch), kind],
            check=False,
            cwd=Path(__file__).parent,
        )
        assert done.returncode == -9
    resumed = tune(*data, space=space, trials=4, storage=tmp_path / "study.log", parameters=QUICK)
    whole = tune(*data, space=space, trials=4, parameters=QUICK)
    assert (resumed.score, resumed.parameters) == (whole.score, whole.parameters)
    finished = [t for t in resumed.trials if t["state"] != "fail"]
    assert [(t["score"], t["parameters"]) for t in finished] == [
        (t["score"], t["parameters"]) for t in whole.trials
    ]
