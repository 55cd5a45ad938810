r"""The two passes in closed form with PyTorch's own operations, for any device and without a compiler.

Formulas and names are those of :mod:`eastward.kernels.rows` and :mod:`eastward.kernels.columns`, for all rows at once.
"""

from __future__ import annotations

import functools
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
)

__all__ = ["pullback", "tables", "what_is_wrong"]


def tables(problem: Problem, samples: Samples, *, keep: bool) -> tuple[Tensor, int, Any]:
    """Compute the tables; see :class:`~eastward.kernels.problems.Kernel`. Intermediate results are kept."""
    wrong, all_known = what_is_wrong(problem, samples)
    if wrong == BAD_LABEL:
        return samples.logits.new_zeros(()), wrong, None
    parts = _parts(problem, samples, all_known=all_known)
    return _tables(problem, parts), wrong, parts if keep else None


def _parts(problem: Problem, samples: Samples, *, all_known: bool) -> Any:
    """Prepare labels, weights and rows or columns, which both passes start from."""
    if problem.kind == "top2":
        labels, weights = samples.labels, samples.weights
        if not all_known:
            labels, weights = _masked(problem, samples)
        rows = _rows(problem, samples.logits)
        share = rows.whole.reciprocal() if weights is None else weights.unsqueeze(-1) / rows.whole
        return labels.unsqueeze(-1), share, rows
    samples = samples if problem.kind == "labels" else _as_labels(samples)
    return _columns(problem, samples, all_known=all_known)


def _tables(problem: Problem, parts: Any) -> Tensor:
    if problem.kind == "labels":
        return _column_tables(problem, parts)
    if problem.kind == "pair":
        return _of_two_classes(_column_tables(problem, parts), problem)
    labels, share, rows = parts
    if not problem.matrix:
        return _counts(rows, labels, share).unsqueeze(-3)
    cells = _wide(rows.steps * share)
    size = cells.shape[-1]
    blank = cells.new_zeros(*cells.shape[:-2], size, size)
    return blank.scatter_add_(-2, labels.expand_as(cells), cells).unsqueeze(-3)


def _counts(rows: _Rows, labels: Tensor, share: Tensor) -> Tensor:
    """Compute tp, fp, fn, tn ``([K,] 4, C)``."""
    # Without a difference of numbers that are nearly equal: only the largest class can have almost everything.
    missed = (rows.whole - rows.steps).scatter_(-1, rows.place, rows.others)
    masses = torch.stack([rows.steps, missed]).mul_(share)
    labels = labels.expand(2, *labels.shape)
    of_true = _wide(masses.gather(-1, labels).squeeze(-1))
    true = of_true.new_zeros(*of_true.shape[:-1], masses.shape[-1])
    true.scatter_add_(-1, labels.squeeze(-1), of_true)
    others = _sum_of_samples(masses.scatter_(-1, labels, 0.0))
    return torch.stack([true, others], dim=1).flatten(0, 1).movedim(0, -2)


def pullback(
    problem: Problem,
    samples: Samples,
    slopes: Any,
    factors: Tensor | float,
    kept: Any = None,
) -> Tensor:
    """Compute the gradient; see :class:`~eastward.kernels.problems.Kernel`."""
    slopes = scaled(slopes, factors)
    parts = _parts(problem, samples, all_known=False) if kept is None else kept
    if problem.kind == "top2":
        return _row_pullback(problem, parts, slopes.squeeze(-3))
    if problem.kind == "labels":
        return _column_pullback(problem, parts, slopes)
    found = _column_pullback(problem, parts, _of_one_column(slopes, problem))
    return torch.cat([-found, found], -1) if samples.logits.shape[-1] == 2 else found


def _row_pullback(problem: Problem, parts: Any, slopes: Tensor) -> Tensor:
    """Compute the gradient, given slopes ``([K,] 4, C)`` or ``([K,] C, C)``."""
    labels, share, rows = parts
    u, first, second, place = rows.u, rows.first, rows.second, rows.place
    pulls = _pulls(problem, slopes, labels, rows)
    mean = (pulls * rows.steps).sum(-1, keepdim=True).div_(rows.whole)
    found = pulls.sub_(mean).mul_(_slopes(problem, rows))
    spread, total = found.sum(-1, keepdim=True), rows.rest + first
    u.scatter_(-1, place, first)
    if problem.detached:
        return found.addcmul_(u, spread.div_(total), value=-1).mul_(share)
    # The derivative by the sum of all u, and that by the threshold.
    through = mean.mul_(rows.last).mul_(rows.last).mul_(rows.beyond).div_(problem.numbers.heat)
    theta = spread.addcmul_(through, total)
    found.addcmul_(u, through)
    # Half of the threshold is the largest class, half the second one. Classes that tie share what it gets.
    receives, tied = u == second, second >= first
    each = (theta * second).div_(receives.sum(-1, keepdim=True))
    found.addcmul_(receives, each.addcmul_(each, tied), value=-0.5)
    to_first = theta.mul_(first).masked_fill_(tied, 0.0)
    return found.scatter_add_(-1, place, to_first.mul_(problem.numbers.minus_half)).mul_(share)


