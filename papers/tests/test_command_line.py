"""`python -m papers` as a person types it."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from eastward.cli import app as eastward
from papers.command_line import app

ROOT = Path(__file__).parents[2]


def run(*words, program=app):
    return CliRunner().invoke(program, [str(word) for word in words])


def start(*words, **options) -> subprocess.Popen:
    """The command in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "papers", *map(str, words)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "80"},
        **options,
    )


def test_list_shows_every_name_with_its_time():
    done = run("list", "--json")
    assert done.exit_code == 0
    rows = json.loads(done.stdout)
    assert {"btg-table1", "east-table7", "lee-figure3", "ablation"} <= {r["name"] for r in rows}
    assert all(row["minutes"] > 0 for row in rows)
    assert "btg-table4" in run("list").stdout


@pytest.mark.slow
def test_a_smoke_run_writes_page_numbers_picture_and_overview(tmp_path):
    done = run("run", "btg-table4", "--scale", "smoke", "--out", tmp_path)
    assert done.exit_code == 0, done.stderr
    assert "made-up data" in done.stdout
    for name in ("README.md", "results.json", "picture.png"):
        assert (tmp_path / "btg-table4" / name).exists()
    text = (tmp_path / "btg-table4" / "README.md").read_text()
    assert "python -m papers run btg-table4 --scale smoke" in text
    assert "±" not in done.stdout, "one trial has no deviation"
    assert "btg-table4" in (tmp_path / "README.md").read_text()
    again = run("report", "--scale", "smoke", "--out", tmp_path)
    assert again.exit_code == 0, again.stderr
    assert (tmp_path / "btg-table4" / "README.md").read_text() == text


@pytest.mark.slow
def test_json_is_the_summary(tmp_path):
    words = ("--scale", "smoke", "--out", tmp_path, "--seeds", 2, "--json", "--method", "f1_btg")
    done = json.loads(run("run", "btg-table4", *words).stdout)
    assert done["name"] == "btg-table4"
    assert [row["trials"] for row in done["panels"][0]["rows"]] == [2, 0, 0]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["run", "btg-table9"], "Did you mean"),
        (["run", "btg-table4", "--scale", "big"], "--scale of run must be one of"),
        (["run", "btg-table4", "--only", "adult"], "--only of btg-table4 must be one of"),
        (["run", "btg-table4", "--method", "f9_btg"], "Did you mean 'f3_btg'"),
        (
            ["run", "btg-table4", "--data-dir", "{empty}"],
            "Get it from https://www.openml.org/d/310",
        ),
        (["run", "ablation", "--data-dir", "{empty}"], "Set EASTWARD_DATA=DIR or give --data-dir"),
        (["report", "btg-table4"], "Run it first"),
    ],
)
def test_mistakes_are_one_sentence(words, sentence, tmp_path):
    (tmp_path / "empty").mkdir()
    given = [word.replace("{empty}", str(tmp_path / "empty")) for word in words]
    done = run(*given, "--out", tmp_path / "out")
    assert done.exit_code == 2, done.output
    assert sentence in " ".join(done.stderr.split())
    assert not list(tmp_path.rglob("*.part"))


def test_the_old_command_says_where_it_went():
    done = run("reproduce", "btg-table4", program=eastward)
    assert done.exit_code == 2
    assert "python -m papers run btg-table4" in " ".join(done.stderr.split())


@pytest.mark.slow
def test_a_killed_run_goes_on_with_the_next_call(tmp_path):
    words = ("run", "btg-table4", "--scale", "smoke", "--seeds", 12, "--out", tmp_path)
    first = start(*words)
    cells = tmp_path / "cells.jsonl"
    while first.poll() is None and not (cells.exists() and cells.stat().st_size):
        time.sleep(0.05)
    first.send_signal(signal.SIGKILL)
    first.communicate()
    kept = len(cells.read_text().splitlines())
    second = start(*words)
    _, err = second.communicate(timeout=300)
    assert second.returncode == 0, err
    assert "left)" in err
    lines = cells.read_text().splitlines()
    assert len(lines) == 36 >= kept
    assert err.count(" left)") >= 36 - kept


@pytest.mark.slow
@pytest.mark.parametrize("room", [1_000, 20_000])
def test_a_full_disk_is_said_in_one_sentence(room, tmp_path):
    """No file may grow beyond ``room`` bytes, as on a disk that is full: the data first, then the picture."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))

    done = start("run", "btg-table4", "--scale", "smoke", "--out", tmp_path, preexec_fn=limit)
    _, err = done.communicate(timeout=300)
    assert done.returncode == 1, err
    assert "no disk space left" in err
    assert "continue with the same command" in " ".join(err.split())
    assert not [path for path in tmp_path.rglob("*") if path.suffix in {".part", ".png"}]
