"""Tables and lines for a terminal: the data before training, scores and confusion after it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

__all__ = ["comparison_table", "confusion_table", "data_shown", "metric_table", "verdict_shown"]

CLASSES_SHOWN = 12
BAR = 24


def data_shown(facts: Mapping[str, Any], target: str) -> RenderableType:
    """Show rows, classes with bars, imbalance, and warnings."""
    classes = facts["classes"]
    head = f"{facts['name']}: {facts['rows']:,} rows, {facts['features']} features, "
    head += f"{len(classes)} classes of {target!r}; the largest is {facts['imbalance']:.3g} times the smallest"
    table = Table(box=None, show_header=False, padding=(0, 1), pad_edge=False)
    for align in ("left", "right", "right", "left"):
        table.add_column(justify=align, no_wrap=True, overflow="ellipsis")
    for row in classes[:CLASSES_SHOWN]:
        share = row["count"] / facts["rows"]
        width = max(1, round(BAR * row["count"] / classes[0]["count"]))
        table.add_row(Text(row["label"]), f"{row['count']:,}", f"{share:.1%}", "█" * width)
    parts: list[RenderableType] = [Text(head), Padding(table, (0, 0, 0, 2))]
    if len(classes) > CLASSES_SHOWN:
        parts.append(Text(f"  and {len(classes) - CLASSES_SHOWN} smaller classes", style="dim"))
    parts += [Text.assemble(("warning: ", "yellow"), warning) for warning in facts["warnings"]]
    return Group(*parts)


def confusion_table(evaluation: Mapping[str, Any], *, width: int) -> RenderableType:
    """Show counts, rows true and columns predicted; correct ones in bold, frequent mistakes in red."""
    names = list(evaluation["classes"])
    room = max(4, (width - 16) // (len(names) + 1) - 2)
    if len(names) > 20 or room < 5 <= len(names):
        text = f"{len(names)} classes are too many for this width: see the report, or --json."
        return Text(text, style="dim")
    table = Table(box=box.SIMPLE)
    table.add_column("", no_wrap=True, max_width=16, overflow="ellipsis")
    for name in names:
        table.add_column(
            Text(name), justify="right", no_wrap=True, max_width=room, overflow="ellipsis"
        )
    table.add_column("recall", justify="right", no_wrap=True)
    for true, (name, row) in enumerate(zip(names, evaluation["confusion"], strict=True)):
        total = sum(row)
        cells = [_count(n, total, right=true == k) for k, n in enumerate(row)]
        recall = f"{row[true] / total:.0%}" if total else "–"
        table.add_row(Text(name), *cells, recall)
    return Group(Text("rows: true, columns: predicted", style="dim"), table)


def _count(number: float, total: float, *, right: bool) -> Text:
    shown = f"{number:,.0f}" if float(number).is_integer() else f"{number:,.1f}"
    if right:
        return Text(shown, style="bold green")
    if not number:
        return Text("·", style="dim")
    return Text(shown, style="red" if total and number / total >= 0.1 else "")


def metric_table(rows: Sequence[Mapping[str, Any]], wanted: str) -> RenderableType:
    """Show every metric with its interval; the one that judges the model comes first."""
    table = Table(box=box.SIMPLE)
    table.add_column("metric", no_wrap=True)
    table.add_column("value", justify="right")
    table.add_column("95 % interval", justify="center")
    for row in rows:
        style = "bold" if row["name"] == wanted else ""
        # Escaped, because a class in brackets is not markup.
        table.add_row(
            Text(row["name"]), number(row["value"]), interval(row["interval"]), style=style
        )
    return table


def number(value: float | None, digits: int = 3) -> str:
    """Format three digits after the point, or a dash for an undefined value."""
    return "–" if value is None else f"{value:.{digits}f}"


def interval(limits: Sequence[float | None] | None) -> str:
    """Format both limits."""
    if limits is None or None in limits:
        return "–"
    return f"{limits[0]:.3f} to {limits[1]:.3f}"


def comparison_table(summary: Mapping[str, Any], *, width: int, title: str = "") -> RenderableType:
    """Show methods from best to worst, with all measures of calibration if there is room."""
    measures = ("log_loss", "brier", "ece") if width >= 100 else ("log_loss",)
    names = {"log_loss": "log-loss", "brier": "Brier", "ece": "ECE"}
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("method", no_wrap=True)
    shown = ("score", "against baseline (95 %)", "w/t/l", *(names[m] for m in measures), "sec")
    for name in shown:
        table.add_column(name, justify="right", no_wrap=True)
    best = (summary.get("verdict") or {}).get("recommended")
    for row in _best_first(summary):
        table.add_row(
            Text(row["name"]),
            number(row["mean"]),
            *_versus(row, summary["baseline"]),
            *(number(row[measure]) for measure in measures),
            number(row["seconds"], 1),
            style="bold" if row["name"] == best else "",
        )
    better = "higher" if summary["higher_is_better"] else "lower"
    splits = summary["splits"]
    head = f"{title}: " if title else ""
    fewer = any(row.get("splits", splits) < splits for row in summary["methods"])
    head += f"{summary['metric']}, mean of {'up to ' * fewer}{splits} split{'s' * (splits != 1)}, {better} is better"
    return Group(Text(head, style="dim"), table)


def _best_first(summary: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    sign = -1 if summary["higher_is_better"] else 1
    return sorted(
        summary["methods"],
        key=lambda row: float("inf") if row["mean"] is None else sign * row["mean"],
    )


def _versus(row: Mapping[str, Any], baseline: str) -> tuple[str, str]:
    difference = row["difference"]
    if row["name"] == baseline:
        return "baseline", ""
    if difference["mean"] is None:
        return "–", "–"
    ends = [end for end in difference["interval"] or () if end is not None]
    # An interval without width is a lack of spread, not certainty.
    vary = len(ends) == 2 and ends[0] < ends[1]
    limits = f" ({_signed(ends[0])}, {_signed(ends[1])})" if vary else ""
    wins = f"{row['wins']}/{row['ties']}/{row['losses']}"
    return f"{_signed(difference['mean'])}{limits}", wins


def _signed(value: float) -> str:
    """Write a difference with its sign; zero is never negative."""
    return f"{round(value, 3) + 0.0:+.3f}"


def verdict_shown(verdict: Mapping[str, Any]) -> RenderableType:
    """Show the sentence in bold, and the evidence below."""
    lines = [Text(verdict["sentence"], style="bold")]
    lines += [Text(f"· {sentence}") for sentence in verdict["detail"]]
    return Group(*lines)
