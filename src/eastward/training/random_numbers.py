"""Share torch's global generator, which dropout and initial weights use, between threads."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch

__all__ = ["seeded"]

# Two fits in two threads would draw from one generator in an order that cannot be repeated.
_TURN = threading.RLock()


@contextmanager
def seeded(seed: int | None = None) -> Iterator[None]:
    """Seed torch's generator inside a context (None: keep it), and restore its state afterwards.

    Examples
    --------
    >>> _ = torch.manual_seed(0)
    >>> with seeded(7):
    ...     first = torch.rand(1)
    >>> with seeded(7):
    ...     again = torch.rand(1)
    >>> torch.equal(first, again)
    True
    """
    with _TURN, torch.random.fork_rng(devices=[]):
        if seed is not None:
            torch.manual_seed(seed)
        yield
