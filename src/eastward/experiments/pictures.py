"""Pictures of an experiment: ours beside theirs, curves over epochs, or loss against score."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["draw"]

OURS, THEIRS = "#2563eb", "#d97706"
DPI = 80


def draw(summary: dict[str, Any], path: Path) -> None:
    """Write the picture of a summary.

    Parameters
    ----------
    summary : dict
        What :func:`~eastward.experiments.summary.summarise` returns.
    path : Path
        A ``.png`` file.
    """
    from matplotlib.figure import Figure  # noqa: PLC0415  # drawing is the last thing that happens

    panels = [panel for panel in summary["panels"] if any(row["trials"] for row in panel["rows"])]
    kinds: dict[str, Callable[[Any, list[Any]], None]] = {
        "dots": _dots,
        "curves": _curves,
        "scatter": _scatter,
    }
    figure = Figure(layout="constrained")
    kinds[summary["picture"]](figure, panels)
    figure.suptitle(
        f"{summary['name']} (scale {summary['scale']}): {summary['title']}", fontsize=11
    )
    figure.savefig(path, dpi=DPI)


def _dots(figure: Any, panels: list[Any]) -> None:
    """A dot with its deviation for each row and score; the paper's is hollow."""
    columns = max(len(panel["scores"]) for panel in panels)
    heights = [1 + 0.35 * len(panel["rows"]) for panel in panels]
    figure.set_size_inches(4 + 3 * columns, 0.6 + sum(heights))
    axes = figure.subplots(len(panels), columns, squeeze=False, height_ratios=heights)
    for panel, line in zip(panels, axes, strict=True):
        for axis in line[len(panel["scores"]) :]:
            axis.set_visible(False)
        for k, (score, title) in enumerate(panel["scores"].items()):
            _one_score(line[k], panel, score, title, labels=k == 0)
    figure.legend(*axes[0][0].get_legend_handles_labels(), loc="outside lower right", ncols=2)


def _one_score(axis: Any, panel: Any, score: str, title: str, *, labels: bool) -> None:
    names = [row["label"] for row in panel["rows"]]
    for who, colour, shift, face in (
        ("theirs", THEIRS, 0.16, "white"),
        ("ours", OURS, -0.16, OURS),
    ):
        points = [
            (k, row["scores"][score][who])
            for k, row in enumerate(panel["rows"])
            if row["scores"][score][who] is not None
        ]
        axis.errorbar(
            [figure["mean"] for _, figure in points],
            [k + shift for k, _ in points],
            xerr=[figure["spread"] for _, figure in points],
            fmt="o",
            color=colour,
            markerfacecolor=face,
            markersize=5,
            label={"ours": "here", "theirs": "paper"}[who],
        )
    axis.set_yticks(range(len(names)), names if labels else [""] * len(names))
    axis.set_ylim(len(names) - 0.5, -0.5)
    axis.set_title(f"{panel['title']}: {title}" if labels else title, fontsize=9, loc="left")
    axis.grid(axis="x", alpha=0.3)
    axis.tick_params(labelsize=8)


def _curves(figure: Any, panels: list[Any]) -> None:
    """Medians over trials after each epoch, as in the paper."""
    import numpy as np  # noqa: PLC0415  # as above

    figure.set_size_inches(12, 1 + 3.2 * len(panels))
    axes = figure.subplots(len(panels), 3, squeeze=False)
    titles = {
        "train_f1": "F1, training",
        "valid_f1": "F1, validation",
        "accuracy": "accuracy, test",
    }
    for panel, line in zip(panels, axes, strict=True):
        for axis, (score, title) in zip(line, titles.items(), strict=True):
            for row in filter(lambda row: row["history"], panel["rows"]):
                values = [[epoch[score] for epoch in trial] for trial in row["history"]]
                median = np.median(np.array(values), axis=0)
                axis.plot(range(1, len(median) + 1), median, label=row["label"])
            axis.set_title(title, fontsize=9, loc="left")
            axis.set_xlabel("epoch", fontsize=8)
            axis.grid(alpha=0.3)
    axes[0][0].legend(fontsize=7)


def _scatter(figure: Any, panels: list[Any]) -> None:
    """A dot for each epoch of the first trial."""
    columns = max(len(panel["rows"]) for panel in panels)
    figure.set_size_inches(3.2 * columns, 0.6 + 3.2 * len(panels))
    axes = figure.subplots(len(panels), columns, squeeze=False)
    for panel, line in zip(panels, axes, strict=True):
        for axis, row in zip(line, panel["rows"], strict=False):
            if row["history"]:
                first = row["history"][0]
                axis.plot(
                    [epoch["loss"] for epoch in first],
                    [epoch["f_beta"] for epoch in first],
                    "o",
                    color=OURS,
                    markersize=4,
                )
            axis.set_title(row["label"], fontsize=9, loc="left")
            axis.set_xlabel("loss", fontsize=8)
            axis.set_ylabel("score", fontsize=8)
            axis.grid(alpha=0.3)
