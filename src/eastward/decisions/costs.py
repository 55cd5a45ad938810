"""What decisions and abstentions cost, and how abstentions are written among labels."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from eastward import _checks
from eastward.decisions.gain import DecisionGain
from eastward.decisions.rules import ABSTAIN

N_BOOTSTRAPS = 300


def costs_of(
    codes: NDArray[Any], decisions: NDArray[Any], cost: Any, abstain_cost: float | None
) -> NDArray[Any]:
    """What each decision costs, ``(N,)``: an entry of the table, or the price of abstaining."""
    table = np.asarray(cost, dtype=np.float64)
    abstained = 0.0 if abstain_cost is None else float(abstain_cost)
    costs: NDArray[Any] = np.where(decisions == ABSTAIN, abstained, table[codes, decisions])
    return costs


def cost_gain(
    before: NDArray[Any], after: NDArray[Any], weight: NDArray[Any] | None, seed: int
) -> DecisionGain:
    """Mean costs before and after, and how much was saved, with a bootstrap interval."""
    mass = np.ones(len(before)) if weight is None else weight
    generator = np.random.default_rng(seed)
    saved = np.empty(N_BOOTSTRAPS)
    for number in range(N_BOOTSTRAPS):
        rows = generator.integers(len(before), size=len(before))
        saved[number] = np.average((before - after)[rows], weights=mass[rows])
    low, high = np.quantile(saved, [0.025, 0.975])
    first, second = np.average(before, weights=mass), np.average(after, weights=mass)
    return DecisionGain(float(first), float(second), float(first - second), float(low), float(high))


def abstention_label(caller: str, classes: NDArray[Any], chosen: Any) -> Any:
    """The label for "no decision": ``chosen``, or one that suits the classes and is none of them."""
    label = chosen
    if chosen is None and classes.dtype != bool:
        label = ABSTAIN if np.issubdtype(classes.dtype, np.number) else "abstain"
    if label in classes.tolist():
        advice = "Set abstain_label to something else."
        _checks.fail(caller, "abstain_label", "other than every class", repr(label), advice)
    return label


def labels_or_abstention(
    caller: str, classes: NDArray[Any], decisions: NDArray[Any], chosen: Any
) -> NDArray[Any]:
    """Labels of the decisions, and the abstention label where there is none."""
    label = abstention_label(caller, classes, chosen)
    # NumPy would turn a mixture of text and numbers into text, so only like kinds share an array.
    common = np.result_type(classes, np.asarray(label)) if label is not None else np.dtype(object)
    text = "U" in (classes.dtype.kind, np.asarray(label).dtype.kind)
    alike = (
        common.kind == classes.dtype.kind == (np.asarray(label).dtype.kind if text else common.kind)
    )
    kind = common if alike else np.dtype(object)
    labels = np.append(classes.astype(kind), np.array([label], dtype=kind))
    decided: NDArray[Any] = labels[decisions]
    return decided
