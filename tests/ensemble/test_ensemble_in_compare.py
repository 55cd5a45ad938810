"""The ensemble as a method of ``compare``."""

from __future__ import annotations

import pytest

import eastward as ew
from eastward.comparison import DEFAULT_METHODS
from eastward.comparison.methods import BUILT_IN, Settings


def test_the_ensemble_is_one_of_the_default_methods():
    assert DEFAULT_METHODS[-1] == "ensemble"


def test_networks_of_the_comparison_and_of_the_ensemble_are_the_same():
    settings = Settings(ew.metrics.get("f1"), network={"hidden": (8,)}, budget=5.0)
    model = BUILT_IN["ensemble"].estimator(settings, seed=3)
    assert model.network_options["hidden"] == (8,)
    assert len(model.network_options["callbacks"]) == 1
    assert (model.metric.name, model.random_state) == ("f1", 3)


@pytest.mark.slow
def test_the_ensemble_can_be_recommended(clusters):
    X, y = clusters(counts=(160, 60))
    result = ew.compare(
        X,
        y,
        "f1",
        methods=["ensemble"],
        baseline="cross_entropy",
        n_splits=8,
        method_options={"hidden": (4,), "max_epochs": 1},
    )
    row = next(row for row in result.methods if row["name"] == "ensemble")
    assert row["failures"] == 0
    # One epoch leaves the networks at chance, and the trees do not care.
    assert row["mean"] > 0.5
    assert result.verdict["recommended"] == "ensemble"
