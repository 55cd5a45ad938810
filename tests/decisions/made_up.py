"""Rows whose true probabilities are known, because the labels are drawn from them."""

from __future__ import annotations

import re

import pytest
import torch


def made_up(num_rows: int, num_classes: int, seed: int = 0, tail: float = 1.0, prior=None):
    """Exact posterior probabilities of Gaussian classes under a long-tailed prior, and labels."""
    generator = torch.Generator().manual_seed(seed)
    if prior is None:
        prior = torch.softmax(-tail * torch.arange(num_classes, dtype=torch.float64), 0)
    prior = torch.as_tensor(prior, dtype=torch.float64)
    targets = torch.multinomial(prior, num_rows, replacement=True, generator=generator)
    points = torch.randn(num_rows, num_classes, generator=generator, dtype=torch.float64)
    points[torch.arange(num_rows), targets] += 1.5
    # log N(x; 1.5 e_i, 1) differs between classes by 1.5 x_i alone.
    return (1.5 * points + prior.log()).softmax(1), targets


def table_of(targets, decisions, num_classes: int, width: int | None = None):
    """Confusion counts; the last column of a wider table holds the rows left undecided."""
    width = width or num_classes
    table = torch.zeros(num_classes, width, dtype=torch.float64)
    columns = torch.as_tensor(decisions).clone()
    columns[columns < 0] = num_classes
    ones = torch.ones(len(targets), dtype=torch.float64)
    table.index_put_((torch.as_tensor(targets), columns), ones, accumulate=True)
    return table


def assert_sentence(provoke, error: type[Exception], message: str) -> None:
    """``provoke()`` raises ``error`` in the library's common sentence, with ``message`` in it."""
    with pytest.raises(error, match=message) as caught:
        provoke()
    assert re.search(r"^.+ of .+ must be .+; got .+\.", str(caught.value), re.DOTALL)
