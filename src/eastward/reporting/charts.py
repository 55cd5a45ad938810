"""Draw the pictures of a report as inline SVG, for wide and for narrow screens."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import accumulate
from typing import Any

from markupsafe import Markup

from eastward.reporting import wording
from eastward.reporting.svg import (
    Scale,
    axis_label,
    drawing,
    element,
    linear_scale,
    padded_range,
    polyline,
    text_width,
    ticks,
)

__all__ = [
    "bars_picture",
    "calibration_chart",
    "effect_chart",
    "horizontal_grid",
    "importance_chart",
    "interval_chart",
    "stage_chart",
    "upright",
    "vertical_grid",
]

# Below this width a label is above its row instead of beside it.
NARROW = 500
VALUE_COLUMN = 165
# The widest label beside its row, and above it.
WIDEST_BESIDE, WIDEST_ABOVE = 350, 310
# Between the lines of a label that needs several.
LINE = 17
# The least width of an axis without intervals, as a share of its largest value.
LEAST_RANGE = 0.05


def interval_chart(comparison: Mapping[str, Any], recommended: str | None, width: int) -> Markup:
    """Draw mean and interval of each method, best first, with the baseline as a dashed line."""
    methods = [method for method in comparison["methods"] if method.get("mean") is not None]
    if not methods:
        return Markup("")
    better = -1 if comparison["higher_is_better"] else 1
    methods.sort(key=lambda method: better * method["mean"])
    title = f"{wording.metric_title(comparison['metric'])} ({wording.direction(comparison['higher_is_better'])})"
    baseline = next((m["mean"] for m in methods if m["name"] == comparison["baseline"]), None)
    kinds = [_kind(method, comparison["baseline"], recommended) for method in methods]
    description = _interval_description(methods, comparison)
    methods = [_with_splits(method, comparison.get("splits")) for method in methods]
    return _rows_chart(methods, kinds, width, title, reference=baseline, description=description)


def _with_splits(method: Mapping[str, Any], splits: int | None) -> Mapping[str, Any]:
    """Add the number of splits to the label of a method that was dropped early."""
    own = method.get("splits")
    if not own or not splits or own >= splits:
        return method
    label = method.get("label") or method["name"]
    return {**method, "label": f"{label}, {own} split{'' if own == 1 else 's'}"}


def importance_chart(
    columns: Sequence[Mapping[str, Any]], metric: str, higher_is_better: bool, width: int
) -> Markup:
    """Draw how much the metric drops when each column is shuffled, with its interval and a dashed line at zero."""
    kinds = ["recommended" if column["matters"] else "other" for column in columns]
    change = "lost" if higher_is_better else "added"
    title = f"{wording.metric_title(metric)} {change} when the column is shuffled"
    rows = "; ".join(
        f"{column['name']} {wording.number(column['mean'])} ({wording.interval(column['interval'])})"
        for column in columns
    )
    description = f"{title}, with 95 % intervals: {rows}."
    return _rows_chart(columns, kinds, width, title, reference=0.0, description=description)


def stage_chart(
    steps: Sequence[Mapping[str, Any]], title: str, higher_is_better: bool, width: int
) -> Markup:
    """Draw the scores of the training steps in order; the last one is the final classifier."""
    kinds = ["other"] * (len(steps) - 1) + ["recommended"]
    rows = "; ".join(f"{step['name']} {wording.number(step['mean'])}" for step in steps)
    axis = f"{title} on held-out rows ({wording.direction(higher_is_better)})"
    return _rows_chart(steps, kinds, width, axis, reference=None, description=f"{axis}: {rows}.")


def bars_picture(counts: Sequence[float], description: str) -> Markup:
    """Draw a histogram of the size of a word."""
    most, width = max(counts) or 1, 112 / len(counts)
    parts = [
        element(
            "rect",
            x=k * width,
            y=27 - 26 * count / most,
            width=width - 1.5,
            height=26 * count / most + 1,
        )
        for k, count in enumerate(counts)
    ]
    return drawing(parts, 112, 28, description, "bars-picture")


def effect_chart(effect: Mapping[str, Any], width: int) -> Markup:
    """Draw how often each class is decided as a column takes one value after another."""
    left, right, top, bottom = 46, width - 12, 12, 182
    places = _places(effect)
    low, high = min(places), max(places)
    x, y = linear_scale(low, high, left, right), linear_scale(0, 1, bottom, top)
    parts = horizontal_grid(y, 0, 1, left, right)
    if effect["kind"] == "number":
        parts += vertical_grid(x, low, high, top, bottom, 4)
    else:
        parts.append(axis_label(effect["values"][0][:10], left, bottom + 18, "start"))
        parts.append(axis_label(effect["values"][-1][:10], right, bottom + 18, "end"))
    for number, shares in enumerate(effect["shares"]):
        points = [(x(place), y(share)) for place, share in zip(places, shares, strict=True)]
        parts.append(polyline(points, f"line curve-{number}"))
        parts += [
            element("circle", cx=across, cy=up, r=3, class_=f"dot curve-{number}")
            for across, up in points
        ]
    parts.append(upright("share decided", 13, (top + bottom) / 2))
    ends = "; ".join(
        f"{name} from {wording.percent(shares[0], 0)} to {wording.percent(shares[-1], 0)}"
        for name, shares in zip(effect["classes"], effect["shares"], strict=True)
    )
    description = f"Share of rows decided as each class while {effect['name']} grows: {ends}."
    return drawing(parts, width, bottom + 26, description)


def _places(effect: Mapping[str, Any]) -> list[float]:
    if effect["kind"] == "number":
        return [float(value) for value in effect["values"]]
    return [datetime.fromisoformat(value).timestamp() for value in effect["values"]]


def _rows_chart(
    rows: Sequence[Mapping[str, Any]],
    kinds: Sequence[str],
    width: int,
    title: str,
    *,
    reference: float | None,
    description: str,
) -> Markup:
    """Draw one line for each row, with label, mark, interval and numbers."""
    narrow = width < NARROW
    widest = WIDEST_ABOVE if narrow else WIDEST_BESIDE
    labels = [_wrapped(str(row.get("label") or row["name"]), widest) for row in rows]
    left = 14 if narrow else 26 + max(text_width(line) for lines in labels for line in lines)
    right = width - (14 if narrow else VALUE_COLUMN)
    top = 8
    heights = [(50 if narrow else 36) + LINE * (len(lines) - 1) for lines in labels]
    known = [] if reference is None else [reference]
    ends = [*known, *(end for row in rows for end in _ends(row))]
    # Without intervals, a narrow range would make a tiny difference look large.
    alone = all(row.get("interval") is None for row in rows)
    low, high = padded_range(ends, least=LEAST_RANGE * max(map(abs, ends)) if alone else 0.0)
    scale = linear_scale(low, high, left, right)
    bottom = top + sum(heights)
    parts = [*vertical_grid(scale, low, high, top, bottom, 5 if narrow else 7)]
    if reference is not None:
        x = scale(reference)
        parts.append(element("line", x1=x, x2=x, y1=top, y2=bottom, class_="reference"))
    for row, kind, lines, end in zip(rows, kinds, labels, accumulate(heights), strict=True):
        extra = LINE * (len(lines) - 1)
        y = top + end - (14 if narrow else 18 + extra / 2)
        label_at = (
            (14, y - 15 - extra, "start") if narrow else (left - 16, y + 5 - extra / 2, "end")
        )
        parts += _interval_row(row, kind, scale, y)
        parts += _row_texts(row, kind, lines, label_at, (width - 6, y - 15 if narrow else y + 5))
    parts.append(axis_label(title, (left + right) / 2, bottom + 38))
    return drawing(parts, width, bottom + 46, description)


def calibration_chart(calibration: Mapping[str, Any], width: int) -> Markup:
    """Draw accuracy against stated confidence with its interval in each bin, and the diagonal."""
    left, top, size = 46, 12, width - 62
    bottom, bins = top + size, calibration["bins"]
    lowest = min(
        *(row["confidence"] for row in bins), *(_accuracy_ends(row)[0] for row in bins), 0.9
    )
    low = math.floor(10 * lowest) / 10
    x, y = linear_scale(low, 1, left, left + size), linear_scale(low, 1, bottom, top)
    parts = [
        *vertical_grid(x, low, 1, top, bottom, 5),
        *horizontal_grid(y, low, 1, left, left + size),
        element("line", x1=x(low), y1=y(low), x2=x(1), y2=y(1), class_="reference"),
    ]
    points = [(x(row["confidence"]), y(row["accuracy"])) for row in bins]
    parts.append(polyline(points, "line true"))
    for (across, up), row in zip(points, bins, strict=True):
        least, most = (y(end) for end in _accuracy_ends(row))
        parts.append(element("line", x1=across, x2=across, y1=least, y2=most, class_="whisker"))
        parts.append(element("circle", _tip(row), cx=across, cy=up, r=5.5, class_="mark"))
    parts.append(axis_label("stated confidence", left + size / 2, bottom + 38))
    parts.append(upright("accuracy", 14, top + size / 2))
    worst = max(bins, key=lambda row: abs(row["confidence"] - row["accuracy"]))
    description = (
        f"Calibration: accuracy against stated confidence in {len(bins)} bins. Expected calibration error "
        f"{wording.number(calibration['ece'])}. Largest gap at confidence {wording.number(worst['confidence'], 2)}, "
        f"where the accuracy is {wording.number(worst['accuracy'], 2)} ({wording.interval(worst.get('interval'), 2)})."
    )
    return drawing(parts, width, bottom + 46, description)


def upright(text: str, x: float, y: float) -> Markup:
    """Draw the title of a vertical axis."""
    turn = f"rotate(-90 {x:.0f} {y:.0f})"
    return element("text", text, x=x, y=y, transform=turn, text_anchor="middle", class_="axis")


def _accuracy_ends(row: Mapping[str, Any]) -> Sequence[float]:
    """Return the interval of a bin; older reports have none, so return the accuracy twice."""
    return row.get("interval") or (row["accuracy"], row["accuracy"])


def _tip(row: Mapping[str, Any]) -> Markup:
    text = (
        f"confidence {wording.number(row['confidence'])}, accuracy {wording.number(row['accuracy'])} "
        f"({wording.interval(row.get('interval'))}), {row['count']} rows"
    )
    return element("title", text)


def _ends(method: Mapping[str, Any]) -> list[float]:
    ends = [end for end in method.get("interval") or [] if end is not None]
    return [method["mean"], *ends]


def _kind(method: Mapping[str, Any], baseline: str, recommended: str | None) -> str:
    if method["name"] == recommended:
        return "recommended"
    return "baseline" if method["name"] == baseline else "other"


def _interval_row(method: Mapping[str, Any], kind: str, scale: Scale, y: float) -> list[Markup]:
    ends = _ends(method)
    line = {"x1": scale(min(ends)), "x2": scale(max(ends)), "y1": y, "y2": y}
    return [
        element("line", **line, class_=f"whisker {kind}"),
        _mark(kind, scale(method["mean"]), y),
    ]


def _row_texts(
    method: Mapping[str, Any],
    kind: str,
    lines: Sequence[str],
    at: tuple[float, float, str],
    value_at: tuple[float, float],
) -> list[Markup]:
    x, y, anchor = at
    value, ends = wording.number(method["mean"]), wording.interval(_ends(method)[1:])
    if anchor == "end" and ends != wording.MISSING:
        value = f"{value}  ({ends})"
    texts = [
        element("text", line, x=x, y=y + LINE * k, text_anchor=anchor, class_=f"label {kind}")
        for k, line in enumerate(lines)
    ]
    number = {"x": value_at[0], "y": value_at[1], "text_anchor": "end", "class_": "value"}
    return [*texts, element("text", value, **number)]


def _mark(kind: str, x: float, y: float) -> Markup:
    """Draw a mark with its own shape for each kind, because not everybody can tell colours apart."""
    if kind == "recommended":
        points = " ".join(f"{x + a:.1f},{y + b:.1f}" for a, b in ((0, -9), (9, 0), (0, 9), (-9, 0)))
        return element("polygon", points=points, class_="mark recommended")
    if kind == "baseline":
        return element("rect", x=x - 6, y=y - 6, width=12, height=12, class_="mark baseline")
    return element("circle", cx=x, cy=y, r=6, class_="mark other")


def _interval_description(
    methods: Sequence[Mapping[str, Any]], comparison: Mapping[str, Any]
) -> str:
    rows = "; ".join(
        f"{method.get('label') or method['name']} {wording.number(method['mean'])} "
        f"({wording.interval(method.get('interval'))})"
        for method in methods
    )
    return f"{wording.metric_title(comparison['metric'])} of each method with its 95 % interval: {rows}."


def _wrapped(label: str, widest: float) -> list[str]:
    """Break a label into lines at spaces, or inside a word that is wider than a line; names are never cut off.

    >>> _wrapped("random forest with a tuned threshold", 170)
    ['random forest with', 'a tuned threshold']
    """
    lines, rest = [], label.strip()
    while text_width(rest) > widest:
        fits = next(n for n in range(len(rest), 0, -1) if n == 1 or text_width(rest[:n]) <= widest)
        blank = rest.rfind(" ", 1, fits + 1)
        lines.append(rest[: fits if blank < 0 else blank])
        rest = rest[len(lines[-1]) :].lstrip()
    return [*lines, rest]


def vertical_grid(
    scale: Scale, low: float, high: float, top: float, bottom: float, most: int
) -> list[Markup]:
    """Draw vertical grid lines with their numbers below, up to a given number."""
    parts = []
    for tick in ticks(low, high, most):
        x = scale(tick)
        parts.append(element("line", x1=x, x2=x, y1=top, y2=bottom, class_="grid"))
        parts.append(axis_label(f"{tick:g}".replace("-", "−"), x, bottom + 18))
    return parts


def horizontal_grid(
    scale: Scale, low: float, high: float, left: float, right: float
) -> list[Markup]:
    """Draw horizontal grid lines with their numbers to the left."""
    parts = []
    for tick in ticks(low, high):
        y = scale(tick)
        parts.append(element("line", x1=left, x2=right, y1=y, y2=y, class_="grid"))
        parts.append(axis_label(f"{tick:g}".replace("-", "−"), left - 8, y + 4, "end"))
    return parts
