r"""Solve for the decision matrix of a metric by Frank–Wolfe, with or without constraints.

If :math:`C^*` is the best table that a rule can reach for a metric M, then a best rule is

.. math:: h(p) = \arg\max_j \sum_i p_i\,G_{ij}, \qquad G = \partial M / \partial C \text{ at } C^*,

for every metric that is differentiable there. So the search runs over tables: it takes the gradient of the metric at
the current table, computes the table of that gradient's rule, and mixes it into the current one. The result is the
best rule seen on the way.

With constraints and two classes, every threshold is tried. With more classes, or with undecided rows, the solver runs
with multipliers, which grow while a constraint is violated and shrink while there is room. All rules met on the way
are candidates, and the result is the best one that provably satisfies the constraints.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor

from eastward import _checks
from eastward.constraints import Constraint
from eastward.decisions._inputs import Sample
from eastward.decisions.shifting import Reference
from eastward.metrics import Metric

__all__ = [
    "Beliefs",
    "Objective",
    "best_rule",
    "candidates",
    "closest_rule",
    "solve",
    "solved_again",
    "threshold_matrix",
]

ROUNDS = 20
# The search ends after this many rounds without a better rule.
PATIENCE = 5

# For tables of mass one: large enough for float64, small enough to give a slope.
DIFFERENCE = 1e-6

# From this many classes on, a dense product is much slower than scales and shifts, which suffice for most matrices.
MANY_CLASSES = 16

# Numbers of a block of scores: half a megabyte.
SCORES_AT_ONCE = 1 << 16


class Beliefs(NamedTuple):
    """The rows of a search: probabilities ``(N, C)``, and beliefs about the truth ``(N, C)``.

    The beliefs of all rows have mass one.
    """

    probabilities: Tensor
    truth: Tensor

    @classmethod
    def of(cls, sample: Sample, label_share: float) -> Beliefs:
        """Mix labels and probabilities; ``sample.scores`` are probabilities here."""
        truth = (1 - label_share) * sample.scores
        truth[torch.arange(len(truth)), sample.targets] += label_share
        truth *= (sample.weight / sample.weight.sum()).unsqueeze(1)
        return cls(sample.scores, truth)

    @property
    def prior(self) -> Tensor:
        """Believed frequencies of the classes, ``(C,)``."""
        return self.truth.sum(0)

    def table(self, matrix: Tensor) -> Tensor:
        """Compute the table ``(C, K)`` of a matrix's rule."""
        decisions = decided(self.probabilities, matrix)
        blank = self.truth.new_zeros(matrix.shape[1], self.truth.shape[1])
        return blank.index_add(0, decisions, self.truth).T


