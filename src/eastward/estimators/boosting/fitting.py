"""The fit of EASTBoostingClassifier, in reading order.

Cross-fit the library's cross-entropy model, with balanced weights and without, and keep one; tune offsets on its
held-out scores; try aligned rounds from there, and keep them if held-out rows favour them; tune the offsets again;
train on all rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from eastward.decisions import decide, decision_gain, offset_evidence
from eastward.decisions.report import complete_report, offset_report
from eastward.estimators.boosting.aligning import AlignedEvidence, aligned_evidence, train_aligned
from eastward.estimators.boosting.folds import Problem
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
    """How to fit; see the parameters of the classifier."""

    rounds: int
    balanced: bool | str
    aligned: bool | str
    aligned_rounds: int
    temperature: float
    tune_decision: bool
    guard: float | None
    n_bags: int
    seed: int


@dataclass(frozen=True)
class FittedTrees:
    """Boosters, the offsets of the decision, and what is known about them."""

    base: Any
    class_weights: Array
    aligned: Any
    aligned_rounds: int
    offsets: Array
    report: dict[str, Any]


@dataclass(frozen=True)
class _Offsets:
    """Tuned offsets ``(C,)``, for each row those tuned without it, and the evidence (None: not tuned)."""

    offsets: Array
    shifts: Array
    evidence: Any


def fit_trees(problem: Problem, options: Options, labels: list[Any]) -> FittedTrees:
    """Everything between checked data and a fitted model."""
    weighting = choose_weighting(problem, options.rounds, options.balanced, options.guard)
    held_out = weighting.scores
    first = _tuned(problem, held_out, options)
    evidence = _evidence(problem, held_out, first, options)
    base = train_weighted(problem, problem.every, options.rounds, balanced=weighting.balanced)
    weights = np.ones(problem.num_classes)
    if weighting.balanced:
        weights = balanced_weights(problem.codes, problem.weight, problem.num_classes)
    if evidence is None or evidence.rounds == 0:
        after = held_out + first.shifts
        report = _report(problem, weighting, after, first, evidence, options, labels)
        return FittedTrees(base, weights, None, 0, first.offsets, report)
    last = _tuned(problem, evidence.scores, options)
    start = held_out + first.offsets
    trees = train_aligned(problem, problem.every, start, options.temperature, evidence.rounds)
    after = evidence.scores + last.shifts
    report = _report(problem, weighting, after, last, evidence, options, labels)
    offsets = first.offsets + last.offsets
    return FittedTrees(base, weights, trees, evidence.rounds, offsets, report)


def _tuned(problem: Problem, scores: Array, options: Options) -> _Offsets:
    """Guarded offsets of held-out scores, or zeros when the decision is not to be tuned."""
    if not options.tune_decision:
        return _Offsets(np.zeros(problem.num_classes), np.zeros_like(scores), None)
    evidence = offset_evidence(
        scores,
        problem.codes,
        problem.metric,
        guard=options.guard,
        folds=problem.folds,
        n_bags=options.n_bags,
        sample_weight=problem.weight,
        random_state=options.seed,
    )
    return _Offsets(evidence.offsets.numpy(), evidence.shifts().numpy(), evidence)


def _evidence(
    problem: Problem, held_out: Array, first: _Offsets, options: Options
) -> AlignedEvidence | None:
    if options.aligned is False:
        return None
    return aligned_evidence(
        problem,
        held_out,
        first.shifts,
        temperature=options.temperature,
        max_rounds=options.aligned_rounds,
        guard=None if options.aligned is True else options.guard,
    )


def _report(
    problem: Problem,
    weighting: Weighting,
    after: Array,
    tuned: _Offsets,
    aligned: AlignedEvidence | None,
    options: Options,
    labels: list[Any],
) -> dict[str, Any]:
    """Held-out scores before and after, and what each step rests on, as plain data."""
    gain = decision_gain(
        decide(weighting.before),
        decide(after),
        problem.codes,
        problem.metric,
        num_classes=problem.num_classes,
        sample_weight=problem.weight,
        random_state=options.seed,
    )
    known = {"decision": "offsets", "favoured": False, "factor": 0.0, "disagreement": 0.0}
    known |= {"cross_validated_gain": 0.0, "standard_error": 0.0, "folds": 0, "classes": []}
    if tuned.evidence is not None:
        known = offset_report(tuned.evidence, labels, problem.codes)
    report = complete_report(known, gain, problem.metric)
    report["weights"] = _weights_report(weighting)
    report["aligned"] = _aligned_report(aligned)
    report["words"] = _words(report)
    report["interval"] = list(report["interval"])
    return report


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


def _words(report: dict[str, Any]) -> str:
    low, high = report["interval"]
    return (
        f"{_weight_words(report['weights'])}. {_aligned_words(report['aligned'])}. "
        f"Altogether {report['metric']} of held-out rows goes from {report['baseline']:.4f} "
        f"(cross-entropy) to {report['tuned']:.4f} (gain {report['gain']:+.4f}, "
        f"95 % interval {low:+.4f} to {high:+.4f})."
    )


def _weight_words(weights: dict[str, Any]) -> str:
    if not weights["tried"]:
        return f"Classes are {'' if weights['balanced'] else 'not '}weighted"
    kept = "kept" if weights["balanced"] else "not kept"
    return f"Balanced weights bring {_bring(weights)}: {kept}"


def _aligned_words(aligned: dict[str, Any]) -> str:
    if not aligned["tried"]:
        return "Aligned rounds were not tried"
    kept = f"{aligned['rounds']} are kept" if aligned["rounds"] else "none are kept"
    return f"Aligned rounds bring {_bring(aligned)}: {kept}"


def _bring(step: dict[str, Any]) -> str:
    return f"{step['gain']:+.4f} ± {step['standard_error']:.4f} on held-out rows"
