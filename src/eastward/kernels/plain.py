r"""The two passes in closed form with PyTorch's own operations, for any device and without a compiler.

Formulas and names are those of :mod:`eastward.kernels.rows` and :mod:`eastward.kernels.columns`, for all rows at once.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from eastward.kernels.problems import (
    BAD_LABEL,
    FINE,
    NOT_FINITE,
    Problem,
    Samples,
    scaled,
    step_in_thresholds,
)

__all__ = ["pullback", "tables", "what_is_wrong"]

# A difference of sums of weights below this share of their total is rounding.
ROUNDING = 1e-14


def tables(problem: Problem, samples: Samples, *, keep: bool) -> tuple[Tensor, int, Any]:
    """Compute the tables; see :class:`~eastward.kernels.problems.Kernel`. Intermediate results are kept."""
    wrong = what_is_wrong(problem, samples)
    if wrong == BAD_LABEL:
        return samples.logits.new_zeros(()), wrong, None
    parts = _parts(problem, samples.in_groups())
    found = _tables(problem, parts)
    return found[0] if samples.is_one_group else found, wrong, parts if keep else None


def _parts(problem: Problem, samples: Samples) -> Any:
    """Prepare labels, weights and rows or columns, which both passes start from."""
    if problem.kind == "top2":
        return (*_masked(problem, samples), _rows(problem, samples.logits))
    return _columns(problem, samples if problem.kind == "labels" else _as_labels(samples))


def _tables(problem: Problem, parts: Any) -> Tensor:
    if problem.kind == "labels":
        return _column_tables(problem, parts)
    if problem.kind == "pair":
        return _of_two_classes(_column_tables(problem, parts), problem)
    labels, weights, rows = parts
    share = weights / rows.whole
    if problem.matrix:
        steps = torch.where(rows.single, rows.steps.scatter(2, rows.place, rows.own), rows.steps)
        size = steps.shape[2]
        blank = _wide(steps.new_zeros(len(steps), size, size))
        return blank.scatter_add(1, labels.expand_as(steps), _wide(steps * share)).unsqueeze(1)
    return _counts(rows, labels, weights, share).unsqueeze(1)


def _counts(rows: _Rows, labels: Tensor, weights: Tensor, share: Tensor) -> Tensor:
    """Compute tp, fp, fn, tn ``(K, 4, C)`` as in :func:`eastward.kernels.rows.counts_of_sums`."""
    steps, place = rows.steps, rows.place
    own = torch.where(rows.single, rows.own, steps.gather(2, place))
    others = torch.where(rows.single, rows.others, rows.others - own)
    is_place = labels == place
    at_label = torch.where(is_place, own, steps.gather(2, labels))
    missed = torch.where(is_place, others, own + (others - at_label))
    found = torch.cat([weights, at_label * share, missed * share], 2)
    elsewhere = torch.cat([own * share, others * share, weights], 2) * ~is_place
    blank = _wide(found.new_zeros(len(steps), 3, steps.shape[2]))
    true, right, missed = _by_class(blank, labels, found).unbind(1)
    wrong_first, left_first, others_first = _by_class(blank, place, elsewhere).unbind(1)
    # Not a matrix product, which autocast would compute in half precision.
    rest = steps.scatter(2, labels, 0.0).scatter_(2, place, 0.0).mul_(share)
    wrong = _wide(rest.sum(1))
    total = true.sum(1, keepdim=True)
    spared = (total - true) - others_first
    spared = torch.where(spared > ROUNDING * total, spared - wrong, 0.0).clamp_min(0.0)
    return torch.stack([right, wrong + wrong_first, missed, spared + left_first], dim=1)


def _by_class(blank: Tensor, places: Tensor, masses: Tensor) -> Tensor:
    """Sum masses ``(K, N, 3)`` by class into ``(K, 3, C)``, given each sample's class ``(K, N, 1)``."""
    index = places.transpose(1, 2).expand(-1, 3, -1)
    return blank.scatter_add(2, index, _wide(masses.transpose(1, 2)))


def pullback(
    problem: Problem,
    samples: Samples,
    slopes: Any,
    factors: Tensor | float,
    kept: Any = None,
) -> Tensor:
    """Compute the gradient; see :class:`~eastward.kernels.problems.Kernel`."""
    slopes = scaled(slopes, factors)
    parts = _parts(problem, samples.in_groups()) if kept is None else kept
    if samples.is_one_group:
        slopes = slopes.unsqueeze(0)
    if problem.kind == "top2":
        found = _row_pullback(problem, parts, slopes)
    elif problem.kind == "labels":
        found = _column_pullback(problem, parts, slopes)
    else:
        found = _column_pullback(problem, parts, _of_one_column(slopes, problem))
        found = torch.cat([-found, found], 2) if samples.logits.shape[-1] == 2 else found
    return found[0] if samples.is_one_group else found


