"""Charts of a decision: the metric against the bound of a constraint, and accuracy against coverage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from eastward.reporting import wording
from eastward.reporting.charts import horizontal_grid, upright, vertical_grid
from eastward.reporting.svg import (
    axis_label,
    drawing,
    element,
    linear_scale,
    padded_range,
    polyline,
)

__all__ = ["bound_chart", "coverage_chart"]

LEFT, TOP, HEIGHT = 50, 12, 190


def bound_chart(curve: Mapping[str, Any], metric: str, width: int) -> Markup:
    """Draw the best metric against the bound of a constraint; bounds that satisfy the requested one are shaded."""
    name = curve["constraint"].split(">" if curve["at_least"] else "<")[0].strip()
    sign = "at least" if curve["at_least"] else "at most"
    bound = float(curve["bound"])
    reached = [*curve["bounds"], bound]
    low, high = min(reached), max(reached)
    lowest, highest = padded_range(curve["values"])
    x = linear_scale(low, high, LEFT, width - 12)
    y = linear_scale(lowest, highest, TOP + HEIGHT, TOP)
    ends = (bound, high) if curve["at_least"] else (low, bound)
    region = element(
        "rect",
        x=x(ends[0]),
        y=TOP,
        width=max(0.0, x(ends[1]) - x(ends[0])),
        height=HEIGHT,
        class_="region",
    )
    parts = [region, *_grids(x, y, (low, high), (lowest, highest), width)]
    parts.append(polyline(_points(x, y, curve["bounds"], curve["values"]), "line true"))
    parts.append(
        element("line", x1=x(bound), x2=x(bound), y1=TOP, y2=TOP + HEIGHT, class_="reference")
    )
    title = wording.metric_title(metric)
    parts += _titles(f"{name} {sign}", title, width)
    first, last = curve["values"][0], curve["values"][-1]
    description = (
        f"Best {title} on held-out rows if {name} is {sign} a bound: {wording.number(first)} at "
        f"{wording.number(curve['bounds'][0], 2)}, {wording.number(last)} at "
        f"{wording.number(curve['bounds'][-1], 2)}. The requested bound is {wording.number(bound, 2)}."
    )
    return drawing(parts, width, TOP + HEIGHT + 46, description)


def coverage_chart(curve: Mapping[str, Any], decided: float, width: int) -> Markup:
    """Draw the accuracy of decided rows against coverage; the share actually decided is marked."""
    shares, accuracies = curve["coverage"], curve["accuracy"]
    lowest, highest = padded_range([*accuracies])
    low, high = max(0.0, lowest), min(1.0, highest)
    x = linear_scale(0, 1, LEFT, width - 12)
    y = linear_scale(low, high, TOP + HEIGHT, TOP)
    parts = _grids(x, y, (0, 1), (low, high), width)
    parts.append(polyline(_points(x, y, shares, accuracies), "line true"))
    parts.append(
        element("line", x1=x(decided), x2=x(decided), y1=TOP, y2=TOP + HEIGHT, class_="reference")
    )
    parts += _titles("share of rows decided", "accuracy", width)
    description = (
        f"Accuracy of decided rows against their share: {wording.number(accuracies[0])} at "
        f"{wording.percent(shares[0], 0)}, {wording.number(accuracies[-1])} at {wording.percent(shares[-1], 0)}. "
        f"The decision takes {wording.percent(decided, 0)} of the rows."
    )
    return drawing(parts, width, TOP + HEIGHT + 46, description)


def _grids(
    x: Any, y: Any, across: tuple[float, float], up: tuple[float, float], width: int
) -> list[Markup]:
    return [
        *vertical_grid(x, *across, TOP, TOP + HEIGHT, 5),
        *horizontal_grid(y, *up, LEFT, width - 12),
    ]


def _points(x: Any, y: Any, across: Sequence[float], up: Sequence[float]) -> list[Any]:
    return [(x(one), y(other)) for one, other in zip(across, up, strict=True)]


def _titles(across: str, up: str, width: int) -> list[Markup]:
    return [
        axis_label(across, (LEFT + width - 12) / 2, TOP + HEIGHT + 38),
        upright(up, 14, TOP + HEIGHT / 2),
    ]
