"""Curves for a report: what a constraint costs, and how accuracy grows where unclear rows are left out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from eastward.constraints import Constraint
from eastward.decisions._inputs import Sample
from eastward.decisions.constrained import candidates
from eastward.decisions.estimating import Tuner, counts
from eastward.decisions.solving import Beliefs, Solution

__all__ = ["constraint_curves", "coverage_curve"]

POINTS = 21


def coverage_curve(probabilities: Tensor, targets: Tensor, weight: Tensor) -> dict[str, Any]:
    """Accuracy of the rows that are decided, if the least certain ones are not.

    Parameters
    ----------
    probabilities : Tensor
        ``(N, C)``.
    targets, weight : Tensor
        ``(N,)``.

    Returns
    -------
    dict
        ``coverage`` and ``accuracy``, lists from little coverage to all rows.

    Examples
    --------
    >>> import torch
    >>> p = torch.tensor([[0.9, 0.1], [0.6, 0.4]])
    >>> coverage_curve(p, torch.tensor([0, 1]), torch.ones(2))["accuracy"][-1]
    0.5
    """
    sure, chosen = probabilities.max(1)
    order = sure.argsort(descending=True, stable=True)
    mass = weight[order].double()
    right = (mass * (chosen == targets)[order]).cumsum(0)
    share = mass.cumsum(0) / mass.sum()
    accuracy = right / mass.cumsum(0)
    wanted = torch.linspace(1 / POINTS, 1, POINTS, dtype=torch.float64)
    places = torch.searchsorted(share, wanted - 1e-9).clamp_max(len(share) - 1)
    return {"coverage": share[places].tolist(), "accuracy": accuracy[places].tolist()}


def constraint_curves(sample: Sample, tuner: Tuner) -> list[dict[str, Any]]:
    """For each constraint alone, the best value of the metric that held-out rows show against its bound.

    Values are those of the rows, without a bound's margin: what the constraint costs, not what is proven.

    Returns
    -------
    list of dict
        ``constraint`` (its words), ``bound`` (the one asked for), and ``bounds`` with ``values``.
    """
    return [_curve(sample, tuner, one) for one in tuner.objective.constraints]


def _curve(sample: Sample, tuner: Tuner, constraint: Constraint) -> dict[str, Any]:
    objective = replace(tuner.objective, constraints=(constraint,))
    alone = replace(tuner, objective=objective)
    beliefs = Beliefs.of(sample, tuner.label_share)
    hint = replace(tuner, n_bags=1).matrix(sample)

    def margins(solution: Solution) -> list[float]:
        return [float(constraint.slack(solution.table))]

    found = candidates(beliefs, objective, hint, margins)
    step = max(1, len(found) // 400)
    pairs = []
    for matrix in [hint, *(one.matrix for one in found[::step])]:
        table = counts(sample, matrix)
        table = table / table.sum()
        pairs.append((float(constraint.value(table)), alone.objective.value(table)))
    sign = 1 if objective.metric.higher_is_better else -1
    reached = torch.tensor([value for value, _ in pairs], dtype=torch.float64)
    merits = torch.tensor([merit for _, merit in pairs], dtype=torch.float64)
    low, high = float(reached.min()), float(reached.max())
    bounds = torch.linspace(low, high, POINTS, dtype=torch.float64)
    values = []
    for bound in bounds.tolist():
        kept = reached >= bound - 1e-9 if constraint.at_least else reached <= bound + 1e-9
        values.append(sign * float(merits[kept].max()))
    return {
        "constraint": constraint.text,
        "bound": constraint.bound,
        "at_least": constraint.at_least,
        "bounds": bounds.tolist(),
        "values": values,
    }
