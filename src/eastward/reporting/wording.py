"""Format numbers for readers, in one way for all renderings."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = [
    "count",
    "direction",
    "headline",
    "interval",
    "metric_title",
    "number",
    "percent",
    "seconds",
    "sentences",
    "signed",
]

MISSING = "–"

# Names of metrics in headings; all others lose their underscores.
_TITLES = {
    "f1": "F1",
    "f_beta": "F-beta",
    "matthews_corrcoef": "Matthews correlation",
    "cohen_kappa": "Cohen’s kappa",
    "jaccard": "Jaccard",
    "fowlkes_mallows": "Fowlkes–Mallows",
}
_AVERAGES = ("macro", "micro", "weighted", "linear", "quadratic")


def number(value: float | None, digits: int = 3) -> str:
    """Format ``value`` with ``digits`` decimals, or as a dash.

    Examples
    --------
    >>> number(0.12345), number(None), number(-0.00001)
    ('0.123', '–', '0.000')
    """
    if value is None:
        return MISSING
    # Rounded first, to avoid "-0.000".
    return f"{round(value, digits) + 0.0:.{digits}f}".replace("-", "−")


def signed(value: float | None, digits: int = 3) -> str:
    """Format ``value`` with its sign.

    Examples
    --------
    >>> signed(0.5), signed(-0.5)
    ('+0.500', '−0.500')
    """
    if value is None:
        return MISSING
    return f"{round(value, digits) + 0.0:+.{digits}f}".replace("-", "−")


def interval(ends: Sequence[float | None] | None, digits: int = 3, *, sign: bool = False) -> str:
    """Format an interval; a dash if it is missing or has no width, which means no spread, not certainty.

    Examples
    --------
    >>> interval([0.1, 0.25]), interval([0.5, 0.5])
    ('0.100 to 0.250', '–')
    """
    if not ends or None in ends or ends[0] == ends[-1]:
        return MISSING
    write = signed if sign else number
    return " to ".join(write(end, digits) for end in ends)


def percent(value: float | None, digits: int = 1) -> str:
    """Format a share in percent.

    Examples
    --------
    >>> percent(0.1234).split()
    ['12.3', '%']
    """
    return MISSING if value is None else f"{number(100 * value, digits)}\N{NO-BREAK SPACE}%"


def count(value: float | None) -> str:
    """Format a count with narrow spaces between thousands; up to two decimals if it is fractional.

    Examples
    --------
    >>> count(1234567).split(), count(2.5)
    (['1', '234', '567'], '2.5')
    """
    if value is None:
        return MISSING
    text = f"{value:,.0f}" if float(value).is_integer() else f"{value:,.2f}".rstrip("0").rstrip(".")
    return text.replace(",", "\N{NARROW NO-BREAK SPACE}").replace("-", "−")


def seconds(value: float | None) -> str:
    """Format a duration.

    Examples
    --------
    >>> seconds(0.034), seconds(75)
    ('0.03 s', '1 min 15 s')
    """
    if value is None:
        return MISSING
    if value < 60:
        return f"{value:.2f} s" if value < 1 else f"{value:.1f} s"
    minutes, rest = divmod(round(value), 60)
    return f"{minutes} min {rest} s"


def metric_title(name: str) -> str:
    """Format the name of a metric in words.

    Examples
    --------
    >>> metric_title("f1_macro"), metric_title("balanced_accuracy"), metric_title("f1[fraud]")
    ('macro F1', 'balanced accuracy', 'F1 of fraud')
    """
    if name.endswith("]"):
        stem, _, label = name[:-1].partition("[")
        return f"{metric_title(stem)} of {label}"
    stem, _, average = name.rpartition("_")
    if stem and average in _AVERAGES:
        return f"{average} {metric_title(stem)}"
    return _TITLES.get(name, name.replace("_", " "))


def direction(higher_is_better: bool | None) -> str:
    """Say which direction of a metric is better.

    Examples
    --------
    >>> direction(False)
    'lower is better'
    """
    return f"{'lower' if higher_is_better is False else 'higher'} is better"


def sentences(text: str) -> tuple[str, str]:
    """Split a verdict into its first sentence and the rest.

    Examples
    --------
    >>> sentences("Use trees: 0.61 against 0.59. More data would tell.")
    ('Use trees: 0.61 against 0.59.', 'More data would tell.')
    """
    first, _, rest = re.sub(r"([.!?]) (?=[A-Z])", r"\1\0", str(text), count=1).partition("\0")
    return first, rest


def headline(summary: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the first metric of the evaluation, which is the one that judges the model."""
    evaluation = summary.get("evaluation") or {}
    rows = evaluation.get("metrics") or []
    return rows[0] if rows else None
