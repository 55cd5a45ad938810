"""The tutorial is a notebook that runs from top to bottom, as a reader would run it."""

from __future__ import annotations

import json
from pathlib import Path

import matplotlib as mpl
import pytest
from sphinx_gallery import py_source_parser
from sphinx_gallery.gen_gallery import DEFAULT_GALLERY_CONF
from sphinx_gallery.notebook import jupyter_notebook

TUTORIAL = Path(__file__).parents[1] / "examples" / "plot_00_tutorial.py"


def cells(kind):
    _, blocks = py_source_parser.split_code_and_text_blocks(str(TUTORIAL))
    notebook = jupyter_notebook(blocks, DEFAULT_GALLERY_CONF, str(TUTORIAL.parent))
    assert notebook["nbformat"] == 4
    json.dumps(notebook)
    return ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == kind]


def test_the_tutorial_explains_each_step():
    code, words = cells("code"), cells("markdown")
    assert len(code) >= 6
    assert len(words) >= len(code) - 1


@pytest.mark.slow
def test_the_tutorial_runs_and_the_promised_recall_is_kept(monkeypatch, capsys):
    mpl.use("Agg")
    names = {"__name__": "tutorial"}
    for cell in cells("code"):
        exec(compile(cell.replace("%matplotlib inline", ""), TUTORIAL.name, "exec"), names)
    printed = capsys.readouterr().out
    assert "recall[strong] ≥ 0.70 with 95 % confidence" in printed
    assert names["scores"]["decided by the metric"] > names["scores"]["more probable class"]
