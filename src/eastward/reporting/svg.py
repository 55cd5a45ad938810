"""Small pieces of SVG: escaped elements, scales and ticks.

The page's style sheet sets colours and fonts, so that one picture works in light mode, dark mode and print.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

from markupsafe import Markup, escape

__all__ = [
    "Scale",
    "axis_label",
    "drawing",
    "element",
    "linear_scale",
    "log_scale",
    "polyline",
    "text_width",
    "ticks",
]

Scale: TypeAlias = Callable[[float], float]


def element(tag: str, *children: Any, **attributes: Any) -> Markup:
    """Make an element with escaped content, except for markup.

    Examples
    --------
    >>> element("text", "a < b", x=1.234, class_="label")
    Markup('<text x="1.23" class="label">a &lt; b</text>')
    """
    written = Markup("").join(
        Markup(' {}="{}"').format(name.rstrip("_").replace("_", "-"), _attribute(value))
        for name, value in attributes.items()
        if value is not None
    )
    inside = Markup("").join(escape(child) for child in children)
    return Markup("<{0}{1}>{2}</{0}>").format(tag, written, inside)


def drawing(
    children: Iterable[Markup], width: float, height: float, description: str, class_: str = ""
) -> Markup:
    """Make a whole picture; screen readers read ``description``."""
    return element(
        "svg",
        *children,
        viewBox=f"0 0 {width:g} {math.ceil(height)}",
        role="img",
        aria_label=description,
        class_=f"chart {class_}".strip(),
    )


def polyline(points: Iterable[tuple[float, float]], class_: str) -> Markup:
    """Draw a line through the points."""
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return element("polyline", points=path, class_=class_)


def axis_label(text: str, x: float, y: float, anchor: str = "middle") -> Markup:
    """Draw a tick label or the title of an axis."""
    return element("text", text, x=x, y=y, text_anchor=anchor, class_="axis")


def linear_scale(low: float, high: float, start: float, end: float) -> Scale:
    """Return the affine map from ``low`` to ``start`` and from ``high`` to ``end``."""
    factor = (end - start) / ((high - low) or 1.0)
    return lambda value: start + (value - low) * factor


def log_scale(low: float, high: float, start: float, end: float) -> Scale:
    """Map values between ``low`` and ``high`` to places on a logarithmic axis."""
    inner = linear_scale(math.log(low), math.log(high), start, end)
    return lambda value: inner(math.log(value))


def ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Return at most ``most`` round numbers between ``low`` and ``high``.

    Examples
    --------
    >>> ticks(0.83, 0.97)
    [0.85, 0.9, 0.95]
    """
    span = (high - low) or 1.0
    rough = 10 ** math.floor(math.log10(span / most))
    step = next(rough * f for f in (1, 2, 5, 10, 20) if span / (rough * f) <= most)
    digits = max(0, 2 - math.floor(math.log10(step)))
    first = math.ceil(low / step - 1e-9)
    return [round(k * step, digits) for k in range(first, math.floor(high / step + 1e-9) + 1)]


def text_width(text: str) -> float:
    """Estimate the width of ``text`` as a label; generously, because fonts differ.

    Examples
    --------
    >>> text_width("il") < text_width("ab") < text_width("WM") < text_width("漢字")
    True
    """
    return sum(_letter_width(letter) for letter in text)


def padded_range(
    values: Sequence[float], share: float = 0.06, *, least: float = 0.0
) -> tuple[float, float]:
    """Return the range of ``values`` with some padding, at least ``least`` wide."""
    low, high = min(values), max(values)
    air = (high - low) * share or 0.05 * (abs(high) or 1.0)
    air = max(air, (least - (high - low)) / 2)
    return low - air, high + air


def _letter_width(letter: str) -> float:
    if unicodedata.east_asian_width(letter) in "WF":
        return 15.5
    if letter in "MWmw@%":
        return 15.0
    return 11.5 if letter.isupper() else 5.5 if letter in "ijlI1.,:;'|!() " else 9.0


def _attribute(value: Any) -> Any:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else value
