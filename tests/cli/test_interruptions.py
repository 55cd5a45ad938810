"""Ctrl-C, a killed process, a full disk: finished files stay complete, and the message says how to continue."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from command_runs import claims, command, run

from eastward.cli.errors import explanation
from eastward.model_folder import load_model

FEW = ["--epochs", "2", "--folds", "2", "--quiet"]
SLOW = ["--hidden", "16", "--epochs", "40", "--folds", "2", "--quiet"]


def started(*words, wait_for) -> subprocess.Popen:
    """A command in a process of its own, stopped by the caller when ``wait_for`` is there."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "EASTWARD_CHECKPOINT_SECONDS": "0"}
    process = subprocess.Popen(
        command(*words), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )
    deadline = time.monotonic() + 120
    while not wait_for.exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    assert wait_for.exists(), process.communicate()
    return process


@pytest.mark.slow
def test_a_killed_run_is_resumed_to_the_very_same_model(table, tmp_path):
    words = ["train", table, "-t", "fraud", "--ignore", "claim", *SLOW]
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    process = started(*words, "-o", killed, wait_for=killed / "checkpoint" / "training.ckpt")
    process.kill()
    process.communicate()
    assert not (killed / "task.json").exists()
    refused = run("predict", killed, table, "-o", tmp_path / "out.csv")
    assert refused.code == 2
    assert "repeat the command with --resume" in refused.err
    assert run(*words, "-o", killed, "--resume").code == 0
    assert run(*words, "-o", whole).code == 0
    assert not (killed / "checkpoint").exists()
    probabilities = [load_model(folder).predict_proba(claims()) for folder in (killed, whole)]
    assert np.array_equal(*probabilities)


@pytest.mark.slow
def test_control_c_says_how_to_continue_and_leaves_nothing_half_written(table, tmp_path):
    folder = tmp_path / "m"
    words = [
        "train",
        table,
        "-t",
        "fraud",
        "-o",
        folder,
        *SLOW,
        "--hidden",
        "64",
        "--epochs",
        "4000",
    ]
    process = started(*words, wait_for=folder / "checkpoint" / "training.ckpt")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    assert "interrupted. Continue with:  eastward train" in err
    assert "--resume" in err
    assert "Traceback" not in err
    assert sorted(path.name for path in folder.iterdir()) == ["checkpoint"]


@pytest.mark.slow
def test_control_c_in_a_search_says_how_to_continue(table, tmp_path):
    words = ["tune", table, "-t", "fraud", "-o", tmp_path / "s", "--trials", "500"]
    process = started(*words, "--epochs", "400", wait_for=tmp_path / "s" / "study.log")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    assert "interrupted. Continue with:  eastward tune" in err
    assert "Traceback" not in err


@pytest.fixture
def little_room():
    """Files larger than this many bytes cannot be written, as on a full disk (Python ignores the signal)."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)

    def limit(count: int) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (count, before[1]))

    yield limit
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("ending", ["csv", "parquet", "jsonl"])
def test_a_full_disk_keeps_the_old_predictions(trained, tmp_path, little_room, ending):
    claims(3000).to_parquet(tmp_path / "new.parquet")
    out = tmp_path / f"out.{ending}"
    out.write_text("old")
    little_room(20_000)
    done = run("predict", trained, tmp_path / "new.parquet", "-o", out)
    assert done.code == 1
    assert "no disk space left" in done.err
    assert "Free some space" in done.err
    assert out.read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new.parquet", out.name]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
@pytest.mark.parametrize("size", [1, 100_000])
def test_a_full_disk_is_recognised_in_whatever_words_torch_has_for_it(size):
    with pytest.raises(RuntimeError) as caught:
        torch.save(torch.zeros(size), "/dev/full")
    sentence, code = explanation(caught.value)
    assert code == 1
    assert sentence.startswith("no disk space left. Finished files are complete")


# Checkpoints come first, then the weights, then the preprocessing, which is larger in this table.
@pytest.mark.slow
@pytest.mark.parametrize("room", [20_000, 60_000])
def test_a_full_disk_while_training_leaves_no_half_model(table, tmp_path, little_room, room):
    folder = tmp_path / "m"
    little_room(room)
    done = run("train", table, "-t", "fraud", "-o", folder, "--hidden", "8", *FEW)
    assert done.code == 1, done.err
    assert "no disk space left" in done.err
    assert "--resume" in done.err
    left = {path.name for path in folder.rglob("*") if path.is_file()}
    assert left <= {"training.ckpt"}
    little_room(resource.RLIM_INFINITY)
    done = run("train", table, "-t", "fraud", "-o", folder, "--hidden", "8", *FEW, "--resume")
    assert done.code == 0, done.err
    assert load_model(folder).predict(claims()).shape == (240,)
