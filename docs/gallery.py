"""How figures of the example gallery look."""

from __future__ import annotations

from matplotlib import pyplot as plt


def larger_letters(_configuration: object, _example: str) -> None:
    """Start each example with letters that stay readable in its thumbnail."""
    plt.rcParams.update(
        {
            "font.size": 13,
            "legend.fontsize": 11.5,
            "xtick.labelsize": 12,
            "ytick.labelsize": 12,
            "lines.linewidth": 2,
        }
    )
