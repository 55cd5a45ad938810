"""The best rule among those that keep every constraint.

Two classes: every threshold is tried. More, or with rows left undecided: the solver runs under multipliers for the
constraints, which grow where a constraint is broken and shrink where it is kept with room to spare; all rules met on
the way are candidates. The best candidate that passes the proof is the answer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TypeAlias

import torch
from torch import Tensor

from eastward.decisions.shifting import Reference
from eastward.decisions.solving import Beliefs, Objective, Solution, centred, solve, start_rules

__all__ = ["best_rule", "candidates", "closest_rule", "solved_again", "threshold_matrix"]

# For each constraint, by how much a rule keeps it: what has to be negative nowhere.
Margins: TypeAlias = Callable[[Solution], list[float]]

MAX_THRESHOLDS = 1000

# Multipliers move by up to FIRST_STEP nats, and ever less: two dozen nats in all, so no start is too far.
PATH, FIRST_STEP, SHRINK = 32, 2.0, 0.92
FIRST_MULTIPLIER = 0.1
ROUNDS_ON_PATH = 8
# A margin of this much moves a multiplier by a whole step.
WHOLE_STEP = 0.05

# So many rules with the best expected margins are looked at where none keeps all constraints.
CLOSEST = 60


def candidates(
    beliefs: Beliefs, objective: Objective, hint: Tensor, margins: Margins
) -> list[Solution]:
    """Rules that may keep the constraints, best first by merit."""
    size, width = hint.shape
    if size == width == 2:
        found = thresholds(beliefs, objective)
    else:
        found = [*_extremes(beliefs, objective, hint), *_path(beliefs, objective, hint, margins)]
    return sorted(found, key=lambda solution: -solution.value)


def best_rule(found: Iterable[Solution], holds: Callable[[Solution], bool]) -> Solution | None:
    """The first of the candidates that keeps every constraint, or None."""
    return next((one for one in found if holds(one)), None)


def closest_rule(found: list[Solution], objective: Objective, margins: Margins) -> Solution:
    """The candidate whose worst margin is largest."""

    def expected(solution: Solution) -> float:
        return min(float(one.slack(solution.table)) for one in objective.constraints)

    likely = sorted(found, key=expected, reverse=True)[:CLOSEST]
    return max(likely, key=lambda solution: min(margins(solution)))


def thresholds(beliefs: Beliefs, objective: Objective) -> list[Solution]:
    """Every rule for two classes: a threshold between any two probabilities, or outside all of them."""
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
    """The matrix that decides for class 1 of two from a probability on.

    Examples
    --------
    >>> import torch
    >>> p = torch.tensor([[0.9, 0.1], [0.7, 0.3]], dtype=torch.float64)
    >>> (p @ threshold_matrix(0.2)).argmax(1)
    tensor([0, 1])
    """
    return torch.diag(torch.tensor([threshold, 1 - threshold], dtype=torch.float64))


def _path(beliefs: Beliefs, objective: Objective, hint: Tensor, margins: Margins) -> list[Solution]:
    """Rules met while the multipliers look for their balance."""
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
    """Rules for which single constraints are all that counts."""
    met = []
    for place in range(len(objective.constraints)):
        weights = [0.0] * len(objective.constraints)
        weights[place] = 1e6
        weighted = replace(objective, multipliers=tuple(weights))
        met += solve(beliefs, weighted, [centred(hint)], rounds=ROUNDS_ON_PATH)
    return met


def solved_again(reference: Reference, ratio: Tensor, objective: Objective, width: int) -> Solution:
    """The best rule for frequencies changed by a ratio for each class, on the rows a decision keeps.

    Constraints are kept in expectation, or as nearly as a rule can.
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
