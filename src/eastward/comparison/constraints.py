"""Find the methods that satisfy the constraints, and recommend one of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from eastward.constraints import Constraint
from eastward.metrics import Metric

__all__ = ["broken_constraints", "decided_shares", "verdict_of_keepers"]

Row = dict[str, Any]


def broken_constraints(
    cells: Sequence[Row], constraints: Sequence[Constraint]
) -> dict[str, list[str]]:
    """Describe which constraints each method violates on test rows, on average over the splits.

    Parameters
    ----------
    cells : sequence of dict
        Results, with the values of the constraints.
    constraints : sequence of Constraint
        The constraints of the comparison.

    Returns
    -------
    dict
        Sentences for each method with results; an empty list if it satisfies all constraints.
    """
    found: dict[str, list[str]] = {}
    for name in dict.fromkeys(cell["method"] for cell in cells):
        values = [cell["constraints"] for cell in cells if cell["method"] == name and _known(cell)]
        means = np.mean(values, axis=0).tolist() if values else []
        found[name] = [
            f"{one.text}: {mean:.3f} on average"
            for one, mean in zip(constraints, means, strict=False)
            if (mean < one.bound if one.at_least else mean > one.bound)
        ]
    return found


def decided_shares(cells: Sequence[Row]) -> dict[str, float]:
    """Compute the average share of test rows that each method decides.

    Examples
    --------
    >>> decided_shares([{"method": "a", "error": None, "coverage": share} for share in (0.8, 1.0)])
    {'a': 0.9}
    """
    found: dict[str, list[float]] = {}
    for cell in cells:
        if _known(cell) and "coverage" in cell:
            found.setdefault(cell["method"], []).append(cell["coverage"])
    return {name: float(np.mean(shares)) for name, shares in found.items()}


def _known(cell: Row) -> bool:
    return cell["error"] is None


def verdict_of_keepers(
    rows: Sequence[Row], judged: Callable[[Sequence[Row]], Row], *, metric: Metric, baseline: str
) -> Row:
    """Give a verdict among the methods that satisfy every constraint, with a note on the others.

    Parameters
    ----------
    rows : sequence of dict
        Rows of all methods, with ``breaks``.
    judged : callable
        Turns rows, including the baseline, into a verdict.
    metric : Metric
        The metric that judges methods.
    baseline : str
        Name of the baseline.

    Returns
    -------
    dict
        ``sentence``, ``detail`` and ``recommended``.
    """
    keepers = [row for row in rows if not row["breaks"]]
    broken = [row for row in rows if row["breaks"]]
    marks = [f"{_capital(row['label'])} violates {'; '.join(row['breaks'])}." for row in broken]
    marks += [
        f"{_capital(row['label'])} leaves {1 - row['coverage']:.1%} of the rows undecided."
        for row in rows
        if (row.get("coverage") or 1) < 1
    ]
    if not broken:
        found = judged(rows)
        return {**found, "detail": [*found["detail"], *marks]}
    if any(row["name"] == baseline for row in keepers):
        found = judged(keepers)
        return {**found, "detail": [*found["detail"], *marks]}
    known: list[Mapping[str, Any]] = [row for row in keepers if row["mean"] is not None]
    if not known:
        sentence = "No method satisfies the constraints on test rows: relax them, or add rows."
        return {"sentence": sentence, "detail": marks, "recommended": None}
    direction = 1 if metric.higher_is_better else -1
    best = max(known, key=lambda row: direction * row["mean"])
    sentence = (
        f"Use {best['label']}: {metric.name} {best['mean']:.3f}, the best of the methods that satisfy the constraints; "
        "the baseline does not."
    )
    return {"sentence": sentence, "detail": marks, "recommended": best["name"]}


def _capital(label: str) -> str:
    return label[:1].upper() + label[1:]