def _row_pullback(problem: Problem, parts: Any, slopes: Tensor) -> Tensor:
    labels, weights, rows = parts
    pulls = _pulls(problem, slopes[:, 0], labels, rows)
    mean = (pulls * rows.steps).sum(2, keepdim=True) / rows.whole
    share = weights / rows.whole
    u, single = rows.u, rows.single
    at_first = torch.where(single, -mean * share * rows.own_slope, 0.0)
    found = pulls.sub_(mean).mul_(share).mul_(rows.slopes)
    spread = found.sum(2, keepdim=True) + at_first
    total = u.sum(2, keepdim=True) + torch.where(single, rows.first, 0.0)
    if problem.detached:
        through, theta = spread / total, torch.zeros_like(spread)
    else:
        through = torch.where(single, mean * share * rows.by_total, 0.0)
        theta = spread - through * total
        receives = u == rows.second
        each = torch.where(single, 0.5 * rows.second, 1.0) * theta
        found.addcmul_(receives, each / receives.sum(2, keepdim=True).clamp_min(1), value=-1)
    found.addcmul_(u, through, value=-1)
    own = at_first - (through + 0.5 * theta) * rows.first
    return found.scatter_(2, rows.place, torch.where(single, own, found.gather(2, rows.place)))


class _Rows(NamedTuple):
    """For every class u, h, and the slope of h times u; for every row ``(K, N, 1)`` the rest.

    Where a ``single`` class is the largest, its numbers are kept apart and are zero among the others.
    """

    u: Tensor
    steps: Tensor
    slopes: Tensor
    place: Tensor
    single: Tensor
    first: Tensor
    second: Tensor
    own: Tensor
    own_slope: Tensor
    others: Tensor
    whole: Tensor
    by_total: Tensor


def _rows(problem: Problem, logits: Tensor) -> _Rows:
    low, high, slope, middle, temperature = step_in_thresholds(problem.temperature)
    top, place = logits.max(2, keepdim=True)
    u = (logits - top).exp_().scatter_(2, place, 0.0)
    second = u.amax(2, keepdim=True)
    single = second < 1
    u.scatter_(2, place, 1 - single.to(u.dtype))
    rest = u.sum(2, keepdim=True)
    first = torch.where(single, 2 / (1 + second), 1.0)
    u.mul_(first)
    is_low = u < low
    slopes = torch.where(is_low, slope, middle).to(u.dtype).mul_(u)
    steps = slopes + torch.where(is_low, 0.0, 0.5 - middle).to(u.dtype)
    steps.scatter_(2, place, torch.where(single, 0.0, steps.gather(2, place)))
    others = steps.sum(2, keepdim=True)
    # Only a single largest class can be in the last piece of the step.
    beyond = first - high
    last = temperature / (rest * first + beyond).clamp_min(1e-12)
    is_last = beyond > 0
    above = middle * ((1 - second) / (1 + second))
    own = torch.where(is_last, 1 - rest * first * last, 0.5 + above)
    own_slope = torch.where(is_last, last, middle) * first
    by_total = torch.where(is_last, -last * last * beyond / temperature, 0.0)
    whole = torch.where(single, own + others, others)
    return _Rows(
        u,
        steps,
        slopes,
        place,
        single,
        first,
        second * first,
        own,
        own_slope,
        others,
        whole,
        by_total,
    )


def _masked(problem: Problem, samples: Samples) -> tuple[Tensor, Tensor]:
    """Return labels that are safe as indices, and weights, both ``(K, N, 1)``; ignored samples weigh 0."""
    gone = samples.labels == problem.ignored
    weights = samples.weights
    if weights is None:
        weights = torch.ones_like(samples.labels, dtype=samples.logits.dtype)
    labels = samples.labels.masked_fill(gone, 0)
    return labels.unsqueeze(-1), weights.masked_fill(gone, 0.0).unsqueeze(-1)


