"""Rounds of trees that follow the metric, and whether cross-validation favours them.

They start at *held-out* scores of the cross-entropy model. Its scores of rows that it was trained on are nearly all
right, so that the metric has no slope there; what is left to learn shows on rows that it has not seen.
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

# Fractions of the largest number of rounds that are tried.
FRACTIONS = (0.1, 0.2, 0.4, 0.7, 1.0)


@dataclass(frozen=True)
class AlignedEvidence:
    """What aligned rounds bring on held-out rows.

    Attributes
    ----------
    rounds : int
        How many are best; 0 if none are favoured.
    gain, standard_error : float
        Of a number of rounds that is chosen without the fold it is judged on; the error is the jackknife's.
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
    """Trees that follow the metric on the rows ``chosen``, from scores ``(N, C)`` of theirs."""
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
        Scores of each row by a cross-entropy model that has not seen it.
    shifts : array of shape (N, C)
        Offsets to start at, for each row those that were tuned without it.
    temperature : float
        Of the metric's surrogate.
    max_rounds : int
        The largest number of rounds.
    guard : float or None
        Standard errors that the gain has to exceed; None keeps the best number of rounds in any case.

    Returns
    -------
    AlignedEvidence
        The choice and what it rests on.
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
    # Without a guard the user wants aligned rounds, so "none" is no candidate.
    totals = merit(tables.sum(1))
    best = int(totals.argmax()) if guard is not None else 1 + int(totals[1:].argmax())
    favoured = guard is None or (best > 0 and gain > guard * error)
    chosen = best if favoured else 0
    return AlignedEvidence([0, *candidates][chosen], gain, error, favoured, staged[chosen])


def _honest_gain(merit: Merit, tables: Tensor) -> tuple[float, float]:
    """Gain over no rounds when each fold's number is chosen on the others, and its jackknife error."""
    size = tables.shape[1]
    others = tables.sum(1, keepdim=True) - tables
    choice = torch.stack([merit(others[:, k]) for k in range(size)]).argmax(1)
    honest = torch.stack([tables[choice[k], k] for k in range(size)])
    return fold_gain(merit, tables[0], honest)
