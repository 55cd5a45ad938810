# mypy: ignore-errors
"""Compiled kernels for few classes and the dynamic threshold: blocks of samples, transposed.

Vectors run along samples, because a row of ten classes is too short to fill one. Nothing is kept for the backward
pass: the memory of the loss is its gradient. The formulas are those of :mod:`eastward.kernels.eager`; here a
class beyond the upper bend is simply chosen by a comparison.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from eastward.kernels.compiled_arithmetic import (
    BAD_LABEL,
    FAST,
    FINE,
    HALF,
    INFINITY,
    INLINE,
    MAGNITUDE,
    NOT_FINITE,
    ONE,
    TWO,
    ZERO,
    bits_of,
    exp_of_negative,
    place_of,
)

__all__ = ["narrow_gradient", "narrow_sums"]

BLOCK = 128
_SMALL = np.float32(1e-12)
_LOWEST, _NONE = np.float32(-np.inf), np.int32(0)


@njit(**INLINE)
def _load(logits: Any, start: Any, count: Any, block: Any, first: Any, second: Any) -> Any:
    """Transpose a block of rows, find their two largest logits; whether all are finite."""
    magnitude, size = _NONE, np.uint64(logits.shape[1])
    # Places are unsigned: those that might count from the end make no vectors.
    for j in range(np.uint64(count)):
        for c in range(size):
            block[c, j] = logits[np.uint64(start) + j, c]
    for j in range(count):
        first[j] = _LOWEST
        second[j] = _LOWEST
    for c in range(size):
        for j in range(count):
            magnitude = max(magnitude, bits_of(block[c, j]) & MAGNITUDE)
        for j in range(count):
            z, top = block[c, j], first[j]
            second[j] = max(second[j], min(top, z))
            first[j] = max(top, z)
    return magnitude < INFINITY


@njit(**INLINE)
def _places(
    labels: Any, weights: Any, ignored: Any, size: Any, start: Any, places: Any, masses: Any
) -> Any:
    """Labels of a block that may be indices, and their weights; whether all were."""
    known = True
    for j in range(places.shape[0]):
        given = weights[start + j] if weights.size else ONE
        places[j], masses[j], usable = place_of(labels[start + j], given, ignored, size)
        known = known and usable
    return known


@njit(**INLINE)
def _relative(count: Any, block: Any, first: Any, second: Any, total: Any) -> None:
    """Logits to u, in place; ``first`` becomes the largest u, ``total`` the sum of u."""
    for j in range(count):
        total[j] = ZERO
        second[j] = TWO / (ONE + exp_of_negative(second[j] - first[j]))
    for c in range(block.shape[0]):
        row = block[c]
        for j in range(count):
            u = exp_of_negative(row[j] - first[j]) * second[j]
            row[j] = u
            total[j] += u
    for j in range(count):
        first[j] = second[j]


@njit(**INLINE)
def _steps(count: Any, block: Any, constants: Any, last: Any, steps: Any, total: Any) -> None:
    """Fill ``steps`` with h, and add their sums to ``total``."""
    low, high, slope, middle, temperature = constants
    for c in range(block.shape[0]):
        row, step = block[c], steps[c]
        for j in range(count):
            u = row[j]
            h = slope * u if u < low else HALF + middle * (u - ONE)
            h = ONE - temperature + (u - high) * last[j] if u > high else h
            step[j] = h
            total[j] += h


@njit(**FAST)
def narrow_sums(
    logits: Any,
    labels: Any,
    weights: Any,
    ignored: Any,
    constants: Any,
    begin: Any,
    end: Any,
    sums: Any,
) -> Any:
    """Add the sums ``(3, C)`` of rows ``begin`` to ``end``; what was wrong."""
    size = logits.shape[1]
    high, temperature = constants[1], constants[4]
    block, steps = np.empty((size, BLOCK), np.float32), np.empty((size, BLOCK), np.float32)
    rows, places = np.empty((5, BLOCK), np.float32), np.empty(BLOCK, np.int64)
    first, second, total, share, masses = rows[0], rows[1], rows[2], rows[3], rows[4]
    for start in range(begin, end, BLOCK):
        count = min(BLOCK, end - start)
        if not _places(labels, weights, ignored, size, start, places[:count], masses):
            return BAD_LABEL
        if not _load(logits, start, count, block, first, second):
            return NOT_FINITE
        _relative(count, block, first, second, total)
        for j in range(count):
            second[j] = temperature / max(total[j] - high, _SMALL)
            share[j] = ZERO
        _steps(count, block, constants, second, steps, share)
        for j in range(count):
            share[j] = masses[j] / share[j]
        for j in range(count):
            label = places[j]
            sums[0, label] += steps[label, j] * share[j]
            sums[2, label] += masses[j]
        _add_masses(count, steps, share, sums[1])
    return FINE


@njit(**INLINE)
def _add_masses(count: Any, steps: Any, share: Any, sums: Any) -> None:
    for c in range(steps.shape[0]):
        step, mass = steps[c], ZERO
        for j in range(count):
            mass += step[j] * share[j]
        sums[c] += mass


@njit(**FAST)
def narrow_gradient(
    logits: Any,
    labels: Any,
    weights: Any,
    ignored: Any,
    constants: Any,
    begin: Any,
    end: Any,
    slopes: Any,
    detached: Any,
    gradient: Any,
) -> None:
    """Write the gradient of rows ``begin`` to ``end``, given slopes ``(2, C)`` by right and predicted."""
    size = logits.shape[1]
    low, high, slope, middle, temperature = constants
    block, steps = np.empty((size, BLOCK), np.float32), np.empty((size, BLOCK), np.float32)
    rows, places = np.empty((7, BLOCK), np.float32), np.empty(BLOCK, np.int64)
    first, second, total, mean, share, last = rows[0], rows[1], rows[2], rows[3], rows[4], rows[5]
    masses = rows[6]
    for start in range(begin, end, BLOCK):
        count = min(BLOCK, end - start)
        _places(labels, weights, ignored, size, start, places[:count], masses)
        _load(logits, start, count, block, first, second)
        _relative(count, block, first, second, total)
        for j in range(count):
            last[j] = temperature / max(total[j] - high, _SMALL)
            share[j] = ZERO
            mean[j] = ZERO
            second[j] = ZERO
        for c in range(size):
            row, pull = block[c], slopes[1, c]
            for j in range(count):
                u = row[j]
                h = slope * u if u < low else HALF + middle * (u - ONE)
                h = ONE - temperature + (u - high) * last[j] if u > high else h
                share[j] += h
                mean[j] += pull * h
        _runner_up(count, block, first, second)
        for j in range(count):
            label = places[j]
            u = block[label, j]
            h = slope * u if u < low else HALF + middle * (u - ONE)
            h = ONE - temperature + (u - high) * last[j] if u > high else h
            inverse = ONE / share[j]
            mean[j] = (mean[j] + slopes[0, label] * h) * inverse
            share[j] = inverse * masses[j]
        _pull(count, block, steps, slopes, constants, mean, share, last, places)
        _send(count, block, steps, first, second, total, last, constants, detached)
        for j in range(np.uint64(count)):
            for c in range(np.uint64(size)):
                gradient[np.uint64(start) + j, c] = steps[c, j]


@njit(**INLINE)
def _runner_up(count: Any, block: Any, first: Any, second: Any) -> None:
    for c in range(block.shape[0]):
        row = block[c]
        for j in range(count):
            u = row[j]
            second[j] = max(second[j], u if u < first[j] else ZERO)


@njit(**INLINE)
def _pull(
    count: Any,
    block: Any,
    steps: Any,
    slopes: Any,
    constants: Any,
    mean: Any,
    share: Any,
    last: Any,
    places: Any,
) -> None:
    """The derivative by u of every class, times u, as if threshold and total were constant."""
    low, high, slope, middle, _ = constants
    for c in range(block.shape[0]):
        row, out, by_predicted = block[c], steps[c], slopes[1, c]
        for j in range(count):
            u = row[j]
            steep = slope if u < low else middle
            steep = last[j] if u > high else steep
            out[j] = (by_predicted - mean[j]) * share[j] * steep * u
    for j in range(count):
        label = places[j]
        u = block[label, j]
        steep = slope if u < low else middle
        steep = last[j] if u > high else steep
        steps[label, j] += slopes[0, label] * share[j] * steep * u


@njit(**INLINE)
def _send(
    count: Any,
    block: Any,
    steps: Any,
    first: Any,
    second: Any,
    total: Any,
    last: Any,
    constants: Any,
    detached: Any,
) -> None:
    """Add what threshold and total, common to the classes of a row, send to each of them."""
    _, high, _, _, temperature = constants
    rows = np.zeros((4, BLOCK), np.float32)
    spread, through, ties, seconds = rows[0], rows[1], rows[2], rows[3]
    for c in range(block.shape[0]):
        row, out = block[c], steps[c]
        for j in range(count):
            u = row[j]
            spread[j] += out[j]
            through[j] += out[j] if u > high else ZERO
        for j in range(count):
            u = row[j]
            ties[j] += ONE if u >= first[j] else ZERO
            seconds[j] += ONE if u == second[j] else ZERO
    for j in range(count):
        if detached:
            through[j] = spread[j] / total[j]
            ties[j] = ZERO
            seconds[j] = ZERO
            continue
        beyond = max(first[j] - high, ZERO)
        through[j] *= beyond * last[j] / (first[j] * temperature)
        theta = spread[j] - through[j] * total[j]
        alone = ties[j] < TWO
        ties[j] = HALF * first[j] * theta if alone else theta / ties[j]
        seconds[j] = HALF * (TWO - first[j]) * theta / max(seconds[j], ONE) if alone else ZERO
    for c in range(block.shape[0]):
        row, out = block[c], steps[c]
        for j in range(count):
            u = row[j]
            share = seconds[j] if u == second[j] else ZERO
            share = ties[j] if u >= first[j] else share
            out[j] -= through[j] * u + share
