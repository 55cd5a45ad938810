"""Write the pictures of a report as PNG and SVG, for papers and slides."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from eastward import _checks
from eastward.reporting import wording
from eastward.reporting.page_parts import MAX_MATRIX_CLASSES, sorted_methods
from eastward.reporting.summary import read_as_summary
from eastward.reporting.training_chart import surrogate_value

__all__ = ["write_figures"]

BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#666666"
STYLE: Any = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "grid.color": "#e6e6e6",
    "legend.frameon": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "eastward",
    # A dollar sign in the name of a class must not start a formula.
    "text.parse_math": False,
}


def write_figures(summary: Mapping[str, Any], folder: str | Path) -> list[Path]:
    """Draw comparison, confusion, calibration and training, each as PNG and SVG.

    Parameters
    ----------
    summary : mapping
        From :func:`report_summary`; parts that are None are left out.
    folder : path
        Folder for the files; created if missing.

    Returns
    -------
    list of Path
        The files, in the order of the report.

    Examples
    --------
    >>> from eastward.reporting import report_summary
    >>> write_figures(report_summary("Claims", "f1_macro"), ".")
    []
    """
    target = _checks.path("write_figures", "folder", folder)
    paths: list[Path] = []
    with read_as_summary("write_figures", summary), mpl.rc_context(STYLE):
        for name, draw in _FIGURES.items():
            figure = draw(summary)
            if figure is None:
                continue
            target.mkdir(parents=True, exist_ok=True)
            paths += [_saved(figure, target / f"{name}{suffix}") for suffix in (".png", ".svg")]
    return paths


def _saved(figure: Figure, path: Path) -> Path:
    figure.savefig(path, dpi=200, metadata={"Date": None} if path.suffix == ".svg" else {})
    return path


def _blank(width: float, height: float) -> tuple[Figure, Axes]:
    # Without pyplot, which would keep every figure alive and choose a window system.
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots()
    axes.grid(visible=True)
    return figure, axes


def _comparison(summary: Mapping[str, Any]) -> Figure | None:
    comparison = summary.get("comparison")
    methods = [
        row for row in sorted_methods(comparison or {"methods": []}) if row.get("mean") is not None
    ]
    if not comparison or not methods:
        return None
    figure, axes = _blank(6.4, 1.1 + 0.36 * len(methods))
    recommended = (summary.get("verdict") or {}).get("recommended")
    for position, method in enumerate(methods):
        chosen, baseline = method["name"] == recommended, method["name"] == comparison["baseline"]
        colour = BLUE if chosen else ORANGE if baseline else GREY
        axes.plot(method["interval"], [position, position], color=colour, linewidth=2.5)
        shape = "D" if chosen else "s" if baseline else "o"
        axes.plot(method["mean"], position, shape, color=colour, markersize=7)
        if baseline:
            axes.axvline(method["mean"], color=GREY, linestyle="--", linewidth=1)
    labels = [str(row.get("label") or row["name"]) for row in methods]
    axes.set_yticks(range(len(methods)), labels)
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    better = wording.direction(comparison["higher_is_better"])
    axes.set_xlabel(
        f"{wording.metric_title(comparison['metric'])} (mean and 95 % interval; {better})"
    )
    return figure


def _confusion(summary: Mapping[str, Any]) -> Figure | None:
    evaluation = summary.get("evaluation")
    if not evaluation or len(evaluation["classes"]) > MAX_MATRIX_CLASSES:
        return None
    matrix = np.asarray(evaluation["confusion"], dtype=float)
    shares = matrix / np.maximum(matrix.sum(axis=1, keepdims=True), 1e-12)
    size = len(matrix)
    figure, axes = _blank(2.4 + 0.5 * size, 1.9 + 0.5 * size)
    axes.grid(visible=False)
    axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    for i, row in enumerate(matrix):
        for j, count in enumerate(row):
            colour = "white" if shares[i, j] > 0.55 else "black"
            axes.text(j, i, wording.count(count), ha="center", va="center", color=colour)
    axes.set_xticks(range(size), evaluation["classes"], rotation=35, ha="right")
    axes.set_yticks(range(size), evaluation["classes"])
    axes.set(xlabel="decided", ylabel="true")
    return figure


def _calibration(summary: Mapping[str, Any]) -> Figure | None:
    calibration = (summary.get("evaluation") or {}).get("calibration")
    if not calibration:
        return None
    figure, axes = _blank(4, 4)
    confidence, accuracy = (
        np.array([row[key] for row in calibration["bins"]]) for key in ("confidence", "accuracy")
    )
    ends = np.array([row.get("interval") or [row["accuracy"]] * 2 for row in calibration["bins"]])
    axes.plot([0, 1], [0, 1], "--", color=GREY, linewidth=1)
    reach = np.abs(ends.T - accuracy)
    axes.errorbar(confidence, accuracy, yerr=reach, color=BLUE, marker="o", ecolor=GREY)
    axes.set(xlabel="stated confidence", ylabel="accuracy", xlim=(0, 1.02), ylim=(0, 1.02))
    axes.set_title(f"expected calibration error {wording.number(calibration['ece'])}")
    return figure


def _training(summary: Mapping[str, Any]) -> Figure | None:
    history = (summary.get("training") or {}).get("history")
    if not history:
        return None
    upwards = bool(summary["metric"]["higher_is_better"])
    columns = {
        "true metric": (BLUE, "-", [row["valid_score"] for row in history]),
        "soft surrogate": (
            ORANGE,
            "--",
            [surrogate_value(row, higher_is_better=upwards) for row in history],
        ),
    }
    figure = Figure(figsize=(6.4, 4), layout="constrained")
    upper, lower = figure.subplots(2, sharex=True, height_ratios=[3, 1])
    epochs = np.arange(1, len(history) + 1)
    for label, (colour, style, values) in columns.items():
        upper.plot(epochs, np.array(values, dtype=float), style, color=colour, label=label)
    heat = np.array([row["temperature"] or np.nan for row in history], dtype=float)
    lower.plot(epochs, heat, color=GREEN)
    if np.isfinite(heat).any():
        lower.set_yscale("log")
    upper.legend()
    upper.set_ylabel(f"validation {wording.metric_title(summary['metric']['name'])}")
    lower.set(xlabel="epoch", ylabel="temperature")
    return figure


_FIGURES: Mapping[str, Callable[[Mapping[str, Any]], Figure | None]] = {
    "comparison": _comparison,
    "confusion": _confusion,
    "calibration": _calibration,
    "training": _training,
}
