"""The whole decision step for cross-fitted scores: offsets, costs or a matrix, what they bring, and the report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from eastward.decisions._inputs import probability_sample
from eastward.decisions.costs import cost_gain, costs_of
from eastward.decisions.deciding import label_frequencies, tune_decision
from eastward.decisions.gain import DecisionGain, decision_gain
from eastward.decisions.guard import offset_evidence
from eastward.decisions.matrix import Decision
from eastward.decisions.report import complete_report, offset_report
from eastward.decisions.rules import ABSTAIN, cheapest, decide
from eastward.decisions.shifting import Reference
from eastward.decisions.solving import Objective
from eastward.metrics import Metric, as_metric, get


class TunedDecision(NamedTuple):
    """Offsets ``(C,)``, those tuned without each fold ``(K, C)``, the honest gain, the report, and the decision.

    Offsets are None where the decision is none of them.
    """

    offsets: NDArray[Any] | None
    by_fold: NDArray[Any] | None
    gain: DecisionGain
    report: dict[str, Any]
    decision: Decision


def offset_decision(
    scores: NDArray[Any],
    codes: NDArray[Any],
    metric: str | Metric | Callable[[Any], Any],
    labels: Sequence[Any],
    *,
    sample_weight: NDArray[Any] | None,
    random_state: int,
    **search: Any,
) -> TunedDecision:
    """Offsets for a metric, shrunk and guarded; the gain is that of offsets tuned without each sample's fold."""
    size = len(labels)
    common: dict[str, Any] = {"sample_weight": sample_weight, "random_state": random_state}
    evidence = offset_evidence(scores, codes, metric, **common, **search)
    pair = decide(scores), decide(torch.from_numpy(scores) + evidence.shifts())
    gain = decision_gain(*pair, codes, metric, num_classes=size, **common)
    report = complete_report(offset_report(evidence, labels, codes), gain, as_metric(metric))
    offsets = evidence.offsets.double()
    sample = probability_sample("fit", torch.from_numpy(scores).softmax(1), codes, sample_weight)
    prior, ones = label_frequencies(sample), torch.ones(size, dtype=torch.float64)
    rows = sample.scores, sample.weight, ones
    decision = Decision(
        torch.diag(offsets.exp()).numpy(),
        classes=labels,
        prior=prior.numpy(),
        metric=as_metric(metric),
        # The most probable class stays the most probable one under other frequencies.
        reference=Reference.of(*rows, prior=prior, seed=random_state) if offsets.any() else None,
    )
    return TunedDecision(offsets.numpy(), evidence.by_fold.numpy(), gain, report, decision)


def cost_decision(
    scores: NDArray[Any],
    codes: NDArray[Any],
    cost: Any,
    abstain_cost: float | None,
    labels: Sequence[Any],
    *,
    sample_weight: NDArray[Any] | None,
    random_state: int,
) -> TunedDecision:
    """The cheapest decision under the probabilities as they are: no offsets."""
    size = scores.shape[1]
    probabilities = torch.from_numpy(scores).softmax(1)
    chosen = cheapest(probabilities, cost, abstain_cost).numpy()
    before = costs_of(codes, scores.argmax(1), cost, abstain_cost)
    after = costs_of(codes, chosen, cost, abstain_cost)
    gain = cost_gain(before, after, sample_weight, random_state)
    report = {"decision": "cost", "abstained": float((chosen == ABSTAIN).mean())}
    report = complete_report(report, gain, get("expected_cost", cost=cost))
    sample = probability_sample("fit", probabilities, codes, sample_weight)
    prior = label_frequencies(sample).numpy()
    matrix = -np.asarray(cost, dtype=float)
    if abstain_cost is not None:
        matrix = np.column_stack([matrix, np.full(size, -float(abstain_cost))])
    decision = Decision(matrix, classes=labels, prior=prior, abstain_cost=abstain_cost)
    return TunedDecision(np.zeros(size), np.zeros((1, size)), gain, report, decision)


def matrix_decision(
    scores: NDArray[Any],
    codes: NDArray[Any],
    metric: str | Metric | Callable[[Any], Any],
    labels: Sequence[Any],
    **options: Any,
) -> TunedDecision:
    """A matrix under constraints or with rows left undecided; its value is that on the rows it was tuned on."""
    probabilities = torch.from_numpy(scores).softmax(1)
    decision = tune_decision(probabilities, codes, metric, classes=labels, **options)
    size, weight = len(labels), options.get("sample_weight")
    objective = Objective(as_metric(metric), decision.abstain_cost)
    sign = 1 if objective.metric.higher_is_better else -1
    chosen = decision.decide(probabilities).numpy()
    values = [
        sign * objective.value(decision_table(codes, decided, weight, size))
        for decided in (scores.argmax(1), chosen)
    ]
    gain = sign * (values[1] - values[0])
    report = {
        "decision": "matrix",
        "metric": objective.metric.name,
        "higher_is_better": objective.metric.higher_is_better,
        "baseline": values[0],
        "tuned": values[1],
        "gain": gain,
        "abstained": float((chosen == ABSTAIN).mean()),
        "constraints": [str(kept) for kept in decision.constraints],
        "words": str(decision),
    }
    found = DecisionGain(values[0], values[1], gain, float("nan"), float("nan"))
    return TunedDecision(decision.offsets_, None, found, report, decision)


def decision_table(
    codes: NDArray[Any], decisions: NDArray[Any], weight: NDArray[Any] | None, size: int
) -> torch.Tensor:
    """The table of mass one, ``(C, C + 1)`` if a row is left undecided, else ``(C, C)``."""
    width = size + int((decisions == ABSTAIN).any())
    mass = np.ones(len(codes)) if weight is None else np.asarray(weight, dtype=float)
    columns = np.where(decisions == ABSTAIN, size, decisions)
    flat = np.bincount(codes * width + columns, weights=mass, minlength=size * width)
    return torch.from_numpy(flat.reshape(size, width) / mass.sum())
