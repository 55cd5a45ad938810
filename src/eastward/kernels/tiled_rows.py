# mypy: ignore-errors
# ruff: noqa: ANN001, ANN201, ANN202 - arguments are tiles and pointers, which have no Python types
"""Triton kernels for the dynamic threshold: a tile of rows, each with all of its classes.

Formulas and names are those of :mod:`eastward.kernels.rows` and :mod:`eastward.kernels.plain`. Nothing is kept for the
backward pass but the logits.
"""

from __future__ import annotations

import triton
import triton.language as tl

__all__ = ["pullback_kernel", "tables_kernel"]


@triton.jit
def _rows(z, known, low, high, slope, middle, temperature):
    """Compute u, h, the slope of h times u and whether a class is the single largest; sums and derivatives by row."""
    top = tl.max(z, axis=1)
    power = tl.where(known, tl.exp(z - top[:, None]), 0.0)
    largest = (z == top[:, None]) & known
    ties = tl.sum(largest.to(tl.float32), axis=1)
    single = ties < 1.5
    is_first = largest & single[:, None]
    below = tl.where(largest, 0.0, power)
    second, rest = tl.max(below, axis=1), tl.sum(below, axis=1)
    first = tl.where(single, 2.0 / (1.0 + second), 1.0)
    u = power * first[:, None]
    steep = tl.where(u < low, slope, middle) * u
    h = tl.where(u < low, steep, 0.5 + middle * (u - 1.0))
    beyond = first - high
    last = temperature / tl.maximum(rest * first + beyond, 1e-12)
    is_last = beyond > 0.0
    own = tl.where(
        is_last, 1.0 - rest * first * last, 0.5 + middle * ((1.0 - second) / (1.0 + second))
    )
    h = tl.where(known, tl.where(is_first, own[:, None], h), 0.0)
    steep = tl.where(is_first & is_last[:, None], (last * first)[:, None], steep)
    others = tl.sum(tl.where(is_first, 0.0, h), axis=1)
    whole = tl.where(single, own + others, others)
    by_total = tl.where(is_last & single, -last * last * beyond / temperature, 0.0)
    return u, h, steep, is_first, largest, ties, first, below, second, whole, others, by_total


@triton.jit
def _sample(labels, weights, at, inside, ignored, HAS_WEIGHTS: tl.constexpr):
    """Return labels that are safe as indices, and weights; ignored samples weigh 0."""
    label = tl.load(labels + at, mask=inside, other=0)
    weight = tl.where(inside, 1.0, 0.0)
    if HAS_WEIGHTS:
        weight = tl.load(weights + at, mask=inside, other=0.0)
    gone = label == ignored
    return tl.where(gone, 0, label), tl.where(gone, 0.0, weight)


@triton.jit
def tables_kernel(
    logits,
    labels,
    weights,
    tables,
    low,
    high,
    slope,
    middle,
    temperature,
    ignored,
    rows,
    size,
    HAS_WEIGHTS: tl.constexpr,
    MATRIX: tl.constexpr,
    ROWS: tl.constexpr,
    CLASSES: tl.constexpr,
):
    """Add the tables of a tile of rows of one group."""
    group = tl.program_id(1)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, CLASSES)
    inside = row < rows
    known = inside[:, None] & (column < size)[None, :]
    at = (group * rows + row).to(tl.int64)
    z = tl.load(logits + at[:, None] * size + column[None, :], mask=known, other=float("-inf"))
    z = tl.where(inside[:, None], z.to(tl.float32), 0.0)
    label, weight = _sample(labels, weights, at, inside, ignored, HAS_WEIGHTS)
    _, h, _, is_first, _, _, _, _, _, whole, others, _ = _rows(
        z, known, low, high, slope, middle, temperature
    )
    share = tl.where(inside, weight / tl.where(inside, whole, 1.0), 0.0)
    found = (h * share[:, None]).to(tl.float64)
    if MATRIX:
        cell = (group * size + label)[:, None] * size + column[None, :]
        tl.atomic_add(tables + cell, found, mask=known)
    else:
        missed = tl.where(is_first, others[:, None], whole[:, None] - h) * share[:, None]
        missed = tl.where(known, missed, 0.0).to(tl.float64)
        is_label = column[None, :] == label[:, None]
        start, real = tables + group * 4 * size, column < size
        of_label = tl.sum(tl.where(is_label, found, 0.0), axis=1)
        tl.atomic_add(start + label, of_label, mask=inside)
        wrong = tl.sum(tl.where(is_label, 0.0, found), axis=0)
        tl.atomic_add(start + size + column, wrong, mask=real)
        of_label = tl.sum(tl.where(is_label, missed, 0.0), axis=1)
        tl.atomic_add(start + 2 * size + label, of_label, mask=inside)
        left = tl.sum(tl.where(is_label, 0.0, missed), axis=0)
        tl.atomic_add(start + 3 * size + column, left, mask=real)


