"""PyTorch's own threads, for compiled kernels.

PyTorch's threads stay awake for a while after each operation, in case the next one needs them. Other threads on the
same cores would wait for them to fall asleep; these start within microseconds. They belong to the OpenMP library that
comes with PyTorch, whose entry points are looked up here. Where that is another library, or none, there is no team.
"""

from __future__ import annotations

import ctypes
import functools
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import torch

__all__ = ["Team", "team"]


class Team(NamedTuple):
    """Addresses of GNU OpenMP's functions, and the one that starts a job on all threads."""

    start: Callable[[int, int, int, int], None]
    barrier: int
    number: int
    own: int


@functools.cache
def team() -> Team | None:
    """The team, or None where PyTorch has no GNU OpenMP."""
    if not sys.platform.startswith("linux"):
        return None
    for path in sorted(Path(torch.__file__).parent.glob("lib/libgomp*.so*")):
        try:
            # Only the copy that PyTorch itself has loaded has its threads.
            library = ctypes.CDLL(str(path), mode=os.RTLD_NOLOAD)
        except OSError:
            continue
        return _entry_points(library)
    return None


def _entry_points(library: ctypes.CDLL) -> Team:
    start = library.GOMP_parallel
    start.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint]
    start.restype = None
    names = ("GOMP_barrier", "omp_get_num_threads", "omp_get_thread_num")
    addresses = [ctypes.cast(getattr(library, name), ctypes.c_void_p).value for name in names]
    barrier, number, own = (int(address or 0) for address in addresses)
    return Team(start, barrier, number, own)
