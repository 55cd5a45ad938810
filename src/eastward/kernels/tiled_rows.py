# mypy: ignore-errors
# ruff: noqa: ANN001, ANN201, ANN202 - arguments are tiles and pointers, which have no Python types
"""Triton kernels for the dynamic threshold: a tile of rows, each with all of its classes.

The formulas are those of :mod:`eastward.kernels.eager`. Nothing is kept for the backward pass but the logits.
"""

from __future__ import annotations

import triton
import triton.language as tl

__all__ = ["gradient_kernel", "sums_kernel"]


@triton.jit
def _step(u, total, low, high, slope, middle, temperature):
    """The step h and its slope, in u; the slope of the last piece."""
    last = temperature / tl.maximum(total - high, 1e-12)
    h = tl.where(u < low, slope * u, 0.5 + middle * (u - 1.0))
    steep = tl.where(u < low, slope, middle)
    h = tl.where(u > high, 1.0 - temperature + (u - high) * last[:, None], h)
    steep = tl.where(u > high, last[:, None], steep)
    return h, steep, last


@triton.jit
def _relative(z):
    """The u of a tile of logits, which of them are first, how many, the largest u, the largest of the others."""
    power = tl.exp(z - tl.max(z, axis=1)[:, None])
    is_first = power >= 1.0
    ties = tl.sum(is_first.to(tl.float32), axis=1)
    others = tl.max(tl.where(is_first, 0.0, power), axis=1)
    second = tl.where(ties > 1.5, 1.0, others)
    first = 2.0 / (1.0 + second)
    return power * first[:, None], is_first, ties, first, others * first


@triton.jit
def sums_kernel(
    logits,
    labels,
    weights,
    sums,
    low,
    high,
    slope,
    middle,
    temperature,
    rows,
    size,
    HAS_WEIGHTS: tl.constexpr,
    MATRIX: tl.constexpr,
    ROWS: tl.constexpr,
    CLASSES: tl.constexpr,
):
    """Add the sums of a tile of rows of one group."""
    member = tl.program_id(1)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, CLASSES)
    inside = row < rows
    known = inside[:, None] & (column < size)[None, :]
    at = (member * rows + row).to(tl.int64)
    z = tl.load(logits + at[:, None] * size + column[None, :], mask=known, other=float("-inf"))
    z = tl.where(inside[:, None], z.to(tl.float32), 0.0)
    label = tl.load(labels + at, mask=inside, other=0)
    weight = tl.where(inside, 1.0, 0.0)
    if HAS_WEIGHTS:
        weight = tl.load(weights + at, mask=inside, other=0.0)
    u, _, _, _, _ = _relative(z)
    u = tl.where(known, u, 0.0)
    h, _, _ = _step(u, tl.sum(u, axis=1), low, high, slope, middle, temperature)
    h = tl.where(known, h, 0.0)
    total = tl.where(inside, tl.sum(h, axis=1), 1.0)
    membership = h * (weight / total)[:, None]
    if MATRIX:
        cell = (member * size + label)[:, None] * size + column[None, :]
        tl.atomic_add(sums + cell, membership, mask=known)
    else:
        start = sums + member * 3 * size
        right = tl.sum(tl.where(column[None, :] == label[:, None], membership, 0.0), axis=1)
        tl.atomic_add(start + label, right, mask=inside)
        tl.atomic_add(start + size + column, tl.sum(membership, axis=0), mask=column < size)
        tl.atomic_add(start + 2 * size + label, weight, mask=inside)


@triton.jit
def gradient_kernel(
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
    rows,
    size,
    HAS_WEIGHTS: tl.constexpr,
    MATRIX: tl.constexpr,
    DETACHED: tl.constexpr,
    ROWS: tl.constexpr,
    CLASSES: tl.constexpr,
):
    """Write the gradient of a tile of rows of one group."""
    member = tl.program_id(1)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, CLASSES)
    inside = row < rows
    known = inside[:, None] & (column < size)[None, :]
    at = (member * rows + row).to(tl.int64)
    place = at[:, None] * size + column[None, :]
    z = tl.load(logits + place, mask=known, other=float("-inf"))
    z = tl.where(inside[:, None], z.to(tl.float32), 0.0)
    label = tl.load(labels + at, mask=inside, other=0)
    weight = tl.where(inside, 1.0, 0.0)
    if HAS_WEIGHTS:
        weight = tl.load(weights + at, mask=inside, other=0.0)
    u, is_first, ties, first, second = _relative(z)
    u = tl.where(known, u, 0.0)
    is_first = is_first & known
    total = tl.sum(u, axis=1)
    h, steep, last = _step(u, total, low, high, slope, middle, temperature)
    h = tl.where(known, h, 0.0)
    inverse = 1.0 / tl.where(inside, tl.sum(h, axis=1), 1.0)
    if MATRIX:
        cell = (member * size + label)[:, None] * size + column[None, :]
        pull = tl.load(slopes + cell, mask=known, other=0.0)
    else:
        start = slopes + member * 2 * size
        by_right = tl.load(start + label, mask=inside, other=0.0)
        by_predicted = tl.load(start + size + column, mask=column < size, other=0.0)
        is_label = column[None, :] == label[:, None]
        pull = by_predicted[None, :] + tl.where(is_label, by_right[:, None], 0.0)
    mean = tl.sum(pull * h, axis=1) * inverse
    t = (pull - mean[:, None]) * (weight * inverse)[:, None] * steep * u
    spread = tl.sum(t, axis=1)
    if DETACHED:
        result = t - (spread / tl.where(inside, total, 1.0))[:, None] * u
    else:
        beyond = tl.sum(tl.where(u > high, t, 0.0), axis=1)
        through = beyond * tl.maximum(first - high, 0.0) * last / (first * temperature)
        theta = spread - through * total
        alone = ties < 1.5
        is_second = (u == second[:, None]) & known & (is_first == 0)
        seconds = tl.maximum(tl.sum(is_second.to(tl.float32), axis=1), 1.0)
        to_first = tl.where(alone, 0.5 * first * theta, theta / tl.maximum(ties, 1.0))
        to_second = tl.where(alone, 0.5 * (2.0 - first) * theta / seconds, 0.0)
        sent = tl.where(is_second, to_second[:, None], 0.0)
        sent = tl.where(is_first, to_first[:, None], sent)
        result = t - through[:, None] * u - sent
    tl.store(gradient + place, result, mask=known)
