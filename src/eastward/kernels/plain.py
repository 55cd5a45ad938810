r"""The two passes in closed form with PyTorch's own operations: without a compiler, on any device.

Formulas and names are those of :mod:`eastward.kernels.rows` and :mod:`eastward.kernels.columns`, for all rows at once.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from eastward.kernels.problems import (
    BAD_LABEL,
    FINE,
    NOT_FINITE,
    Problem,
    Samples,
    step_in_thresholds,
    step_pieces,
)

__all__ = ["pullback", "tables", "what_is_wrong"]


def tables(problem: Problem, samples: Samples) -> tuple[Tensor, int]:
    """See :class:`~eastward.kernels.problems.Kernel`."""
    wrong = what_is_wrong(problem, samples)
    if wrong == BAD_LABEL:
        return samples.logits.new_zeros(()), wrong
    if problem.kind == "labels":
        return _column_tables(problem, samples), wrong
    if problem.kind == "pair":
        return _of_two_classes(_column_tables(problem, _as_labels(samples)), problem), wrong
    labels, weights = _masked(problem, samples)
    rows = _rows(problem, samples.logits)
    share = weights.unsqueeze(-1) / rows.whole
    found = rows.steps * share
    if problem.matrix:
        at = labels.expand_as(found)
        blank = _wide(found.new_zeros(len(found), found.shape[2], found.shape[2]))
        return blank.scatter_add(1, at, _wide(found)).unsqueeze(1), wrong
    missed = torch.where(rows.is_first, rows.others, rows.whole - rows.steps) * share
    counts = [*_counts(found, labels), *_counts(missed, labels)]
    return torch.stack([counts[0], counts[1], counts[2], counts[3]], dim=1).unsqueeze(1), wrong


def pullback(problem: Problem, samples: Samples, slopes: Tensor) -> Tensor:
    """See :class:`~eastward.kernels.problems.Kernel`."""
    if problem.kind == "labels":
        return _column_pullback(problem, samples, slopes)
    if problem.kind == "pair":
        by_column = _of_one_column(slopes, problem)
        found = _column_pullback(problem, _as_labels(samples), by_column)
        return torch.cat([-found, found], 2) if samples.logits.shape[2] == 2 else found
    labels, weights = _masked(problem, samples)
    rows = _rows(problem, samples.logits)
    pulls = _pulls(problem, slopes[:, 0], labels, samples.logits)
    # Memberships sum to one, so only differences of pulls matter: those to the largest class cancel least.
    pulls = pulls - pulls.gather(2, rows.place)
    mean, share = (
        (pulls * rows.steps).sum(2, keepdim=True) / rows.whole,
        weights.unsqueeze(-1) / rows.whole,
    )
    by_log = (pulls - mean) * share * rows.slopes
    spread = by_log.sum(2, keepdim=True)
    if problem.detached:
        return by_log - rows.u * (spread / rows.total)
    through = mean * share * rows.by_total
    theta = spread - through * rows.total
    return by_log - through * rows.u - rows.receives * theta


class _Rows(NamedTuple):
    """Of every class: u, h, its slope times u, share in the threshold's gradient; of every row: sums, derivatives."""

    u: Tensor
    steps: Tensor
    slopes: Tensor
    receives: Tensor
    is_first: Tensor
    place: Tensor
    whole: Tensor
    others: Tensor
    total: Tensor
    by_total: Tensor


def _rows(problem: Problem, logits: Tensor) -> _Rows:
    low, high, slope, middle, temperature = step_in_thresholds(problem.temperature)
    top, place = logits.max(2, keepdim=True)
    powers = (logits - top).exp()
    largest = logits == top
    ties = largest.sum(2, keepdim=True)
    single = ties == 1
    is_first = largest & single
    below = powers.masked_fill(largest, 0.0)
    second, rest = below.amax(2, keepdim=True), below.sum(2, keepdim=True)
    first = torch.where(single, 2 / (1 + second), 1.0)
    u = powers * first
    is_low = u < low
    slopes = torch.where(is_low, slope, middle) * u
    steps = torch.where(is_low, slopes, 0.5 + middle * (u - 1))
    # What the only largest class has of its own: it may be in the last piece.
    beyond = first - high
    last = temperature / (rest * first + beyond).clamp_min(1e-12)
    is_last = beyond > 0
    above = middle * ((1 - second) / (1 + second))
    own = torch.where(is_last, 1 - rest * first * last, 0.5 + above)
    steps = torch.where(is_first, own, steps)
    slopes = torch.where(is_first & is_last, last * first, slopes)
    others = steps.masked_fill(is_first, 0.0).sum(2, keepdim=True)
    by_total = torch.where(is_last & single, -last * last * beyond / temperature, 0.0)
    is_second = (powers == second) & ~largest
    shared = torch.where(is_second, second / is_second.sum(2, keepdim=True).clamp_min(1), 0.0)
    receives = torch.where(
        largest, torch.where(single, 0.5 * first, 1 / ties), shared * (0.5 * first)
    )
    receives = torch.where(single | largest, receives, 0.0)
    whole = torch.where(single, own + others, others)
    return _Rows(
        u, steps, slopes, receives, is_first, place, whole, others, u.sum(2, keepdim=True), by_total
    )


def _masked(problem: Problem, samples: Samples) -> tuple[Tensor, Tensor]:
    """Labels ``(K, N, 1)`` that may be indices, and weights ``(K, N)``; ignored samples weigh nothing."""
    gone = samples.labels == problem.ignored
    weights = samples.weights
    if weights is None:
        weights = torch.ones_like(samples.labels, dtype=samples.logits.dtype)
    return samples.labels.masked_fill(gone, 0).unsqueeze(-1), weights.masked_fill(gone, 0.0)


