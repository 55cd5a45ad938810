"""Cross-entropy with and without the metric stage: trained once, and the same as trained twice."""

from __future__ import annotations

import numpy as np
import pytest
from comparison_problems import blobs

from eastward import compare
from eastward.comparison.cells import run_cell
from eastward.comparison.methods import BUILT_IN, Settings
from eastward.comparison.shared_training import first_stage_of, run_cells
from eastward.metrics import get

SMALL = {"hidden": (8,), "max_epochs": 4}
PAIR = ("eastward", "cross_entropy_tuned")
MEASURED = ("method", "split", "score", "log_loss", "brier", "ece", "error", "notes")


@pytest.fixture(scope="module")
def problem():
    X, y = blobs(90)
    settings = {"methods": ["logistic_regression"], "baseline": "extra_trees", "n_splits": 2}
    weights = np.random.default_rng(0).uniform(0.5, 2.0, len(y))
    return compare(X, y, **settings, sample_weight=weights, method_options=SMALL).problem


def measured(cells):
    return [[cell[name] for name in MEASURED] for cell in cells]


@pytest.mark.parametrize("split", [0, 1])
@pytest.mark.slow
def test_cells_are_those_of_two_trainings(problem, split):
    methods = [BUILT_IN[name] for name in PAIR]
    together = run_cells(problem, methods, split, None, ["", ""])
    apart = [run_cell(problem, method, split, None, "") for method in methods]
    assert measured(together) == measured(apart)
    assert all(cell["seconds"] > 0 for cell in together)


def test_the_first_stage_goes_on_alone_where_the_whole_fails(problem, monkeypatch):
    def fail(*_):
        raise RuntimeError("no metric stage today")

    monkeypatch.setattr("eastward.training.runner.start_at_decision", fail)
    cells = run_cells(problem, [BUILT_IN[name] for name in PAIR], 0, None, ["", ""])
    assert "no metric stage today" in cells[0]["error"]
    assert cells[1]["error"] is None


@pytest.mark.parametrize(
    ("changed", "shared"),
    [
        ({}, True),
        ({"network": {"hidden": (16,)}}, True),
        ({"budget": 10.0}, False),
        ({"options": {"eastward": {"dropout": 0.5}}}, False),
    ],
)
def test_only_what_is_the_same_is_shared(changed, shared):
    whole, first = (BUILT_IN[name] for name in PAIR)
    found = first_stage_of(whole, [whole, first], Settings(get("f1_macro"), **changed))
    assert (found is first) == shared