class _Rows(NamedTuple):
    """For every class u (0 in place of the largest) and h; for every row ``([K,] N, 1)`` the rest.

    ``place`` is the index of a largest class; ``first`` and ``second`` are the largest u and the second largest.
    ``rest`` is the sum of u without the largest class, ``others`` that of h, ``whole`` the sum of all h. ``last`` is
    the slope of the last piece of the step, and ``beyond`` tells how far the largest u is in it.
    """

    u: Tensor
    steps: Tensor
    place: Tensor
    first: Tensor
    second: Tensor
    rest: Tensor
    others: Tensor
    whole: Tensor
    last: Tensor
    beyond: Tensor


def _rows(problem: Problem, logits: Tensor) -> _Rows:
    step = problem.numbers
    top, place = logits.max(-1, keepdim=True)
    u = (logits - top).exp_().scatter_(-1, place, 0.0)
    second = u.amax(-1, keepdim=True)
    first = step.two / (second + step.one)
    u.mul_(first)
    rest = u.sum(-1, keepdim=True)
    # The first two pieces of the step are lines through its first bend, so the step is one of their extremes.
    pieces = u * step.slope, (u * step.middle).add_(step.offset)
    steps = torch.maximum(*pieces) if step.bends_up else torch.minimum(*pieces)
    if step.jumps:
        # At this temperature the step of nothing is not zero.
        steps.scatter_(-1, place, 0.0)
    others = steps.sum(-1, keepdim=True)
    # Only a single largest class can be in the last piece of the step.
    beyond = (first - step.high).relu_()
    last = step.heat / torch.maximum(rest + beyond, step.tiny)
    above = torch.minimum(first, step.high).sub_(step.one)
    own = torch.addcmul(step.half, above, step.middle).addcmul_(last, beyond)
    steps.scatter_(-1, place, own)
    second = second * first
    return _Rows(u, steps, place, first, second, rest, others, own + others, last, beyond)


def _slopes(problem: Problem, rows: _Rows) -> Tensor:
    """Compute the slope of h times u for every class."""
    step = problem.numbers
    own = torch.where(rows.beyond.bool(), rows.last, step.middle).mul_(rows.first)
    steep = torch.addcmul(rows.steps, rows.u >= step.low, step.offset, value=-1)
    return steep.scatter_(-1, rows.place, own)


def _masked(problem: Problem, samples: Samples) -> tuple[Tensor, Tensor]:
    """Return labels that are safe as indices, and weights; ignored samples weigh 0."""
    labels, weights = samples.labels, samples.weights
    gone = labels == problem.ignored
    weights = (~gone).to(samples.logits.dtype) if weights is None else weights.masked_fill(gone, 0)
    return labels.masked_fill(gone, 0), weights


def _pulls(problem: Problem, slopes: Tensor, labels: Tensor, rows: _Rows) -> Tensor:
    """Compute the derivative ``([K,] N, C)`` by each membership, minus that by the largest.

    Memberships sum to one, so only differences matter. Differences to the largest class lose the fewest digits.
    """
    slopes = slopes.to(rows.u.dtype)
    if problem.matrix:
        pulls = slopes.gather(-2, labels.expand_as(rows.u))
    else:
        # What a sample adds to tp it takes from fn, and what it adds to fp it takes from tn.
        by_tp, by_fp, by_fn, by_tn = slopes.unsqueeze(-2).unbind(-3)
        of_label = (by_tp - by_fn).expand_as(rows.u).gather(-1, labels)
        pulls = (by_fp - by_tn).expand_as(rows.u).scatter(-1, labels, of_label)
    return pulls.sub_(pulls.gather(-1, rows.place))


class _Columns(NamedTuple):
    """Probabilities of "yes" and "no" ``([K,] N, L)``, and weights of true and of other columns ``(2, [K,] N, L)``."""

    yes: Tensor
    no: Tensor
    sides: Tensor


def _columns(problem: Problem, samples: Samples, *, all_known: bool) -> _Columns:
    logits, labels, weights = samples
    is_true = (labels == 1).to(logits.dtype)
    sides = torch.stack([is_true, problem.numbers.one - is_true])
    if weights is not None:
        sides.mul_(weights)
    if not all_known:
        sides.masked_fill_(labels == problem.ignored, 0.0)
    return _Columns(torch.sigmoid(logits), torch.sigmoid(-logits), sides)