@triton.jit
def pullback_kernel(
    logits,
    labels,
    weights,
    slopes,
    gradient,
    low,
    high,
    slope,
    middle,
    temperature,
    ignored,
    rows,
    size,
    HAS_WEIGHTS: tl.constexpr,
    MATRIX: tl.constexpr,
    DETACHED: tl.constexpr,
    ROWS: tl.constexpr,
    CLASSES: tl.constexpr,
):
    """Write the gradient of a tile of rows of one group."""
    group = tl.program_id(1)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, CLASSES)
    inside = row < rows
    known = inside[:, None] & (column < size)[None, :]
    at = (group * rows + row).to(tl.int64)
    place = at[:, None] * size + column[None, :]
    z = tl.load(logits + place, mask=known, other=float("-inf"))
    z = tl.where(inside[:, None], z.to(tl.float32), 0.0)
    label, weight = _sample(labels, weights, at, inside, ignored, HAS_WEIGHTS)
    u, h, steep, _, largest, ties, first, below, second, whole, _, by_total = _rows(
        z, known, low, high, slope, middle, temperature
    )
    inverse = 1.0 / tl.where(inside, whole, 1.0)
    if MATRIX:
        cell = (group * size + label)[:, None] * size + column[None, :]
        pull = tl.load(slopes + cell, mask=known, other=0.0)
    else:
        start = slopes + group * 2 * size
        of_true = tl.load(start + label, mask=inside, other=0.0)
        of_others = tl.load(start + size + column, mask=column < size, other=0.0)
        is_label = column[None, :] == label[:, None]
        pull = tl.where(is_label, of_true[:, None], of_others[None, :])
    # Only differences of pulls matter. Those to (the mean of) the largest lose the fewest digits.
    count = tl.maximum(ties, 1.0)
    base = tl.sum(tl.where(largest, pull, 0.0), axis=1) / count
    pull = pull - base[:, None]
    mean, share = tl.sum(tl.where(known, pull * h, 0.0), axis=1) * inverse, weight * inverse
    by_log = (pull - mean[:, None]) * share[:, None] * steep
    by_log = tl.where(known, by_log, 0.0)
    spread, total = tl.sum(by_log, axis=1), tl.sum(u, axis=1)
    if DETACHED:
        result = by_log - u * (spread / tl.where(inside, total, 1.0))[:, None]
    else:
        through = mean * share * by_total
        theta = spread - through * total
        single = ties < 1.5
        is_second = (below == second[:, None]) & known & (largest == 0)
        seconds = tl.maximum(tl.sum(is_second.to(tl.float32), axis=1), 1.0)
        to_second = tl.where(single, 0.5 * first * second * theta / seconds, 0.0)
        to_first = tl.where(single, 0.5 * first * theta, theta / count)
        sent = tl.where(is_second, to_second[:, None], 0.0)
        sent = tl.where(largest, to_first[:, None], sent)
        result = by_log - through[:, None] * u - sent
    tl.store(gradient + place, result, mask=known)
