"""Checkpoints of EASTClassifier: killed at random, resumed to the same bits; another run's are refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from small_models import clusters, quick, same_model

from eastward.training import Callback


@pytest.fixture(scope="module")
def table():
    return clusters()


@pytest.fixture(autouse=True)
def save_every_epoch(monkeypatch):
    monkeypatch.setenv("EASTWARD_CHECKPOINT_SECONDS", "0")


def run_killed(workplace, seed):
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "EASTWARD_CHECKPOINT_SECONDS": "0"}
    program = [sys.executable, "killed_runs.py", str(workplace), str(seed)]
    here = Path(__file__).parent
    done = subprocess.run(
        program, cwd=here, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills forked processes")
@pytest.mark.parametrize("seed", range(3))
def test_a_run_killed_at_random_moments_ends_in_the_same_bits(tmp_path, seed):
    outcome = run_killed(tmp_path, seed)
    assert [kill["killed"] for kill in outcome["kills"]] == [True] * 4
    for kill in outcome["kills"]:
        assert kill["found"] >= kill["wanted"]
    assert outcome["kills"][-1]["found"][0] == 1, "the last kill fell into the aligned stage"
    assert outcome["different"] == []
    assert outcome["files"] == ["training.ckpt"]


class StopAt(Callback):
    def __init__(self, stage, epoch):
        self.stage, self.epoch = stage, epoch

    def epoch_end(self, run):
        if (run.stage.name, run.epoch) == (self.stage, self.epoch):
            raise MemoryError


def left_unfinished(folder, table, **changes):
    """A checkpoint of a run that broke off in its fourth epoch."""
    with pytest.raises(MemoryError):
        quick(checkpoint=folder, callbacks=[StopAt("cross-entropy", 4)], **changes).fit(*table)
    assert [path.name for path in folder.iterdir()] == ["training.ckpt"]


def test_an_unfinished_run_continues_in_another_object(tmp_path, table):
    left_unfinished(tmp_path, table)
    resumed = quick(checkpoint=tmp_path, callbacks=[Callback()]).fit(*table)
    assert same_model(resumed, quick().fit(*table))


def test_a_finished_run_is_taken_as_it_is(tmp_path, table):
    first = quick(checkpoint=tmp_path).fit(*table)
    written = (tmp_path / "training.ckpt").stat().st_mtime_ns
    assert same_model(quick(checkpoint=tmp_path).fit(*table), first)
    assert (tmp_path / "training.ckpt").stat().st_mtime_ns == written


def test_the_folder_is_made(tmp_path, table):
    quick(checkpoint=tmp_path / "a" / "b", max_epochs=1).fit(*table)
    assert (tmp_path / "a" / "b" / "training.ckpt").is_file()


OTHER_RUN = (
    r"checkpoint of fit must be from the same data, parameters and version; got training\.ckpt from"
)


@pytest.mark.parametrize(
    "changes",
    [
        {"metric": "accuracy"},
        {"hidden": (8,)},
        {"learning_rate": 1e-3},
        {"dropout": 0.1},
        {"random_state": 1},
        {"n_folds": 3},
        {"recipe": "paper"},
        {"max_epochs": 5},
        {"class_weight": "balanced"},
        {"standardize": False},
        {"precision": "64-true"},
    ],
    ids=str,
)
def test_a_checkpoint_of_other_parameters_is_refused(tmp_path, table, changes):
    left_unfinished(tmp_path, table)
    changed = {"checkpoint": tmp_path, "callbacks": [Callback()], **changes}
    with pytest.raises(ValueError, match=OTHER_RUN):
        quick(**changed).fit(*table)


def test_a_checkpoint_of_other_options_of_the_metric_is_refused(tmp_path, table):
    left_unfinished(tmp_path, table, metric="f_beta", metric_options={"beta": 2})
    changed = quick("f_beta", metric_options={"beta": 3}, checkpoint=tmp_path)
    with pytest.raises(ValueError, match=OTHER_RUN):
        changed.set_params(callbacks=[Callback()]).fit(*table)


def test_a_checkpoint_of_another_function_of_the_same_name_is_refused(tmp_path, table):
    def own(power):
        if power == 1:
            return lambda confusion: confusion.trace() / confusion.sum()
        return lambda confusion: (confusion.trace() / confusion.sum()) ** 2

    left_unfinished(tmp_path, table, metric=own(1))
    with pytest.raises(ValueError, match=OTHER_RUN):
        quick(own(2), checkpoint=tmp_path, callbacks=[Callback()]).fit(*table)


def test_a_checkpoint_of_another_split_is_refused(tmp_path, table):
    left_unfinished(tmp_path, table, n_folds=1, validation_fraction=0.2)
    changed = quick(n_folds=1, validation_fraction=0.25, checkpoint=tmp_path)
    with pytest.raises(ValueError, match=OTHER_RUN):
        changed.set_params(callbacks=[Callback()]).fit(*table)


def test_a_checkpoint_of_another_module_is_refused(tmp_path, table):
    left_unfinished(tmp_path, table, module=torch.nn.Linear)

    def other(n_features, n_classes):
        return torch.nn.Sequential(torch.nn.Linear(n_features, 5), torch.nn.Linear(5, n_classes))

    with pytest.raises(ValueError, match=OTHER_RUN):
        quick(module=other, checkpoint=tmp_path, callbacks=[Callback()]).fit(*table)


def test_a_checkpoint_of_other_data_is_refused(tmp_path, table):
    X, y = table
    left_unfinished(tmp_path, table)
    model = quick(checkpoint=tmp_path, callbacks=[Callback()])
    flipped = np.where(np.arange(len(y)) == 7, (y + 1) % 3, y)
    for data in ((X + 1e-3, y), (X, flipped), (X[:-1], y[:-1])):
        with pytest.raises(ValueError, match=OTHER_RUN):
            model.set_params(standardize="auto").fit(*data)
    with pytest.raises(ValueError, match=OTHER_RUN):
        model.fit(X, y, sample_weight=np.arange(1, 151))


def test_a_damaged_checkpoint_is_refused(tmp_path, table):
    left_unfinished(tmp_path, table)
    path = tmp_path / "training.ckpt"
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(
        ValueError, match=r"checkpoint of fit must be a file that fit wrote.*Delete"
    ):
        quick(checkpoint=tmp_path).fit(*table)
