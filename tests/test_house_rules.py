"""Rules that no tool checks: docstrings that make sense alone, pages that name files which exist, types for users."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest
from numpydoc.docscrape import NumpyDocString

ROOT = Path(__file__).parents[1]
SOURCES = [
    path
    for folder in ("src", "papers", "benchmarks", "examples", "tests", "docs", ".ci")
    for path in sorted((ROOT / folder).rglob("*.py"))
    if not {"_build", "_generated", "auto_examples", "generated"} & set(path.parts)
]
# Words that point to another docstring, which the reader does not see.
POINTS_ELSEWHERE = re.compile(r"^(The same|Same|Such|Ditto|Likewise|See|As|It|They|Those|These)\b")
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def first_lines(path: Path) -> list[tuple[str, str]]:
    nodes = [
        node
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, DOCUMENTED)
    ]
    found = ((getattr(node, "name", "the file"), ast.get_docstring(node)) for node in nodes)
    return [(name, text.partition("\n")[0]) for name, text in found if text]


def test_every_docstring_makes_sense_alone():
    pointing = [
        f"{path.relative_to(ROOT)}, {name}: {line}"
        for path in SOURCES
        for name, line in first_lines(path)
        if POINTS_ELSEWHERE.match(line)
    ]
    assert pointing == []
    assert len(SOURCES) > 400


PUBLIC = (
    "",
    ".annealing",
    ".baselines",
    ".boosting",
    ".comparison",
    ".data",
    ".datasets",
    ".decisions",
    ".metrics",
    ".ranking",
    ".reporting",
    ".theory",
    ".training",
)
# Each takes a second or more to import.
INTEGRATIONS = ("lightning", "mlflow", "onnx", "skorch", "torchmetrics", "transformers")
# The example of align shows the first; MLflow needs a trained folder, which tests/integrations/test_mlflow.py makes.
WITHOUT_EXAMPLE = {"Alignment", "FolderModel", "log_model", "save_model"}


def public_names(module: str):
    found = importlib.import_module(module)
    return [name for name in found.__all__ if callable(getattr(found, name))]


def lacking(module: str, name: str) -> list[str]:
    named = getattr(importlib.import_module(module), name)
    text, signature = inspect.getdoc(named), inspect.signature(named)
    document = NumpyDocString(text)
    entries = document["Parameters"] + document["Other Parameters"] + document["Attributes"]
    results = document["Returns"] + document["Yields"]
    described = {part.strip("* ") for entry in entries for part in entry.name.split(",")}
    lacks = [parameter for parameter in signature.parameters if parameter not in described]
    lacks += [entry.name for entry in entries + results if not " ".join(entry.desc).strip()]
    if not (inspect.isclass(named) or results or signature.return_annotation in {None, "None"}):
        lacks.append("what it returns")
    if ">>>" not in text and name not in WITHOUT_EXAMPLE:
        lacks.append("an example")
    return lacks


@pytest.mark.whole
@pytest.mark.parametrize(
    ("module", "name"),
    [
        (f"eastward{suffix}", name)
        for suffix in PUBLIC
        for name in public_names(f"eastward{suffix}")
    ],
)
def test_the_docstring_of_a_public_name_stands_alone(module, name):
    assert lacking(module, name) == []


@pytest.mark.slow
@pytest.mark.parametrize("package", INTEGRATIONS)
def test_the_docstrings_of_an_integration_stand_alone(package):
    module = f"eastward.integrations.{package}"
    pytest.importorskip(module)
    assert {name: lacks for name in public_names(module) if (lacks := lacking(module, name))} == {}


# A path in a page: `tests/core/test_losses.py`, docs/decisions/, `.ci/run`.
PATHS = re.compile(
    r"(?<![\w./<-])((?:\.ci|benchmarks|docs|examples|papers|results|src|tests)/[\w./-]*\w/?)"
)


@pytest.mark.parametrize(
    "page",
    [
        "CONTRIBUTING.md",
        "README.md",
        "SECURITY.md",
        "docs/architecture.md",
        "benchmarks/README.md",
        "results/README.md",
    ],
)
def test_a_page_names_files_that_exist(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    named = {match.rstrip(".") for match in PATHS.findall(text)}
    missing = sorted(name for name in named if not (ROOT / name).exists() and "NAME" not in name)
    assert missing == []


MODULES = re.compile(r"python -m ((?:benchmarks|papers)[\w.]*)")


def test_every_command_on_a_page_names_a_module_that_exists():
    pages = [
        *ROOT.glob("*.md"),
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "benchmarks").glob("*.md"),
    ]
    named = {
        (str(page.relative_to(ROOT)), name)
        for page in pages
        for name in MODULES.findall(page.read_text("utf-8"))
    }
    missing = [
        (page, name)
        for page, name in sorted(named)
        if not (ROOT / f"{name.replace('.', '/')}.py").exists()
        and not (ROOT / name.replace(".", "/") / "__main__.py").exists()
    ]
    assert missing == []
    assert len(named) > 5


def test_decisions_are_numbered_without_holes():
    notes = sorted((ROOT / "docs" / "decisions").glob("0*.md"))
    numbers = [f"{number:04d}" for number in range(1, len(notes) + 1)]
    assert [note.name[:4] for note in notes] == numbers
    assert [note.read_text("utf-8").split()[1] for note in notes] == numbers


def test_sentences_stay_short():
    spec = importlib.util.spec_from_file_location("readability", ROOT / "docs" / "readability.py")
    readability = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(readability)
    every = [
        sentence
        for page in readability.pages(ROOT)
        for sentence in readability.sentences(page.read_text("utf-8"))
    ]
    assert len(every) > 500
    assert sum(map(readability.is_hard, every)) < 0.06 * len(every)


USER = """
import torch
import eastward as ew

loss: torch.nn.Module = ew.EASTLoss("f1_macro", temperature=0.1)
value: torch.Tensor = ew.metric_loss(torch.randn(4, 3), torch.arange(4) % 3, "f1_macro")
decision: ew.Decision = ew.tune_decision([[0.2, 0.8], [0.7, 0.3]], [1, 0], "f1")
model = ew.EASTClassifier("f1_macro", n_folds=5)
labels = model.fit([[0.0], [1.0]], [0, 1]).predict([[0.5]])
names: list[str] = list(ew.metrics.names())
"""
MISTAKES = """
import eastward as ew

ew.EASTLoss("f1_macro", temprature=0.1)
ew.EASTLosses("f1_macro")
text: str = ew.tune_decision([[0.2, 0.8], [0.7, 0.3]], [1, 0], "f1")
"""


@pytest.mark.slow
def test_a_users_type_checker_knows_our_types(tmp_path):
    (tmp_path / "right.py").write_text(USER)
    (tmp_path / "wrong.py").write_text(MISTAKES)
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "."]
    done = subprocess.run(command, check=False, cwd=tmp_path, text=True, capture_output=True)
    errors = [line for line in done.stdout.splitlines() if "error" in line]
    assert [line for line in errors if not line.startswith("wrong.py")] == []
    assert [line.rpartition("[")[2] for line in errors] == [
        "call-arg]",
        "attr-defined]",
        "assignment]",
    ]