def _column_tables(problem: Problem, columns: _Columns) -> Tensor:
    """Compute tp, fp, fn, tn of every column at each threshold, ``([K,] G, 4, L)``."""
    half, one, grid = problem.numbers.half, problem.numbers.one, []
    for tau, lower, upper, first, middle, last in problem.pieces:
        distance = columns.yes - tau
        is_high = distance > upper
        end = columns.no * last
        h = torch.where(distance < lower, columns.yes * first, (distance * middle).add_(half))
        # Without a difference of numbers that are nearly equal: each piece is computed from its own end.
        missed = torch.where(is_high, end, one - h)
        found = torch.where(is_high, one - end, h)
        masses = torch.stack([found, missed]).unsqueeze(1) * columns.sides
        grid.append(_sum_of_samples(masses).flatten(0, 1))
    return torch.stack(grid).movedim((0, 1), (-3, -2))


def _column_pullback(problem: Problem, columns: _Columns, slopes: Tensor) -> Tensor:
    """Compute the gradient, given slopes ``([K,] G, 4, L)``."""
    by_found, by_missed = slopes.to(columns.yes.dtype).movedim((-3, -2), (0, 1)).chunk(2, dim=1)
    terms = []
    pieces = zip((by_found - by_missed).unsqueeze(-2), problem.pieces, strict=True)
    for by, (tau, lower, upper, first, middle, last) in pieces:
        distance = columns.yes - tau
        steep = torch.where(distance > upper, last, middle)
        steep = torch.where(distance < lower, first, steep)
        terms.append((by * columns.sides).sum(0).mul_(steep))
    total: Tensor = functools.reduce(torch.add, terms)
    return total.mul_(columns.yes).mul_(columns.no)


def _as_labels(samples: Samples) -> Samples:
    """Return two classes as one column of yes or no."""
    logits, labels, weights = samples
    logits = torch.diff(logits) if logits.shape[-1] == 2 else logits
    return Samples(logits, labels.unsqueeze(-1), None if weights is None else weights.unsqueeze(-1))


def _of_two_classes(columns: Tensor, problem: Problem) -> Tensor:
    """Build tables of two classes, given the counts ``([K,] G, 4, 1)`` of the second."""
    if not problem.matrix:
        # Class 0 has the counts of class 1 with positives and negatives swapped.
        return torch.cat([columns.flip(-2), columns], dim=-1)
    tp, fp, fn, tn = columns.unbind(-2)
    return torch.stack([torch.cat([tn, fp], -1), torch.cat([fn, tp], -1)], dim=-2)


def _of_one_column(slopes: Tensor, problem: Problem) -> Tensor:
    """Convert slopes by the tables of both classes to slopes ``([K,] G, 4, 1)`` by counts of the second."""
    if not problem.matrix:
        of_first, of_second = slopes.unsqueeze(-1).unbind(-2)
        return of_first.flip(-2) + of_second
    # In reverse order, the cells of the matrix are tp, fn, fp, tn.
    tp, fn, fp, tn = slopes.flatten(-2).flip(-1).unbind(-1)
    return torch.stack([tp, fp, fn, tn], dim=-1).unsqueeze(-1)


def what_is_wrong(problem: Problem, samples: Samples) -> tuple[int, bool]:
    """Check values where that is cheap or requested; return what is wrong, and whether all labels are known classes.

    On a CPU an unknown label must not become an index.
    """
    if samples.labels.device.type != "cpu" and not problem.check_values:
        return FINE, False
    size = 2 if problem.kind in ("pair", "labels") else samples.logits.shape[-1]
    labels, all_known = samples.labels, not 0 <= problem.ignored < size
    if labels.numel():
        low, high = labels.aminmax()
        if int(low) < 0 or int(high) >= size:
            all_known, outside = False, (labels < 0) | (labels >= size)
            if bool((outside & (labels != problem.ignored)).any()):
                return BAD_LABEL, False
    # A sum is finite only if every logit is finite. In the rare case that only the sum overflows, the caller's full
    # check finds nothing wrong.
    finite = not problem.check_values or math.isfinite(samples.logits.sum())
    return FINE if finite else NOT_FINITE, all_known


def _sum_of_samples(masses: Tensor) -> Tensor:
    """Add up rows; not as a matrix product, which autocast would compute in half precision.

    PyTorch adds numbers pairwise, so float32 is exact enough. On CPUs, sums in double precision would first copy
    all numbers.
    """
    return _wide(masses.sum(-2))


def _wide(mass: Tensor) -> Tensor:
    return mass if mass.device.type == "mps" else mass.double()
