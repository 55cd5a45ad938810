"""What every test may rely on: the same random numbers each time, and one thread. What counts as quick."""

from __future__ import annotations

from collections import defaultdict

import hypothesis
import numpy as np
import pytest
import torch

# Old import paths warn when they are imported; tests/core/test_public_api.py looks after them.
collect_ignore = [
    f"src/eastward/{name}.py"
    for name in ("decision_estimator", "ensemble_estimator", "estimator", "tables")
]

# Test processes run side by side; threads inside each of them would fight for the same cores.
torch.set_num_threads(1)

# The machine's speed is no property of the code, and a failure must be repeatable.
hypothesis.settings.register_profile("repeatable", deadline=None, derandomize=True)
hypothesis.settings.load_profile("repeatable")


# A quick test is not marked slow, and is one of a few cases of its table. A mistake that shows in one row of a table
# mostly shows in others, too; `make rest` runs them all. A table in which every row is a message or a kind of its own
# is marked whole.
QUICK_CASES = 2


def pytest_addoption(parser: pytest.Parser) -> None:
    """Two halves of all tests."""
    parser.addoption("--quick", action="store_true", help="only the quick tests: `make test`")
    parser.addoption("--rest", action="store_true", help="only the others: `make rest`")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the other half out."""
    if not (config.getoption("--quick") or config.getoption("--rest")):
        return
    quick = quick_tests(items)
    kept, left = [], []
    for item in items:
        (kept if (item.nodeid in quick) == bool(config.getoption("--quick")) else left).append(item)
    config.hook.pytest_deselected(items=left)
    items[:] = kept


def quick_tests(items: list[pytest.Item]) -> set[str]:
    """Names of the quick tests: of each table a few cases, from its beginning to its end."""
    tables: dict[str, list[str]] = defaultdict(list)
    for item in items:
        if item.get_closest_marker("slow") is None:
            whole = item.get_closest_marker("whole") is not None
            tables[item.nodeid if whole else item.nodeid.partition("[")[0]].append(item.nodeid)
    return {
        names[k * len(names) // QUICK_CASES]
        for names in tables.values()
        for k in range(QUICK_CASES)
    }


@pytest.fixture(autouse=True)
def fixed_seed() -> None:
    """The same random numbers in every test."""
    torch.manual_seed(0)


@pytest.fixture
def rng() -> np.random.Generator:
    """NumPy's random numbers, always the same."""
    return np.random.default_rng(0)
