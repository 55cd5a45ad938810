"""The loss and its slopes at the sums over samples: in closed form where there is one, by autograd elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from eastward.kernels.closed_form import (
    MARGINS,
    ONE_PAIR,
    SEPARATE,
    counts_of_sums,
    loss_and_slope_of_sums,
    sum_slopes,
)
from eastward.kernels.problems import Problem
from eastward.kernels.rules import Rule, rule_of
from eastward.kernels.slopes import loss_and_slope
from eastward.metrics import Metric
from eastward.protocols import Reduce

__all__ = ["Scoring", "losses_and_slopes"]

_LAYOUTS = {"dynamic": MARGINS, "fixed": MARGINS, "pair": ONE_PAIR, "labels": SEPARATE}


class Scoring(NamedTuple):
    """What becomes of the sums.

    Attributes
    ----------
    metric : Metric
        What is to be maximised.
    virtual : bool
        Whether missing classes are given a little mass.
    loss_of_tables : callable
        The definition: tables ``(G, C, C)`` or ``(G, 4, C)`` to a 0-d loss. Differentiated where there is no closed
        form.
    reduce : callable, optional
        Sum over processes.
    anchor : callable, optional
        From the tables of this batch to those where value and derivative are taken (a running estimate).
    """

    metric: Metric
    virtual: bool
    loss_of_tables: Callable[[Tensor], Tensor]
    reduce: Reduce | None = None
    anchor: Callable[[Tensor], Tensor] | None = None


def losses_and_slopes(
    sums: Tensor, problem: Problem, scoring: Scoring, compiled: Callable[..., Any] | None
) -> tuple[Tensor, Tensor, bool | Tensor]:
    """Losses ``(K,)``, slopes (see :class:`~eastward.kernels.problems.Backend`), whether any table is empty."""
    rule = _rule(sums, problem, scoring)
    if rule is None:
        return _by_autograd(sums, problem, scoring)
    layout = _LAYOUTS[problem.kind]
    tables = sums.numpy().reshape(-1, *sums.shape[2:])
    if scoring.anchor is not None:
        losses, slopes = _at_anchor(tables, layout, rule, scoring.anchor)
    elif compiled is not None:
        losses, slopes = compiled(tables, layout, rule)
    else:
        losses, slopes = loss_and_slope_of_sums(tables, layout, rule)
    return _averaged(losses, slopes, tables, sums.shape[:2])


def _rule(sums: Tensor, problem: Problem, scoring: Scoring) -> Rule | None:
    if problem.matrix or sums.device.type != "cpu":
        return None
    size = 2 if problem.kind == "pair" else sums.shape[3]
    exclusive = problem.kind != "labels"
    if exclusive and scoring.metric.needs_matrix:
        return None
    return rule_of(scoring.metric, size, exclusive=exclusive, virtual=scoring.virtual)


def _averaged(
    losses: np.ndarray, slopes: np.ndarray, tables: np.ndarray, shape: tuple[int, ...]
) -> tuple[Tensor, Tensor, bool]:
    """The mean over the thresholds of a grid; whether no sample counts."""
    members, grid = shape
    slopes = slopes.reshape(members, grid, *slopes.shape[1:])
    # From the third row on, sums are masses of true classes, whatever the layout.
    empty = not tables[:, 2:].any()
    if grid > 1:
        losses, slopes = losses.reshape(members, grid).mean(1), slopes / grid
    return torch.from_numpy(losses), torch.from_numpy(slopes), empty


def _at_anchor(
    tables: np.ndarray, layout: int, rule: Rule, anchor: Callable[[Tensor], Tensor]
) -> tuple[np.ndarray, np.ndarray]:
    now = torch.from_numpy(counts_of_sums(tables, layout)).float()
    losses, slope = loss_and_slope(anchor(now).double().numpy(), rule)
    return losses, sum_slopes(slope, layout)


def _by_autograd(
    sums: Tensor, problem: Problem, scoring: Scoring
) -> tuple[Tensor, Tensor, bool | Tensor]:
    losses, slopes = [], []
    with torch.enable_grad():
        for member in sums.float():
            leaf = member.detach().requires_grad_()
            tables = _tables(leaf, problem, scoring.metric)
            if scoring.anchor is not None:
                now = tables.detach()
                tables = scoring.anchor(now) + (tables - now)
            loss = scoring.loss_of_tables(tables)
            (slope,) = torch.autograd.grad(loss, leaf)
            losses.append(loss.detach())
            slopes.append(slope if problem.matrix else slope[:, :2])
    return torch.stack(losses), torch.stack(slopes), sums.sum() <= 0


def _tables(sums: Tensor, problem: Problem, metric: Metric) -> Tensor:
    """Tables ``(G, C, C)`` or ``(G, 4, C)``, differentiable in the sums of one member."""
    if problem.matrix:
        return sums
    if not problem.binary:
        right, predicted, true = sums.unbind(1)
        false = (predicted - right).clamp_min(0)
        rest = true.sum(1, keepdim=True) - true
        missed = (true - right).clamp_min(0)
        return torch.stack([right, false, missed, (rest - false).clamp_min(0)], dim=1)
    found, false, positives, negatives = sums.unbind(1)
    columns = torch.stack([found, false, positives - found, negatives - false], dim=1).clamp_min(0)
    if problem.kind == "labels":
        return columns
    found, false, missed, rest = columns.unbind(1)
    if metric.needs_matrix:
        return torch.stack([torch.cat([rest, false], 1), torch.cat([missed, found], 1)], dim=1)
    return torch.cat([columns.flip(1), columns], dim=2)
