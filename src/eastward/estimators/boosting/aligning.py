"""Rounds of trees that follow the metric, kept if cross-validation favours them.

They start at *held-out* scores of the cross-entropy model. The model is right about nearly all rows that it was
trained on, so the metric has no gradient there. Only held-out rows show what is left to learn.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from eastward.boosting.objectives import lightgbm_objective
from eastward.decisions._search import Merit
from eastward.estimators.boosting.backends import Objective
from eastward.estimators.boosting.folds import Problem, columns, fold_gain, fold_tables, margins

__all__ = ["AlignedEvidence", "aligned_evidence", "train_aligned"]

Array: TypeAlias = NDArray[Any]

# The fractions of the largest number of rounds to try.
FRACTIONS = (0.1, 0.2, 0.4, 0.7, 1.0)


@dataclass(frozen=True)
class AlignedEvidence:
    """The gain of aligned rounds on held-out rows.

    Attributes
    ----------
    rounds : int
        The best number of rounds; 0 if none are favoured.
    gain, standard_error : float
        Gain of a number of rounds chosen without the fold that judges it, and its jackknife error.
    favoured : bool
        Whether the gain exceeds the guard.
    scores : array of shape (N, C)
        Held-out scores with that many rounds.
    """

    rounds: int
    gain: float
    standard_error: float
    favoured: bool
    scores: Array


def train_aligned(
    problem: Problem, chosen: Array, start: Array, temperature: float, rounds: int
) -> Any:
    """Train trees that follow the metric on the rows ``chosen``, starting at their scores ``(N, C)``."""
    objective: Objective = lightgbm_objective(problem.metric, temperature=temperature)
    data = problem.rows(chosen)
    begin = np.ascontiguousarray(margins(start))
    return problem.backend.train(*data, rounds, start=begin, objective=objective)


def aligned_evidence(
    problem: Problem,
    held_out: Array,
    shifts: Array,
    *,
    temperature: float,
    max_rounds: int,
    guard: float | None,
) -> AlignedEvidence:
    """Try several numbers of aligned rounds on folds.

    Parameters
    ----------
    problem : Problem
        The rows.
    held_out : array of shape (N, C)
        Scores of each row by a cross-entropy model that was not trained on it.
    shifts : array of shape (N, C)
        Offsets to start at; those of a row were tuned without it.
    temperature : float
        Temperature of the metric's surrogate.
    max_rounds : int
        The largest number of rounds.
    guard : float or None
        Standard errors that the gain must exceed; None always keeps the best number of rounds.

    Returns
    -------
    AlignedEvidence
        The choice, and the evidence for it.
    """
    candidates = sorted({max(1, round(part * max_rounds)) for part in FRACTIONS})
    staged = np.repeat((held_out + shifts)[None], len(candidates) + 1, axis=0)
    for outside, inside in problem.parts:
        begin = held_out[outside] + shifts[inside[0]]
        booster = train_aligned(problem, outside, begin, temperature, candidates[-1])
        for position, rounds in enumerate(candidates, start=1):
            added = problem.backend.raw_scores(booster, problem.features[inside], rounds)
            staged[position, inside] += columns(added)
    tables = fold_tables(problem, staged)
    merit = Merit(problem.metric, problem.num_classes)
    gain, error = _honest_gain(merit, tables)
    # Without a guard the user wants aligned rounds, so "none" is not a candidate.
    totals = merit(tables.sum(1))
    best = int(totals.argmax()) if guard is not None else 1 + int(totals[1:].argmax())
    favoured = guard is None or (best > 0 and gain > guard * error)
    chosen = best if favoured else 0
    return AlignedEvidence([0, *candidates][chosen], gain, error, favoured, staged[chosen])


def _honest_gain(merit: Merit, tables: Tensor) -> tuple[float, float]:
    """Compute the gain when each fold's number of rounds is chosen on the others, and its jackknife error."""
    size = tables.shape[1]
    others = tables.sum(1, keepdim=True) - tables
    choice = torch.stack([merit(others[:, k]) for k in range(size)]).argmax(1)
    honest = torch.stack([tables[choice[k], k] for k in range(size)])
    return fold_gain(merit, tables[0], honest)
