"""Laws that every metric obeys, soft or hard: one table of metrics, one list of laws."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from metric_table import METRICS, build, cost_table, sizes_for

import eastward as ew
from eastward.confusion import Counts, counts_from_confusion

NAMES = sorted(METRICS)


def random_confusion(size: int, *, absent: int = 0, seed: int = 0) -> torch.Tensor:
    """Soft counts of an uneven problem; the last ``absent`` classes have no true samples."""
    generator = torch.Generator().manual_seed(seed)
    table = torch.rand(size, size, generator=generator, dtype=torch.float64) ** 3
    table += 2 * torch.diag(torch.rand(size, generator=generator, dtype=torch.float64))
    if absent:
        table[-absent:] = 0
    return table


@pytest.mark.parametrize("name", NAMES)
def test_scaling_the_matrix_changes_nothing(name):
    for size in sizes_for(name, 2, 5):
        confusion, metric = random_confusion(size), build(name, size)
        for factor in (1e-9, 0.1, 3.0, 1e9):
            torch.testing.assert_close(metric(factor * confusion), metric(confusion))


# Each of the others has a law of its own below: the cost is renamed too, kappa's order is reversed, class 1 is
# exchanged with class 0.
NAMELESS = [name for name in NAMES if not METRICS[name].class_order_matters]


@pytest.mark.parametrize("name", NAMELESS)
def test_renaming_the_classes_changes_nothing(name):
    for size in (2, 6):
        confusion, order = random_confusion(size, absent=1), torch.randperm(size)
        metric = build(name, size)
        torch.testing.assert_close(metric(confusion[order][:, order]), metric(confusion))


def test_renaming_the_classes_of_the_cost_too_changes_no_expected_cost():
    confusion, cost, order = random_confusion(5), torch.from_numpy(cost_table(5)), torch.randperm(5)
    renamed = ew.metrics.expected_cost(confusion[order][:, order], cost[order][:, order])
    torch.testing.assert_close(renamed, ew.metrics.expected_cost(confusion, cost))


@pytest.mark.parametrize("kind", ["linear", "quadratic"])
def test_weighted_kappa_allows_the_reverse_order_and_no_other(kind):
    confusion = random_confusion(4)
    value = ew.metrics.cohen_kappa(confusion, kind)
    torch.testing.assert_close(ew.metrics.cohen_kappa(confusion.flip(0, 1), kind), value)
    order = torch.tensor([2, 0, 3, 1])
    other = ew.metrics.cohen_kappa(confusion[order][:, order], kind)
    assert not torch.allclose(other, value)


POSITIVE_CLASS = [name for name in NAMES if METRICS[name].two_classes_only]


@pytest.mark.parametrize("name", POSITIVE_CLASS)
def test_a_positive_class_metric_means_class_one(name):
    confusion = random_confusion(2)
    function = getattr(ew.metrics, name)
    torch.testing.assert_close(build(name, 2)(confusion), function(confusion, "none")[1])
    torch.testing.assert_close(build(name, 2)(confusion.flip(0, 1)), function(confusion, "none")[0])


@pytest.mark.parametrize("name", NAMES)
def test_values_stay_in_range(name):
    case = METRICS[name]
    for size in sizes_for(name, 2, 3, 10):
        for seed in range(30):
            confusion = random_confusion(size, absent=seed % 2, seed=seed)
            confusion = torch.where(confusion < 0.1 * (seed % 3), 0.0, confusion)
            if confusion.sum() > 0:
                value = build(name, size)(confusion).item()
                assert case.low - 1e-9 <= value <= case.high + 1e-9


@pytest.mark.parametrize("name", NAMES)
def test_the_table_of_names_states_the_range_of_the_metric(name):
    metric, case = build(name, 2), METRICS[name]
    if name == "expected_cost":
        assert (metric.low, metric.high) == (-math.inf, math.inf)
        assert not metric.higher_is_better
    else:
        assert (metric.low, metric.high) == (case.low, case.high)
        assert metric.higher_is_better
    assert metric.name == name
    assert metric.formula


@pytest.mark.parametrize("name", NAMES)
def test_a_perfect_prediction_gives_the_best_value(name):
    for size in sizes_for(name, 2, 4, 9):
        confusion = torch.diag(torch.rand(size, dtype=torch.float64) + 0.1)
        assert build(name, size)(confusion).item() == pytest.approx(METRICS[name].best)
        if size > 2:
            confusion[-1, -1] = 0
            assert build(name, size)(confusion).item() == pytest.approx(METRICS[name].best)


@pytest.mark.parametrize("name", NAMES)
def test_an_error_makes_the_metric_worse(name):
    for size in sizes_for(name, 2, 5):
        perfect = torch.diag(torch.rand(size, dtype=torch.float64) + 0.5)
        wrong = perfect.clone()
        wrong[0, 1] += 0.2
        wrong[1, 0] += 0.2
        metric = build(name, size)
        worse = metric(wrong) < metric(perfect)
        assert worse.item() is metric.higher_is_better


@pytest.mark.parametrize("name", NAMES)
def test_the_gradient_is_that_of_finite_differences(name):
    for size in sizes_for(name, 2, 4):
        confusion = (random_confusion(size) + 0.05).requires_grad_()
        assert torch.autograd.gradcheck(build(name, size), (confusion,))


@pytest.mark.parametrize("name", ["f1_macro", "matthews_corrcoef", "cohen_kappa", "geometric_mean"])
def test_the_second_derivative_is_that_of_finite_differences(name):
    confusion = (random_confusion(3) + 0.05).requires_grad_()
    assert torch.autograd.gradgradcheck(build(name, 3), (confusion,))


DEGENERATE = {
    "nothing": torch.zeros(3, 3),
    "one right sample": torch.diag(torch.tensor([1.0, 0.0, 0.0])),
    "one wrong sample": torch.tensor([[0.0, 1.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]),
    "all predicted as one": torch.tensor([[5.0, 0.0, 0.0], [3.0, 0.0, 0.0], [2.0, 0.0, 0.0]]),
    "one true class": torch.tensor([[5.0, 3.0, 1.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]),
    "all wrong": torch.tensor([[0.0, 5.0, 0.0], [0.0, 0.0, 2.0], [3.0, 0.0, 0.0]]),
    "all right": torch.diag(torch.tensor([5.0, 3.0, 1.0])),
    "tiny weights": torch.tensor([[2e-30, 1e-30, 0.0], [0.0, 3e-30, 0.0], [1e-30, 0.0, 1e-30]]),
    "huge weights": torch.tensor([[2e18, 1e18, 0.0], [0.0, 3e18, 0.0], [1e18, 0.0, 1e18]]),
}


@pytest.mark.parametrize("kind", DEGENERATE)
@pytest.mark.parametrize("name", NAMES)
def test_a_degenerate_matrix_has_a_finite_value_in_range_and_a_finite_gradient(name, kind):
    (size,) = sizes_for(name, 3)
    confusion = DEGENERATE[kind][:size, :size].clone().requires_grad_()
    value = build(name, size)(confusion)
    assert METRICS[name].low - 1e-6 <= value.item() <= METRICS[name].high + 1e-6
    (gradient,) = torch.autograd.grad(value, confusion)
    assert torch.isfinite(gradient).all()


def test_f_beta_is_zero_when_no_positive_is_found():
    confusion = torch.tensor([[7.0, 1.0], [3.0, 0.0]])
    for beta in (0.5, 1.0, 2.0):
        assert ew.metrics.f_beta(confusion, beta, "binary").item() == 0


def test_beta_above_one_favours_recall_and_below_one_precision():
    eager, cautious = (
        torch.tensor([[5.0, 5.0], [0.0, 5.0]]),
        torch.tensor([[10.0, 0.0], [2.5, 2.5]]),
    )
    recall_first = [ew.metrics.f_beta(c, 3.0, "binary").item() for c in (eager, cautious)]
    precision_first = [ew.metrics.f_beta(c, 1 / 3, "binary").item() for c in (eager, cautious)]
    assert recall_first[0] > recall_first[1]
    assert precision_first[0] < precision_first[1]


ABSENT = {
    # Class 2 has no true sample and takes one prediction; class 3 has nothing at all.
    "skip": lambda f1: (f1[0] + f1[1]) / 2,
    "observed": lambda f1: (f1[0] + f1[1] + 0) / 3,
    "zero": lambda f1: (f1[0] + f1[1] + 0 + 0) / 4,
    "one": lambda f1: (f1[0] + f1[1] + 1 + 1) / 4,
}


@pytest.mark.parametrize("policy", sorted(ABSENT))
def test_each_policy_for_absent_classes_averages_over_its_own_set(policy):
    confusion = torch.tensor([[6.0, 1, 1, 0], [2, 6, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]])
    f1 = [2 * 6 / (2 * 6 + 2 + 2), 2 * 6 / (2 * 6 + 1 + 2)]
    ours = ew.metrics.f1(confusion, absent=policy).item()
    assert ours == pytest.approx(ABSENT[policy](f1))


@pytest.mark.parametrize("policy", sorted(ABSENT))
def test_without_absent_classes_all_policies_agree(policy):
    confusion = random_confusion(4)
    for name in NAMES:
        metric = build(name, 4)
        if metric.per_class and not METRICS[name].two_classes_only:
            chosen = metric.with_options(absent=policy)
            torch.testing.assert_close(chosen(confusion), metric(confusion))


def test_the_metric_of_summed_tables_is_not_the_mean_of_metrics():
    # The reason why tables, not losses, add up over batches and processes.
    first, second = random_confusion(3, seed=1), random_confusion(3, seed=2)
    f1 = ew.metrics.get("f1_macro")
    assert not torch.allclose(f1(first + second), (f1(first) + f1(second)) / 2)


def test_multilabel_columns_are_separate_problems():
    counts = Counts(*torch.rand(4, 3, dtype=torch.float64), exclusive=False)
    singles = [Counts(*(row[k : k + 1] for row in counts[:4]), exclusive=False) for k in range(3)]
    for name in (
        "accuracy",
        "balanced_accuracy",
        "matthews_corrcoef",
        "cohen_kappa",
        "geometric_mean",
    ):
        metric = ew.metrics.get(name)
        means = torch.stack([metric(single) for single in singles])
        # Accuracy is averaged by mass; the others are averaged over labels.
        weights = (
            torch.stack([sum(s[:4]).sum() for s in singles])
            if name == "accuracy"
            else torch.ones(3)
        )
        torch.testing.assert_close(metric(counts), (means * weights).sum() / weights.sum())


def test_a_matrix_of_counts_is_told_apart_from_labels_by_the_exclusive_mark():
    table = torch.tensor([[8.0, 2.0], [1.0, 4.0]])
    exclusive = counts_from_confusion(table)
    labels = exclusive._replace(exclusive=False)
    assert ew.metrics.accuracy(exclusive).item() == pytest.approx(12 / 15)
    assert ew.metrics.accuracy(labels).item() == pytest.approx(12 / 15)
    three = counts_from_confusion(random_confusion(3))
    assert not np.isclose(
        ew.metrics.accuracy(three), ew.metrics.accuracy(three._replace(exclusive=False))
    )
