"""What a person sees: nothing unasked, log lines in a pipe, a bar in a terminal."""

from __future__ import annotations

import csv
import logging
import os
import re
import subprocess
import sys

import pytest
import torch
from lightning_fabric import Fabric
from lightning_fabric.loggers import CSVLogger
from small_runs import cpu, small_members, small_rows, small_stage

from eastward.metrics import get
from eastward.training import train_members

STAGE = small_stage(objective="metric", max_epochs=3, temperatures=(0.2, 0.1))


def train(verbose, fabric=None):
    rows = small_rows()
    return train_members(
        small_members(rows),
        rows,
        [STAGE],
        metric=get("f1_macro"),
        fabric=fabric or cpu(),
        generator=torch.Generator().manual_seed(0),
        verbose=verbose,
    )


def test_nothing_is_said_unless_asked_for(capfd, caplog):
    train(verbose=0)  # the first loss of a process logs which kernel it uses
    with caplog.at_level(logging.INFO):
        train(verbose=0)
    assert capfd.readouterr() == ("", "")
    assert caplog.records == []


def test_outside_a_terminal_each_epoch_is_a_line_of_the_log(capfd, caplog):
    with caplog.at_level(logging.INFO):
        result = train(verbose=1)
    assert capfd.readouterr() == ("", ""), "log lines go to the log, not to print"
    assert [record.name for record in caplog.records] == ["eastward"] * 3
    last = result.history[-1]
    best = max(record["valid_score"] for record in result.history)
    assert caplog.records[-1].getMessage() == (
        f"short epoch 3: T 0.1  loss {last['train_loss']:.4f}  valid {last['valid_loss']:.4f}  "
        f"f1_macro {last['valid_score']:.4f} (best {best:.4f})"
    )


def test_loggers_of_fabric_receive_the_numbers(tmp_path):
    logger = CSVLogger(tmp_path, name="run", version=0)
    result = train(0, Fabric(accelerator="cpu", devices=1, loggers=logger))
    logger.save()
    with (tmp_path / "run" / "version_0" / "metrics.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert len(lines) == 3
    for line, record in zip(lines, result.history, strict=True):
        assert float(line["short/valid_score"]) == pytest.approx(record["valid_score"])
        assert float(line["short/temperature"]) == pytest.approx(record["temperature"])


PROGRAM = """
from sklearn.datasets import load_iris
from eastward.estimators.network import EASTClassifier
X, y = load_iris(return_X_y=True)
model = EASTClassifier(hidden=(8,), n_folds=2, max_epochs=6, random_state=0, verbose={verbose})
model.fit(X, y)
"""


def terminal_output(verbose):
    """What the program writes to a terminal of 120 columns."""
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    environment = {**os.environ, "COLUMNS": "120", "TERM": "xterm", "OMP_NUM_THREADS": "1"}
    program = [sys.executable, "-c", PROGRAM.format(verbose=verbose)]
    with subprocess.Popen(program, stdout=theirs, stderr=theirs, env=environment) as process:
        os.close(theirs)
        parts = []
        try:
            while part := os.read(ours, 65536):
                parts.append(part)
        except OSError:
            pass  # Linux says so when the other side has closed
        os.close(ours)
    assert process.returncode == 0, b"".join(parts).decode()
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", b"".join(parts).decode())


@pytest.mark.slow
def test_in_a_terminal_there_is_a_bar_with_the_numbers():
    shown = terminal_output(verbose=1)
    line = shown.splitlines()[-1]
    assert "cross-entropy" in shown
    assert "aligned" in line
    assert "6/6" in line
    assert re.search(
        r"T 0\.2  loss \d\.\d+  valid \d\.\d+  f1_macro \d\.\d+ \(best \d\.\d+\)", line
    )
    assert re.search(r"\d:\d\d:\d\d", line), "time left"


@pytest.mark.slow
def test_a_silent_run_leaves_a_terminal_empty():
    assert terminal_output(verbose=0) == ""
