"""The statistics of the quality benchmark against cases with known answers."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.quality import statistics  # the benchmarks are no installed package


def test_a_steady_gain_is_better_and_noise_within_the_margin_is_equal():
    rng = np.random.default_rng(0)
    assert statistics.bayesian_signed_rank(0.03 + 0.005 * rng.normal(size=30))[0] > 0.99
    assert statistics.bayesian_signed_rank(0.001 * rng.normal(size=30))[1] > 0.99
    assert statistics.bayesian_signed_rank(np.full(30, -0.02))[2] > 0.99


def test_probabilities_swap_when_the_methods_do():
    gains = np.random.default_rng(1).normal(0.004, 0.01, size=25)
    better, equal, worse = statistics.bayesian_signed_rank(gains)
    assert statistics.bayesian_signed_rank(-gains) == pytest.approx((worse, equal, better))
    assert better + equal + worse == pytest.approx(1)


def test_critical_differences_are_those_of_the_table():
    # Demšar (2006), table 5: q = 2.343 for 3 methods, 2.728 for 5.
    assert statistics.critical_difference(3, 10) == pytest.approx(
        2.343 * np.sqrt(12 / 60), abs=2e-3
    )
    assert statistics.critical_difference(5, 30) == pytest.approx(
        2.728 * np.sqrt(30 / 180), abs=2e-3
    )


def cell(method, name, split, score):
    return {"method": method, "set": name, "split": split, "metric": "f1", "score": score}


def test_differences_are_paired_by_split_before_they_are_averaged():
    cells = [cell("a", "x", 0, 0.9), cell("a", "x", 1, 0.5), cell("b", "x", 1, 0.4)]
    assert statistics.paired(cells, "f1", "a", "b").tolist() == pytest.approx([0.1])


def test_p_values_are_corrected_for_how_many_there_are():
    rng = np.random.default_rng(0)
    cells = []
    for name in "abcdefgh":
        best = rng.random()
        cells += [cell("ours", name, 0, best), cell("one", name, 0, best - 0.1 * rng.random())]
        cells += [cell("two", name, 0, best - 0.1 * rng.random())]
    one, two = statistics.versus_all(cells, "f1", "ours", ["one", "two"])
    assert one.p_value == pytest.approx(2 / 2**8)
    assert one.p_holm == pytest.approx(2 * one.p_value)
    assert (one.sets, one.losses, two.losses) == (8, 0, 0)
