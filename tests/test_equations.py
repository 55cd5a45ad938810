"""Every name and file to which the pages on equations and architecture point is there."""

from __future__ import annotations

import ast
import importlib
import re
from functools import reduce
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "eastward"
# {func}`eastward.heaviside`, `eastward.baselines.image_forest`, `papers.networks.Darknet19`
DOTTED = re.compile(r"`((?:eastward|papers)(?:\.\w+)+)`")
FILE = re.compile(r"`((?:\w+/)*\w+\.py)`")
# `_pieces` and `_slopes` in `steps.py`; `Steps` (`losses/_loss.py`)
NAMES_OF_FILE = re.compile(r"((?:`\w+`(?:\s+and\s+|,\s+|\s+))+)(?:in\s+|\()`((?:\w+/)*\w+\.py)`")
EXPERIMENT = re.compile(r"`(?:python -m papers run )?(east1?-[\w-]+|btg-[\w-]+)")
PAGES = {
    "equations.md": {"dotted": 30, "files": 8, "names": 5},
    "architecture.md": {"dotted": 0, "files": 9, "names": 6},
}


def text_of(page: str) -> str:
    return (ROOT / "docs" / page).read_text(encoding="utf-8")


def found(path: str) -> Path | None:
    places = [base / path for base in (PACKAGE, ROOT)]
    return next((place for place in places if place.exists()), None)


def imported(name: str) -> object:
    """The object behind a dotted name, which may be inside a module that nobody has imported yet."""
    top, *rest = name.split(".")

    def step(thing: object, part: str) -> object:
        if hasattr(thing, part):
            return getattr(thing, part)
        return importlib.import_module(f"{thing.__name__}.{part}")

    return reduce(step, rest, importlib.import_module(top))


def defined(path: Path) -> set[str]:
    """Names at the top level of a file."""
    names = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        targets = [*getattr(node, "targets", ()), getattr(node, "target", None)]
        names |= {target.id for target in targets if isinstance(target, ast.Name)}
    return names


@pytest.mark.parametrize("page", PAGES)
def test_names_that_a_page_points_to_can_be_imported(page):
    names = DOTTED.findall(text_of(page))
    assert len(names) >= PAGES[page]["dotted"]
    for name in names:
        assert imported(name) is not None


@pytest.mark.parametrize("page", PAGES)
def test_files_that_a_page_points_to_hold_what_it_says(page):
    text = text_of(page)
    files, pairs = FILE.findall(text), NAMES_OF_FILE.findall(text)
    assert len(files) >= PAGES[page]["files"]
    assert len(pairs) >= PAGES[page]["names"]
    assert [path for path in files if found(path) is None] == []
    for names, path in pairs:
        assert set(re.findall(r"\w+", names)) - {"and"} <= defined(found(path)), (names, path)


def test_experiments_that_the_equations_point_to_can_be_run():
    names = set(EXPERIMENT.findall(text_of("equations.md")))
    assert names
    assert names <= set(imported("papers.experiments").EXPERIMENTS)
