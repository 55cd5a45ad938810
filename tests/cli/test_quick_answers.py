"""Help, mistakes in a command and mistakes in the data are answered without waiting for torch."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from eastward import _names
from eastward.comparison import method_names
from eastward.training import RECIPES

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
    (["train", "{table}", "-t", "fraud", "-o", "{out}", "--holdout", "1.5"], 2, "in [0, 1)"),
    (["train", "{table}", "-t", "fraud", "-o", "{out}", "--method", "forrest"], 2, "one of 'auto'"),
    (["train", "{table}", "-t", "fraud", "-o", "{out}", "--recipe", "papr"], 2, "mean 'paper'"),
    (["compare", "{table}", "-t", "fraud", "--methods", "ensembel"], 2, "Did you mean 'ensemble'"),
    (["predict", "{out}", "{table}", "-o", "{out}.csv"], 2, "which does not exist"),
    (["predict", "{model}", "{table}", "-o", "{out}.csv"], 2, "none called 'elsewhere'"),
    (["evaluate", "{model}", "{table}"], 2, "the target 'judged'"),
]
# Enough of a model folder to see that a table does not fit it.
TASK = {
    "kind": "eastward.TableModel",
    "format": 2,
    "target": "judged",
    "columns": [{"name": "elsewhere", "kind": "number"}],
    "digests": {"preprocessing.skops": ""},
}


@pytest.mark.parametrize(("words", "code", "said"), QUESTIONS)
def test_an_answer_that_needs_no_network_loads_none(words, code, said, table, tmp_path):
    model = tmp_path / "model"
    model.mkdir()
    (model / "task.json").write_text(json.dumps(TASK))
    filled = [word.format(table=table, out=tmp_path / "m", model=model) for word in words]
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


def test_names_known_without_torch_are_those_of_their_modules():
    assert list(_names.METHODS) == method_names()
    assert set(_names.RECIPES) == set(RECIPES)
