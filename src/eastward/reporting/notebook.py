"""Notebook views of a comparison and of a fitted classifier: verdict, picture, table."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from eastward import metrics
from eastward.metrics import Metric
from eastward.reporting import wording
from eastward.reporting.charts import interval_chart, stage_chart
from eastward.reporting.html import comparison_parts, environment, trusted
from eastward.reporting.styles import style_sheet
from eastward.reporting.summary import plain, report_summary
from eastward.reporting.training_chart import training_chart
from eastward.reporting.training_words import training_words

__all__ = ["classifier_view", "comparison_view"]

WIDTHS = (("wide", 900), ("narrow", 360))


def comparison_view(comparison: Mapping[str, Any]) -> str:
    """Render a comparison: verdict, picture of means and intervals, and a table from best to worst.

    Parameters
    ----------
    comparison : mapping
        The result of ``Comparison.to_dict()``.

    Returns
    -------
    str
        HTML with escaped content, light or dark like the notebook.
    """
    shown: dict[str, Any] = plain({key: comparison[key] for key in comparison if key != "cells"})
    verdict = shown["verdict"]
    recommended = verdict["recommended"]
    charts = {
        f"intervals_{name}": interval_chart(shown, recommended, width) for name, width in WIDTHS
    }
    title = wording.metric_title(shown["metric"])
    return _rendered(
        eyebrow=f"Verdict: {len(shown['methods'])} methods, {shown['splits']} splits, {title}",
        sentence=verdict["sentence"],
        comparison=shown,
        charts=charts,
        detail=verdict["detail"],
        **comparison_parts({"comparison": shown, "verdict": verdict}),
    )


def classifier_view(classifier: Any) -> str:
    """Render a fitted classifier: its scores on held-out rows, step by step, and its decision.

    Parameters
    ----------
    classifier : classifier
        A fitted classifier with ``classes_`` and ``report_``.

    Returns
    -------
    str
        HTML with escaped content, light or dark like the notebook.
    """
    metric = _metric_of(classifier)
    training = report_summary("", metric, training=training_words(classifier))["training"]
    steps = _steps(training["stages"])
    title = wording.metric_title(metric.name)
    return _rendered(
        eyebrow=f"{type(classifier).__name__}, {len(classifier.classes_)} classes",
        sentence=_reached(steps, title),
        pictures={
            name: stage_chart(steps, title, metric.higher_is_better, width)
            for name, width in WIDTHS
            if steps
        },
        decision=_decision(classifier),
        notes=training["notes"],
        detail=[*_decision_words(classifier), *training["sentences"]],
        courses=_courses(training["history"], metric),
        parameters={name: repr(value) for name, value in classifier.get_params(deep=False).items()},
    )


def _rendered(**parts: Any) -> str:
    template = environment().get_template("notebook.html.j2")
    return template.render(style=trusted(style_sheet("notebook.css")), **parts)


def _metric_of(classifier: Any) -> Metric:
    own: Metric | None = getattr(classifier, "metric_", None)
    if own is not None:
        return own
    return metrics.as_metric(classifier.metric, type(classifier).__name__, classifier.classes_)


def _steps(stages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return held-out scores in order of training: each stage, and the kept one with its tuned decision."""
    steps = [
        {"name": stage["name"], "mean": stage["argmax"]}
        for stage in stages
        if stage["argmax"] is not None
    ]
    kept = [stage for stage in stages if stage.get("kept") is not False]
    if kept and kept[-1]["tuned"] is not None:
        steps.append({"name": "with the tuned decision", "mean": kept[-1]["tuned"]})
    return steps


def _reached(steps: Sequence[Mapping[str, Any]], title: str) -> str:
    if not steps:
        return f"Fitted and decided for {title}."
    return f"{title[:1].upper()}{title[1:]} {wording.number(steps[-1]['mean'])} on rows held out while training."


def _decision(classifier: Any) -> list[dict[str, Any]]:
    """Return the factor of each probability in the decision, at most one; empty for the most probable class."""
    offsets = getattr(classifier, "offsets_", None)
    if offsets is None or len(offsets) != len(classifier.classes_) or not any(offsets):
        return []
    highest = max(float(offset) for offset in offsets)
    factors = [math.exp(float(offset) - highest) for offset in offsets]
    return [
        {"label": str(label), "factor": factor}
        for label, factor in zip(classifier.classes_, factors, strict=True)
    ]


def _decision_words(classifier: Any) -> list[str]:
    """Describe the decision in words, if factors are not enough."""
    decision = getattr(classifier, "decision_", None)
    if decision is None or getattr(classifier, "offsets_", None) is not None:
        return []
    return [" ".join(str(decision).split())]


def _courses(history: Sequence[Mapping[str, Any]], metric: Metric) -> dict[str, Markup]:
    return {
        name: training_chart(history, metric.name, width, higher_is_better=metric.higher_is_better)
        for name, width in WIDTHS
        if history
    }