def _pulls(problem: Problem, slopes: Tensor, labels: Tensor, rows: _Rows) -> Tensor:
    """Compute the derivative ``(K, N, C)`` by each membership, minus that by the largest.

    Memberships sum to one, so only differences matter. Differences to the largest class lose the fewest digits.
    """
    slopes = slopes.to(rows.u.dtype)
    if problem.matrix:
        every = slopes.gather(1, labels.expand_as(rows.u))
        return every.sub_(every.gather(2, rows.place))
    # What a sample adds to tp it takes from fn, and what it adds to fp it takes from tn.
    of_true, of_others = (
        (slopes[:, :2] - slopes[:, 2:]).unsqueeze(2).expand(-1, -1, rows.u.shape[1], -1).unbind(1)
    )
    own, base = of_true.gather(2, labels), of_others.gather(2, rows.place)
    base = torch.where(labels == rows.place, own, base)
    return (of_others - base).scatter_(2, labels, own - base)


def _columns(problem: Problem, samples: Samples) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """For every column the probabilities of "yes" and "no", and its weight on either side."""
    p, opposite = torch.sigmoid(samples.logits), torch.sigmoid(-samples.logits)
    return p, opposite, *_sides(problem, samples)


def _column_tables(problem: Problem, columns: tuple[Tensor, ...]) -> Tensor:
    p, opposite, on, off = columns
    grid = []
    for tau, lower, upper, first, middle, last in problem.constants.tolist():
        distance = p - tau
        low, high = distance < -lower, distance > upper
        start, end, centre = p * first, opposite * last, distance * middle
        h = torch.where(low, start, torch.where(high, 1 - end, 0.5 + centre))
        missed = torch.where(low, 1 - start, torch.where(high, end, 0.5 - centre))
        parts = (on * h, off * h, on * missed, off * missed)
        grid.append(torch.stack([_wide(part).sum(1) for part in parts], dim=1))
    return torch.stack(grid, dim=1)


def _column_pullback(problem: Problem, columns: tuple[Tensor, ...], slopes: Tensor) -> Tensor:
    p, opposite, on, off = columns
    by = (slopes[:, :, :2] - slopes[:, :, 2:]).to(p.dtype).unsqueeze(3)
    by_p = torch.zeros_like(p)
    pieces = enumerate(problem.constants.tolist())
    for g, (tau, lower, upper, first, middle, last) in pieces:
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
    """Build tables of two classes, given the counts ``(K, G, 4, 1)`` of the second."""
    if not problem.matrix:
        # Class 0 has the counts of class 1 with positives and negatives swapped.
        return torch.cat([columns.flip(2), columns], dim=3)
    tp, fp, fn, tn = columns.unbind(2)
    return torch.stack([torch.cat([tn, fp], 2), torch.cat([fn, tp], 2)], dim=2)


def _of_one_column(slopes: Tensor, problem: Problem) -> Tensor:
    """Convert slopes by the tables of both classes to slopes ``(K, G, 4, 1)`` by counts of the second."""
    if not problem.matrix:
        return slopes[..., :1].flip(2) + slopes[..., 1:]
    (tn, fp), (fn, tp) = slopes[..., 0, :].unbind(-1), slopes[..., 1, :].unbind(-1)
    return torch.stack([tp, fp, fn, tn], dim=2).unsqueeze(3)


def _sides(problem: Problem, samples: Samples) -> tuple[Tensor, Tensor]:
    """Split weights into those of true columns and those of the others."""
    labels = samples.labels
    weights = samples.weights
    if weights is None:
        weights = torch.ones_like(labels, dtype=samples.logits.dtype)
    weights = weights.masked_fill(labels == problem.ignored, 0.0)
    on = weights * (labels == 1)
    return on, weights * (labels != 1)


def what_is_wrong(problem: Problem, samples: Samples) -> int:
    """Check values where that is cheap or asked for; on a CPU an unknown label must not become an index."""
    if samples.labels.device.type != "cpu" and not problem.looks:
        return FINE
    size = 2 if problem.kind in ("pair", "labels") else samples.logits.shape[-1]
    labels = samples.labels
    if labels.numel():
        low, high = labels.aminmax()
        if int(low) < 0 or int(high) >= size:
            outside = (labels < 0) | (labels >= size)
            if bool((outside & (labels != problem.ignored)).any()):
                return BAD_LABEL
    # A sum is finite only if every logit is; the caller's full check tells a rare overflow of the sum from that.
    finite = not problem.looks or math.isfinite(samples.logits.sum())
    return FINE if finite else NOT_FINITE


def _wide(mass: Tensor) -> Tensor:
    return mass if mass.device.type == "mps" else mass.double()
