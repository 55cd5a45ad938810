"""Rows in which classes tie, on a CPU without a compiler: what falls to a place is shared by those who hold it.

A longer way than that of :mod:`eastward.kernels.eager_passes`, for the few rows that need it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from eastward.kernels.eager_rows import (
    BUFFERS,
    NARROW,
    Bends,
    Rows,
    gradient_of_rows,
    powers_of,
    rows_of,
    sums_of_rows,
)

__all__ = ["Tied"]

# Elements that are worked on at once.
CHUNK = 262_144


class Tied(NamedTuple):
    """Some rows of a batch."""

    logits: np.ndarray
    labels: np.ndarray
    weights: np.ndarray | None
    bends: Bends
    places: np.ndarray

    def sums(self) -> np.ndarray:
        """Right and predicted ``(2, C)`` of these rows."""
        size = self.logits.shape[1]
        total = np.zeros((2, size))
        for at in self._parts():
            rows, axis, _ = self._rows(at)
            total += sums_of_rows(rows, self.labels[at], self._mass(at), axis, size)[:2]
        return total

    def fill(self, gradient: np.ndarray, slopes: np.ndarray, detached: bool) -> None:
        """Write their gradient, given slopes ``(2, C)`` by right and predicted."""
        for at in self._parts():
            rows, axis, buffers = self._rows(at)
            given = (rows, self.labels[at], self._mass(at), axis, self.bends, slopes, detached)
            found = gradient_of_rows(*given, buffers)
            gradient[at] = found.T if axis == 0 else found

    def _parts(self) -> Iterator[np.ndarray]:
        step = max(1, CHUNK // self.logits.shape[1])
        for begin in range(0, len(self.places), step):
            yield self.places[begin : begin + step]

    def _mass(self, at: np.ndarray) -> np.ndarray | None:
        return None if self.weights is None else self.weights[at]

    def _rows(self, at: np.ndarray) -> tuple[Rows, int, np.ndarray]:
        logits = self.logits[at]
        axis = 0 if logits.shape[1] <= NARROW else 1
        shape = logits.shape[::-1] if axis == 0 else logits.shape
        buffers = np.empty((BUFFERS, *shape), np.float32)
        powers = powers_of(logits, axis, buffers[4])
        return rows_of(powers, self.labels[at], axis, self.bends, buffers), axis, buffers
