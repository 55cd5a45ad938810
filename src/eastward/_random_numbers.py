"""Share torch's global generator, which dropout and initial weights use, between threads."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch

__all__ = ["seeded", "turn"]

# Two fits in two threads would draw from one generator in an order that cannot be repeated.
_TURN = threading.RLock()


def _new_turn() -> None:
    """Release the lock after a fork: the thread that held it does not exist in the new process."""
    global _TURN  # noqa: PLW0603  # one lock for the process, as there is one generator
    _TURN = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_new_turn)


@contextmanager
def turn() -> Iterator[None]:
    """Keep other threads of this library from using torch's generator inside a context."""
    with _TURN:
        yield


@contextmanager
def seeded(seed: int | None = None, *, cuda: Sequence[torch.device] = ()) -> Iterator[None]:
    """Seed torch's generator inside a context (None: keep it), and restore its state afterwards.

    ``cuda`` names the devices whose generators are restored as well.

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
    with turn(), torch.random.fork_rng(devices=cuda):
        if seed is not None:
            torch.manual_seed(seed)
        yield
