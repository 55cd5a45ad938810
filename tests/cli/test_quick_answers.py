"""Help, mistakes in a command and mistakes in the data are answered without waiting for torch."""

from __future__ import annotations

import subprocess
import sys

import pytest

ASKED = """
import sys
from eastward.cli import main
sys.argv = ["eastward", *{words}]
try:
    main()
except SystemExit as ended:
    print("CODE", ended.code)
print("HEAVY", sorted({{"torch", "sklearn", "numba", "skrub", "lightgbm"}} & set(sys.modules)))
"""
QUESTIONS = [
    (["--help"], 0, "Commands:"),
    (["train", "--help"], 0, "--method"),
    (["compare", "--help"], 0, "--thorough"),
    (["train", "--bogus"], 2, "No such option"),
    (["train", "{table}", "-t", "frau", "-o", "{out}"], 2, "Did you mean 'fraud'?"),
    (["compare", "{table}", "-t", "frau"], 2, "Did you mean 'fraud'?"),
    (["tune", "{table}", "-t", "frau", "-o", "{out}"], 2, "Did you mean 'fraud'?"),
]


@pytest.mark.parametrize(("words", "code", "said"), QUESTIONS)
def test_an_answer_that_needs_no_network_loads_none(words, code, said, table, tmp_path):
    filled = [word.format(table=table, out=tmp_path / "m") for word in words]
    done = subprocess.run(
        [sys.executable, "-c", ASKED.format(words=filled)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert said in done.stdout + done.stderr
    assert f"CODE {code}" in done.stdout
    assert done.stdout.strip().endswith("HEAVY []")
