"""Few classes are scored in plain numbers: the same values and slopes as by arrays."""

from __future__ import annotations

import numpy as np
import pytest

from eastward import metrics
from eastward.kernels.ratios import forms_of, loss_and_slope_of_table
from eastward.kernels.rules import rule_of

NAMES = (
    "f1_macro", "f1_weighted", "precision_macro", "recall_macro", "specificity_macro", "jaccard_macro",
    "balanced_accuracy", "informedness", "markedness",
)  # fmt: skip


def table(size, missing, seed):
    """Right, predicted and true of a random batch; the first ``missing`` classes have no rows."""
    rng = np.random.default_rng(seed)
    true = rng.integers(2, 30, size).astype(float)
    true[:missing] = 0
    right = true * rng.random(size)
    wrong = rng.dirichlet(np.ones(size)) * (true.sum() - right.sum())
    return np.stack([right, right + wrong, true])


@pytest.mark.parametrize("missing", [0, 2])
@pytest.mark.parametrize("absent", ["skip", "observed", "zero"])
@pytest.mark.parametrize("name", NAMES)
def test_numbers_one_after_the_other_give_what_arrays_give(name, absent, missing):
    metric = metrics.get(name) if name == "balanced_accuracy" else metrics.get(name, absent=absent)
    rule = rule_of(metric, 7, exclusive=True, virtual=absent == "skip")
    forms = forms_of(rule)
    if forms is None:
        pytest.skip("no average of quotients")
    assert forms.numbers is not None
    for seed in range(5):
        sums = table(7, missing, seed)
        loss, slope, _ = loss_and_slope_of_table(sums.copy(), rule, forms)
        exact, wanted, _ = loss_and_slope_of_table(sums.copy(), rule, forms._replace(numbers=None))
        assert loss == pytest.approx(exact, abs=1e-12)
        assert slope == pytest.approx(wanted, abs=1e-12)


def test_many_classes_stay_arrays():
    rule = rule_of(metrics.get("f1_macro"), 40, exclusive=True, virtual=True)
    assert forms_of(rule).numbers is None
