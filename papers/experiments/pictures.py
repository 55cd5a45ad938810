"""Pictures of an experiment: ours beside theirs, curves over epochs, or loss against score."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

from eastward._files import write_whole

__all__ = ["draw", "draw_claims", "draw_figures", "draw_progress"]

OURS, THEIRS = "#2563eb", "#d97706"
DPI = 80


def draw(summary: dict[str, Any], path: Path) -> None:
    """Write the picture of a summary.

    Parameters
    ----------
    summary : dict
        What :func:`~papers.experiments.summary.summarise` returns.
    path : Path
        A ``.png`` file.
    """
    from matplotlib.figure import Figure  # noqa: PLC0415  # drawing is the last thing that happens

    panels = [panel for panel in summary["panels"] if any(row["trials"] for row in panel["rows"])]
    kinds: dict[str, Callable[[Any, list[Any]], None]] = {
        "dots": _dots,
        "curves": _curves,
        "scatter": _scatter,
        "terms": _terms,
    }
    figure = Figure(layout="constrained")
    kinds[summary["picture"]](figure, panels)
    title = f"{summary['name']} (scale {summary['scale']}): {summary['title']}"
    # About ten letters fit an inch; a longer line would be cut at both ends.
    width = int(10 * figure.get_size_inches()[0])
    figure.suptitle(textwrap.fill(title, width), fontsize=11)
    _save(figure, path)


def _save(figure: Any, path: Path) -> None:
    """Write a picture whole or not at all."""
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=DPI)
    write_whole(path, picture.getvalue())


COLOURS = {"reproduced": "#15803d", "better": "#2563eb", "worse": "#b91c1c", "unclear": "#6b7280"}


def draw_claims(summaries: dict[str, dict[str, Any]], path: Path) -> None:
    """Write a picture of every claim that has an interval: the paper's difference, hollow, and ours, by verdict.

    Parameters
    ----------
    summaries : dict
        Summaries of experiments by name.
    path : Path
        A ``.png`` file; not written where no claim has been judged.
    """
    from matplotlib.figure import Figure  # noqa: PLC0415  # as above

    rows = [
        (f"{panel['title']}: {claim['score']}, {claim['method']} − {claim['rival']}", name, claim)
        for name, summary in summaries.items()
        for panel in summary["panels"]
        for claim in panel["claims"]
        if claim["verdict"] in COLOURS and claim["expected"] != "open" and claim["theirs"]
    ]
    if not rows:
        return
    figure = Figure(figsize=(11, 1.4 + 0.24 * len(rows)), layout="constrained")
    axis = figure.subplots()
    for k, (_, _, claim) in enumerate(rows):
        ours, theirs = claim["ours"], claim["theirs"]
        axis.plot(theirs["mean"], k, "o", color=THEIRS, markerfacecolor="white", markersize=6)
        _whisker(axis, ours, k, COLOURS[claim["verdict"]])
    axis.set_yticks(range(len(rows)), [f"{text}   {name}" for text, name, _ in rows], fontsize=7)
    axis.set_ylim(len(rows) - 0.5, -0.5)
    axis.set_xscale("symlog", linthresh=0.05)
    axis.set_xticks([-0.5, -0.1, -0.05, -0.02, 0, 0.02, 0.05, 0.1, 0.5])
    axis.set_xticklabels(
        ["−0.5", "−0.1", "−0.05", "−0.02", "0", "0.02", "0.05", "0.1", "0.5"], fontsize=8
    )
    axis.axvspan(-0.02, 0.02, color="#e5e7eb", zorder=0)
    axis.grid(axis="x", alpha=0.3)
    handles = [
        axis.plot([], [], "o", color=THEIRS, markerfacecolor="white", label="paper")[0],
        *(
            axis.plot([], [], "o-", color=c, label=f"here: {word}")[0]
            for word, c in COLOURS.items()
        ),
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=5, fontsize=8)
    axis.set_xlabel("difference of the two scores; grey: within ±0.02", fontsize=8)
    _save(figure, path)


def draw_figures(summaries: dict[str, dict[str, Any]], path: Path) -> None:
    """Write a picture of every printed figure beside ours: on the diagonal both are the same.

    Parameters
    ----------
    summaries : dict
        Summaries of experiments by name.
    path : Path
        A ``.png`` file; not written where nothing has been run.
    """
    from matplotlib.figure import Figure  # noqa: PLC0415  # as above

    papers = {"btg": "Bridging the Gap", "east1": "EAST, first version", "east": "EAST"}
    points = {
        title: [
            (entry["theirs"], entry["ours"])
            for name, summary in summaries.items()
            if name.partition("-")[0] == prefix
            for panel in summary["panels"]
            for row in panel["rows"]
            for entry in row["scores"].values()
            if entry["theirs"] is not None and entry["ours"] is not None
        ]
        for prefix, title in papers.items()
    }
    if not any(points.values()):
        return
    figure = Figure(figsize=(5.2, 5), layout="constrained")
    axis = figure.subplots()
    axis.plot([-0.1, 1], [-0.1, 1], color="#9ca3af", linewidth=1, zorder=0)
    for (title, pairs), colour in zip(points.items(), (THEIRS, "#15803d", OURS), strict=True):
        theirs, ours = ([pair[k] for pair in pairs] for k in (0, 1))
        axis.errorbar(
            [entry["mean"] for entry in theirs],
            [entry["mean"] for entry in ours],
            xerr=[entry["spread"] for entry in theirs],
            yerr=[entry["spread"] for entry in ours],
            fmt="o",
            color=colour,
            markersize=3.5,
            elinewidth=0.7,
            alpha=0.8,
            label=f"{title} ({len(pairs)})",
        )
    axis.set_xlabel("printed in the paper", fontsize=9)
    axis.set_ylabel("here", fontsize=9)
    axis.grid(alpha=0.3)
    axis.legend(fontsize=8)
    _save(figure, path)


def draw_progress(summary: dict[str, Any], path: Path) -> bool:
    """Write validation F1 after each epoch, a line for each trial; say whether any row has such a record.

    Parameters
    ----------
    summary : dict
        What :func:`~papers.experiments.summary.summarise` returns.
    path : Path
        A ``.png`` file; not written where no row has a record.
    """
    from matplotlib.figure import Figure  # noqa: PLC0415  # as above

    panels = [panel for panel in summary["panels"] if any(row["history"] for row in panel["rows"])]
    if not panels or summary["picture"] != "dots":
        return False
    figure = Figure(figsize=(8, 0.6 + 3 * len(panels)), layout="constrained")
    for axis, panel in zip(figure.subplots(len(panels), squeeze=False)[:, 0], panels, strict=True):
        rows = [row for row in panel["rows"] if row["history"]]
        for colour, row in enumerate(rows):
            for number, trial in enumerate(row["history"]):
                scores = [epoch["valid_f1"] for epoch in trial]
                label = row["label"] if number == 0 else None
                axis.plot(range(1, len(scores) + 1), scores, color=f"C{colour}", label=label)
        axis.set_title(f"{panel['title']}: F1 of validation rows", fontsize=9, loc="left")
        axis.set_xlabel("epoch", fontsize=8)
        axis.grid(alpha=0.3)
        axis.legend(fontsize=8)
    _save(figure, path)
    return True


def _whisker(axis: Any, gap: dict[str, float], place: float, colour: str) -> None:
    axis.plot([gap["low"], gap["high"]], [place, place], "-", color=colour, linewidth=1.4)
    axis.plot(gap["mean"], place, "o", color=colour, markersize=4.5)


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


def _terms(figure: Any, _: list[Any]) -> None:
    """Two panels of curves that need no training."""
    import numpy as np  # noqa: PLC0415  # as above

    from papers.experiments.terms import LOSSES, terms  # noqa: PLC0415  # as above

    figure.set_size_inches(9, 3.6)
    shares = np.linspace(0.005, 0.95, 120)
    titles = ("positive rows, q = share of misses", "negative rows, q = share of false alarms")
    for k, (axis, title) in enumerate(zip(figure.subplots(1, 2), titles, strict=True)):
        for name, style in zip(LOSSES, ("-", "-", "--"), strict=True):
            axis.plot(shares, [terms(name, q)[k] for q in shares], style, label=name)
        axis.set_title(title, fontsize=9, loc="left")
        axis.set_xlabel("q", fontsize=8)
        axis.grid(alpha=0.3)
        axis.legend(fontsize=7)


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
