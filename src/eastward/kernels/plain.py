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
    if not problem.matrix:
        return _counts(rows, labels, share).unsqueeze(1)
    size = rows.steps.shape[2]
    blank = _wide(share.new_zeros(len(share), size, size))
    cells = _wide(rows.steps * share)
    return blank.scatter_add(1, labels.expand_as(cells), cells).unsqueeze(1)


def _counts(rows: _Rows, labels: Tensor, share: Tensor) -> Tensor:
    """Compute tp, fp, fn, tn ``(K, 4, C)``."""
    found = rows.steps * share
    # Without a difference of numbers that are nearly equal: only the largest class can have almost everything.
    missed = (rows.whole - rows.steps).scatter_(2, rows.place, rows.others).mul_(share)
    blank = _wide(share.new_zeros(len(share), found.shape[2]))
    counts = []
    for mass in (found, missed):
        of_true = mass.gather(2, labels).squeeze(2)
        counts.append(blank.scatter_add(1, labels.squeeze(2), _wide(of_true)))
        # Not a matrix product, which autocast would compute in half precision.
        counts.append(_wide(mass.scatter_(2, labels, 0.0).sum(1)))
    return torch.stack(counts, dim=1)


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
    found = pulls.sub_(mean).mul_(share).mul_(rows.slopes)
    spread, total = found.sum(2, keepdim=True), rows.u.sum(2, keepdim=True)
    if problem.detached:
        return found.addcmul_(rows.u, spread / total, value=-1)
    through = mean * share * rows.by_total
    theta = spread - through * total
    found.addcmul_(rows.u, through, value=-1)
    # Half of the threshold is the largest class, half the second one. Classes that tie share what it gets.
    tied = rows.second >= rows.first
    receives = rows.u == rows.second
    each = torch.where(tied, 1.0, 0.5 * rows.second) * theta / receives.sum(2, keepdim=True)
    found.addcmul_(receives, each, value=-1)
    to_first = torch.where(tied, 0.0, -0.5 * rows.first) * theta
    return found.scatter_add_(2, rows.place, to_first)


class _Rows(NamedTuple):
    """For every class u, h, and the slope of h times u; for every row ``(K, N, 1)`` the rest.

    ``place`` is the index of a largest class; ``first`` and ``second`` are the largest u and the second largest.
    ``others`` is the sum of h without the largest class, ``whole`` the sum with it, ``by_total`` the derivative of the
    largest h by the sum of all u.
    """

    u: Tensor
    steps: Tensor
    slopes: Tensor
    place: Tensor
    first: Tensor
    second: Tensor
    others: Tensor
    whole: Tensor
    by_total: Tensor


def _rows(problem: Problem, logits: Tensor) -> _Rows:
    low, high, slope, middle, temperature = step_in_thresholds(problem.temperature)
    top, place = logits.max(2, keepdim=True)
    u = (logits - top).exp_().scatter_(2, place, 0.0)
    second = u.amax(2, keepdim=True)
    first = 2 / (1 + second)
    u.mul_(first)
    rest = u.sum(2, keepdim=True)
    is_low = u < low
    slopes = torch.where(is_low, slope, middle).to(u.dtype).mul_(u)
    steps = slopes + torch.where(is_low, 0.0, 0.5 - middle).to(u.dtype)
    others = steps.scatter_(2, place, 0.0).sum(2, keepdim=True)
    # Only a single largest class can be in the last piece of the step.
    beyond = first - high
    is_last = beyond > 0
    last = temperature / (rest + beyond).clamp_min(1e-12)
    own = torch.where(is_last, 1 - rest * last, 0.5 + middle * (first - 1))
    by_total = torch.where(is_last, -last * last * beyond / temperature, 0.0)
    steps.scatter_(2, place, own)
    slopes.scatter_(2, place, torch.where(is_last, last, middle) * first)
    u.scatter_(2, place, first)
    return _Rows(u, steps, slopes, place, first, second * first, others, own + others, by_total)


def _masked(problem: Problem, samples: Samples) -> tuple[Tensor, Tensor]:
    """Return labels that are safe as indices, and weights, both ``(K, N, 1)``; ignored samples weigh 0."""
    labels, weights = samples.labels, samples.weights
    gone = labels == problem.ignored
    weights = (~gone).to(samples.logits.dtype) if weights is None else weights.masked_fill(gone, 0)
    return labels.masked_fill(gone, 0).unsqueeze(-1), weights.unsqueeze(-1)


def _pulls(problem: Problem, slopes: Tensor, labels: Tensor, rows: _Rows) -> Tensor:
    """Compute the derivative ``(K, N, C)`` by each membership, minus that by the largest.

    Memberships sum to one, so only differences matter. Differences to the largest class lose the fewest digits.
    """
    slopes = slopes.to(rows.u.dtype)
    if problem.matrix:
        pulls = slopes.gather(1, labels.expand_as(rows.u))
    else:
        # What a sample adds to tp it takes from fn, and what it adds to fp it takes from tn.
        of_true, of_others = (slopes[:, :2] - slopes[:, 2:]).unsqueeze(2).unbind(1)
        of_label = of_true.expand_as(rows.u).gather(2, labels)
        pulls = of_others.expand_as(rows.u).scatter(2, labels, of_label)
    return pulls.sub_(pulls.gather(2, rows.place))


def _columns(problem: Problem, samples: Samples) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the probabilities of "yes" and "no" of every column, and its weight on either side."""
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
    """Return two classes as one column of yes or no."""
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
    """Check values where that is cheap or requested; on a CPU an unknown label must not become an index."""
    if samples.labels.device.type != "cpu" and not problem.check_values:
        return FINE
    size = 2 if problem.kind in ("pair", "labels") else samples.logits.shape[-1]
    labels = samples.labels
    if labels.numel():
        low, high = labels.aminmax()
        if int(low) < 0 or int(high) >= size:
            outside = (labels < 0) | (labels >= size)
            if bool((outside & (labels != problem.ignored)).any()):
                return BAD_LABEL
    # A sum is finite only if every logit is finite. In the rare case that only the sum overflows, the caller's full
    # check finds nothing wrong.
    finite = not problem.check_values or math.isfinite(samples.logits.sum())
    return FINE if finite else NOT_FINITE


def _wide(mass: Tensor) -> Tensor:
    return mass if mass.device.type == "mps" else mass.double()
