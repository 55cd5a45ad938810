"""`eastward metrics`: the list of metrics."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.table import Table
from rich.text import Text

from eastward import _messages
from eastward.cli import options
from eastward.cli.output import emit_json, say, wants_json

if TYPE_CHECKING:
    from eastward.metrics import Metric

__all__ = ["metrics"]

Search = Annotated[
    str | None,
    typer.Argument(metavar="TEXT", help="Show only names that contain this text, such as f1."),
]


def metrics(search: Search = None, json: options.Json = False) -> None:
    """List all metrics: name, range and formula.

    F-scores of any beta are also available, such as f2 or f0.5_macro. Averages are those of scikit-learn.

    \b
    Examples:
      eastward metrics kappa
    """
    from eastward import metrics as registry

    names = [name for name in registry.names() if search is None or search in name]
    if not names:
        known = registry.names()
        words = sorted({word for name in known for word in name.split("_")} - {"f"})
        advice = _messages.near_misses(search, [*words, *known])
        _messages.fail("metrics", "TEXT", "part of the name of a metric", repr(search), advice)
    if wants_json():
        emit_json([_facts(name) for name in names])
        return
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("name", no_wrap=True)
    table.add_column("range", no_wrap=True)
    table.add_column("formula")
    for name in names:
        metric = _metric(name)
        limits = f"{metric.low:g} to {metric.high:g}" if math.isfinite(metric.high) else "any"
        direction = "" if metric.higher_is_better else "; lower is better"
        table.add_row(name, limits, Text(metric.formula + direction))
    say(table)


def _metric(name: str) -> Metric:
    from eastward import metrics as registry

    return registry.get(name, **({"cost": [[0.0]]} if name == "expected_cost" else {}))


def _facts(name: str) -> dict[str, object]:
    metric = _metric(name)
    finite = math.isfinite(metric.high)
    return {
        "name": name,
        "formula": metric.formula,
        "low": metric.low if finite else None,
        "high": metric.high if finite else None,
        "higher_is_better": metric.higher_is_better,
    }
