"""The numbers of a comparison against textbook formulas and scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn import metrics as reference

from eastward.comparison.splits import split_seed, stratified_split
from eastward.comparison.statistics import (
    average_ranks,
    corrected_mean,
    holm,
    wins_ties_losses,
)
from eastward.decisions.calibration import brier_score, expected_calibration_error, log_loss


def test_without_shared_rows_the_interval_is_students(rng):
    values = rng.normal(0.3, 1, size=12)
    result = corrected_mean(values, test_ratio=0.0)
    plain = stats.ttest_1samp(values, 0, alternative="greater")
    assert result.probability == pytest.approx(1 - plain.pvalue)
    expected = stats.ttest_1samp(values, 0).confidence_interval(0.95)
    assert [result.low, result.high] == pytest.approx([expected.low, expected.high])


def test_shared_rows_widen_the_interval_by_the_factor_of_nadeau_and_bengio(rng):
    values = rng.normal(size=10)
    plain, corrected = corrected_mean(values, 0.0), corrected_mean(values, 0.25)
    factor = np.sqrt((1 / 10 + 0.25) / (1 / 10))
    assert corrected.high - corrected.mean == pytest.approx(factor * (plain.high - plain.mean))
    assert abs(corrected.probability - 0.5) < abs(plain.probability - 0.5)


@pytest.mark.parametrize(("value", "probability"), [(0.0, 0.5), (0.1, 1.0), (-0.1, 0.0)])
def test_splits_that_agree_completely_leave_no_doubt(value, probability):
    result = corrected_mean(np.full(5, value), 0.25)
    assert result == (pytest.approx(value), pytest.approx(value), pytest.approx(value), probability)


def test_the_correction_keeps_its_promise_on_overlapping_splits():
    """On labels without any signal, splits of one table share rows: the 95 % interval must cover zero often enough."""
    rng = np.random.default_rng(0)
    covered, naive = 0, 0
    for _ in range(200):
        gains = rng.normal(size=200)  # what a method gains on each row; the truth is zero
        splits = [gains[stratified_split(np.zeros(200, int), 0.2, s)[1]].mean() for s in range(10)]
        values = np.array(splits)
        wide, narrow = corrected_mean(values, 0.25), corrected_mean(values, 0.0)
        covered += wide.low <= 0 <= wide.high
        naive += narrow.low <= 0 <= narrow.high
    assert covered >= 0.93 * 200
    assert naive < 0.85 * 200


def test_holm_adjusts_as_by_hand():
    assert holm(np.array([0.01, 0.04, 0.03, 0.005])) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm(np.array([0.6, 0.9])).max() <= 1
    assert holm(np.array([])).shape == (0,)


def test_failures_rank_last_and_equals_share_their_ranks():
    ranks = average_ranks(np.array([[1.0, 1.0], [1.0, 0.0], [np.nan, np.nan]]))
    assert ranks.tolist() == [1.25, 1.75, 3.0]


def test_wins_and_losses_need_more_than_the_margin():
    gains = np.array([0.005, 0.0051, -0.005, -0.2])
    assert wins_ties_losses(gains, 0.005) == (1, 2, 1)


@given(
    counts=st.lists(st.integers(1, 40), min_size=2, max_size=6),
    test_size=st.floats(0.05, 0.9),
    seed=st.integers(0, 1000),
)
def test_splits_are_partitions_with_every_class_on_both_sides(counts, test_size, seed):
    codes = np.repeat(np.arange(len(counts)), counts)
    train, test = stratified_split(codes, test_size, seed)
    assert np.array_equal(np.sort(np.concatenate([train, test])), np.arange(len(codes)))
    for code, count in enumerate(counts):
        held = int((codes[test] == code).sum())
        assert (1 <= held <= count - 1) if count >= 2 else held == 0
        assert abs(held - test_size * count) <= 1


def test_splits_follow_their_seed_alone():
    codes = np.repeat([0, 1], [70, 30])
    assert np.array_equal(stratified_split(codes, 0.2, 5)[1], stratified_split(codes, 0.2, 5)[1])
    tests = {tuple(stratified_split(codes, 0.2, split_seed(0, s))[1]) for s in range(20)}
    assert len(tests) == 20
    assert split_seed(0, 1) != split_seed(1, 0)


@pytest.mark.parametrize("classes", [2, 4])
def test_log_loss_and_brier_are_scikit_learns(rng, classes):
    probabilities = rng.dirichlet(np.ones(classes), size=50)
    probabilities[0] = np.eye(classes)[0]
    targets, weight = rng.integers(classes, size=50), rng.random(50)
    labels = list(range(classes))
    expected = reference.log_loss(targets, probabilities, labels=labels, sample_weight=weight)
    assert log_loss(probabilities, targets, weight) == pytest.approx(expected)
    given = probabilities[:, 1] if classes == 2 else probabilities
    options = {"sample_weight": weight, "labels": labels}
    expected = reference.brier_score_loss(targets, given, **options)
    assert brier_score(probabilities, targets, weight) == pytest.approx(expected)


def test_calibration_error_is_the_mean_gap_of_bins():
    confidence = np.array([0.95, 0.95, 0.95, 0.55, 0.55])
    probabilities = np.stack([1 - confidence, confidence], axis=1)
    targets = np.array([1, 1, 0, 1, 0])
    gaps = 3 * abs(2 / 3 - 0.95) + 2 * abs(1 / 2 - 0.55)
    measured = expected_calibration_error(probabilities, targets, np.ones(5))
    assert measured == pytest.approx(gaps / 5)
    sure = np.array([[0.0, 1.0]])
    assert expected_calibration_error(sure, np.array([1]), np.ones(1)) == 0
    assert expected_calibration_error(sure, np.array([0]), np.ones(1)) == 1