def _counts(mass: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Sums ``(K, C)`` over the samples of a class, and over all others."""
    of_true = _wide(mass.gather(2, labels).squeeze(2))
    blank = of_true.new_zeros(len(mass), mass.shape[2])
    return (
        blank.scatter_add(1, labels.squeeze(2), of_true),
        mass.scatter(2, labels, 0.0).sum(1, dtype=of_true.dtype),
    )


def _pulls(problem: Problem, slopes: Tensor, labels: Tensor, logits: Tensor) -> Tensor:
    """The derivative ``(K, N, C)`` by each membership."""
    if problem.matrix:
        return slopes.to(logits.dtype).gather(1, labels.expand(-1, -1, slopes.shape[2]))
    of_true, of_others = (slopes[:, :2] - slopes[:, 2:]).to(logits.dtype).unbind(1)
    every = of_others.unsqueeze(1).expand_as(logits)
    return every.scatter(2, labels, of_true.gather(1, labels.squeeze(2)).unsqueeze(2))


def _column_tables(problem: Problem, samples: Samples) -> Tensor:
    p, opposite = torch.sigmoid(samples.logits), torch.sigmoid(-samples.logits)
    on, off = _sides(problem, samples)
    grid = []
    for tau, lower, upper, first, middle, last in step_pieces(
        problem.thresholds, problem.temperature
    ).tolist():
        distance = p - tau
        low, high = distance < -lower, distance > upper
        start, end, centre = p * first, opposite * last, distance * middle
        h = torch.where(low, start, torch.where(high, 1 - end, 0.5 + centre))
        missed = torch.where(low, 1 - start, torch.where(high, end, 0.5 - centre))
        parts = (on * h, off * h, on * missed, off * missed)
        grid.append(torch.stack([_wide(part).sum(1) for part in parts], dim=1))
    return torch.stack(grid, dim=1)


def _column_pullback(problem: Problem, samples: Samples, slopes: Tensor) -> Tensor:
    p, opposite = torch.sigmoid(samples.logits), torch.sigmoid(-samples.logits)
    on, off = _sides(problem, samples)
    by = (slopes[:, :, :2] - slopes[:, :, 2:]).to(p.dtype).unsqueeze(3)
    by_p = torch.zeros_like(p)
    pieces = step_pieces(problem.thresholds, problem.temperature).tolist()
    for g, (tau, lower, upper, first, middle, last) in enumerate(pieces):
        distance = p - tau
        steep = torch.where(distance > upper, last, middle)
        steep = torch.where(distance < -lower, first, steep)
        by_p = by_p + (by[:, g, 0] * on + by[:, g, 1] * off) * steep
    return by_p * p * opposite


def _as_labels(samples: Samples) -> Samples:
    """Two classes as one column of yes or no."""
    logits, labels, weights = samples
    logits = torch.diff(logits) if logits.shape[2] == 2 else logits
    return Samples(logits, labels.unsqueeze(2), None if weights is None else weights.unsqueeze(2))


def _of_two_classes(columns: Tensor, problem: Problem) -> Tensor:
    """Tables of two classes, given the counts ``(K, G, 4, 1)`` of the second."""
    if not problem.matrix:
        # What is right and wrong for class 1 is, seen from class 0, the same turned round.
        return torch.cat([columns.flip(2), columns], dim=3)
    tp, fp, fn, tn = columns.unbind(2)
    return torch.stack([torch.cat([tn, fp], 2), torch.cat([fn, tp], 2)], dim=2)


def _of_one_column(slopes: Tensor, problem: Problem) -> Tensor:
    """Slopes ``(K, G, 4, 1)`` by the counts of the second class, given those by the tables of both."""
    if not problem.matrix:
        return slopes[..., :1].flip(2) + slopes[..., 1:]
    (tn, fp), (fn, tp) = slopes[..., 0, :].unbind(-1), slopes[..., 1, :].unbind(-1)
    return torch.stack([tp, fp, fn, tn], dim=2).unsqueeze(3)


def _sides(problem: Problem, samples: Samples) -> tuple[Tensor, Tensor]:
    """Weights of columns that are true, and of those that are not."""
    labels = samples.labels
    weights = samples.weights
    if weights is None:
        weights = torch.ones_like(labels, dtype=samples.logits.dtype)
    weights = weights.masked_fill(labels == problem.ignored, 0.0)
    on = weights * (labels == 1)
    return on, weights * (labels != 1)


def what_is_wrong(problem: Problem, samples: Samples) -> int:
    """Where looking is cheap, or asked for: on a CPU an unknown label must not become an index."""
    if samples.labels.device.type != "cpu" and not problem.looks:
        return FINE
    size = 2 if problem.kind in ("pair", "labels") else samples.logits.shape[2]
    labels = samples.labels
    if labels.numel():
        low, high = labels.aminmax()
        if int(low) < 0 or int(high) >= size:
            outside = (labels < 0) | (labels >= size)
            if bool((outside & (labels != problem.ignored)).any()):
                return BAD_LABEL
    # A sum is finite only if every logit is; the rare overflow of a sum is told apart by whoever looks closer.
    finite = not problem.looks or math.isfinite(samples.logits.sum())
    return FINE if finite else NOT_FINITE


def _wide(mass: Tensor) -> Tensor:
    return mass if mass.device.type == "mps" else mass.double()
