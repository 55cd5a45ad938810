"""Render the report as one HTML file that contains style, script, pictures and scores."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shlex
from collections.abc import Mapping
from functools import cache
from typing import Any

from jinja2 import ChainableUndefined, Environment, PackageLoader, Undefined
from markupsafe import Markup, escape

from eastward.reporting import wording
from eastward.reporting.charts import (
    bars_picture,
    calibration_chart,
    effect_chart,
    importance_chart,
    interval_chart,
)
from eastward.reporting.decision_charts import bound_chart, coverage_chart
from eastward.reporting.page_parts import (
    MAX_MATRIX_CLASSES,
    focus_class,
    frequent_mistakes,
    key_figures,
    matrix_cells,
    next_command,
    section_names,
    sorted_methods,
)
from eastward.reporting.styles import asset, style_sheet
from eastward.reporting.summary import read_as_summary
from eastward.reporting.svg import text_width
from eastward.reporting.training_chart import closing_gap, training_chart

__all__ = ["comparison_parts", "environment", "html_page", "render_html", "trusted"]

# Widths of the wide and narrow pictures; the style sheet shows one of them.
WIDE, PHONE, SQUARE = 940, 360, 340
# With this many classes, a matrix with horizontal headings still fits beside another part.
FEW_CLASSES = 4
# Columns in the picture of importance; the table below has all of them.
COLUMNS_SHOWN = 12
# Width of a column of the matrix without its name, and of all columns together.
MATRIX_CELL, MATRIX_WIDTH = 55, 850
SCRIPTS = ("decisions.js", "explorer.js", "page.js")
# Options of a training command that another operating point replaces: with a value, and without.
OBJECTIVE, FOLDER, CONSTRAINTS = ("--metric", "--prefer", "--cost"), ("--out", "-o"), "--subject-to"
DROPPED = ("--resume", "--overwrite")


def render_html(summary: Mapping[str, Any]) -> str:
    """Render the report as one self-contained page.

    Parameters
    ----------
    summary : mapping
        From :func:`report_summary`; parts that are None are left out.

    Returns
    -------
    str
        HTML that makes no network request. All content from the data is escaped, and a content security policy allows
        only the page's own script.

    Examples
    --------
    >>> from eastward.reporting import report_summary
    >>> "&lt;b&gt;" in render_html(report_summary("<b>", "f1_macro"))
    True
    """
    with read_as_summary("render_html", summary):
        return html_page(summary)


def html_page(summary: Mapping[str, Any]) -> str:
    """Render a page without turning errors in the summary into one sentence."""
    script = _script()
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return (
        environment()
        .get_template("report.html.j2")
        .render(
            summary=summary,
            style=trusted(style_sheet("report.css")),
            script=trusted(script),
            script_hash=trusted(digest),
            page_data=_embedded(_page_data(summary)),
            sections=section_names(summary),
            charts=_charts(summary),
            facts=key_figures(summary),
            profile=_profile(summary),
            next_command=next_command(summary),
            **comparison_parts(summary),
            **_evaluation_parts(summary),
            **_decision_parts(summary),
            **_importance_parts(summary),
            **_training_parts(summary),
        )
    )


def comparison_parts(summary: Mapping[str, Any]) -> dict[str, Any]:
    """Return the further values that the table and the picture of methods need."""
    comparison = summary.get("comparison") or {"methods": []}
    labels = {row["name"]: row.get("label") or row["name"] for row in comparison["methods"]}
    recommended = (summary.get("verdict") or {}).get("recommended")
    return {
        "methods": sorted_methods(comparison),
        "recommended": recommended,
        "recommended_label": labels.get(recommended),
        "baseline_label": labels.get(comparison.get("baseline"), "the baseline"),
    }


def _evaluation_parts(summary: Mapping[str, Any]) -> dict[str, Any]:
    evaluation = summary.get("evaluation") or {}
    classes = evaluation.get("classes") or []
    return {
        "matrix": matrix_cells(evaluation) if len(classes) <= MAX_MATRIX_CLASSES else None,
        "max_matrix": MAX_MATRIX_CLASSES,
        "many": len(classes) > FEW_CLASSES,
        # With horizontal names, the columns would be wider than the page.
        "long_names": sum(max(MATRIX_CELL, text_width(name)) for name in classes) > MATRIX_WIDTH,
        "mistakes": frequent_mistakes(evaluation) if len(classes) > 2 else [],
        "explorable": bool(evaluation.get("scores")),
        "focus_class": focus_class([row["support"] for row in evaluation.get("per_class") or []]),
    }


def _decision_parts(summary: Mapping[str, Any]) -> dict[str, Any]:
    """Draw the cost of constraints, and the gain from leaving rows undecided."""
    training = summary.get("training") or {}
    metric, left = summary["metric"]["name"], training.get("coverage_curve")
    curves = training.get("constraint_curves") or []
    decided = 1 - (training.get("abstained") or 0.0)
    return {
        "bound_charts": [(one["constraint"], bound_chart(one, metric, SQUARE)) for one in curves],
        "coverage_chart": coverage_chart(left, decided, SQUARE) if left else None,
    }


def _training_parts(summary: Mapping[str, Any]) -> dict[str, Any]:
    history = (summary.get("training") or {}).get("history") or []
    upwards = bool(summary["metric"].get("higher_is_better", True))
    return {
        "closing_gap": closing_gap(history, higher_is_better=upwards),
        "has_cross_entropy": any(not row.get("temperature") for row in history),
    }


def _charts(summary: Mapping[str, Any]) -> dict[str, Markup]:
    charts: dict[str, Markup] = {}
    recommended = (summary.get("verdict") or {}).get("recommended")
    history = (summary.get("training") or {}).get("history")
    calibration = (summary.get("evaluation") or {}).get("calibration")
    metric = summary["metric"]
    for name, width in (("wide", WIDE), ("narrow", PHONE)):
        if summary.get("comparison"):
            charts[f"intervals_{name}"] = interval_chart(summary["comparison"], recommended, width)
        if history:
            charts[f"training_{name}"] = training_chart(
                history, metric["name"], width, higher_is_better=bool(metric["higher_is_better"])
            )
    if calibration:
        charts["calibration"] = calibration_chart(calibration, SQUARE)
    return charts


def _importance_parts(summary: Mapping[str, Any]) -> dict[str, Any]:
    importance = summary.get("importance") or {"columns": [], "effects": []}
    shown, metric = importance["columns"][:COLUMNS_SHOWN], summary["metric"]
    judged = (metric["name"], bool(metric["higher_is_better"]))
    effects = [
        {**effect, "chart": None if effect["kind"] == "category" else effect_chart(effect, SQUARE)}
        for effect in importance["effects"]
    ]
    return {
        "importance_charts": {
            name: importance_chart(shown, *judged, width) if shown else None
            for name, width in (("wide", WIDE), ("narrow", PHONE))
        },
        "columns_shown": COLUMNS_SHOWN,
        "matter": [column["name"] for column in importance["columns"] if column["matters"]],
        "effects": effects,
    }


def _profile(summary: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of the table of columns, with small histograms of numbers."""
    profile = (summary.get("data") or {}).get("profile") or {"columns": []}
    rows = []
    for column in profile["columns"]:
        numbers = column.get("numbers") or {}
        ends = [_end(numbers.get(key)) for key in ("low", "median", "high")]
        described = f"{column['name']}: from {ends[0]} to {ends[2]}, median {ends[1]}"
        bars = bars_picture(numbers["bars"], described) if numbers.get("bars") else None
        rows.append({**column, "bars": bars, "range": f"{ends[0]} … {ends[1]} … {ends[2]}"})
    return rows


