"""Would the quick tests notice a mistake? Break one place in each package, and see.

    python tests/mutations.py [--seed 0] [--each 1] [PACKAGE ...]

A copy of the sources gets one mistake at a time: a comparison turned round, a plus for a minus, an ``and`` for an
``or``, a number one higher. Places are drawn at random from the functions of a package, so nobody chooses the easy
ones. The quick tests run against the copy, the package's own folder first, and stop at the first failure.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

import lightgbm  # noqa: F401 - loaded once for all mistakes, as are the next ones
import matplotlib.pyplot  # noqa: F401, ICN001
import numba  # noqa: F401
import pandas  # noqa: F401, ICN001
import pyarrow  # noqa: F401, ICN001
import pytest
import scipy.stats  # noqa: F401
import sklearn.ensemble  # noqa: F401
import skrub  # noqa: F401
import torch  # noqa: F401

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "eastward"
SWAPS: dict[type, type] = {
    ast.Lt: ast.GtE,
    ast.GtE: ast.Lt,
    ast.Gt: ast.LtE,
    ast.LtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.And: ast.Or,
    ast.Or: ast.And,
}
# Where a package is tested, if not in the folder of its name.
CORE_ERRORS = ["tests/core/test_input_errors.py", "tests/core/test_option_errors.py"]
TESTS = {
    "__init__": ["tests/core/test_public_api.py"],
    "_checks": CORE_ERRORS,
    "_files": ["tests/test_saved_folder.py", "tests/robustness/test_hostile_folders.py"],
    "_messages": [
        *CORE_ERRORS,
        "tests/core/test_small_helpers.py",
        "tests/alignment/test_bad_alignments.py",
    ],
    "_moved": ["tests/core/test_public_api.py"],
    "_numerics": ["tests/core/test_metric_laws.py", "tests/core/test_degenerate_batches.py"],
    "_prior_weights": ["tests/core/test_confusion.py"],
    "_random_numbers": ["tests/core/test_small_helpers.py", "tests/robustness/test_shared.py"],
    "_samples": ["tests/core/test_input_errors.py", "tests/core/test_confusion.py"],
    "_views": ["tests/reporting/test_notebook_view.py"],
    "alignment": ["tests/alignment"],
    "bounds": ["tests/decisions/test_decision_constraints.py"],
    "confusion": ["tests/core/test_confusion.py"],
    "constraints": ["tests/decisions/test_decision_constraints.py"],
    "datasets": ["tests/data", "tests/cli"],
    "decisions": ["tests/decisions", "tests/test_decisions.py", "tests/test_keep_classes.py"],
    "distributed": ["tests/core/test_distributed.py"],
    "estimators": ["tests/test_decision_estimator.py", "tests/estimator", "tests/ensemble"],
    "estimators/boosting": ["tests/boosting"],
    "estimators/ensemble": ["tests/ensemble"],
    "estimators/network": ["tests/estimator"],
    "losses": [
        "tests/core/test_losses.py",
        "tests/core/test_loss_laws.py",
        "tests/core/test_loss_corners.py",
        "tests/core/test_ranking.py",
        "tests/core/test_exact_backward.py",
        "tests/core/test_loss_constraints.py",
        "tests/core/test_input_errors.py",
    ],
    "metrics": [
        "tests/core/test_metrics_against_sklearn.py",
        "tests/core/test_metric_laws.py",
        "tests/core/test_foreign_metrics.py",
        "tests/core/test_option_errors.py",
        "tests/kernels/test_closed_forms.py",
    ],
    "model_folder": ["tests/cli", "tests/robustness"],
    "models": ["tests/core/test_public_api.py"],
    "saved_classifiers": ["tests/cli", "tests/robustness"],
    "saved_folder": ["tests/test_saved_folder.py", "tests/estimator"],
    "saved_trees": ["tests/test_saved_folder.py", "tests/ensemble", "tests/robustness"],
    "theory": ["tests/core/test_theory_functions.py", "tests/core/test_theory.py"],
    "_studies": ["tests/tuning"],
    "tuning": ["tests/tuning"],
}


def packages() -> dict[str, list[Path]]:
    """Files of each package; the modules at the top count one by one."""
    found: dict[str, list[Path]] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE).parts
        is_inner = parts[0] == "estimators" and len(parts) > 2
        name = "/".join(parts[: 2 if is_inner else 1]).removesuffix(".py")
        found.setdefault(name, []).append(path)
    return {name: files for name, files in found.items() if any(map(places, files))}


def places(path: Path) -> list[ast.AST]:
    """Nodes inside functions that a mistake can change."""
    functions = [
        node
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef)
    ]
    # Defaults and annotations of a signature are left out; the body is what runs.
    nodes = [
        node
        for function in functions
        for statement in function.body
        for node in ast.walk(statement)
    ]
    return [node for node in nodes if _mutable(node)]


def _mutable(node: ast.AST) -> bool:
    if isinstance(node, ast.Compare):
        return type(node.ops[0]) in SWAPS
    if isinstance(node, ast.BinOp):
        return type(node.op) in SWAPS and not isinstance(node.left, ast.Constant | ast.JoinedStr)
    if isinstance(node, ast.Constant):
        return isinstance(node.value, int) and not isinstance(node.value, bool)
    return isinstance(node, ast.BoolOp)


def mutated(text: str, place: ast.AST) -> tuple[str, str, str]:
    """The source with a mistake at the place, and its line before and after."""
    new = ast.parse(ast.unparse(place), mode="eval").body
    if isinstance(new, ast.Compare):
        new.ops[0] = SWAPS[type(new.ops[0])]()
    elif isinstance(new, ast.BinOp | ast.BoolOp):
        new.op = SWAPS[type(new.op)]()
    elif isinstance(new, ast.Constant):
        new.value += 1
    lines = text.splitlines(keepends=True)
    start = sum(len(line.encode()) for line in lines[: place.lineno - 1]) + place.col_offset
    end = sum(len(line.encode()) for line in lines[: place.end_lineno - 1]) + place.end_col_offset
    data = text.encode()
    changed = (data[:start] + f"({ast.unparse(new)})".encode() + data[end:]).decode()
    return changed, ast.unparse(place), ast.unparse(new)


def failing_test(copy: Path, tests: list[str]) -> str:
    """The first quick test that fails with the sources of the copy, or an empty string."""
    report = copy / "report.txt"
    child = os.fork()
    if child == 0:
        # The package is not imported yet, but what it needs is: a mistake costs its tests and little more.
        with report.open("w") as stream:
            os.dup2(stream.fileno(), 1)
            os.dup2(stream.fileno(), 2)
            sys.path.insert(0, str(copy))
            words = ("-q", "-x", "-n", "0", "--quick", "-p", "no:cacheprovider", "--tb=no", "-rfE")
            code = pytest.main([*words, *tests])
            sys.stdout.flush()
        os._exit(int(code))
    _, status = os.waitpid(child, 0)
    failed = [
        line for line in report.read_text().splitlines() if line.startswith(("FAILED", "ERROR"))
    ]
    nothing_wrong = os.waitstatus_to_exitcode(status) in {0, 5}
    return failed[0].split(" - ")[0] if failed else "" if nothing_wrong else "the process ended"


def tests_of(package: str) -> list[list[str]]:
    """Test paths in the order in which they are tried: the package's own, then everything."""
    own = TESTS.get(package, [f"tests/{package}", f"tests/core/test_{package}.py"])
    return [[path for path in own if (ROOT / path).exists()] or ["tests/core"], ["tests"]]


