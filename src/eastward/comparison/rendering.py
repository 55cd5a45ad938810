"""Render a comparison as a table in Markdown and plain text."""

from __future__ import annotations

from html import escape
from typing import Any

__all__ = ["to_markdown", "to_text"]

_NONE = "–"


def to_markdown(summary: dict[str, Any]) -> str:
    """Render verdict and table in Markdown."""
    head, *body = [[_markdown_text(entry) for entry in row] for row in _table(summary)]
    lines = [_markdown_line(head), "|" + "---|" * len(head), *map(_markdown_line, body)]
    verdict = summary["verdict"]
    detail = [f"- {_markdown_text(sentence)}" for sentence in verdict["detail"]]
    return "\n".join(
        [f"**{_markdown_text(verdict['sentence'])}**", "", *lines, "", *detail, _legend(summary)]
    )


def to_text(summary: dict[str, Any]) -> str:
    """Render table, verdict and details with aligned columns, for a terminal."""
    table = [[_one_line(entry) for entry in row] for row in _table(summary)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = [
        "  ".join(
            entry.ljust(width) if position == 0 else entry.rjust(width)
            for position, (entry, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in table
    ]
    rule = "-" * max(map(len, lines))
    verdict = summary["verdict"]
    return "\n".join([lines[0], rule, *lines[1:], "", verdict["sentence"], *verdict["detail"]])


def _table(summary: dict[str, Any]) -> list[list[str]]:
    head = [
        "method",
        summary["metric"],
        "difference (95 % interval)",
        "P(better)",
        "win–tie–loss",
        "rank",
        "log-loss",
        "Brier",
        "ECE",
        "seconds",
    ]
    failed = any(row["failures"] for row in summary["methods"])
    direction = -1 if summary["higher_is_better"] else 1
    ordered = sorted(
        summary["methods"],
        key=lambda row: float("inf") if row["mean"] is None else direction * row["mean"],
    )
    body = [_line(row, summary["baseline"], failed=failed) for row in ordered]
    return [head + (["failures"] if failed else []), *body]


def _line(row: dict[str, Any], baseline: str, *, failed: bool) -> list[str]:
    versus = ["baseline", "", ""] if row["name"] == baseline else _versus(row)
    spread = "" if row["sd"] is None else f" ± {row['sd']:.3f}"
    line = [
        row["name"],
        _number(row["mean"], 3) + spread,
        *versus,
        _number(row["rank"], 2),
        *(_number(row[name], 3) for name in ("log_loss", "brier", "ece")),
        _number(row["seconds"], 1),
    ]
    return line + ([str(row["failures"])] if failed else [])


def _versus(row: dict[str, Any]) -> list[str]:
    difference = row["difference"]
    if difference["mean"] is None:
        return [_NONE] * 3
    low, high = difference["interval"]
    # An interval without width is a lack of spread, not certainty.
    ends = f" ({_signed(low)} to {_signed(high)})" if low != high else ""
    return [
        f"{_signed(difference['mean'])}{ends}",
        f"{difference['probability']:.2f}",
        f"{row['wins']}–{row['ties']}–{row['losses']}",
    ]


def _signed(value: float) -> str:
    return f"{round(value, 3) + 0.0:+.3f}"


def _number(value: float | None, digits: int) -> str:
    return _NONE if value is None else f"{value:.{digits}f}"


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _markdown_text(text: str) -> str:
    # Markdown passes tags through to the page.
    return escape(_one_line(text), quote=False).replace("|", "\\|")


def _markdown_line(row: list[str]) -> str:
    return "| " + " | ".join(row) + " |"


def _legend(summary: dict[str, Any]) -> str:
    better = "higher" if summary["higher_is_better"] else "lower"
    splits = summary["splits"]
    fewer = any(row.get("splits", splits) < splits for row in summary["methods"])
    return (
        f"\n{summary['metric']}: {better} is better; mean ± standard deviation over {'up to ' * fewer}{splits} splits. "
        "Differences are paired, with intervals corrected for overlapping splits (Nadeau–Bengio)."
    )
