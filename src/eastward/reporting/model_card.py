"""Write the card of a model: its purpose, its training data, its decision, and its limits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from eastward.reporting import wording
from eastward.reporting.markdown import escaped

__all__ = ["model_card"]


def model_card(summary: Mapping[str, Any], classifier: Any) -> str:
    """Write a page in Markdown for the folder of a model.

    Parameters
    ----------
    summary : mapping
        From :func:`~eastward.reporting.report_summary`, with ``method`` (``label``, ``reason``).
    classifier : classifier
        The fitted classifier, for its decision and calibration, if it has any.

    Returns
    -------
    str
        Sections: metric, data, decision, calibration, limits, use.
    """
    method = summary["method"]
    made = f"made by eastward {summary['version']} on {summary['created']}"
    parts = [
        f"# {escaped(summary['title'])}",
        f"{escaped(method['label'])}, {made}: {escaped(method['reason'])}.",
        "## Metric",
        _metric(summary),
        "## Data",
        _data(summary["data"]),
        "## Decision",
        _decision(classifier),
        "## Calibration",
        _calibration(summary, classifier),
        "## Limits",
        _limits(summary),
    ]
    commands = "\n".join((summary.get("commands") or {}).values())
    if commands:
        parts += ["## Use", f"```\n{commands}\n```"]
    return "\n\n".join(parts) + "\n"


def _metric(summary: Mapping[str, Any]) -> str:
    title = escaped(wording.metric_title(summary["metric"]["name"]))
    sentence = f"Trained for and judged by {title}."
    best = wording.headline(summary)
    if best is None:
        return f"{sentence} No rows were held out to judge it by."
    sure = f" (95 % interval {wording.interval(best['interval'])})" if best["interval"] else ""
    rows = wording.count(summary["evaluation"]["rows"])
    return f"{sentence} On {rows} held-out rows: {wording.number(best['value'])}{sure}."


def _data(data: Mapping[str, Any]) -> str:
    head = (
        f"{escaped(data['name'])}: {wording.count(data['rows'])} rows, "
        f"{wording.count(data['features'])} features. Classes:"
    )
    classes = [
        f"- {escaped(row['label'])}: {wording.count(row['count'])} rows" for row in data["classes"]
    ]
    return "\n".join([head, "", *classes])


def _decision(classifier: Any) -> str:
    decision = getattr(classifier, "decision_", None)
    if decision is None:
        return "The most probable class; no constraints."
    lines = [escaped(line) for line in str(decision).splitlines()]
    if not decision.constraints:
        lines.append("There are no constraints.")
    return "\n".join(f"- {line}" for line in lines)


def _calibration(summary: Mapping[str, Any], classifier: Any) -> str:
    calibration = getattr(classifier, "calibration_", None)
    kind = "not calibrated" if calibration is None else f"calibration: {calibration.kind}"
    measured = (summary.get("evaluation") or {}).get("calibration")
    error = (
        f"; expected error on held-out rows {wording.number(measured['ece'])}" if measured else ""
    )
    return f"Probabilities are those of `predict_proba` ({kind}{error})."


def _limits(summary: Mapping[str, Any]) -> str:
    general = (
        "The model has learnt from rows like those above. If classes become more or less frequent, or columns "
        "change their meaning, judge it again with `eastward evaluate`."
    )
    known = [
        general,
        *(escaped(line) for line in summary["data"].get("warnings") or []),
    ]
    rare = [row["label"] for row in summary["data"]["classes"] if row["count"] < 30]
    if rare:
        names = ", ".join(escaped(str(name)) for name in rare[:5])
        known.append(f"Fewer than 30 rows: {names}. Scores of these classes are uncertain.")
    return "\n".join(f"- {line}" for line in known)
