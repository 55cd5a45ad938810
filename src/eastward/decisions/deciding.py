"""Tune a decision for a metric on held-out probabilities."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from eastward import _checks
from eastward.constraints import Constraint, KeptConstraint, parse_constraints
from eastward.decisions._inputs import (
    Sample,
    checked_classes,
    class_indices,
    class_sample,
    probability_table,
)
from eastward.decisions.estimating import (
    FEWEST_ROWS,
    Evidence,
    Tuner,
    counts,
    cross_validated,
    is_favoured,
    label_table,
)
from eastward.decisions.matrix import Decision
from eastward.decisions.offsets import LABEL_SHARE
from eastward.decisions.shifting import Reference, frequency_correction
from eastward.decisions.solving import (
    Beliefs,
    Objective,
    Solution,
    best_rule,
    candidates,
    check_metric,
    closest_rule,
)
from eastward.metrics import Metric, as_metric

__all__ = ["tune_decision"]

_CALLER = "tune_decision"


def tune_decision(
    probabilities: Any,
    targets: Any,
    metric: str | Metric | Callable[[Any], Any] = "f1_macro",
    *,
    subject_to: str | Sequence[str] | None = None,
    confidence: float = 0.95,
    abstain_cost: float | None = None,
    classes: Sequence[Any] | None = None,
    on_infeasible: str = "raise",
    label_share: float | None = None,
    guard: float | None = None,
    sample_weight: Any = None,
    random_state: int = 0,
) -> Decision:
    r"""Tune the decision that is best for a metric, as one matrix applied to probabilities.

    .. math:: h(p) = \arg\max_j \sum_i p_i\,G_{ij}, \qquad G = \partial M / \partial C \text{ at the best table } C

    Frank–Wolfe solves for the matrix on tables of labels mixed with expectations, and the result is averaged over
    bootstraps. For two classes it is a bagged threshold. The decision never stops predicting a class that the metric
    counts (:func:`eastward.decisions.keep_classes`).

    Parameters
    ----------
    probabilities : Tensor or array
        ``(N, C)``, predicted by a model that was not trained on the rows. They are taken at face value, so calibrate
        overconfident ones first.
    targets : Tensor or array
        ``(N,)`` class indices, or labels of ``classes``.
    metric : str, Metric or callable, default="f1_macro"
        A name from :func:`eastward.metrics.names`, one of a single class such as ``"f1[fraud]"``, or a callable from
        a confusion matrix to a number.
    subject_to : str or sequence of str, optional
        Constraints such as ``"recall[fraud] >= 0.9, precision[fraud] >= 0.5"``: ``recall``, ``precision``,
        ``specificity`` and every other metric of one class, ``predicted_rate[class]``, ``coverage`` (the share of rows
        that are decided), or a metric of all classes. A class is named by its label or index.
    confidence : float, default=0.95
        Each constraint must hold at this confidence, by a one-sided bound: Clopper–Pearson for shares of rows, the
        bootstrap for other metrics. In (0, 1).
    abstain_cost : float, optional
        The cost, in units of the metric, of leaving a row to somebody who decides it correctly. By default every row
        is decided, unless ``subject_to`` contains ``coverage``; then the cost is zero.
    classes : sequence, optional
        Labels in the order of the columns, for ``subject_to`` and for printing.
    on_infeasible : {"raise", "best"}, default="raise"
        What happens if no rule satisfies the constraints: an error, or a warning and the rule that comes closest.
    label_share : float, optional
        Weight of a row's label, in [0, 1]; its probabilities have the rest of the weight. The default is a quarter for
        two classes and zero for more, where each class has few labels. The class frequencies always come from the
        labels.
    guard : float, optional
        Keep the most probable class unless the cross-validated gain exceeds this many standard errors. There is no
        guard by default: estimates from small folds are so noisy that a guard costs more than it saves. So the
        decision may do worse than the most probable class on the rows that tuned it. A guard does not apply to
        constraints, abstention, and metrics that are sums over rows (accuracy, costs).
    sample_weight : Tensor or array, optional
        ``(N,)``, finite and not negative.
    random_state : int, default=0
        Seed of bootstraps and folds.

    Returns
    -------
    Decision
        Has ``matrix``, ``decide``, ``with_prior`` and ``to_dict``; ``print`` describes it in words.

    References
    ----------
    Koyejo et al. (2014), "Consistent binary classification with generalized performance metrics"; Narasimhan et al.
    (2015), "Consistent multiclass algorithms for complex performance measures"; Elkan (2001); Chow (1970).

    Examples
    --------
    >>> import torch
    >>> p = torch.tensor([[0.6, 0.4], [0.9, 0.1]]).repeat(20, 1)
    >>> y = torch.tensor([1, 0]).repeat(20)
    >>> decision = tune_decision(p, y, "f1", classes=["no", "yes"])
    >>> decision.decide(p[:2])
    tensor([1, 0])
    """
    table = probability_table(_CALLER, probabilities)
    size = table.shape[1]
    labels = None if classes is None else checked_classes(_CALLER, classes, size)
    codes = targets if labels is None else class_indices(_CALLER, targets, labels)
    sample = class_sample(_CALLER, table, codes, sample_weight, argument="probabilities")
    sample = sample.rows(torch.nonzero(sample.weight > 0).flatten())
    constraints = parse_constraints(_CALLER, subject_to, size, labels)
    cost = checked_abstain_cost(_CALLER, abstain_cost, constraints)
    objective = Objective(checked_metric(_CALLER, metric, size, labels), cost, constraints)
    _checks.one_of(_CALLER, "on_infeasible", on_infeasible, ("raise", "best"))
    level = _checks.in_unit_interval(_CALLER, "confidence", confidence)
    seed = _checks.seed(_CALLER, random_state)
    tuner = Tuner(objective, checked_share(_CALLER, label_share, size), seed)
    hurdle = None if guard is None else _checks.not_negative(_CALLER, "guard", guard)

    return tuned_decision(
        sample, tuner, labels, level=level, on_infeasible=on_infeasible, guard=hurdle
    ).decision


class Tuned(NamedTuple):
    """A decision, and its gain on held-out rows.

    ``before`` and ``after`` are values of the metric for the most probable class and for the decision. ``gain`` is
    positive if the decision is better, and ``error`` is its standard error. ``cross_validated`` is True if the rows
    judged rules that were tuned without them, and False if they tuned the rule themselves.
    """

    decision: Decision
    before: float
    after: float
    gain: float
    error: float
    cross_validated: bool


def tuned_decision(
    sample: Sample,
    tuner: Tuner,
    labels: tuple[Any, ...] | None,
    *,
    level: float,
    on_infeasible: str,
    guard: float | None,
    judged: bool = False,
    caller: str = _CALLER,
) -> Tuned:
    """Run :func:`tune_decision` on checked input; ``judged`` estimates its gain even without a guard."""
    correction = frequency_correction(sample.scores, sample.targets, sample.weight)
    sample = sample._replace(scores=_normalised(sample.scores * correction))
    plain = torch.diag(1 / correction)
    note, evidence = "", None
    kept: tuple[KeptConstraint, ...] = ()
    matrix = tuner.matrix(sample)
    if tuner.objective.constraints:
        matrix, kept, proven = keep_constraints(tuner, sample, matrix, level)
        if not proven:
            _report_infeasible(caller, kept, on_infeasible)
    elif not tuner.needs_no_evidence(sample.num_classes):
        if len(sample.targets) >= FEWEST_ROWS and (judged or guard is not None):
            evidence = cross_validated(tuner, sample, plain)
        if not is_favoured(sample, matrix, plain, evidence, guard):
            matrix, note = plain, "no other rule is better on held-out rows"
    if evidence is None or note:
        evidence = _in_sample(tuner, sample, matrix, plain, honest=bool(note))
    prior = label_frequencies(sample)
    found = sample.scores, sample.weight, correction
    # If the plain rule stays, it is exactly the identity, so that ties are decided as by the argmax.
    whole = torch.eye(len(prior)) if note else correction.unsqueeze(1) * matrix
    decision = Decision(
        whole.numpy(),
        classes=labels,
        prior=prior.numpy(),
        metric=tuner.objective.metric,
        abstain_cost=tuner.objective.abstain_cost,
        constraints=kept,
        reference=None if note else Reference.of(*found, prior=prior, seed=tuner.seed),
        note=note,
    )
    sign = 1 if tuner.objective.metric.higher_is_better else -1
    values = sign * evidence.before, sign * evidence.after
    return Tuned(decision, *values, evidence.gain, evidence.error, evidence.honest)


def _in_sample(
    tuner: Tuner, sample: Sample, matrix: Tensor, plain: Tensor, *, honest: bool
) -> Evidence:
    """Judge a rule by the rows that tuned it; ``honest`` if it is the plain rule."""
    pair = (counts(sample, plain), counts(sample, matrix))
    before, after = (tuner.objective.value(table / table.sum()) for table in pair)
    linear = not tuner.objective.constraints and tuner.is_linear(sample.num_classes)
    return Evidence(before, after, float("nan"), honest or linear)


def _normalised(joint: Tensor) -> Tensor:
    return joint / joint.sum(1, keepdim=True).clamp_min(1e-300)


def keep_constraints(
    tuner: Tuner, sample: Sample, hint: Tensor, confidence: float
) -> tuple[Tensor, tuple[KeptConstraint, ...], bool]:
    """Find the best rule that provably satisfies every constraint on held-out rows, or else the closest one.

    Returns the rule, the evidence for each constraint, and whether the rows prove all of them.
    """
    objective = tuner.objective
    beliefs = Beliefs.of(sample, tuner.label_share)

    def holds(solution: Solution) -> bool:
        table = label_table(sample, solution.matrix)
        return all(one.proven(table, confidence) for one in objective.constraints)

    def margins(solution: Solution) -> list[float]:
        table = label_table(sample, solution.matrix)
        return [one.proven_margin(table, confidence) for one in objective.constraints]

    table = beliefs.table(hint)
    first = Solution(hint, objective.value(table), table)
    found = [] if holds(first) else candidates(beliefs, objective, hint, margins)
    best = best_rule([first, *found], holds)
    rule = best or closest_rule(found, objective, margins)
    counted = label_table(sample, rule.matrix)
    kept = tuple(one.judged(counted, confidence) for one in objective.constraints)
    return rule.matrix, kept, best is not None


def _report_infeasible(caller: str, kept: tuple[KeptConstraint, ...], on_infeasible: str) -> None:
    broken = [one for one in kept if not one.holds]
    alone = len(kept) == 1
    got = "; ".join(
        f"{one.constraint.text!r}, of which {'they prove' if alone else 'the closest rule proves'} "
        f"{one.proven:.3f}{' at best' if alone else ''} ({one.value:.3f} on {one.rows:.0f} rows)"
        for one in broken
    )
    expected = (
        f"provable on the held-out rows with {100 * (broken[0].confidence or 0):g} % confidence"
    )
    if on_infeasible == "best":
        warnings.warn(
            f"subject_to is not {expected}: {got}. The closest rule is used.", stacklevel=4
        )
        return
    advice = "Lower the bound or confidence=, add rows, or pass on_infeasible='best'."
    _checks.fail(caller, "subject_to", expected, got, advice)


def label_frequencies(sample: Sample) -> Tensor:
    """Return class frequencies of the labels; a class without labels gets its mean probability."""
    mass = sample.class_mass() / sample.weight.sum()
    expected = (sample.scores * sample.weight.unsqueeze(1)).sum(0) / sample.weight.sum()
    frequencies = torch.where(mass > 0, mass, expected.clamp_min(1e-9))
    return frequencies / frequencies.sum()


def checked_metric(
    caller: str, metric: Any, size: int, classes: Sequence[Any] | None = None
) -> Metric:
    """Return the metric after checking that it gives one number for this many classes."""
    found = as_metric(metric, caller, classes)
    check_metric(caller, found, size)
    return found


def checked_abstain_cost(caller: str, cost: Any, constraints: Sequence[Constraint]) -> float | None:
    """Return the cost of not deciding; None if every row is decided."""
    if cost is None:
        return 0.0 if any(one.name == "coverage" for one in constraints) else None
    number = _checks.real(caller, "abstain_cost", cost)
    if number < 0:
        _checks.fail(caller, "abstain_cost", ">= 0", cost)
    return number


def checked_share(caller: str, label_share: Any, size: int) -> float:
    """Return a share in [0, 1]; the default did best on development tables with this many classes."""
    if label_share is None:
        return LABEL_SHARE if size == 2 else 0.0
    share = _checks.real(caller, "label_share", label_share)
    if not 0 <= share <= 1:
        _checks.fail(caller, "label_share", "in [0, 1]", label_share)
    return share
