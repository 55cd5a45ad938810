"""A summary as Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["markdown"]

SURE = 0.99
MADE_UP = "Made-up data: these figures say that the code runs, and nothing else."
SCALES = {
    "smoke": "Scale **smoke**: seconds, for a test. No figure here means anything.",
    "cpu": "Scale **cpu**: what two cores can do. It is not the paper's whole protocol; grids, limits of epochs and "
    "widths stand above each table.",
    "paper": "Scale **paper**: the full protocol.",
}


def markdown(summary: dict[str, Any], pictures: Sequence[str] = ("picture.png",)) -> str:
    """The page of one experiment.

    Parameters
    ----------
    summary : dict
        What :func:`~papers.experiments.summary.summarise` returns.
    pictures : sequence of str
        Files beside the page.

    Returns
    -------
    str
        Markdown.
    """
    lines = [
        f"# {summary['name']}: {summary['title']}",
        "",
        f"{summary['source']}.",
        "",
        SCALES[summary["scale"]],
        "",
    ]
    if summary["made_up_data"]:
        lines += [MADE_UP, ""]
    lines += [f"- {note}" for note in summary["notes"]]
    titles = {"picture.png": "ours and theirs", "progress.png": "validation F1 by epoch"}
    for name in pictures:
        lines += ["", f"![{titles[name]}]({name})"]
    lines.append("")
    lines += _pooled(summary["pooled"])
    for panel in summary["panels"]:
        lines += _panel(panel)
    versions = ", ".join(f"{name} {number}" for name, number in summary["versions"].items())
    lines += [
        "## How",
        "",
        f"`{summary['command']}`",
        "",
        (
            f"First seed {summary['seed']}; {versions}; {summary['wall_seconds']:,.0f} s of wall time in all cells."
        ),
        "",
        (
            "Ours is mean ± standard deviation over trials, each with a split of its own; the paper's figure follows, "
            "marked ▲ or ▼ where ours is higher or lower by more than two pooled standard deviations. Intervals of "
            "differences are 95 %, over paired trials, with Nadeau and Bengio's correction for shared rows."
        ),
        "",
    ]
    return "\n".join(lines)


def _pooled(rows: list[dict[str, Any]]) -> list[str]:
    if not any(row["gap"] for row in rows):
        return []
    lines = [
        "## Over all panels",
        "",
        "| kind | difference | panels | mean [95 %] | wins, ties, losses | found |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        if row["gap"] is not None:
            counts = ", ".join(map(str, row["wins_ties_losses"]))
            name = (
                f"{row['kind'] or 'all'} | {row['method']} − {row['rival']} | {row['gap']['pairs']}"
            )
            lines.append(f"| {name} | {interval(row['gap'])} | {counts} | {row['verdict']} |")
    return [*lines, "", "Each panel is one case; ties are within ±0.005.", ""]


def interval(gap: dict[str, float] | None) -> str:
    """A difference and its 95 % interval.

    Examples
    --------
    >>> interval({"mean": 0.0123, "low": -0.004, "high": 0.03})
    '+0.012 [−0.004, +0.030]'
    """
    if gap is None:
        return "–"
    text = f"{gap['mean']:+.3f} [{gap['low']:+.3f}, {gap['high']:+.3f}]"
    return text.replace("-", "−")


def _panel(panel: dict[str, Any]) -> list[str]:
    done = sum(row["trials"] for row in panel["rows"])
    lines = [f"## {panel['title']}", ""]
    lines += [panel["note"], ""] if panel["note"] else []
    lines += [f"- {size}" for size in panel["size"]] + [""]
    if not done:
        return [*lines, "**Not run here.**", ""]
    head = "| loss | " + " | ".join(panel["scores"].values())
    head += " | trials | at the limit | one class | epochs | CPU s |"
    lines += [head, "|---" * (len(panel["scores"]) + 6) + "|"]
    lines += [_row(row) for row in panel["rows"]]
    if any(row["ours"] and row["trials"] for row in panel["rows"]):
        lines += ["", "Rows marked (ours) stand in no paper."]
    return [*lines, "", *_claims(panel), "", *_pulls(panel)]


def _pulls(panel: dict[str, Any]) -> list[str]:
    """Mistakes of which the network is sure, and how much of the gradient they have."""
    rows = [
        (row["label"], group)
        for row in panel["rows"]
        for group in row["pulls"] or ()
        if not group["right"] and group["low"] == SURE
    ]
    if not rows:
        return []
    lines = [
        "Mistakes with a probability above 0.99, among validation rows at the end of the first trial:",
        "",
    ]
    lines += ["| loss | of all rows | of its gradient |", "|---|---|---|"]
    lines += [f"| {label} | {g['rows']:.1%} | {g['gradient']:.1%} |" for label, g in rows]
    return [*lines, ""]


def _row(row: dict[str, Any]) -> str:
    cells = [_cell(entry) for entry in row["scores"].values()]
    trials = f"{row['trials']}" + ("" if row["complete"] or not row["trials"] else ", incomplete")
    size = [trials, *(str(row[k]) if row["trials"] else "–" for k in ("capped", "collapsed"))]
    size += [("–" if row[k] is None else f"{row[k]:g}") for k in ("epochs", "seconds")]
    label = f"{row['label']} (ours)" if row["ours"] else row["label"]
    return f"| {label} | " + " | ".join([*cells, *size]) + " |"


def _cell(entry: dict[str, Any]) -> str:
    ours, theirs = entry["ours"], entry["theirs"]
    left = "–" if ours is None else f"{ours['mean']:.3f}"
    if ours is not None and ours["trials"] > 1:
        left += f" ± {ours['spread']:.3f}"
    if theirs is None:
        return left
    mark = {"better": " ▲", "worse": " ▼"}.get(entry["verdict"], "")
    return f"{left} (paper {theirs['mean']:g} ± {theirs['spread']:g}{mark})"


def _claims(panel: dict[str, Any]) -> list[str]:
    return [f"- {claim_sentence(claim)}" for claim in panel["claims"] if claim["ours"]]


def claim_sentence(claim: dict[str, Any]) -> str:
    """A claim in words: what the paper has, what we have, and the verdict."""
    text = f"{claim['score']}, {claim['method']} against {claim['rival']}: "
    theirs = "" if claim["theirs"] is None else f"paper {interval(claim['theirs'])}, "
    ours = f"here {interval(claim['ours'])} over {claim['ours']['pairs']} pairs"
    sentence = f"{text}{theirs}{ours}: **{claim['verdict']}**."
    if claim["cut_short"]:
        sentence += f" {'; '.join(claim['cut_short'])}."
    if claim["collapsed"]:
        sentence += f" {'; '.join(claim['collapsed'])}: that is the finding."
    if claim["verdict"] == "worse":
        sentence += f" {claim['explanation'] or 'Not explained yet.'}"
    return sentence
