"""The fit of EASTBoostingClassifier, in reading order.

Cross-fit the library's cross-entropy model with and without balanced weights, and keep one of them. Find offsets for
the metric on its held-out scores. Try aligned rounds from there, and keep them if held-out rows favour them. Train on
all rows. The decision is tuned afterwards, on the resulting held-out scores.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from eastward.decisions import bagged_offsets
from eastward.decisions._search import Merit
from eastward.estimators.boosting.aligning import AlignedEvidence, aligned_evidence, train_aligned
from eastward.estimators.boosting.folds import Problem, fold_gain, fold_tables
from eastward.estimators.boosting.weighting import (
    Weighting,
    balanced_weights,
    choose_weighting,
    train_weighted,
)

__all__ = ["FittedTrees", "Options", "fit_trees"]

Array: TypeAlias = NDArray[Any]


@dataclass(frozen=True)
class Options:
    """Options of the fit; see the parameters of the classifier."""

    rounds: int
    balanced: bool | str
    aligned: bool | str
    aligned_rounds: int
    temperature: float
    guard: float | None
    n_bags: int
    seed: int


@dataclass(frozen=True)
class FittedTrees:
    """Boosters, the shifts of their scores, and held-out scores of the training rows.

    Attributes
    ----------
    base, aligned
        The boosters; ``aligned`` is None if no aligned rounds are kept.
    class_weights : ndarray
        ``(C,)``: the class weights of the base.
    aligned_rounds : int
        Number of aligned rounds kept.
    shifts : ndarray
        ``(C,)``, added to the scores of all trees: the start of aligned trees, or the correction for class weights.
    held_out : ndarray
        ``(N, C)`` log-probabilities.
    report : dict
        The evidence for weights and aligned rounds, with ``sentences``.
    """

    base: Any
    class_weights: Array
    aligned: Any
    aligned_rounds: int
    shifts: Array
    held_out: Array
    report: dict[str, Any]


def fit_trees(problem: Problem, options: Options) -> FittedTrees:
    """Fit trees on checked data."""
    weighting = choose_weighting(problem, options.rounds, options.balanced, options.guard)
    base = train_weighted(problem, problem.every, options.rounds, balanced=weighting.balanced)
    weights = np.ones(problem.num_classes)
    if weighting.balanced:
        weights = balanced_weights(problem.codes, problem.weight, problem.num_classes)
    offsets, evidence = _aligned(problem, weighting.scores, options)
    report = _report(weighting, evidence)
    if evidence is None or evidence.rounds == 0:
        shifts = -np.log(weights)
        held_out = _log_softmax(weighting.scores + shifts)
        return FittedTrees(base, weights, None, 0, shifts, held_out, report)
    start = weighting.scores + offsets
    trees = train_aligned(problem, problem.every, start, options.temperature, evidence.rounds)
    held_out = _log_softmax(evidence.scores)
    return FittedTrees(base, weights, trees, evidence.rounds, offsets, held_out, report)


def _aligned(
    problem: Problem, held_out: Array, options: Options
) -> tuple[Array, AlignedEvidence | None]:
    """Return the offsets where aligned trees start, and the evidence for them."""
    if options.aligned is False:
        return np.zeros(problem.num_classes), None
    offsets, shifts = _start(problem, held_out, options)
    evidence = aligned_evidence(
        problem,
        held_out,
        shifts,
        temperature=options.temperature,
        max_rounds=options.aligned_rounds,
        guard=None if options.aligned is True else options.guard,
    )
    return offsets, evidence


def _start(problem: Problem, scores: Array, options: Options) -> tuple[Array, Array]:
    """Find offsets ``(C,)``, and for each row those tuned without its fold; zeros if the folds favour none."""

    def tuned(rows: Array) -> Array:
        weight = None if problem.weight is None else problem.weight[rows]
        found: Array = bagged_offsets(
            scores[rows],
            problem.codes[rows],
            problem.metric,
            n_bags=options.n_bags,
            sample_weight=weight,
            random_state=options.seed,
        ).numpy()
        return found

    shifts = np.stack([tuned(outside) for outside, _ in problem.parts])[problem.folds]
    tables = fold_tables(problem, np.stack([scores, scores + shifts]))
    gain, error = fold_gain(Merit(problem.metric, problem.num_classes), *tables)
    if options.guard is not None and gain <= options.guard * error:
        return np.zeros(problem.num_classes), np.zeros_like(scores)
    return tuned(problem.every), shifts


def _log_softmax(scores: Array) -> Array:
    logs: Array = torch.from_numpy(scores).log_softmax(1).numpy()
    return logs


def _report(weighting: Weighting, aligned: AlignedEvidence | None) -> dict[str, Any]:
    """Report the evidence for each step, as plain data."""
    report = {"weights": _weights_report(weighting), "aligned": _aligned_report(aligned)}
    sentences = [_weight_words(report["weights"]), _aligned_words(report["aligned"])]
    return {**report, "sentences": [f"{sentence}." for sentence in sentences]}


def _weights_report(weighting: Weighting) -> dict[str, Any]:
    known: dict[str, Any] = {"tried": weighting.tried, "balanced": weighting.balanced}
    if weighting.tried:
        known |= {"gain": weighting.gain, "standard_error": weighting.standard_error}
    return known


def _aligned_report(aligned: AlignedEvidence | None) -> dict[str, Any]:
    if aligned is None:
        return {"tried": False, "rounds": 0}
    return {
        "tried": True,
        "rounds": aligned.rounds,
        "favoured": aligned.favoured,
        "gain": aligned.gain,
        "standard_error": aligned.standard_error,
    }


def _weight_words(weights: dict[str, Any]) -> str:
    if not weights["tried"]:
        return f"Classes are {'' if weights['balanced'] else 'not '}weighted"
    kept = "kept" if weights["balanced"] else "not kept"
    if weights["balanced"] and weights["gain"] < 0:
        kept = "kept, because that is no clear loss"
    return f"Balanced weights bring {_bring(weights)}: {kept}"


def _aligned_words(aligned: dict[str, Any]) -> str:
    if not aligned["tried"]:
        return "Aligned rounds were not tried"
    kept = f"{aligned['rounds']} are kept" if aligned["rounds"] else "none are kept"
    return f"Aligned rounds bring {_bring(aligned)}: {kept}"


def _bring(step: dict[str, Any]) -> str:
    return f"{step['gain']:+.4f} ± {step['standard_error']:.4f} on held-out rows"
