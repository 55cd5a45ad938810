"""Methods that cannot win are not run on all splits, and the verdict hardly changes for it."""

from __future__ import annotations

import numpy as np
import pytest
from comparison_problems import Majority, blobs

from eastward import compare
from eastward.comparison.belief import Expected, Noise, believed_gain
from eastward.comparison.dropping import SPLITS_BETWEEN_LOOKS, beaten

SPLITS, MARGIN, NOISE = 8, 0.005, Noise(0.02**2, 6.0)
KNOWN = {name: Expected(-0.01, 0.03) for name in "abcdef"}


def final_choice(gains, *, drop: bool):
    """The method of the highest expected gain after all splits, and how many fits that took."""
    step = SPLITS_BETWEEN_LOOKS
    shown = {name: values[:step] for name, values in gains.items()}
    alive = set(gains)

    def pairs(one, other):
        others = np.zeros(SPLITS) if other == "base" else shown[other]
        size = min(len(shown[one]), len(others))
        known = KNOWN[one] if other == "base" else Expected(0.0, 0.042)
        return believed_gain(
            shown[one][:size] - others[:size], 0.25, MARGIN, expected=known, noise=NOISE
        )

    for begin in range(step, SPLITS, step):
        if drop:
            expected = {name: pairs(name, "base").expected for name in alive}
            alive -= set(beaten(expected, pairs, "base", MARGIN))
        shown |= {name: gains[name][: begin + step] for name in alive}
    expected = {"base": 0.0} | {name: pairs(name, "base").expected for name in gains}
    return max(expected, key=expected.get), sum(map(len, shown.values()))


def test_in_simulation_half_of_the_fits_are_saved_at_next_to_no_cost():
    rng = np.random.default_rng(0)
    losses, fits = [], []
    for _ in range(120):
        truth = {n: k.location + k.scale * rng.standard_t(3) for n, k in KNOWN.items()}
        noise = 0.02 * rng.normal(size=(len(KNOWN), SPLITS + 1))
        gains = {n: t + e[1:] + 0.5 * e[0] for (n, t), e in zip(truth.items(), noise, strict=True)}
        (all_fits, _), (few, count) = (final_choice(gains, drop=drop) for drop in (False, True))
        truth["base"] = 0.0
        losses.append(truth[all_fits] - truth[few])
        fits.append(count / (len(KNOWN) * SPLITS))
    assert np.mean(fits) < 0.6
    assert np.mean(losses) < 0.001


@pytest.mark.parametrize("thorough", [False, True])
@pytest.mark.slow
def test_a_method_without_a_chance_is_left_out_unless_all_are_asked_for(thorough):
    X, y = blobs(90)
    methods = [("nobody", Majority()), "logistic_regression", "random_forest"]
    seen = []
    result = compare(
        X,
        y,
        methods=methods,
        baseline="random_forest",
        n_splits=5,
        thorough=thorough,
        progress=seen.append,
    )
    rows = {row["name"]: row for row in result.methods}
    splits = rows["nobody"]["splits"]
    assert splits == 5 if thorough else splits < 5
    assert rows["random_forest"]["splits"] == 5
    assert seen[-1].done == seen[-1].total == len(result.cells)
    assert rows["nobody"]["rank"] == 3
    left = [line for line in result.verdict["detail"] if f"nobody ({splits})" in line]
    assert len(left) == (not thorough)


def test_a_comparison_that_goes_on_ends_as_one_that_was_never_stopped(tmp_path):
    X, y = blobs(90)
    options = {
        "methods": [("nobody", Majority()), "logistic_regression"],
        "baseline": "logistic_regression",
        "n_splits": 4,
    }
    whole = compare(X, y, **options)
    compare(X, y, **{**options, "n_splits": 3}, thorough=True, store=tmp_path)
    again = compare(X, y, **options, store=tmp_path)
    assert [(c["method"], c["split"], c["score"]) for c in again.cells] == [
        (c["method"], c["split"], c["score"]) for c in whole.cells
    ]
