"""What every test may rely on: the same random numbers each time, and one thread."""

from __future__ import annotations

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


@pytest.fixture(autouse=True)
def fixed_seed() -> None:
    """The same random numbers in every test."""
    torch.manual_seed(0)


@pytest.fixture
def rng() -> np.random.Generator:
    """NumPy's random numbers, always the same."""
    return np.random.default_rng(0)
