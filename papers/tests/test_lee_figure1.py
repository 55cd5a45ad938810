"""Lee's Figure 1: the curves are those of the paper's formulas."""

from __future__ import annotations

import math

import pytest

from papers.experiments.terms import terms


@pytest.mark.parametrize("q", [0.01, 0.3, 0.5, 0.9])
@pytest.mark.parametrize(
    ("name", "positive", "negative"),
    [
        ("cross-entropy", lambda q: -math.log(1 - q), lambda q: -math.log(1 - q)),
        ("mean absolute error", lambda q: q, lambda q: q),
        ("surrogate F1, p = 0.5", lambda q: -math.log(1 - q), lambda q: math.log(1 + q)),
    ],
)
def test_the_terms_are_the_papers(name, positive, negative, q):
    assert terms(name, q) == (pytest.approx(positive(q)), pytest.approx(negative(q)))