def decided(probabilities: Tensor, matrix: Tensor) -> Tensor:
    """Decide the class of each row by the rule of a matrix, ``(N,)``."""
    score = _scoring(matrix)
    # Scores of all rows at once leave the caches, which takes most of the time at 100 000 x 300.
    rows = max(1, SCORES_AT_ONCE // matrix.shape[1])
    return torch.cat([score(block).argmax(1) for block in probabilities.split(rows)])


def matrix_scores(probabilities: Tensor, matrix: Tensor) -> Tensor:
    """Compute ``probabilities @ matrix``, by scales and shifts if a large matrix has that form."""
    return _scoring(matrix)(probabilities)


def _scoring(matrix: Tensor) -> Callable[[Tensor], Tensor]:
    parts = scales_and_shifts(matrix) if len(matrix) >= MANY_CLASSES else None
    if parts is None:
        return lambda probabilities: probabilities @ matrix
    scales, shifts = parts
    return lambda probabilities: torch.addcmul(shifts, probabilities, scales)


def scales_and_shifts(matrix: Tensor) -> tuple[Tensor, Tensor] | None:
    r"""Return scales a and shifts s if the matrix decides by :math:`a_j p_j + s_j`, else None.

    A constant added to a row changes no decision. Every rule for two classes has this form.

    Examples
    --------
    >>> import torch
    >>> scales_and_shifts(torch.tensor([[3.0, 0.5, 1.0], [1.0, 3.5, 2.0], [0.0, 0.5, 5.0]]))
    (tensor([3., 3., 4.]), tensor([0.0000, 0.5000, 1.0000]))
    """
    size = len(matrix)
    if matrix.shape[1] != size or size < 3:
        return None
    # Two rows determine every shift; the other rows must agree up to a constant.
    first = matrix[0] - matrix[0, 2]
    second = matrix[1] - matrix[1, 2]
    shifts = torch.cat([second[:1], first[1:]])
    rows = torch.arange(size)
    reference = torch.where(rows == 2, 1, 2)
    centred = matrix - (matrix[rows, reference] - shifts[reference]).unsqueeze(1)
    scales = centred.diagonal() - shifts
    rebuilt = torch.diag(scales) + shifts
    tolerance = 1e-9 * max(float(matrix.abs().max()), 1e-300)
    if not torch.allclose(rebuilt, centred, rtol=0, atol=max(tolerance, 1e-12)):
        return None
    return scales, shifts - shifts[0]


@dataclass(frozen=True)
class Objective:
    """The objective of a rule: a metric, the cost of not deciding, and weighted constraints.

    An undecided row is passed on to somebody who decides it correctly, at a cost of ``abstain_cost``. It counts on the
    diagonal of the table, and the cost is multiplied by the share of undecided rows. For accuracy this is Chow's rule,
    for a table of costs Elkan's.
    """

    metric: Metric
    abstain_cost: float | None = None
    constraints: tuple[Constraint, ...] = ()
    multipliers: tuple[float, ...] = ()

    def merit(self, table: Tensor) -> Tensor:
        """Evaluate a table of mass one without constraints; higher is better."""
        size = len(table)
        if table.shape[1] == size:
            value = self.metric(table)
            return value if self.metric.higher_is_better else -value
        left = table[:, size]
        value = self.metric(table[:, :size] + torch.diag(left))
        merit = value if self.metric.higher_is_better else -value
        return merit - self._price(left)

    def _price(self, left: Tensor) -> Tensor:
        price = (self.abstain_cost or 0.0) * left.sum()
        if self.metric.name == "expected_cost":
            # An undecided row costs only the abstention, not a correct decision as well.
            table = torch.as_tensor(self.metric.options["cost"], dtype=left.dtype)
            price = price - (table.diagonal() * left).sum()
        return price

    def value(self, table: Tensor) -> float:
        """Return :meth:`merit` as a number; NaN counts as the worst."""
        number = float(torch.as_tensor(self.merit(table)))
        return number if number == number else -torch.inf  # noqa: PLR0124 - NaN

    def slope(self, table: Tensor) -> Tensor:
        """Compute the gradient of the merit and of the weighted constraints, ``(C, K)``."""
        gradient = _gradient(self.merit, table)
        # Without multipliers the constraints do not count yet.
        for constraint, multiplier in zip(self.constraints, self.multipliers, strict=False):
            if multiplier:
                gradient = gradient + multiplier * _gradient(constraint.slack, table)
        return gradient


def _gradient(function: object, table: Tensor) -> Tensor:
    """Differentiate by autograd, or by differences if autograd cannot follow the function."""
    leaf = table.detach().clone().requires_grad_()
    with torch.enable_grad():
        value = function(leaf)  # type: ignore[operator]  # a callable
    if isinstance(value, Tensor) and value.requires_grad:
        (gradient,) = torch.autograd.grad(value, leaf)
        return torch.nan_to_num(gradient, nan=0.0, posinf=0.0, neginf=0.0)
    base, flat = float(value), table.flatten()
    slopes = torch.zeros_like(flat)
    for cell in range(len(flat)):
        moved = flat.clone()
        moved[cell] += DIFFERENCE
        slopes[cell] = (float(function(moved.reshape(table.shape))) - base) / DIFFERENCE  # type: ignore[operator]
    return slopes.reshape(table.shape)


class Solution(NamedTuple):
    """A rule, its value, and its table on the beliefs."""

    matrix: Tensor
    value: float
    table: Tensor


def solve(
    beliefs: Beliefs, objective: Objective, starts: Iterable[Tensor], *, rounds: int = ROUNDS
) -> list[Solution]:
    """Return all rules that Frank–Wolfe meets from the given starts, best first."""
    met = []
    for start in starts:
        table = beliefs.table(start)
        met.append(Solution(start, objective.value(table), table))
        best, since = met[-1].value, 0
        for number in range(rounds):
            matrix = centred(objective.slope(table))
            reached = beliefs.table(matrix)
            met.append(Solution(matrix, objective.value(reached), reached))
            since = 0 if met[-1].value > best else since + 1
            best = max(best, met[-1].value)
            if since == PATIENCE or torch.allclose(reached, table, rtol=0, atol=1e-12):
                break
            table = torch.lerp(table, reached, 2 / (number + 2))
    # Of equally good rules the first one met stays, which is the plain argmax if it is among them.
    return sorted(met, key=lambda solution: -solution.value)


def start_rules(prior: Tensor, *, abstaining: bool) -> list[Tensor]:
    """Return the starts of the search: the most probable class, before and after division by frequencies."""
    floor = prior.clamp_min(1e-12)
    rules = [torch.diag(floor.pow(power)) for power in (0.0, -1.0, -0.5)]
    if not abstaining:
        return rules
    return [torch.cat([rule, torch.zeros_like(rule[:, :1])], 1) for rule in rules]


def centred(matrix: Tensor) -> Tensor:
    """Scale the matrix to length one with rows of mean zero, which changes no decision."""
    matrix = matrix - matrix.mean(1, keepdim=True)
    length = float(matrix.norm())
    return matrix / length if length > 0 else matrix


def check_metric(caller: str, metric: Metric, size: int) -> None:
    """Check that a metric gives one number for a table of this many classes."""
    value: object = metric(torch.full((size, size), 1.0 / size**2, dtype=torch.float64))
    if isinstance(value, Tensor) and value.dim() != 0:
        got = _checks.describe(value)
        _checks.fail(caller, "metric", "one number for a table", got, error=TypeError)


# The margin by which a rule satisfies each constraint; none may be negative.
Margins: TypeAlias = Callable[[Solution], list[float]]

MAX_THRESHOLDS = 1000

# Multipliers move by up to FIRST_STEP nats, then by less and less: two dozen nats in all, enough for any start.
PATH, FIRST_STEP, SHRINK = 32, 2.0, 0.92
FIRST_MULTIPLIER = 0.1
ROUNDS_ON_PATH = 8
# A margin of this size moves a multiplier by a whole step.
WHOLE_STEP = 0.05

# If no rule satisfies all constraints, this many with the best expected margins are examined.
CLOSEST = 60


def candidates(
    beliefs: Beliefs, objective: Objective, hint: Tensor, margins: Margins
) -> list[Solution]:
    """Collect rules that may satisfy the constraints, best first."""
    size, width = hint.shape
    if size == width == 2:
        found = thresholds(beliefs, objective)
    else:
        found = [*_extremes(beliefs, objective, hint), *_path(beliefs, objective, hint, margins)]
    return sorted(found, key=lambda solution: -solution.value)


def best_rule(found: Iterable[Solution], holds: Callable[[Solution], bool]) -> Solution | None:
    """Return the first candidate that satisfies every constraint, or None."""
    return next((one for one in found if holds(one)), None)


def closest_rule(found: list[Solution], objective: Objective, margins: Margins) -> Solution:
    """Return the candidate whose worst margin is largest."""

    def expected(solution: Solution) -> float:
        return min(float(one.slack(solution.table)) for one in objective.constraints)

    likely = sorted(found, key=expected, reverse=True)[:CLOSEST]
    return max(likely, key=lambda solution: min(margins(solution)))


def thresholds(beliefs: Beliefs, objective: Objective) -> list[Solution]:
    """List every rule for two classes: thresholds between any two probabilities, and outside all of them."""
    ordered, order = beliefs.probabilities[:, 1].sort()
    inside = torch.nonzero(ordered.diff() > 1e-12).flatten()
    if len(inside) > MAX_THRESHOLDS:
        inside = inside[torch.linspace(0, len(inside) - 1, MAX_THRESHOLDS).long()]
    outside = ordered.new_tensor([-0.01, 1.01])
    cuts = torch.cat([outside[:1], (ordered[inside] + ordered[inside + 1]) / 2, outside[1:]])
    last = torch.tensor([0, len(ordered)])
    below = torch.cat([last[:1], inside + 1, last[1:]])
    summed = torch.cat([beliefs.truth.new_zeros(1, 2), beliefs.truth[order].cumsum(0)])
    negative = summed[below]
    tables = torch.stack([negative, summed[-1] - negative], 2).clamp_min(0)
    return [
        Solution(threshold_matrix(float(cut)), objective.value(table), table)
        for cut, table in zip(cuts, tables, strict=True)
    ]


def threshold_matrix(threshold: float) -> Tensor:
    """Return the matrix that decides for class 1 of two from a given probability on.

    Examples
    --------
    >>> import torch
    >>> p = torch.tensor([[0.9, 0.1], [0.7, 0.3]], dtype=torch.float64)
    >>> (p @ threshold_matrix(0.2)).argmax(1)
    tensor([0, 1])
    """
    return torch.diag(torch.tensor([threshold, 1 - threshold], dtype=torch.float64))


def _path(beliefs: Beliefs, objective: Objective, hint: Tensor, margins: Margins) -> list[Solution]:
    """Collect the rules met while the multipliers settle."""
    count = len(objective.constraints)
    logs, step, met = [math.log(FIRST_MULTIPLIER)] * count, FIRST_STEP, []
    starts = [hint, start_rules(beliefs.prior, abstaining=hint.shape[1] > len(hint))[0]]
    for _ in range(PATH):
        weighted = replace(objective, multipliers=tuple(math.exp(one) for one in logs))
        found = solve(beliefs, weighted, starts, rounds=ROUNDS_ON_PATH)
        best = max(found, key=lambda one: _lagrangian(one, weighted))
        met += found
        moves = [max(-1.0, min(1.0, margin / WHOLE_STEP)) for margin in margins(best)]
        logs = [one - step * move for one, move in zip(logs, moves, strict=True)]
        step *= SHRINK
    return met


def _lagrangian(solution: Solution, objective: Objective) -> float:
    pairs = zip(objective.constraints, objective.multipliers, strict=True)
    return solution.value + sum(weight * float(one.slack(solution.table)) for one, weight in pairs)


def _extremes(beliefs: Beliefs, objective: Objective, hint: Tensor) -> list[Solution]:
    """Return rules that optimise a single constraint each."""
    met = []
    for place in range(len(objective.constraints)):
        weights = [0.0] * len(objective.constraints)
        weights[place] = 1e6
        weighted = replace(objective, multipliers=tuple(weights))
        met += solve(beliefs, weighted, [centred(hint)], rounds=ROUNDS_ON_PATH)
    return met


def solved_again(reference: Reference, ratio: Tensor, objective: Objective, width: int) -> Solution:
    """Solve again for frequencies changed by a ratio per class, on the rows that a decision has stored.

    Constraints hold in expectation, or as nearly as possible.
    """
    beliefs = Beliefs(*reference.under(ratio))
    size = len(ratio)
    if size == width == 2 and not objective.constraints:
        return max(thresholds(beliefs, objective), key=lambda one: one.value)
    starts = start_rules(beliefs.prior, abstaining=width > size)
    plain = solve(beliefs, replace(objective, constraints=()), starts)[0]
    if not objective.constraints:
        return plain

    def margins(solution: Solution) -> list[float]:
        return [float(one.slack(solution.table)) for one in objective.constraints]

    found = candidates(beliefs, objective, plain.matrix, margins)
    best = best_rule([plain, *found], lambda one: min(margins(one)) >= 0)
    return best or closest_rule(found, objective, margins)
