"""Share the rows of a batch between as many threads as ``torch.get_num_threads()`` says.

Python's own threads are enough, because numba and NumPy release the interpreter's lock. numba's threading layers must
not be entered from two threads at once, or after a fork.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import torch

__all__ = ["LEAST_TO_SHARE", "SHARE_OF_A_THREAD", "parts_of", "run_in_threads"]

# Elements of work that are worth a thread of their own; for fewer, waking the thread takes longer than the arithmetic.
SHARE_OF_A_THREAD = 524_288
LEAST_TO_SHARE = 2 * SHARE_OF_A_THREAD


def parts_of(rows: int, elements: int) -> list[tuple[int, int]]:
    """Split rows between threads; small batches stay in one part."""
    number = max(1, min(torch.get_num_threads(), elements // SHARE_OF_A_THREAD, rows))
    edges = [rows * part // number for part in range(number + 1)]
    return list(pairwise(edges))


def run_in_threads(work: Callable[..., Any], parts: list[tuple[Any, ...]]) -> list[Any]:
    """Run ``work(*part)`` in threads, and return the results in the order of the parts."""
    if len(parts) == 1:
        return [work(*parts[0])]
    others = [_threads(os.getpid(), len(parts)).submit(work, *part) for part in parts[1:]]
    return [work(*parts[0]), *(other.result() for other in others)]


@functools.lru_cache(maxsize=1)
def _threads(process: int, number: int) -> ThreadPoolExecutor:  # noqa: ARG001 - a fork inherits no threads
    return ThreadPoolExecutor(number, thread_name_prefix="eastward")
