"""A handful of what longer runs count: kills, broken tables, long training. See docs/robustness.md."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from fuzzed_tables import Fuzzer
from killed_commands import COMMANDS

HERE = Path(__file__).parent


@pytest.mark.slow
def test_broken_tables_work_or_are_refused_in_one_sentence(tmp_path):
    fuzzer = Fuzzer(tmp_path)
    for number in range(4):
        fuzzer.case(number)
    assert not fuzzer.wrong, "\n".join(fuzzer.wrong)


@pytest.mark.slow
def test_more_broken_tables(tmp_path):
    fuzzer = Fuzzer(tmp_path)
    # In 79 a column is infinite everywhere; in 206 a category is the character NUL, which NumPy cuts off names.
    for number in (*range(4, 24), 79, 206):
        fuzzer.case(number)
    assert not fuzzer.wrong, "\n".join(fuzzer.wrong)
    assert {"train: works", "predict: works", "train: refused"} <= set(fuzzer.counts)


def program(name: str, *words: str) -> dict:
    """What a program of this folder prints at last; it imports everything once, in a process of its own."""
    root = HERE.parent.parent
    path = os.pathsep.join([str(root), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path}
    done = subprocess.run(
        [sys.executable, HERE / name, *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_a_killed_command_ends_with_the_very_same_results(command):
    counts = program("killed_commands.py", command, "--kills", "2")[command]
    assert counts["kills"] >= 2
    assert counts["different"] == []


@pytest.mark.slow
def test_memory_does_not_grow_with_the_number_of_steps():
    seen = program("soak.py", "--steps", "3000")["seen"]
    assert seen[-1]["megabytes"] < seen[2]["megabytes"] + 4
    assert seen[-1]["objects"] < seen[2]["objects"] + 200