def main() -> None:
    """Print one line for each mistake: where, what, and which test noticed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("packages", nargs="*")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--each", type=int, default=1, help="mistakes in each package")
    parser.add_argument("--own", action="store_true", help="only the package's own tests")
    options = parser.parse_args()
    os.chdir(ROOT)
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        shutil.copytree(SOURCE, copy / "eastward", ignore=shutil.ignore_patterns("__pycache__"))
        for package, files in packages().items():
            if options.packages and package not in options.packages:
                continue
            generator = random.Random(f"{options.seed} {package}")
            every = [(path, place) for path in files for place in places(path)]
            for path, place in generator.sample(every, min(options.each, len(every))):
                print(_tried(package, path, place, copy, own=options.own), flush=True)


def _tried(package: str, path: Path, place: ast.AST, copy: Path, *, own: bool) -> str:
    text, target = path.read_text("utf-8"), copy / "eastward" / path.relative_to(SOURCE)
    changed, before, after = mutated(text, place)
    target.write_text(changed, encoding="utf-8")
    started = time.monotonic()
    noticed = ""
    for tests in tests_of(package)[: 1 if own else 2]:
        noticed = noticed or failing_test(copy, tests)
    target.write_text(text, encoding="utf-8")
    where = f"{path.relative_to(SOURCE)}:{place.lineno}"
    result = f"{noticed or 'NOT NOTICED'} | {time.monotonic() - started:.0f} s"
    return f"{package} | {where} | `{before}` → `{after}` | {result}"


if __name__ == "__main__":
    main()
