"""Loss and slopes of one table by linear forms are those of the general formulas, which are tested against autograd."""

from __future__ import annotations

import numpy as np
import pytest

from eastward import metrics
from eastward.kernels.closed_form import MARGINS, loss_and_slope_of_sums
from eastward.kernels.ratios import forms_of, loss_and_slope_of_table
from eastward.kernels.rules import rule_of

METRICS = [
    "f1_macro",
    "f1_weighted",
    "precision_macro",
    "recall_macro",
    "specificity_macro",
    "jaccard_macro",
    "informedness",
    "markedness",
    "balanced_accuracy",
]


def table(size, missing=(), seed=0):
    """Right, predicted, true of soft memberships."""
    generator = np.random.default_rng(seed)
    matrix = generator.random((size, size)) + 3 * np.eye(size)
    matrix[list(missing)] = 0
    return np.stack([matrix.diagonal(), matrix.sum(0), matrix.sum(1)])


def rule_for(name, absent, size, virtual=True):
    metric = metrics.get(name) if absent is None else metrics.get(name, absent=absent)
    return rule_of(metric, size, exclusive=True, virtual=virtual)


@pytest.mark.parametrize("missing", [(), (2,), (0, 3)], ids=["all", "one missing", "two missing"])
@pytest.mark.parametrize("absent", ["skip", "observed", "zero"])
@pytest.mark.parametrize("name", METRICS)
def test_forms_give_what_the_general_formulas_give(name, absent, missing):
    rule = rule_for(name, None if name == "balanced_accuracy" else absent, 5)
    sums, forms = table(5, missing), forms_of(rule)
    assert forms is not None
    expected, slopes = loss_and_slope_of_sums(sums[None].copy(), MARGINS, rule)
    loss, found, empty = loss_and_slope_of_table(sums, rule, forms)
    assert not empty
    np.testing.assert_allclose(loss, expected[0], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(found, slopes[0], rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("missing", [(1, 2, 3), (0, 1, 2, 3)], ids=["one class", "no class"])
@pytest.mark.parametrize("name", METRICS)
def test_unusual_tables_take_the_general_way(name, missing):
    rule = rule_for(name, None, 4)
    sums = table(4, missing)
    expected, slopes = loss_and_slope_of_sums(sums[None].copy(), MARGINS, rule)
    loss, found, empty = loss_and_slope_of_table(sums, rule, forms_of(rule))
    assert empty == (len(missing) == 4)
    np.testing.assert_allclose(loss, expected[0], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(found, slopes[0], rtol=1e-10, atol=1e-14)


def test_a_class_nobody_has_or_predicts_has_no_quotient():
    rule = rule_for("precision_macro", "zero", 3)
    sums = np.array([[2.0, 1.0, 0.0], [3.0, 2.0, 0.0], [3.0, 2.0, 0.0]])
    expected, slopes = loss_and_slope_of_sums(sums[None].copy(), MARGINS, rule)
    loss, found, _ = loss_and_slope_of_table(sums, rule, forms_of(rule))
    np.testing.assert_allclose(loss, expected[0])
    np.testing.assert_allclose(found, slopes[0])


@pytest.mark.parametrize("name", METRICS)
def test_rounding_does_not_take_the_loss_out_of_its_range(name):
    rule = rule_for(name, None, 3)
    true = np.array([3.0, 2.0, 4.0])
    sums = np.stack([true * (1 + 1e-7), true * (1 - 1e-7), true])
    loss, _, _ = loss_and_slope_of_table(sums, rule, forms_of(rule))
    assert 0 <= loss < 1e-6


def test_metrics_that_are_no_average_of_quotients_have_no_forms():
    for name in ("accuracy", "matthews_corrcoef", "f1_micro"):
        assert forms_of(rule_for(name, None, 3)) is None
