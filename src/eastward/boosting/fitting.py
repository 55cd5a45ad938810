"""The fit of EASTBoostingClassifier, in reading order.

Cross-fit the library's cross-entropy model; tune offsets on its held-out scores; try aligned rounds from there, and
keep them if held-out rows favour them; tune the offsets again; train on all rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from eastward.boosting.aligning import (
    AlignedEvidence,
    Problem,
    aligned_evidence,
    columns,
    train_aligned,
)
from eastward.decisions import decide, decision_gain, offset_evidence
from eastward.decisions.report import complete_report, offset_report

__all__ = ["FittedTrees", "Options", "fit_trees"]

Array: TypeAlias = NDArray[Any]


@dataclass(frozen=True)
class Options:
    """How to fit; see the parameters of the classifier."""

    rounds: int
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
    plain = _cross_fitted(problem, options.rounds)
    first = _tuned(problem, plain, options)
    evidence = _evidence(problem, plain, first, options)
    base = problem.backend.train(*problem.rows(np.arange(len(problem.codes))), options.rounds)
    if evidence is None or evidence.rounds == 0:
        report = _report(problem, plain, plain + first.shifts, first, evidence, options, labels)
        return FittedTrees(base, None, 0, first.offsets, report)
    last = _tuned(problem, evidence.scores, options)
    every = np.arange(len(problem.codes))
    start = plain + first.offsets
    trees = train_aligned(problem, every, start, options.temperature, evidence.rounds)
    after = evidence.scores + last.shifts
    report = _report(problem, plain, after, last, evidence, options, labels)
    return FittedTrees(base, trees, evidence.rounds, first.offsets + last.offsets, report)


def _cross_fitted(problem: Problem, rounds: int) -> Array:
    """Log-probabilities of each row by a cross-entropy model that has not seen it, ``(N, C)``."""
    scores = np.zeros((len(problem.codes), problem.num_classes))
    for outside, inside in problem.parts:
        booster = problem.backend.train(*problem.rows(outside), rounds)
        scores[inside] = columns(problem.backend.raw_scores(booster, problem.features[inside]))
    return torch.from_numpy(scores).log_softmax(1).numpy()


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
    problem: Problem, plain: Array, first: _Offsets, options: Options
) -> AlignedEvidence | None:
    if options.aligned is False:
        return None
    return aligned_evidence(
        problem,
        plain,
        first.shifts,
        temperature=options.temperature,
        max_rounds=options.aligned_rounds,
        guard=None if options.aligned is True else options.guard,
    )


def _report(
    problem: Problem,
    before: Array,
    after: Array,
    tuned: _Offsets,
    aligned: AlignedEvidence | None,
    options: Options,
    labels: list[Any],
) -> dict[str, Any]:
    """Held-out scores before and after, and what each step rests on, as plain data."""
    gain = decision_gain(
        decide(before),
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
    report["aligned"] = _aligned_report(aligned)
    report["words"] = _words(report)
    report["interval"] = list(report["interval"])
    return report


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
    aligned = report["aligned"]
    low, high = report["interval"]
    if not aligned["tried"]:
        rounds = "Aligned rounds were not tried"
    else:
        bring = f"{aligned['gain']:+.4f} ± {aligned['standard_error']:.4f} on held-out rows"
        kept = f"{aligned['rounds']} are kept" if aligned["rounds"] else "none are kept"
        rounds = f"Aligned rounds bring {bring}: {kept}"
    return (
        f"{rounds}. Altogether {report['metric']} of held-out rows goes from {report['baseline']:.4f} "
        f"(cross-entropy) to {report['tuned']:.4f} (gain {report['gain']:+.4f}, "
        f"95 % interval {low:+.4f} to {high:+.4f})."
    )
