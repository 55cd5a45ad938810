"""Helpers that every module shares: checks of plain numbers, and torch's random numbers."""

from __future__ import annotations

import pytest
import torch

from eastward import _checks
from eastward._random_numbers import seeded


@pytest.mark.whole
@pytest.mark.parametrize(
    ("value", "error", "got"),
    [
        (True, TypeError, "an integer; got bool True"),
        (2.0, TypeError, "an integer; got float 2.0"),
        ("3", TypeError, "an integer; got str '3'"),
        (0, ValueError, ">= 1; got 0"),
        (5, ValueError, "<= 4; got 5"),
    ],
)
def test_what_is_no_whole_number_in_range_is_refused(value, error, got):
    with pytest.raises(error, match=f"size of box must be {got}"):
        _checks.whole_number("box", "size", value, at_least=1, at_most=4)


@pytest.mark.parametrize("value", [1, 4])
def test_the_ends_of_a_range_belong_to_it(value):
    assert _checks.whole_number("box", "size", value, at_least=1, at_most=4) == value


def test_a_seed_sets_the_numbers_inside_and_leaves_those_outside():
    expected = torch.rand(3, generator=torch.Generator().manual_seed(7))
    before = torch.get_rng_state()
    with seeded(7):
        assert torch.equal(torch.rand(3), expected)
    assert torch.equal(torch.get_rng_state(), before)
