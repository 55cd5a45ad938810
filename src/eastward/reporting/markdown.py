"""Render the report as Markdown, for a pull request, a wiki or a terminal."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from eastward.reporting import wording
from eastward.reporting.page_parts import next_command
from eastward.reporting.summary import read_as_summary

__all__ = ["escaped", "markdown_page", "render_markdown"]

# A larger matrix is not readable as text.
MAX_MATRIX_CLASSES = 12
_SPECIAL = re.compile(r"[\\`*_\[\]#|~$]|^[-+=]|:(?=//)|(?<=www)\.|(?<=^\d)[.)]")


def render_markdown(summary: Mapping[str, Any]) -> str:
    """Render the report as Markdown.

    Parameters
    ----------
    summary : mapping
        From :func:`report_summary`; parts that are None are left out.

    Returns
    -------
    str
        GitHub-flavoured Markdown. All content from the data is escaped.

    Examples
    --------
    >>> from eastward.reporting import report_summary
    >>> print(render_markdown(report_summary("Claims", "f1_macro", created="2026-01-31"))[:8])
    # Claims
    """
    with read_as_summary("render_markdown", summary):
        return markdown_page(summary)


def markdown_page(summary: Mapping[str, Any]) -> str:
    """Render Markdown without turning errors in the summary into one sentence."""
    parts = [_head(summary)]
    for name, write in _SECTIONS.items():
        if summary.get(name):
            parts.append(write(summary[name], summary))
    return "\n\n".join(parts) + "\n"


def escaped(text: object) -> str:
    r"""Escape ``text`` for Markdown, on one line, so that it also works inside a table.

    Examples
    --------
    >>> print(escaped("<b> | `x`"))
    &lt;b&gt; \| \`x\`
    """
    line = " ".join(str(text).split())
    entities = line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _SPECIAL.sub(r"\\\g<0>", entities)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], *, text_columns: int = 1) -> str:
    """Format a table whose columns are numbers, except the first few; cells are escaped already."""
    rules = [":---" if number < text_columns else "---:" for number in range(len(head))]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (head, rules, *rows))


def _head(summary: Mapping[str, Any]) -> str:
    metric = summary["metric"]
    lines = [f"# {escaped(summary['title'])}"]
    formula = f", {escaped(metric['formula'])}" if metric.get("formula") else ""
    lines.append(f"Judged by **{escaped(wording.metric_title(metric['name']))}**{formula}.")
    best = wording.headline(summary)
    if best:
        ends = f" (95 % interval {wording.interval(best['interval'])})" if best["interval"] else ""
        lines.append(f"On held-out rows: **{wording.number(best['value'])}**{ends}.")
    stamp = " ".join(filter(None, [summary.get("created"), f"eastward {summary.get('version')}"]))
    return "\n\n".join([*lines, f"*{escaped(stamp)}*"])


def _verdict(verdict: Mapping[str, Any], summary: Mapping[str, Any]) -> str:
    details = "\n".join(f"- {escaped(line)}" for line in verdict.get("detail") or [])
    parts = ["## Verdict", f"**{escaped(verdict['sentence'])}**", _one_class(summary), details]
    following = next_command(summary)
    if following:
        parts += [following["words"], _fenced(following["line"])]
    return "\n\n".join(filter(None, parts))


def _one_class(summary: Mapping[str, Any]) -> str:
    """Return the sentence on a model that predicts a single class."""
    only = (summary.get("evaluation") or {}).get("only_class")
    return f"**The model predicts only one class, “{escaped(only)}”.**" if only else ""


def _comparison(comparison: Mapping[str, Any], _: Mapping[str, Any]) -> str:
    head = [
        "method",
        "mean",
        "95 % interval",
        "difference",
        "95 % interval",
        "P(better)",
        "won/tied/lost",
        "log-loss",
        "Brier",
        "ECE",
        "time",
    ]
    baseline = comparison["baseline"]
    labels = {row["name"]: row.get("label") or row["name"] for row in comparison["methods"]}
    rows = [_method_row(row, is_baseline=row["name"] == baseline) for row in comparison["methods"]]
    note = (
        f"{escaped(wording.metric_title(comparison['metric']))} on {comparison['splits']} splits; "
        f"differences are against {escaped(labels.get(baseline, baseline))}."
    )
    return "\n\n".join(["## Comparison", note, _table(head, rows)])


def _method_row(method: Mapping[str, Any], *, is_baseline: bool) -> list[str]:
    difference = method.get("difference") or {}
    outcome = "/".join(str(method.get(key, wording.MISSING)) for key in ("wins", "ties", "losses"))
    against = [
        wording.signed(difference.get("mean")),
        wording.interval(difference.get("interval"), sign=True),
        wording.percent(difference.get("probability"), 0),
        outcome,
    ]
    return [
        escaped(method.get("label") or method["name"]),
        wording.number(method.get("mean")),
        wording.interval(method.get("interval")),
        *([wording.MISSING] * len(against) if is_baseline else against),
        *(wording.number(method.get(key)) for key in ("log_loss", "brier", "ece")),
        wording.seconds(method.get("seconds")),
    ]


def _evaluation(evaluation: Mapping[str, Any], _: Mapping[str, Any]) -> str:
    per_class = [
        [
            escaped(row["label"]),
            *(wording.number(row[key]) for key in ("precision", "recall", "f1")),
            wording.count(row["support"]),
        ]
        for row in evaluation["per_class"]
    ]
    metric_rows = [
        [_code(row["name"]), wording.number(row["value"], 4), wording.interval(row["interval"], 4)]
        for row in evaluation["metrics"]
    ]
    return "\n\n".join(
        [
            f"## Held-out rows ({wording.count(evaluation['rows'])})",
            *_confusion(evaluation),
            "### Classes",
            _table(["class", "precision", "recall", "F1", "rows"], per_class),
            "### Metrics",
            _table(["metric", "value", "95 % interval"], metric_rows),
            *_calibration(evaluation.get("calibration")),
        ]
    )


def _confusion(evaluation: Mapping[str, Any]) -> list[str]:
    classes = [escaped(label) for label in evaluation["classes"]]
    if len(classes) > MAX_MATRIX_CLASSES:
        return []
    rows = [
        [f"**{label}**", *map(wording.count, row)]
        for label, row in zip(classes, evaluation["confusion"], strict=True)
    ]
    return ["### Confusion", _table(["true \\ decided", *classes], rows)]


def _calibration(calibration: Mapping[str, Any] | None) -> list[str]:
    if not calibration:
        return []
    rows = [
        [
            wording.number(row["confidence"]),
            wording.number(row["accuracy"]),
            wording.interval(row.get("interval")),
            wording.count(row["count"]),
        ]
        for row in calibration["bins"]
    ]
    title = f"### Calibration (expected error {wording.number(calibration['ece'])})"
    return [
        title,
        _table(["confidence", "accuracy", "95 % interval", "rows"], rows, text_columns=0),
    ]


def _importance(importance: Mapping[str, Any], summary: Mapping[str, Any]) -> str:
    rows = [
        [
            escaped(column["name"]),
            wording.signed(column["mean"]),
            wording.interval(column["interval"], sign=True),
            "yes" if column["matters"] else "may be chance",
        ]
        for column in importance["columns"]
    ]
    title = escaped(wording.metric_title(summary["metric"]["name"]))
    note = f"How much worse {title} gets when a column is shuffled among {importance['rows']} held-out rows."
    head = ["column", "worse by", "95 % interval", "matters"]
    return "\n\n".join(["## What matters", note, _table(head, rows)])


def _training(training: Mapping[str, Any], _: Mapping[str, Any]) -> str:
    lines = [*(training.get("sentences") or []), *(training.get("notes") or [])]
    rows = [
        [escaped(stage["name"]), wording.number(stage["argmax"]), wording.number(stage["tuned"])]
        for stage in training.get("stages") or []
    ]
    table = _table(["stage", "arg max", "tuned decision"], rows) if rows else ""
    sentences = "\n".join(f"- {escaped(line)}" for line in lines)
    return "\n\n".join(filter(None, ["## Training", table, sentences]))


def _data(data: Mapping[str, Any], _: Mapping[str, Any]) -> str:
    facts = (
        f"{escaped(data['name'])}: {wording.count(data['rows'])} rows, "
        f"{wording.count(data['features'])} features, imbalance {wording.number(data['imbalance'], 1)}."
    )
    rows = [[escaped(row["label"]), wording.count(row["count"])] for row in data["classes"]]
    warnings = "\n".join(f"- {escaped(line)}" for line in data.get("warnings") or [])
    parts = ["## Data", facts, _table(["class", "rows"], rows), warnings, _profile(data)]
    return "\n\n".join(filter(None, parts))


def _profile(data: Mapping[str, Any]) -> str:
    """List columns with their kind, gaps, values and association with the target."""
    columns = (data.get("profile") or {}).get("columns") or []
    rows = [
        [
            escaped(column["name"]),
            escaped(column["kind"]),
            wording.percent(column["missing"]),
            wording.count(column["distinct"]),
            wording.number(column.get("target"), 2),
        ]
        for column in columns
    ]
    head = ["column", "kind", "missing", "different values", "association with the target"]
    return _table(head, rows, text_columns=2) if rows else ""


def _commands(commands: Mapping[str, str], _: Mapping[str, Any]) -> str:
    return "## Commands\n\n" + _fenced("\n".join(commands.values()))


def _code(text: str) -> str:
    """Format inline code, with escaped pipes, which would end the cell of a table."""
    return "`" + " ".join(text.replace("`", "ˋ").split()).replace("|", "\\|") + "`"


def _fenced(text: str) -> str:
    """Format a block of code, with a fence longer than any run of backticks inside."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}console\n{text}\n{fence}"


_SECTIONS = {
    "verdict": _verdict,
    "comparison": _comparison,
    "evaluation": _evaluation,
    "importance": _importance,
    "training": _training,
    "data": _data,
    "commands": _commands,
}
