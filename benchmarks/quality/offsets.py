"""The library's bagged offsets, compiled for the four metrics of this benchmark.

:func:`eastward.decisions.bagged_offsets` takes any metric and evaluates it as a tensor function; here hundreds of
thousands of decisions are tuned. The search is the same: bootstraps within classes, in each coordinate ascent (rare
classes first, three sweeps, offsets within six nats), every break point tried; an offset stays where nothing is better,
else the middle of the best interval nearest to zero is taken, at most one nat into it; and no offsets at all where the
plain decision is as good. ``tests/ensemble/test_quality_offsets.py`` holds the two against each other.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

Array = NDArray[Any]

REACH, SWEEPS = 6.0, 3
FARTHEST_INTO_PLATEAU, SAME, RESOLUTION = 1.0, 1e-12, 1e-9
KINDS = {"f1": 0, "f1_macro": 1, "matthews_corrcoef": 2, "balanced_accuracy": 3, "cost": 4}


def bagged(
    scores: Array,
    codes: Array,
    kind: str,
    *,
    cost: Array | None = None,
    bags: int = 15,
    label_share: float = 1.0,
) -> Array:
    """Mean over bootstraps of the offsets that are best for a metric, ``(C,)`` with mean zero."""
    num_classes = scores.shape[1]
    expected = np.exp(scores - np.logaddexp.reduce(scores, axis=1, keepdims=True))
    shares = label_share * np.eye(num_classes)[codes] + (1 - label_share) * expected
    table = np.zeros((num_classes, num_classes)) if cost is None else np.asarray(cost, dtype=float)
    prices = shares @ table
    rng = np.random.default_rng(0)
    found = np.zeros(num_classes)
    rows_of = [np.flatnonzero(codes == c) for c in range(num_classes)]
    for _ in range(bags):
        drawn = np.concatenate([rng.choice(rows, len(rows)) for rows in rows_of if len(rows)])
        weights = np.bincount(drawn, minlength=len(codes)).astype(np.float64)
        kept = weights > 0
        found += _ascent(scores[kept], shares[kept], weights[kept], KINDS[kind], prices[kept])
    return found / bags


@njit(cache=True)
def _value(kind, hits, chosen, mass, total, spent):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
    """The metric from hits, predictions and rows of each class; a cost comes out negative."""
    size = len(mass)
    if kind == 4:
        return -spent / total
    if kind == 2:
        trace, both, squares_p, squares_t = 0.0, 0.0, 0.0, 0.0
        for c in range(size):
            trace += hits[c]
            both += chosen[c] * mass[c]
            squares_p += chosen[c] ** 2
            squares_t += mass[c] ** 2
        below = (total**2 - squares_p) * (total**2 - squares_t)
        return (trace * total - both) / np.sqrt(below) if below > 0 else 0.0
    result, count = 0.0, 0
    for c in range(1 if kind == 0 else 0, size):
        if kind == 3:
            if mass[c] > 0:
                result += hits[c] / mass[c]
                count += 1
        elif chosen[c] + mass[c] > 0:
            result += 2 * hits[c] / (chosen[c] + mass[c])
            count += 1
    return result / max(count, 1)


@njit(cache=True)
def _scan(scores, shares, weights, kind, prices, offsets, label, reach):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
    """The best offset of one class, the others as they are."""
    count, size = scores.shape
    rival = np.zeros(count, dtype=np.int64)
    edge = np.zeros(count)
    hits, chosen, mass, spent = np.zeros(size), np.zeros(size), np.zeros(size), 0.0
    for row in range(count):
        best, who = -np.inf, 0
        for c in range(size):
            if c != label and scores[row, c] + offsets[c] > best:
                best, who = scores[row, c] + offsets[c], c
        rival[row], edge[row] = who, best - scores[row, label]
        for c in range(size):
            mass[c] += weights[row] * shares[row, c]
        chosen[who] += weights[row]
        spent += prices[row, who] * weights[row]
        hits[who] += weights[row] * shares[row, who]
    total = weights.sum()
    order = np.argsort(edge, kind="mergesort")
    low, high, merit = np.empty(count + 1), np.empty(count + 1), np.empty(count + 1)
    found = 0
    if min(edge[order[0]], reach) + reach > RESOLUTION:
        low[0], high[0] = -reach, min(edge[order[0]], reach)
        merit[0] = _value(kind, hits, chosen, mass, total, spent)
        found = 1
    for position in range(count):
        row = order[position]
        who = rival[row]
        chosen[who] -= weights[row]
        chosen[label] += weights[row]
        spent += (prices[row, label] - prices[row, who]) * weights[row]
        hits[who] -= weights[row] * shares[row, who]
        hits[label] += weights[row] * shares[row, label]
        begin = max(edge[row], -reach)
        end = min(edge[order[position + 1]], reach) if position + 1 < count else reach
        if end - begin > RESOLUTION:
            low[found], high[found] = begin, end
            merit[found] = _value(kind, hits, chosen, mass, total, spent)
            found += 1
    return _chosen(low[:found], high[:found], merit[:found], offsets[label])


@njit(cache=True)
def _chosen(low, high, merit, current):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
    """The present offset if it is among the best; else the middle of the best interval nearest to zero."""
    least = merit.max() - SAME * max(1.0, abs(merit.max()))
    first, last, nearest = 0, 0, np.inf
    start = -1
    for k in range(len(low) + 1):
        best = k < len(low) and merit[k] >= least
        if best and low[k] < current < high[k]:
            return current
        if best and start < 0:
            start = k
        if not best and start >= 0:
            away = max(low[start], -high[k - 1], 0.0)
            if away < nearest:
                first, last, nearest = start, k - 1, away
            start = -1
    target = _capped_middle(low[first], high[last])
    place, away = first, np.inf
    for k in range(first, last + 1):
        distance = max(low[k] - target, target - high[k], 0.0)
        if distance < away:
            place, away = k, distance
    inset = (high[place] - low[place]) / 4
    return min(max(target, low[place] + inset), high[place] - inset)


@njit(cache=True)
def _capped_middle(low, high):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
    middle = (low + high) / 2
    if low <= 0 <= high:
        return min(max(middle, -FARTHEST_INTO_PLATEAU), FARTHEST_INTO_PLATEAU)
    if low > 0:
        return min(middle, low + FARTHEST_INTO_PLATEAU)
    return max(middle, high - FARTHEST_INTO_PLATEAU)


@njit(cache=True)
def _merit(scores, shares, weights, kind, prices, offsets):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
    """The metric of the shifted decision."""
    count, size = scores.shape
    hits, chosen, mass, spent = np.zeros(size), np.zeros(size), np.zeros(size), 0.0
    for row in range(count):
        who = 0
        for c in range(size):
            mass[c] += weights[row] * shares[row, c]
            if scores[row, c] + offsets[c] > scores[row, who] + offsets[who]:
                who = c
        chosen[who] += weights[row]
        spent += prices[row, who] * weights[row]
        hits[who] += weights[row] * shares[row, who]
    return _value(kind, hits, chosen, mass, weights.sum(), spent)


@njit(cache=True)
def _ascent(scores, shares, weights, kind, prices):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
    offsets = _searched(scores, shares, weights, kind, prices)
    offsets -= offsets.mean()
    nothing = np.zeros_like(offsets)
    plain = _merit(scores, shares, weights, kind, prices, nothing)
    return offsets if _merit(scores, shares, weights, kind, prices, offsets) > plain else nothing


@njit(cache=True)
def _searched(scores, shares, weights, kind, prices):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
    size = scores.shape[1]
    mass = np.zeros(size)
    for row in range(len(shares)):
        for c in range(size):
            mass[c] += weights[row] * shares[row, c]
    offsets = np.zeros(size)
    if size == 2:
        # Only the difference counts, and it may be as large as two offsets at their limits.
        offsets[1] = _scan(scores, shares, weights, kind, prices, offsets, 1, 2 * REACH)
        return offsets
    order = np.argsort(mass, kind="mergesort")
    for _ in range(SWEEPS):
        before = offsets.copy()
        for label in order:
            offsets[label] = _scan(scores, shares, weights, kind, prices, offsets, label, REACH)
        if np.abs(before - offsets).max() == 0:
            break
        offsets -= offsets.mean()
    return offsets
