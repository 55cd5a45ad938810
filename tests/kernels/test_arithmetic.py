"""The small functions inside the compiled kernels, against NumPy in double precision."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("numba", reason="numba is not installed")

from numba import njit

from eastward.kernels.arithmetic import (
    FINE,
    MASKED,
    NOT_FINITE,
    exp_of_negative,
    largest,
    what_is_wrong,
)


@njit
def exponentials(numbers):
    result = np.empty_like(numbers)
    for i in range(numbers.size):
        result[i] = exp_of_negative(numbers[i])
    return result


@njit
def largest_of(numbers):
    return largest(numbers)


@njit
def wrong_with(numbers):
    return what_is_wrong(numbers)


def test_the_exponential_is_as_exact_as_it_says():
    x = -np.geomspace(1e-6, 86.9, 20_001).astype(np.float32)
    wrong = np.abs(exponentials(x) / np.exp(x.astype(np.float64)) - 1)
    assert (wrong <= 2e-7 + 8e-8 * np.abs(x)).all()


def test_the_exponential_of_zero_is_one_and_far_below_it_is_zero():
    x = np.array([0.0, -0.0, -87.5, -1e30], np.float32)
    assert exponentials(x).tolist() == [1.0, 1.0, 0.0, 0.0]


@pytest.mark.parametrize("size", [1, 7, 64, 1000])
def test_the_largest_number_is_found_whatever_the_signs(size):
    numbers = np.random.default_rng(size).normal(size=size).astype(np.float32)
    for given in (
        numbers,
        -np.abs(numbers),
        np.zeros_like(numbers),
        numbers * 1e30,
        np.full_like(numbers, 3e38),
    ):
        assert largest_of(given) == (given.max(), FINE)


@pytest.mark.parametrize("strange", [np.nan, np.inf, -np.inf, -np.nan])
def test_numbers_that_are_not_finite_are_seen(strange):
    numbers = np.arange(100, dtype=np.float32)
    numbers[37] = strange
    assert wrong_with(numbers) == (MASKED if strange == -np.inf else NOT_FINITE)


def test_a_row_without_any_class_left_is_not_finite():
    assert wrong_with(np.full(5, -np.inf, np.float32)) == NOT_FINITE
