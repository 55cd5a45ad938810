"""Draw the course of training: metric, surrogate, temperature and cross-entropy over epochs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from markupsafe import Markup

from eastward.reporting import wording
from eastward.reporting.svg import (
    Scale,
    axis_label,
    drawing,
    element,
    linear_scale,
    log_scale,
    padded_range,
    polyline,
    ticks,
)

__all__ = ["closing_gap", "surrogate_value", "training_chart"]

LEFT, RIGHT, TOP, GAP = 50, 12, 50, 40

Record = Mapping[str, Any]


class Panel(NamedTuple):
    """One of the stacked pictures: a title, a height, and lines as (class, value of a record)."""

    title: str
    height: int
    lines: Sequence[tuple[str, Callable[[Record], float | None]]]
    logarithmic: bool = False


def surrogate_value(record: Record, *, higher_is_better: bool) -> float | None:
    """Return the surrogate on the scale of the metric; None if the stage's loss is not the metric."""
    if not record.get("temperature") or record.get("valid_loss") is None:
        return None
    loss = float(record["valid_loss"])
    return 1 - loss if higher_is_better else loss


def closing_gap(history: Sequence[Record], *, higher_is_better: bool) -> str:
    """Describe how close the surrogate came to the metric, or return an empty string."""
    soft = [r for r in history if surrogate_value(r, higher_is_better=higher_is_better) is not None]
    soft = [r for r in soft if r.get("valid_score") is not None]
    if not soft:
        return ""
    first, last = (_gap(record, higher_is_better) for record in (soft[0], soft[-1]))
    warm, cold = (float(record["temperature"]) for record in (soft[0], soft[-1]))
    if warm == cold:
        return (
            f"Here it stayed at {warm:g}: surrogate and metric were {wording.number(first)} apart at first "
            f"and {wording.number(last)} in the end."
        )
    return (
        f"Surrogate and metric were {wording.number(first)} apart at temperature {warm:g} "
        f"and {wording.number(last)} apart at temperature {cold:g}."
    )


def training_chart(
    history: Sequence[Record], metric: str, width: int, *, higher_is_better: bool
) -> Markup:
    """Draw panels over one axis of epochs; a panel without numbers is left out."""
    panels = _panels(history, metric, higher_is_better)
    if not panels:
        return Markup("")
    end = max(len(history), 2)
    x = linear_scale(1, end, LEFT, width - RIGHT)
    bottom = TOP + sum(panel.height for panel in panels) + GAP * (len(panels) - 1)
    parts = _stage_bands(history, x, bottom)
    top = TOP
    for panel in panels:
        parts += _panel(panel, history, x, top, width)
        top += panel.height + GAP
    for tick in ticks(1, end, 6):
        if tick == int(tick):
            parts.append(axis_label(f"{tick:g}", x(tick), bottom + 18))
    parts.append(axis_label("epoch", (LEFT + width) / 2, bottom + 36))
    return drawing(parts, width, bottom + 44, _description(history, metric, higher_is_better))


def _gap(record: Record, higher_is_better: bool) -> float:
    soft = surrogate_value(record, higher_is_better=higher_is_better)
    return abs((soft or 0.0) - float(record["valid_score"]))


def _panels(history: Sequence[Record], metric: str, higher_is_better: bool) -> list[Panel]:
    def soft(record: Record) -> float | None:
        return surrogate_value(record, higher_is_better=higher_is_better)

    def score(record: Record) -> float | None:
        return record.get("valid_score")

    def heat(record: Record) -> float | None:
        return record.get("temperature") or None

    def loss(key: str) -> Callable[[Record], float | None]:
        return lambda record: None if record.get("temperature") else record.get(key)

    title = f"validation {wording.metric_title(metric)}"
    wanted = [
        Panel(title, 190, [("line surrogate", soft), ("line true", score)]),
        Panel("temperature (logarithmic)", 70, [("line heat", heat)], logarithmic=True),
        Panel(
            "cross-entropy loss",
            90,
            [("line train", loss("train_loss")), ("line valid", loss("valid_loss"))],
        ),
    ]
    return [panel for panel in wanted if _values(panel, history)]


def _values(panel: Panel, history: Sequence[Record]) -> list[float]:
    found = [value(record) for _, value in panel.lines for record in history]
    return [float(number) for number in found if number is not None and math.isfinite(number)]


def _panel(
    panel: Panel, history: Sequence[Record], x: Scale, top: float, width: int
) -> list[Markup]:
    values = _values(panel, history)
    bottom = top + panel.height
    if panel.logarithmic:
        low, high = min(values) / 1.15, max(values) * 1.15
        y, marks = log_scale(low, high, bottom, top), sorted({min(values), max(values)})
    else:
        low, high = padded_range(values)
        y, marks = (
            linear_scale(low, high, bottom, top),
            ticks(low, high, 5 if panel.height > 100 else 3),
        )
    parts = [element("text", panel.title, x=LEFT, y=top - 8, class_="panel-title")]
    for mark in marks:
        parts.append(
            element("line", x1=LEFT, x2=width - RIGHT, y1=y(mark), y2=y(mark), class_="grid")
        )
        parts.append(axis_label(f"{mark:.3g}".replace("-", "−"), LEFT - 8, y(mark) + 4, "end"))
    for class_, value in panel.lines:
        parts += _lines(history, value, class_, x, y)
    return parts


def _lines(
    history: Sequence[Record],
    value: Callable[[Record], float | None],
    class_: str,
    x: Scale,
    y: Scale,
) -> list[Markup]:
    """Draw one line for every run of epochs with the number."""
    numbered = enumerate((value(record) for record in history), start=1)
    runs = groupby(numbered, key=lambda pair: pair[1] is not None)
    return [
        polyline([(x(epoch), y(float(number or 0.0))) for epoch, number in run], class_)
        for there, run in runs
        if there
    ]


def _stage_bands(history: Sequence[Record], x: Scale, bottom: float) -> list[Markup]:
    """Draw a name above each stage, and a tint behind every second one."""
    parts, first = [], 1
    for number, (name, group) in enumerate(groupby(history, key=lambda r: r.get("stage"))):
        last = first + len(list(group)) - 1
        start = x(first - 0.5)
        if number % 2:
            band = {"x": start, "y": 2, "width": x(last) - start, "height": bottom - 2}
            parts.append(element("rect", **band, class_="band"))
        middle = (x(first) + x(last)) / 2
        parts.append(element("text", name, x=middle, y=18, text_anchor="middle", class_="stage"))
        first = last + 1
    return parts


def _description(history: Sequence[Record], metric: str, higher_is_better: bool) -> str:
    stages = [
        f"{name} for {len(list(group))} epochs"
        for name, group in groupby(history, key=lambda r: r.get("stage"))
    ]
    scores = [r["valid_score"] for r in history if r.get("valid_score") is not None]
    course = (
        f" The validation {wording.metric_title(metric)} went from {wording.number(scores[0])} "
        f"to {wording.number(scores[-1])}."
        if scores
        else ""
    )
    gap = closing_gap(history, higher_is_better=higher_is_better)
    return f"Training: {', then '.join(stages)}.{course} {gap}".strip()
