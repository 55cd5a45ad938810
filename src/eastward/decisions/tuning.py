"""The decision step of an estimator: from held-out predictions to calibration, decision and report."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from eastward import _checks
from eastward.constraints import Constraint, parse_constraints
from eastward.decisions._inputs import Sample, probability_sample
from eastward.decisions.calibration import KINDS, Calibration, fit_calibration
from eastward.decisions.deciding import (
    Tuned,
    checked_abstain_cost,
    checked_metric,
    checked_share,
    label_frequencies,
    tuned_decision,
)
from eastward.decisions.estimating import N_BAGS, Tuner, counts
from eastward.decisions.matrix import Decision
from eastward.decisions.offsets import MOST_BAGS
from eastward.decisions.rules import ABSTAIN
from eastward.decisions.solving import Beliefs, Objective, Solution, candidates
from eastward.metrics import Metric

__all__ = [
    "DecisionOptions",
    "FittedDecision",
    "HeldOut",
    "constraint_curves",
    "coverage_curve",
    "decision_table",
    "fit_decision",
    "without_held_out",
]

_NEVERTHELESS = (
    "The most probable class did better on these rows. "
    "The decision stays, because their estimate is noisy."
)

# The decision rule could never choose a class with a probability of zero.
SMALLEST = 1e-12


@dataclass(frozen=True)
class HeldOut:
    """Predictions for training rows by models that were not trained on them.

    Attributes
    ----------
    scores : ndarray
        ``(N, C)`` log-probabilities, before calibration.
    codes : ndarray
        ``(N,)`` class indices.
    weight : ndarray or None
        ``(N,)``, positive.
    """

    scores: NDArray[Any]
    codes: NDArray[Any]
    weight: NDArray[Any] | None = None

    @property
    def probabilities(self) -> torch.Tensor:
        """``(N, C)`` in float64; rows sum to one."""
        return torch.from_numpy(np.asarray(self.scores, dtype=np.float64)).softmax(1)


@dataclass(frozen=True)
class DecisionOptions:
    """Options of the decision step of an estimator; the fields are parameters of :func:`eastward.tune_decision`.

    ``coverage`` adds the constraint ``coverage >= …``. ``tune=False`` takes the most probable class. ``averaged``
    means that new rows are predicted by the mean of several models, but each held-out row by one of them.
    """

    metric: Metric
    subject_to: Any = None
    confidence: float = 0.95
    on_infeasible: str = "raise"
    abstain_cost: float | None = None
    coverage: float | None = None
    calibrate: str = "auto"
    tune: bool = True
    label_share: float | None = None
    guard: float | None = None
    n_bags: int = N_BAGS
    averaged: bool = False
    seed: int = 0

    @property
    def asks_for_more(self) -> bool:
        """Whether the user requested constraints or abstention, not only the best metric."""
        return any(x is not None for x in (self.subject_to, self.abstain_cost, self.coverage))

    def checked(self, caller: str, classes: list[Any]) -> tuple[Constraint, ...]:
        """Check the options before anything expensive begins, and return the constraints."""
        _checks.one_of(caller, "calibrate", self.calibrate, ("auto", *KINDS))
        _checks.one_of(caller, "on_infeasible", self.on_infeasible, ("raise", "best"))
        _checks.in_unit_interval(caller, "confidence", self.confidence)
        _checks.boolean(caller, "tune_decision", self.tune)
        _checks.whole_number(caller, "n_bags", self.n_bags, at_least=1, at_most=MOST_BAGS)
        size = len(classes)
        checked_share(caller, self.label_share, size)
        if self.calibrate == "isotonic" and size != 2:
            got = f"'isotonic' for {size} classes"
            _checks.fail(
                caller, "calibrate", "other than 'isotonic' for more than two classes", got
            )
        if self.guard is not None:
            _checks.not_negative(caller, "guard", self.guard)
        checked_metric(caller, self.metric, size)
        found = parse_constraints(caller, self.subject_to, size, classes)
        if self.coverage is not None:
            share = _checks.in_unit_interval(caller, "coverage", self.coverage)
            found += parse_constraints(caller, f"coverage >= {share!r}", size, classes)
        checked_abstain_cost(caller, self.abstain_cost, found)
        if not self.tune and (self.asks_for_more):
            got = "False with subject_to, abstain_cost or coverage"
            _checks.fail(caller, "tune_decision", "True with constraints or abstention", got)
        return found


class FittedDecision(NamedTuple):
    """A calibration, a decision, and a report of what they gain."""

    calibration: Calibration
    decision: Decision
    report: dict[str, Any]


def fit_decision(
    caller: str, held: HeldOut, classes: list[Any], options: DecisionOptions
) -> FittedDecision:
    """Calibrate held-out predictions, tune the decision on them, and report the gain.

    Parameters
    ----------
    caller : str
        Name of the caller, for messages.
    held : HeldOut
        The predictions.
    classes : list
        C labels, plain values.
    options : DecisionOptions
        How to decide.

    Returns
    -------
    FittedDecision
        Its report is plain data, with ``sentences`` that describe it in words.
    """
    constraints = options.checked(caller, classes)
    raw = held.probabilities
    calibration = fit_calibration(
        raw,
        held.codes,
        options.calibrate,
        averaged=options.averaged,
        sample_weight=held.weight,
        random_state=options.seed,
    )
    probabilities = calibration.apply(raw).clamp_min(SMALLEST)
    sample = probability_sample(caller, probabilities, held.codes, held.weight)
    sample = sample.rows(torch.nonzero(sample.weight > 0).flatten())
    cost = checked_abstain_cost(caller, options.abstain_cost, constraints)
    objective = Objective(options.metric, cost, constraints)
    share = checked_share(caller, options.label_share, len(classes))
    tuner = Tuner(objective, share, options.seed, options.n_bags)
    if options.tune:
        tuned = tuned_decision(
            sample,
            tuner,
            tuple(classes),
            level=options.confidence,
            on_infeasible=options.on_infeasible,
            guard=options.guard,
            judged=True,
            caller=caller,
        )
    else:
        tuned = _plain(sample, objective, classes)
    report = _report(sample, tuner, tuned, calibration)
    return FittedDecision(calibration, tuned.decision, report)


def without_held_out(caller: str, classes: list[Any], options: DecisionOptions) -> FittedDecision:
    """Decide for the most probable class, because no row was held out to tune on."""
    if options.checked(caller, classes) or options.asks_for_more:
        expected = "None where no row is held out"
        got = repr(options.subject_to or "abstain_cost or coverage")
        _checks.fail(caller, "subject_to", expected, got, "Hold rows out: n_folds=5.")
    size = len(classes)
    report = {
        "metric": options.metric.name,
        "higher_is_better": options.metric.higher_is_better,
        "held_out_rows": 0,
        "sentences": [
            "The decision is the most probable class: no row was held out to tune another."
        ],
    }
    calibration = Calibration("none", np.ones(size), np.zeros(size))
    return FittedDecision(calibration, _plain_decision(classes, options.metric), report)


def _plain_decision(classes: list[Any], metric: Metric, prior: Any = None) -> Decision:
    """Return the decision for the most probable class."""
    return Decision(np.eye(len(classes)), classes=classes, prior=prior, metric=metric)


def _plain(sample: Sample, objective: Objective, classes: list[Any]) -> Tuned:
    rule = _plain_decision(classes, objective.metric, label_frequencies(sample).numpy())
    chosen = sample.scores.argmax(1).numpy()
    size = len(classes)
    table = decision_table(sample.targets.numpy(), chosen, sample.weight.numpy(), size)
    sign = 1 if objective.metric.higher_is_better else -1
    value = sign * objective.value(table)
    return Tuned(rule, value, value, 0.0, 0.0, cross_validated=True)


def _report(sample: Sample, tuner: Tuner, tuned: Tuned, calibration: Calibration) -> dict[str, Any]:
    metric, decision = tuner.objective.metric, tuned.decision
    chosen = decision.decide(sample.scores)
    report: dict[str, Any] = {
        "metric": metric.name,
        "higher_is_better": metric.higher_is_better,
        "held_out_rows": len(sample.targets),
        "baseline": tuned.before,
        "tuned": tuned.after,
        "gain": tuned.gain,
        "standard_error": tuned.error if np.isfinite(tuned.error) else None,
        "cross_validated": tuned.cross_validated,
        "decision": str(decision),
        "abstained": float(((chosen == ABSTAIN) * sample.weight).sum() / sample.weight.sum()),
        "constraints": [str(kept) for kept in decision.constraints],
        "calibration": calibration.to_dict(),
    }
    if tuner.objective.constraints:
        report["constraint_curves"] = constraint_curves(sample, tuner)
    if tuner.abstaining:
        report["coverage_curve"] = coverage_curve(sample.scores, sample.targets, sample.weight)
    report["sentences"] = [*_calibration_words(calibration), _value_words(report), str(decision)]
    return report


def _calibration_words(calibration: Calibration) -> list[str]:
    before, after = calibration.log_loss_before, calibration.log_loss
    if calibration.kind == "none":
        return ["Probabilities are those of the model, without calibration."]
    kinds = {
        "temperature": "one temperature",
        "vector": "a scale and a shift for each class",
        "isotonic": "an increasing curve",
    }
    by = kinds[calibration.kind]
    if before is None or after is None:
        return [f"Probabilities are calibrated by {by}."]
    errors = ""
    if calibration.error is not None and calibration.error_before is not None:
        errors = f", calibration error {calibration.error_before:.3f} to {calibration.error:.3f}"
    return [
        f"Probabilities are calibrated by {by}: held-out log-loss {before:.3f} to {after:.3f}{errors}."
    ]


def _value_words(report: dict[str, Any]) -> str:
    name, before, after = report["metric"], report["baseline"], report["tuned"]
    rows = f"{report['held_out_rows']:,} held-out rows"
    if before == after and not report["constraints"]:
        return f"On {rows}, {name} is {after:.4f} for the most probable class."
    error = report["standard_error"]
    sure = "" if error is None else f" ± {error:.4f}"
    how = "cross-validated on" if report["cross_validated"] else "on the"
    left = f"; {report['abstained']:.1%} of the rows are not decided" if report["abstained"] else ""
    told = (
        f"The decision changes {name} from {before:.4f} to {after:.4f} "
        f"({report['gain']:+.4f}{sure}, {how} {rows}{left})."
    )
    unasked = not report["constraints"] and not report["abstained"]
    return f"{told} {_NEVERTHELESS}" if unasked and report["gain"] < 0 else told


def decision_table(
    codes: NDArray[Any], decisions: NDArray[Any], weight: NDArray[Any] | None, size: int
) -> torch.Tensor:
    """Compute the table of mass one (zero without rows), ``(C, C + 1)`` with undecided rows, else ``(C, C)``."""
    width = size + int((decisions == ABSTAIN).any())
    mass = np.ones(len(codes)) if weight is None else np.asarray(weight, dtype=float)
    columns = np.where(decisions == ABSTAIN, size, decisions)
    flat = np.bincount(codes * width + columns, weights=mass, minlength=size * width)
    return torch.from_numpy(flat.reshape(size, width) / (mass.sum() or 1.0))


POINTS = 21


def coverage_curve(probabilities: Tensor, targets: Tensor, weight: Tensor) -> dict[str, Any]:
    """Compute the accuracy of decided rows when the least certain ones stay undecided.

    Parameters
    ----------
    probabilities : Tensor
        ``(N, C)``.
    targets, weight : Tensor
        ``(N,)``.

    Returns
    -------
    dict
        ``coverage`` and ``accuracy``, lists from low coverage to all rows.

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
    """Compute, for each constraint, the best metric on held-out rows as a function of its bound.

    Values are those on the rows, without a margin of confidence: they show what the constraint costs, not what is
    proven. The other constraints still apply.

    Returns
    -------
    list of dict
        ``constraint`` (in words), ``bound`` (the requested one), and ``bounds`` with ``values``.
    """
    rules = [replace(tuner, n_bags=1).matrix(sample)]
    every = tuner.objective.constraints
    for some in dict.fromkeys([every, *((one,) for one in every)]):
        rules += _rules_met(sample, tuner, rules[0], some)
    objective = tuner.objective
    tables = [counts(sample, rule) / sample.weight.sum() for rule in rules]
    merits = torch.tensor([objective.value(table) for table in tables], dtype=torch.float64)
    reached = torch.tensor(
        [[float(one.value(table)) for one in every] for table in tables], dtype=torch.float64
    )
    slack = torch.tensor([[float(one.slack(table)) for one in every] for table in tables])
    curves = []
    for place, one in enumerate(every):
        others = torch.arange(len(every)) != place
        kept = (slack[:, others] >= -1e-9).all(1)
        kept = kept if bool(kept.any()) else torch.ones_like(kept)
        curves.append(_curve(one, reached[kept, place], merits[kept], objective.metric))
    return curves


def _rules_met(
    sample: Sample, tuner: Tuner, hint: torch.Tensor, constraints: tuple[Constraint, ...]
) -> list[torch.Tensor]:
    """Collect at most 400 rules on the way to the best one under some constraints."""
    objective = replace(tuner.objective, constraints=constraints)

    def margins(solution: Solution) -> list[float]:
        return [float(one.slack(solution.table)) for one in constraints]

    found = candidates(Beliefs.of(sample, tuner.label_share), objective, hint, margins)
    return [one.matrix for one in found[:: max(1, len(found) // 400)]]


def _curve(
    constraint: Constraint, reached: torch.Tensor, merits: torch.Tensor, metric: Metric
) -> dict[str, Any]:
    sign = 1 if metric.higher_is_better else -1
    bounds = torch.linspace(float(reached.min()), float(reached.max()), POINTS, dtype=torch.float64)
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
