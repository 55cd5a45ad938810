"""Turn preferences into a metric: the options --metric, --prefer and --cost."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eastward import _messages, metrics
from eastward.cli.output import note
from eastward.data import label_names
from eastward.data.formats import SEPARATORS

__all__ = ["cost_table", "metric_choice", "preferred_betas"]

# If the second of two classes has one of these names, it is the one that people mean.
AFFIRMATIVE = {"1", "1.0", "yes", "y", "true", "t", "positive", "pos"}
USUAL_COSTS = "A correct decision usually costs 0, a wrong one more."
PREFERENCE = "WHAT:CLASS=FACTOR with recall or precision, such as recall:fraud=5"


def metric_choice(
    metric: str, prefer: Sequence[str] | None, cost: Path | None, classes: NDArray[Any]
) -> tuple[str, dict[str, Any] | None]:
    """Return the name of the metric and its options.

    Examples
    --------
    >>> metric_choice("f1_macro", ["recall:fraud=5"], None, np.array(["fraud", "no"]))
    ('f_beta', {'beta': {'fraud': 5.0}})
    """
    metric = metric.strip() if "[" in metric else metric.strip().lower()
    if prefer and cost is not None:
        _messages.fail("eastward", "--prefer", "left out when --cost is given", prefer[0])
    if prefer:
        if metric not in {"f1", "f1_macro", "f_beta"}:
            advice = "Leave --metric out: the metric becomes an F-score with a beta for each class."
            _messages.fail(
                "eastward", "--metric", "f1_macro when --prefer is given", metric, advice
            )
        return "f_beta", {"beta": preferred_betas(prefer, classes)}
    if cost is not None:
        if metric not in {"f1_macro", "expected_cost"}:
            advice = "Leave --metric out: the metric becomes the mean cost."
            _messages.fail("eastward", "--metric", "expected_cost with --cost", metric, advice)
        return "expected_cost", {"cost": cost_table(cost, classes)}
    if metric == "expected_cost":
        advice = "Write a table with a row for each true class and a column for each predicted one."
        _messages.fail("eastward", "--cost", "given for expected_cost", "nothing", advice)
    return _registered(metric, classes), None


def _registered(metric: str, classes: NDArray[Any]) -> str:
    """Return the name of a metric after checking that it fits the number of classes."""
    if "[" in metric:
        return metrics.as_metric(metric, "metrics.get", classes.tolist()).name
    chosen = metrics.get(metric)
    if chosen.options.get("average") != "binary":
        return chosen.name
    if len(classes) != 2:
        advice = f"Use {metric}_macro, {metric}_weighted, or {metric}[CLASS]."
        got = f"{metric} for {len(classes)} classes"
        _messages.fail("eastward", "--metric", "a metric of many classes", got, advice)
    _note_counted_class(chosen.name, label_names(classes))
    return chosen.name


def _note_counted_class(metric: str, names: Sequence[str]) -> None:
    """Say which of two classes a metric counts, because the user may mean the other one."""
    other, counted = names
    if counted.lower() not in AFFIRMATIVE:
        note(
            f"{metric} counts the class {counted}; for the other write --metric '{metric}[{other}]'"
        )


def preferred_betas(prefer: Sequence[str], classes: NDArray[Any]) -> dict[Any, float]:
    """Return a beta for each named class: above one for recall, below one for precision.

    Examples
    --------
    >>> preferred_betas(["recall:fraud=5", "precision:no=4"], np.array(["fraud", "no"]))
    {'fraud': 5.0, 'no': 0.25}
    """
    betas: dict[Any, float] = {}
    for preference in prefer:
        what, colon, rest = preference.partition(":")
        name, equals, factor = rest.rpartition("=")
        if what not in {"recall", "precision"} or not colon or not equals:
            _messages.fail("eastward", "--prefer", PREFERENCE, repr(preference))
        number = _messages.positive(
            "eastward", f"--prefer {preference}", _number(factor, preference)
        )
        betas[class_named(name, classes, "--prefer")] = number if what == "recall" else 1 / number
    return betas


def class_named(name: str, classes: NDArray[Any], option: str) -> Any:
    """Return the class written as ``name`` in ``option``."""
    names = label_names(classes)
    if name not in names:
        exact = [known for known in names if known.lower() == name.strip().lower()]
        if len(exact) != 1:
            advice = _messages.near_misses(name, names)
            expected = f"one of {', '.join(names[:12])}"
            _messages.fail("eastward", f"class in {option}", expected, repr(name), advice)
        name = exact[0]
    return classes.tolist()[names.index(name)]


def _number(text: str, preference: str) -> float:
    try:
        return float(text)
    except ValueError:
        return _messages.fail("eastward", "--prefer", PREFERENCE, repr(preference))


def cost_table(path: Path, classes: NDArray[Any]) -> list[list[float]]:
    """Read costs in the order of ``classes``: rows true, columns predicted.

    The file is a CSV with the classes in its first row and column, or with only numbers in the order of the sorted
    classes; or JSON, ``{"true class": {"predicted class": cost}}`` or a list of lists. Entries missing from a table
    with names cost nothing.
    """
    if not path.is_file():
        _messages.fail("eastward", "--cost", "a file that exists", path, error=FileNotFoundError)
    try:
        text = path.read_text(encoding="utf-8-sig")
        content = json.loads(text) if path.suffix == ".json" else _rows(text)
    except (UnicodeDecodeError, json.JSONDecodeError, csv.Error) as error:
        _messages.fail("eastward", "--cost", "a .csv or .json table", f"{path.name} ({error})")
    table = _named_costs(content, classes) if isinstance(content, Mapping) else content
    try:
        costs = np.asarray(table, dtype=float)
    except (TypeError, ValueError) as error:
        _messages.fail("eastward", "--cost", "a table of numbers", f"{path.name} ({error})")
    if costs.shape != (len(classes), len(classes)) or not np.isfinite(costs).all():
        expected = f"a table of {len(classes)} rows and columns, one for each class, all finite"
        _messages.fail("eastward", "--cost", expected, f"{path.name} of shape {costs.shape}")
    _check_differences(costs, label_names(classes), path)
    return [[float(cost) for cost in row] for row in costs]


def _rows(text: str) -> Any:
    """Read the cells of a CSV; with names in the first row and column, as a mapping of mappings."""
    separator = _separator(text)
    rows = [
        [cell.strip() for cell in row]
        for row in csv.reader(text.splitlines(), delimiter=separator)
        if any(cell.strip() for cell in row)
    ]
    if separator != ",":
        rows = [[_with_point(cell) for cell in row] for row in rows]
    _check_widths(rows)
    if not rows or _is_number(rows[0][0]):
        return rows
    header, names = rows[0][1:], [row[0] for row in rows[1:]]
    for named in (header, names):
        twice = [name for name in named if named.count(name) > 1]
        if twice:
            _messages.fail("eastward", "--cost", "a table that has each class once", repr(twice[0]))
    return {row[0]: dict(zip(header, row[1:], strict=True)) for row in rows[1:]}


def _separator(text: str) -> str:
    """Return the most frequent separator of the first line."""
    first = text.lstrip().partition("\n")[0]
    separator = max(SEPARATORS, key=first.count)
    if not first.count(separator):
        expected = "a table whose cells are separated by commas, semicolons, tabs or bars"
        _messages.fail("eastward", "--cost", expected, f"the first line {first.strip()!r}")
    return separator


def _check_widths(rows: list[list[str]]) -> None:
    for number, row in enumerate(rows, start=1):
        if len(row) != len(rows[0]):
            expected = f"a table with {len(rows[0])} cells in each row, as in the first"
            got = f"{len(row)} in row {number}"
            _messages.fail("eastward", "--cost", expected, got)


def _with_point(cell: str) -> str:
    """Convert a decimal comma to a point, if commas do not separate cells."""
    point = cell.replace(",", ".")
    return point if _is_number(point) else cell


def _check_differences(costs: NDArray[np.float64], names: list[str], path: Path) -> None:
    """Check that no decision is the cheapest for every true class, because there would be nothing to learn."""
    if (costs == costs[:, :1]).all():
        expected = "a table in which decisions differ in cost"
        got = f"{path.name}, where the decision makes no difference to the cost"
        _messages.fail("eastward", "--cost", expected, got, USUAL_COSTS)
    cheapest = np.flatnonzero((costs <= costs.min(axis=1, keepdims=True)).all(axis=0))
    if len(cheapest):
        expected = "a table in which the cheapest decision depends on the true class"
        got = f"{path.name}, where deciding {names[cheapest[0]]!r} is the cheapest for all of them"
        _messages.fail("eastward", "--cost", expected, got, USUAL_COSTS)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _named_costs(content: Mapping[str, Any], classes: NDArray[Any]) -> list[list[Any]]:
    positions = {name: position for position, name in enumerate(label_names(classes))}
    table: list[list[Any]] = [[0.0] * len(positions) for _ in positions]
    for true, row in content.items():
        for predicted, cost in row.items():
            first, second = (
                str(class_named(str(name), classes, "--cost")) for name in (true, predicted)
            )
            table[positions[first]][positions[second]] = cost or 0.0
    return table
