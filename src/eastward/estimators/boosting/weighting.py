"""Choose whether the cross-entropy model gives classes equal weight.

Trees stop splitting when a leaf would have too little weight, so they hardly learn a rare class. An offset afterwards
cannot separate rows that the trees did not. Therefore the default weights are inverse to the class frequencies, unless
held-out rows favour the model without them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from eastward.decisions._search import Merit
from eastward.estimators.boosting.folds import Problem, columns, fold_gain, fold_tables
from eastward.metrics import Metric

__all__ = ["Weighting", "balanced_weights", "choose_weighting", "train_weighted"]

Array: TypeAlias = NDArray[Any]


@dataclass(frozen=True)
class Weighting:
    """The class weights of the cross-entropy model, and the evidence for them.

    Attributes
    ----------
    balanced : bool
        Whether classes have equal weight.
    scores : array of shape (N, C)
        Held-out log-probabilities of that model.
    before : array of shape (N, C)
        Log-probabilities of the model without class weights, if it was tried; otherwise ``scores``.
    tried : bool
        Whether both were tried.
    gain, standard_error : float
        Gain of balanced weights on held-out rows, and its error.
    """

    balanced: bool
    scores: Array
    before: Array
    tried: bool = False
    gain: float = 0.0
    standard_error: float = 0.0


def balanced_weights(codes: Array, weight: Array | None, num_classes: int) -> Array:
    """Compute weights ``(C,)`` inverse to the mass of each class, which keep the total.

    Examples
    --------
    >>> import numpy as np
    >>> balanced_weights(np.array([0, 0, 0, 1]), None, 2)
    array([0.66666667, 2.        ])
    """
    mass = np.bincount(codes, weight, minlength=num_classes)
    # A class without rows in a fold needs no weight there.
    found: Array = mass.sum() / np.count_nonzero(mass) / np.where(mass > 0, mass, np.inf)
    return found


def train_weighted(problem: Problem, chosen: Array, rounds: int, *, balanced: bool) -> Any:
    """Train the library's cross-entropy model on some rows."""
    features, codes, weight = problem.rows(chosen)
    if balanced:
        by_class = balanced_weights(codes, weight, problem.num_classes)[codes]
        weight = by_class if weight is None else by_class * weight
    return problem.backend.train(features, codes, weight, rounds)


def choose_weighting(
    problem: Problem, rounds: int, balanced: bool | str, guard: float | None
) -> Weighting:
    """Cross-fit the model with balanced weights and without, and keep one.

    Parameters
    ----------
    problem : Problem
        The rows.
    rounds : int
        Rounds of the model.
    balanced : bool or "auto"
        True or False decides; "auto" tries both.
    guard : float or None
        Standard errors that the gain over the default must exceed; None is zero. The default is balanced weights, or
        none for a metric that counts correct decisions of all classes alike.

    Returns
    -------
    Weighting
        The choice, and the evidence for it.
    """
    equal = np.allclose(balanced_weights(problem.codes, problem.weight, problem.num_classes), 1)
    if balanced != "auto" or equal:
        asked = balanced is True and not equal
        scores = _cross_fitted(problem, rounds, balanced=asked)
        return Weighting(asked, scores, scores)
    plain, even = (_cross_fitted(problem, rounds, balanced=each) for each in (False, True))
    merit = Merit(problem.metric, problem.num_classes)
    gain, error = fold_gain(merit, *fold_tables(problem, np.stack([plain, even])))
    # The default changes only for a gain above the guard.
    sign = 1 if rows_count_alike(problem.metric, problem.num_classes) else -1
    chosen = gain > sign * (guard or 0.0) * error
    return Weighting(chosen, even if chosen else plain, plain, True, gain, error)


def rows_count_alike(metric: Metric, num_classes: int) -> bool:
    """Whether the metric counts correct decisions of all classes alike, as accuracy does.

    Examples
    --------
    >>> from eastward import metrics
    >>> [rows_count_alike(metrics.get(name), 3) for name in ("accuracy", "f1_micro", "f1_macro")]
    [True, True, False]
    """
    table = torch.full((num_classes, num_classes), 1.0, dtype=torch.float64)
    table.diagonal().fill_(8.0)
    moved = table.clone()
    moved[0, 0] += 3.0
    moved[1, 1] -= 3.0
    return abs(float(metric(table)) - float(metric(moved))) < 1e-9


def _cross_fitted(problem: Problem, rounds: int, *, balanced: bool) -> Array:
    """Predict log-probabilities ``(N, C)`` of each row by a model that was not trained on it."""
    scores = np.zeros((len(problem.codes), problem.num_classes))
    for outside, inside in problem.parts:
        booster = train_weighted(problem, outside, rounds, balanced=balanced)
        scores[inside] = columns(problem.backend.raw_scores(booster, problem.features[inside]))
    return torch.from_numpy(scores).log_softmax(1).numpy()
