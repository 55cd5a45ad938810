"""The whole decision step for cross-fitted scores: offsets or costs, what they bring, and the report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from eastward.decisions.costs import cost_gain, costs_of
from eastward.decisions.gain import DecisionGain, decision_gain
from eastward.decisions.guard import offset_evidence
from eastward.decisions.report import complete_report, offset_report
from eastward.decisions.rules import ABSTAIN, cheapest, decide
from eastward.metrics import Metric, as_metric, get


class TunedDecision(NamedTuple):
    """Offsets ``(C,)``, those tuned without each fold ``(K, C)``, the honest gain, and the report."""

    offsets: NDArray[Any]
    by_fold: NDArray[Any]
    gain: DecisionGain
    report: dict[str, Any]


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
    return TunedDecision(evidence.offsets.numpy(), evidence.by_fold.numpy(), gain, report)


def cost_decision(
    scores: NDArray[Any],
    codes: NDArray[Any],
    cost: Any,
    abstain_cost: float | None,
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
    return TunedDecision(np.zeros(size), np.zeros((1, size)), gain, report)