def _end(value: Any) -> str:
    return f"{value:.4g}".replace("-", "−") if isinstance(value, (int, float)) else str(value)


def _page_data(summary: Mapping[str, Any]) -> dict[str, Any]:
    """Return the data that the page's script needs."""
    evaluation = summary.get("evaluation") or {}
    command = (summary.get("commands") or {}).get("train")
    return {
        "metric": summary["metric"]["name"],
        "classes": evaluation.get("classes"),
        "scores": evaluation.get("scores"),
        "cost": evaluation.get("cost"),
        **_training_words(command),
    }


def _training_words(command: str | None) -> dict[str, Any]:
    """Split the training command into objective, constraints, output folder and the rest.

    >>> found = _training_words("eastward train a.csv --target=y --metric f1 --out model")
    >>> found["train"], found["objective"], found["folder"]
    (['eastward', 'train', 'a.csv', '--target=y'], ['--metric', 'f1'], 'model')
    """
    words = iter(shlex.split(command or "eastward train DATA --target COLUMN"))
    kept: list[str] = []
    objective: list[str] = []
    constraints: list[str] = []
    folder = "model"
    for word in words:
        option, equals, value = word.partition("=")
        if option in DROPPED:
            continue
        if option not in (*OBJECTIVE, *FOLDER, CONSTRAINTS):
            kept.append(word)
            continue
        value = value if equals else next(words, "")
        if option in FOLDER:
            folder = value
        else:
            (constraints if option == CONSTRAINTS else objective).extend([option, value])
    return {"train": kept, "objective": objective, "constraints": constraints, "folder": folder}


def _embedded(data: Any) -> Markup:
    """Write JSON for a script element, without any ``<``, which could end the element."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return trusted(text)


@cache
def environment() -> Environment:
    """Return the templates, with escaped values and formatted numbers."""
    templates = Environment(
        loader=PackageLoader("eastward.reporting"),
        autoescape=True,
        undefined=ChainableUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for function in (
        wording.count,
        wording.interval,
        wording.number,
        wording.percent,
        wording.seconds,
        wording.signed,
    ):
        templates.filters[function.__name__] = _forgiving(function)
    templates.filters["metric_title"] = wording.metric_title
    templates.filters["headline"] = lambda text: wording.sentences(text)[0]
    templates.filters["with_code"] = _with_code
    templates.filters["after_headline"] = lambda text: wording.sentences(text)[1]
    return templates


def _with_code(text: str) -> Markup:
    """Escape a sentence, and format text between backticks as code."""
    return trusted(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))


def _forgiving(function: Any) -> Any:
    """Let a template filter show a missing value of an older summary as a dash."""

    def shown(value: Any, *arguments: Any, **options: Any) -> Any:
        known = None if isinstance(value, Undefined) else value
        return function(known, *arguments, **options)

    return shown


@cache
def _script() -> str:
    body = "\n".join(asset(name) for name in SCRIPTS)
    return f'(() => {{\n"use strict";\n{body}}})();\n'


def trusted(text: str) -> Markup:
    """Mark text as safe: our own, or escaped already."""
    return Markup(text)  # noqa: S704 - see above; nothing else calls Markup on a variable
