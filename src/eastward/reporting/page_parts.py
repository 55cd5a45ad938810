"""Prepare parts of the page: key figures, cells of the matrix, the order of methods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from eastward.reporting import wording

__all__ = [
    "MAX_MATRIX_CLASSES",
    "focus_class",
    "frequent_mistakes",
    "key_figures",
    "matrix_cells",
    "next_command",
    "section_names",
    "sorted_methods",
]

# Nobody reads a larger matrix, and a phone cannot show it.
MAX_MATRIX_CLASSES = 25
# With fewer rows of a class, precision and recall change in steps of a fifth, and there is nothing to explore.
ENOUGH_ROWS = 5

_SECTIONS = {
    "verdict": "Verdict",
    "comparison": "Comparison",
    "evaluation": "Held-out rows",
    "importance": "What matters",
    "decision": "Decision",
    "explorer": "Explorer",
    "calibration": "Calibration",
    "training": "Training",
    "data": "Data",
    "commands": "Commands",
}


_NEXT = {
    "train": "Train the model:",
    "compare": "Compare methods:",
    "predict": "Predict with the model:",
    "evaluate": "Judge the model on other rows:",
}


def section_names(summary: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return anchor and name of each section of the page."""
    evaluation = summary.get("evaluation") or {}
    inner = {
        "decision": (summary.get("training") or {}).get("decision"),
        "explorer": evaluation.get("scores"),
        "calibration": evaluation.get("calibration"),
    }
    return [
        (anchor, name)
        for anchor, name in _SECTIONS.items()
        if inner.get(anchor) or summary.get(anchor)
    ]


def next_command(summary: Mapping[str, Any]) -> dict[str, str] | None:
    """Return the command that follows from the verdict, with an introduction.

    Examples
    --------
    >>> next_command({"comparison": {}, "commands": {"train": "eastward train a.csv -t y"}})
    {'words': 'Train the model:', 'line': 'eastward train a.csv -t y'}
    """
    commands = summary.get("commands") or {}
    wanted = str((summary.get("verdict") or {}).get("next"))
    compared = summary.get("comparison") is not None
    for name in (wanted, *(("train", "compare") if compared else ("predict", "evaluate"))):
        if name in commands and name in _NEXT:
            return {"words": _NEXT[name], "line": commands[name]}
    return None


def key_figures(summary: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return the numbers at the top of the page: name, value and a note each."""
    figures = []
    best = wording.headline(summary)
    if best:
        note = f"95 % interval {wording.interval(best['interval'])}" if best["interval"] else ""
        figures.append(_figure(wording.metric_title(best["name"]), best["value"], note))
    figures += _difference(summary)
    evaluation, data = summary.get("evaluation") or {}, summary.get("data") or {}
    if evaluation.get("rows"):
        note = f"{len(evaluation['classes'])} classes"
        figures.append(
            {"name": "held-out rows", "value": wording.count(evaluation["rows"]), "note": note}
        )
    if data.get("rows"):
        note = f"{wording.count(data['features'])} features, imbalance {wording.number(data['imbalance'], 1)}"
        figures.append({"name": "rows of data", "value": wording.count(data["rows"]), "note": note})
    return figures


def sorted_methods(comparison: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Sort methods from best to worst; those without a score come last."""
    sign = -1 if comparison.get("higher_is_better", True) else 1
    scored = [row for row in comparison["methods"] if row.get("mean") is not None]
    failed = [row for row in comparison["methods"] if row.get("mean") is None]
    return sorted(scored, key=lambda row: sign * row["mean"]) + failed


def focus_class(supports: Sequence[float]) -> int:
    """Choose the class that the explorer shows first.

    It is the second of two classes, which is the positive one. Of more classes it is the rarest with enough rows,
    because rare classes matter most to people.

    Examples
    --------
    >>> focus_class([40, 60]), focus_class([40, 1, 12, 30]), focus_class([0, 3, 2])
    (1, 2, 1)
    """
    if len(supports) < 3:
        return 1 if len(supports) == 2 and supports[1] else 0
    enough = min(ENOUGH_ROWS, *sorted(supports)[-1:])
    known = [k for k, support in enumerate(supports) if support >= enough]
    return min(known, key=lambda k: supports[k])


def matrix_cells(evaluation: Mapping[str, Any]) -> list[list[dict[str, Any]]]:
    """Return every cell with its count, its shares, and a sentence for pointer and screen reader."""
    confusion = evaluation.get("confusion") or []
    columns = [sum(column) for column in zip(*confusion, strict=True)]
    most = max((count for row in confusion for count in row), default=0) or 1
    return [
        [
            _cell(evaluation["classes"], i, j, count, (sum(row), columns[j], most))
            for j, count in enumerate(row)
        ]
        for i, row in enumerate(confusion)
    ]


def frequent_mistakes(evaluation: Mapping[str, Any], most: int = 5) -> list[dict[str, Any]]:
    """Return the largest entries off the diagonal."""
    classes, confusion = evaluation["classes"], evaluation["confusion"]
    found = [
        {"true": classes[i], "decided": classes[j], "count": count, "share": count / sum(row)}
        for i, row in enumerate(confusion)
        for j, count in enumerate(row)
        if i != j and count
    ]
    return sorted(found, key=lambda mistake: -mistake["count"])[:most]


def _cell(
    classes: list[str], i: int, j: int, count: float, totals: tuple[float, float, float]
) -> dict[str, Any]:
    of_row, of_column, most = totals
    row, column = count / (of_row or 1), count / (of_column or 1)
    tip = (
        f"{wording.count(count)} rows of {classes[i]} decided as {classes[j]}: "
        f"{wording.percent(row)} of true {classes[i]}, {wording.percent(column)} of decided {classes[j]}"
    )
    return {
        "count": count,
        "row": row,
        "column": column,
        "share": count / most,
        "right": i == j,
        "tip": tip,
    }


def _figure(name: str, value: float, note: str) -> dict[str, str]:
    return {"name": name, "value": wording.number(value), "note": note}


def _difference(summary: Mapping[str, Any]) -> list[dict[str, str]]:
    """Compare the recommended method with the baseline, if the two differ."""
    comparison = summary.get("comparison")
    recommended = (summary.get("verdict") or {}).get("recommended")
    if not comparison or recommended == comparison["baseline"]:
        return []
    rows = {row["name"]: row for row in comparison["methods"]}
    difference = rows.get(recommended, {}).get("difference")
    if not difference:
        return []
    baseline = rows[comparison["baseline"]].get("label") or comparison["baseline"]
    ends = wording.interval(difference["interval"], sign=True)
    note = f"over {baseline}" if ends == wording.MISSING else f"over {baseline}; {ends}"
    value = wording.signed(difference["mean"])
    upwards = comparison["higher_is_better"]
    name = f"{'gain' if upwards else 'change'} in {wording.metric_title(comparison['metric'])}"
    note += "" if upwards else f"; {wording.direction(upwards)}"
    return [{"name": name, "value": value, "note": note}]
