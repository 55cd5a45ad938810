"""At one-hot memberships every metric is the one that people already use."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from metric_table import METRICS, OF_ONE_CLASS, build, numpy_table, one_hot_confusion, sizes_for
from sklearn import metrics as sk

import eastward as ew
from eastward.confusion import counts_from_confusion

AVERAGES = ("macro", "micro", "weighted", "none")
SCORES = {
    "precision": sk.precision_score,
    "recall": sk.recall_score,
    "f1": sk.f1_score,
    "jaccard": sk.jaccard_score,
}


def random_labels(seed: int, num_classes: int, rows: int = 120):
    """Labels, predictions right about half the time, weights; some classes absent from one or both."""
    generator = np.random.default_rng(seed)
    in_truth = generator.random(num_classes) < 0.8
    in_truth[:2] = True
    in_prediction = generator.random(num_classes) < 0.8
    in_prediction[:2] = True
    truth = generator.choice(np.flatnonzero(in_truth), rows)
    truth[:2] = 0, 1
    guess = generator.choice(np.flatnonzero(in_prediction), rows)
    predicted = np.where(generator.random(rows) < 0.5, truth, guess)
    return truth, predicted, generator.random(rows) + 0.1


def test_no_registered_metric_was_forgotten():
    assert set(METRICS) == {*ew.metrics.names(), *OF_ONE_CLASS}


@pytest.mark.parametrize("weighted", [False, True], ids=["unweighted", "weighted"])
@pytest.mark.parametrize("name", sorted(METRICS))
def test_one_hot_memberships_reproduce_the_reference(name, weighted):
    for num_classes in sizes_for(name, 2, 3, 7, 50):
        for seed in range(5):
            truth, predicted, weight = random_labels(seed, num_classes)
            weight = weight if weighted else np.ones_like(weight)
            confusion = one_hot_confusion(truth, predicted, weight, num_classes)
            ours = build(name, num_classes)(confusion).item()
            expected = METRICS[name].reference(truth, predicted, weight, num_classes)
            assert ours == pytest.approx(expected, abs=1e-6), (num_classes, seed)


@settings(max_examples=25)
@given(st.integers(2, 50), st.integers(0, 2**32 - 1), st.integers(5, 200))
def test_any_random_matrix_reproduces_every_reference(num_classes, seed, rows):
    truth, predicted, weight = random_labels(seed, num_classes, rows)
    confusion = one_hot_confusion(truth, predicted, weight, num_classes)
    for name, case in METRICS.items():
        if case.two_classes_only and num_classes != 2:
            continue
        ours = build(name, num_classes)(confusion).item()
        expected = case.reference(truth, predicted, weight, num_classes)
        assert ours == pytest.approx(expected, abs=1e-6), name


@pytest.mark.parametrize("average", AVERAGES)
@pytest.mark.parametrize("name", sorted(SCORES))
def test_every_average_is_scikit_learns(name, average):
    for num_classes, seed in [(2, 0), (3, 1), (12, 2)]:
        truth, predicted, weight = random_labels(seed, num_classes)
        confusion = one_hot_confusion(truth, predicted, weight, num_classes)
        ours = getattr(ew.metrics, name)(confusion, average)
        expected = SCORES[name](
            truth,
            predicted,
            labels=np.arange(num_classes) if average == "none" else None,
            average=None if average == "none" else average,
            sample_weight=weight,
            zero_division=0,
        )
        np.testing.assert_allclose(ours.numpy(), expected, atol=1e-6)


@pytest.mark.parametrize("beta", [0.25, 0.5, 2, 5.0])
@pytest.mark.parametrize("average", [*AVERAGES, "binary"])
def test_f_beta_is_scikit_learns_for_any_beta(beta, average):
    num_classes = 2 if average == "binary" else 6
    truth, predicted, weight = random_labels(3, num_classes)
    confusion = one_hot_confusion(truth, predicted, weight, num_classes)
    expected = sk.fbeta_score(
        truth,
        predicted,
        beta=beta,
        labels=np.arange(num_classes) if average == "none" else None,
        average=None if average == "none" else average,
        sample_weight=weight,
        zero_division=0,
    )
    ours = ew.metrics.f_beta(confusion, beta, average)
    np.testing.assert_allclose(ours.numpy(), expected, atol=1e-6)
    if average in ("macro", "binary"):
        name = f"f{beta:g}" + ("_macro" if average == "macro" else "")
        assert ew.metrics.get(name)(confusion).item() == pytest.approx(expected)


def test_f_beta_with_a_beta_for_each_class_scores_each_class_with_its_own():
    truth, predicted, weight = random_labels(4, 4)
    confusion = one_hot_confusion(truth, predicted, weight, 4)
    betas = [0.5, 1.0, 2.0, 3.0]
    expected = [
        sk.fbeta_score(
            truth,
            predicted,
            beta=b,
            labels=[k],
            average="macro",
            sample_weight=weight,
            zero_division=0,
        )
        for k, b in enumerate(betas)
    ]
    ours = ew.metrics.f_beta(confusion, betas, average="none")
    np.testing.assert_allclose(ours.numpy(), expected, atol=1e-6)
    named = ew.metrics.f_beta(confusion, {0: 0.5, 2: 2.0, 3: 3.0}, average="none")
    torch.testing.assert_close(named, ours)


def test_the_adjusted_balanced_accuracy_of_two_classes_is_informedness():
    truth, predicted, weight = random_labels(5, 2)
    confusion = one_hot_confusion(truth, predicted, weight, 2)
    expected = sk.balanced_accuracy_score(truth, predicted, sample_weight=weight, adjusted=True)
    for average in ("macro", "binary"):
        ours = ew.metrics.informedness(confusion, average).item()
        assert ours == pytest.approx(expected, abs=1e-6)


def test_markedness_and_informedness_multiply_to_the_squared_correlation_of_two_classes():
    truth, predicted, weight = random_labels(6, 2)
    confusion = one_hot_confusion(truth, predicted, weight, 2)
    product = ew.metrics.markedness(confusion) * ew.metrics.informedness(confusion)
    expected = sk.matthews_corrcoef(truth, predicted, sample_weight=weight) ** 2
    assert product.item() == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("name", [name for name in METRICS if not build(name, 2).needs_matrix])
def test_counts_give_the_value_of_the_matrix(name):
    (size,) = sizes_for(name, 5)
    metric, confusion = build(name, size), torch.rand(size, size, dtype=torch.float64)
    torch.testing.assert_close(metric(counts_from_confusion(confusion)), metric(confusion))


@pytest.mark.parametrize("name", [name for name in METRICS if build(name, 2).needs_matrix])
def test_a_metric_that_needs_the_matrix_depends_on_more_than_its_counts(name):
    confusion = torch.rand(4, 4, dtype=torch.float64) + 1
    moved = confusion.clone()
    # Two errors between neighbours become two across a class; diagonal and margins stay.
    moved[[0, 3], [1, 2]] -= 0.5
    moved[[0, 3], [2, 1]] += 0.5
    metric = build(name, 4)
    torch.testing.assert_close(
        counts_from_confusion(moved).stack(), counts_from_confusion(confusion).stack()
    )
    assert not torch.allclose(metric(moved), metric(confusion))


@pytest.mark.parametrize("average", AVERAGES)
@pytest.mark.parametrize("name", sorted(SCORES))
def test_multilabel_counts_give_scikit_learns_averages(name, average):
    generator = np.random.default_rng(7)
    truth, predicted = generator.integers(2, size=(2, 60, 5))
    truth[:, 3] = 0
    weight = generator.random(60)
    counts = ew.multilabel_counts(
        torch.from_numpy(predicted).double(),
        torch.from_numpy(truth),
        sample_weight=torch.from_numpy(weight),
    )
    expected = SCORES[name](
        truth,
        predicted,
        average=None if average == "none" else average,
        sample_weight=weight,
        zero_division=0,
    )
    ours = getattr(ew.metrics, name)(counts, average)
    np.testing.assert_allclose(ours.numpy(), expected, atol=1e-6)


def test_multilabel_accuracy_is_one_minus_the_hamming_loss():
    truth, predicted = np.random.default_rng(8).integers(2, size=(2, 60, 5))
    counts = ew.multilabel_counts(torch.from_numpy(predicted).double(), torch.from_numpy(truth))
    expected = 1 - sk.hamming_loss(truth, predicted)
    assert ew.metrics.accuracy(counts).item() == pytest.approx(expected)


MEAN_OVER_LABELS = {
    "balanced_accuracy": sk.balanced_accuracy_score,
    "matthews_corrcoef": sk.matthews_corrcoef,
    "cohen_kappa": sk.cohen_kappa_score,
}


@pytest.mark.parametrize("name", sorted(MEAN_OVER_LABELS))
def test_multilabel_agreement_is_the_mean_over_labels(name):
    truth, predicted = np.random.default_rng(9).integers(2, size=(2, 60, 4))
    counts = ew.multilabel_counts(torch.from_numpy(predicted).double(), torch.from_numpy(truth))
    score = MEAN_OVER_LABELS[name]
    expected = np.mean([score(truth[:, k], predicted[:, k]) for k in range(4)])
    assert getattr(ew.metrics, name)(counts).item() == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("case", ["right", "wrong", "half"])
def test_truth_of_one_class_only_gives_scikit_learns_values(case):
    truth = np.zeros(10, dtype=int)
    predicted = {"right": truth, "wrong": truth + 1, "half": np.arange(10) % 2}[case]
    confusion = one_hot_confusion(truth, predicted, np.ones(10), 2)
    for name in ("accuracy", "f1", "f1_macro", "precision", "recall_macro", "jaccard_weighted"):
        expected = METRICS[name].reference(truth, predicted, np.ones(10), 2)
        assert ew.metrics.get(name)(confusion).item() == pytest.approx(expected), name
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = sk.matthews_corrcoef(truth, predicted)
    assert ew.metrics.matthews_corrcoef(confusion).item() == pytest.approx(expected)


def test_arrays_and_integer_matrices_are_welcome():
    truth, predicted, _ = random_labels(0, 3)
    table = numpy_table(truth, predicted, None, 3).astype(int)
    expected = sk.f1_score(truth, predicted, average="macro", zero_division=0)
    assert ew.metrics.f1(table).item() == pytest.approx(expected)
    assert ew.metrics.f1(torch.from_numpy(table)).item() == pytest.approx(expected)
