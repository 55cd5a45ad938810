"""Two pictures: average ranks with their critical difference, and the gain on every set."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np

mpl.use("svg")
# Without a date and with fixed names the same cells give the same file.
mpl.rcParams.update({"svg.hashsalt": "eastward", "svg.fonttype": "none", "font.size": 9})

from matplotlib import pyplot as plt  # noqa: E402  # after the backend is chosen

from benchmarks.quality import statistics  # noqa: E402

OURS = "EASTEnsembleClassifier"
SHOWN = [
    OURS,
    "EASTClassifier",
    "cross-entropy",
    "cross-entropy + tuned",
    "cross-entropy x5 + tuned",
    "balanced",
    "balanced x5 + tuned",
    "EAST paper",
    "random forest + tuned",
    "LightGBM",
    "LightGBM + tuned",
    "best tree + tuned",
]
Cells = list[dict[str, Any]]


def draw(cells: Cells, folder: Path) -> None:
    """Write both pictures."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, figure in (("ranks", rank_diagram(cells)), ("gains", gain_diagram(cells))):
        figure.savefig(folder / f"{name}.svg", bbox_inches="tight", metadata={"Date": None})
        plt.close(figure)


def rank_diagram(cells: Cells) -> Any:
    """Critical-difference diagram: methods whose ranks differ by less than the bar are not told apart."""
    methods, sets, table = statistics.mean_table(cells, "f1")
    kept = [k for k, name in enumerate(methods) if name in SHOWN and np.isfinite(table[k]).all()]
    ranks = statistics.ranks(table[kept])
    distance = statistics.critical_difference(len(kept), len(sets))
    order = np.argsort(ranks)
    figure, axes = plt.subplots(figsize=(7, 0.3 * len(kept) + 0.8))
    for height, position in enumerate(order):
        name, rank = methods[kept[position]], ranks[position]
        axes.plot([rank, rank + distance], [-height, -height], color="0.75", linewidth=5)
        axes.plot(rank, -height, "o", color="tab:orange" if name == OURS else "tab:blue")
        axes.text(rank - 0.15, -height, f"{name}  {rank:.2f}", ha="right", va="center")
    axes.set_xlim(ranks.min() - 4.2, ranks.max() + distance + 0.3)
    axes.set_yticks([])
    axes.set_xlabel(
        f"average rank of F1 over {len(sets)} tables (1 is best); bars: critical difference {distance:.2f}"
    )
    axes.spines[["left", "right", "top"]].set_visible(False)
    return figure


def gain_diagram(cells: Cells) -> Any:
    """Difference of the ensemble to three opponents on every set."""
    opponents = ["cross-entropy", "cross-entropy x5 + tuned", "best tree + tuned"]
    figure, panels = plt.subplots(1, 3, figsize=(8, 2.6), sharey=True)
    for axes, other in zip(panels, opponents, strict=True):
        gains = np.sort(statistics.paired(cells, "f1", OURS, other))
        colours = np.where(gains > statistics.MARGIN, "tab:orange", "0.7")
        colours = np.where(gains < -statistics.MARGIN, "tab:blue", colours)
        axes.bar(np.arange(len(gains)), gains, color=colours)
        axes.axhline(0, color="black", linewidth=0.8)
        axes.set_title(f"against {other}\nmean {gains.mean():+.3f}", fontsize=9)
        axes.set_xticks([])
        axes.set_xlabel("tables")
        axes.spines[["right", "top"]].set_visible(False)
    panels[0].set_ylabel("gain in F1")
    return figure
