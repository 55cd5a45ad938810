"""Verdicts that can be believed: noise is unclear, and only intervals decide."""

from __future__ import annotations

import re

import numpy as np
import pytest
from scipy import stats

from papers.experiments.figures import Figure
from papers.experiments.overview import overview
from papers.experiments.summary import pooled_claims
from papers.experiments.verdicts import Gap, claim_verdict, mean_gap, paired_gap, printed_gap, sides

HIGHER, LEVEL, LOWER = Gap(0.1, 0.08, 0.12), Gap(0.0, -0.01, 0.01), Gap(-0.1, -0.12, -0.08)
NOISY = Gap(0.05, -0.1, 0.2)


@pytest.mark.parametrize(
    ("theirs", "ours", "word"),
    [
        (HIGHER, HIGHER, "reproduced"),
        (HIGHER, LEVEL, "worse"),
        (HIGHER, LOWER, "worse"),
        (LEVEL, HIGHER, "better"),
        (LEVEL, LEVEL, "reproduced"),
        (LEVEL, LOWER, "worse"),
        (LOWER, HIGHER, "better"),
        (LOWER, LEVEL, "better"),
        (LOWER, LOWER, "reproduced"),
        # higher and within the margin: both sides may be said of it
        (HIGHER, Gap(0.01, 0.005, 0.015), "reproduced"),
        (LEVEL, Gap(0.01, 0.005, 0.015), "reproduced"),
        *((theirs, NOISY, "unclear") for theirs in (HIGHER, LEVEL, LOWER)),
        *((NOISY, ours, "unclear") for ours in (HIGHER, LEVEL, LOWER)),
        (HIGHER, None, "not run here"),
    ],
)
def test_a_verdict_is_a_table_of_two_sides(theirs, ours, word):
    assert claim_verdict("as printed", theirs, ours) == word


@pytest.mark.parametrize(
    ("expected", "ours", "word"),
    [
        ("open", HIGHER, "higher"),
        ("open", LEVEL, "level"),
        ("open", NOISY, "unclear"),
        ("open", None, "not run here"),
        ("higher", LEVEL, "worse"),
        ("lower", LOWER, "reproduced"),
        ("not lower", LEVEL, "reproduced"),
        ("not lower", HIGHER, "reproduced"),
        ("not lower", LOWER, "worse"),
        ("not lower", NOISY, "unclear"),
    ],
)
def test_claims_in_words_need_no_printed_figures(expected, ours, word):
    assert claim_verdict(expected, None, ours) == word


@pytest.mark.parametrize("theirs", [HIGHER, LEVEL, LOWER])
@pytest.mark.parametrize("trials", [3, 5, 10])
def test_noise_is_unclear(theirs, trials):
    rng = np.random.default_rng(0)
    words = []
    for _ in range(400):
        rows = [dict(enumerate(rng.normal(0.7, 0.04, trials))) for _ in range(2)]
        words.append(claim_verdict("as printed", theirs, paired_gap(*rows)))
    assert words.count("unclear") >= 0.95 * len(words)


@pytest.mark.parametrize("trials", [5, 10])
def test_a_real_difference_is_found(trials):
    rng = np.random.default_rng(1)
    found = 0
    for _ in range(200):
        split = rng.normal(0, 0.05, trials)  # what both rows share
        rows = [dict(enumerate(mean + split + rng.normal(0, 0.01, trials))) for mean in (0.75, 0.7)]
        found += claim_verdict("as printed", HIGHER, paired_gap(*rows)) == "reproduced"
    assert found >= 190


def test_only_trials_that_both_rows_have_are_compared():
    assert paired_gap({0: 0.5, 1: 0.6, 2: 0.7}, {1: 0.1, 2: 0.2, 3: 0.3}) is None
    gap = paired_gap({0: 0.9, 1: 0.6, 2: 0.7, 3: 0.5}, {1: 0.1, 2: 0.2, 3: 0.1})
    assert gap.pairs == 3
    assert gap.mean == pytest.approx((0.5 + 0.5 + 0.4) / 3)


def test_over_tables_the_interval_is_students():
    values = [0.01, 0.03, -0.01, 0.02, 0.0]
    gap = mean_gap(values)
    low, high = stats.t.interval(0.95, 4, np.mean(values), stats.sem(values))
    assert (gap.low, gap.high) == (pytest.approx(low), pytest.approx(high))
    assert mean_gap([0.1, 0.2]) is None


def test_claims_without_a_cell_are_counted_as_not_run():
    judged = "0 reproduced, 0 better, 0 worse, 0 unclear"
    assert re.search(rf"Of (\d+) claims, {judged}; \1 were not run here", overview({}))


def test_questions_are_pooled_within_a_kind_of_problem():
    def panel(kind, mean):
        ours = None if mean is None else {"mean": mean}
        return {"kind": kind, "claims": [{"method": "cooled", "rival": "fixed", "ours": ours}]}

    two = [panel("two classes", mean) for mean in (0.05, 0.06, 0.055, None)]
    several = [panel("several classes", mean) for mean in (-0.05, -0.06, -0.055)]
    rows = pooled_claims([*two, *several, panel("pictures", 0.1)])
    found = {row["kind"]: (row["verdict"], row["wins_ties_losses"]) for row in rows}
    assert found == {
        "two classes": ("higher", [3, 0, 0]),
        "several classes": ("lower", [0, 0, 3]),
        "pictures": ("not run here", [1, 0, 0]),
    }


@pytest.mark.parametrize(
    ("method", "rival", "words"),
    [
        (Figure(0.765, 0.01), Figure(0.755, 0.01), ("higher", "level")),  # EAST's central claim
        (Figure(0.750, 0.02), Figure(0.755, 0.01), ("level",)),
        (Figure(0.50, 0.33), Figure(0.62, 0.33), ()),  # the paper's own trials cannot tell
    ],
)
def test_printed_figures_have_intervals_too(method, rival, words):
    assert sides(printed_gap(method, rival)) == words
