"""A summary as Markdown."""

from __future__ import annotations

from typing import Any

__all__ = ["markdown"]

MADE_UP = "Made-up data: these figures say that the code runs, and nothing else."
SCALES = {
    "smoke": "Scale **smoke**: seconds, for a test. No figure here means anything.",
    "cpu": "Scale **cpu**: reduced so that one core finishes. This is not the paper's protocol; what was reduced "
    "stands above each table.",
    "paper": "Scale **paper**: the full protocol.",
}


def markdown(summary: dict[str, Any]) -> str:
    """The page of one experiment.

    Parameters
    ----------
    summary : dict
        What :func:`~eastward.experiments.summary.summarise` returns.

    Returns
    -------
    str
        Markdown, with a picture beside it called ``picture.png``.
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
    lines += ["", "![ours and theirs](picture.png)", ""]
    for panel in summary["panels"]:
        lines += _panel(panel)
    lines += _lower(summary)
    versions = ", ".join(f"{name} {number}" for name, number in summary["versions"].items())
    lines += [
        "## How",
        "",
        f"`{summary['command']}`",
        "",
        (
            f"Split {summary['split']}, first seed {summary['seed']}; {versions}; "
            f"{summary['wall_seconds']:,.0f} seconds of wall time in all cells."
        ),
        "",
        (
            "Ours is mean ± standard deviation over trials; the paper's figure follows, and the difference in pooled "
            "standard deviations, none of them taken as less than the rounding of a printed figure."
        ),
        "",
    ]
    return "\n".join(lines)


def _panel(panel: dict[str, Any]) -> list[str]:
    done = sum(row["trials"] for row in panel["rows"])
    lines = [f"## {panel['title']}", ""]
    lines += [panel["note"], ""] if panel["note"] else []
    lines += [f"{panel['size']}.", ""]
    if not done:
        return [*lines, "**Not run here.**", ""]
    head = "| loss | " + " | ".join(panel["scores"].values()) + " | trials | epochs | CPU s |"
    lines += [head, "|---" * (len(panel["scores"]) + 4) + "|"]
    lines += [_row(row) for row in panel["rows"]]
    return [*lines, "", *_claims(panel), ""]


def _row(row: dict[str, Any]) -> str:
    cells = [_cell(entry) for entry in row["scores"].values()]
    trials = f"{row['trials']}" + ("" if row.get("complete", True) else ", incomplete")
    size = [trials, *(("–" if row[k] is None else f"{row[k]:g}") for k in ("epochs", "seconds"))]
    return f"| {row['label']} | " + " | ".join([*cells, *size]) + " |"


def _cell(entry: dict[str, Any]) -> str:
    ours, theirs = entry["ours"], entry["theirs"]
    left = "–" if ours is None else f"{ours['mean']:.3f}"
    if ours is not None and ours["trials"] > 1:
        left += f" ± {ours['spread']:.3f}"
    if theirs is None:
        return left
    right = f"paper {theirs['mean']:g} ± {theirs['spread']:g}"
    if entry["distance"] is None:
        return f"{left} ({right})"
    mark = {"better": " ▲", "worse": " ▼"}.get(entry["verdict"], "")
    return f"{left} ({right}; {entry['distance']:+.1f} sd{mark})"


def _claims(panel: dict[str, Any]) -> list[str]:
    return [f"- {claim_sentence(claim)}" for claim in panel["claims"]]


def claim_sentence(claim: dict[str, Any]) -> str:
    """A claim in words: what the paper has, what we have, and the verdict."""
    text = f"{claim['score']}, {claim['method']} against {claim['rival']}: "
    theirs = "" if claim["theirs"] is None else f"paper {claim['theirs']['gap']:+.3f}, "
    ours = "" if claim["ours"] is None else f"here {claim['ours']['gap']:+.3f}"
    return f"{text}{theirs}{ours}: **{claim['verdict']}**".replace(", :", ":")


def _lower(summary: dict[str, Any]) -> list[str]:
    lines = []
    for panel in summary["panels"]:
        for row in panel["rows"]:
            for score, entry in row["scores"].items():
                if entry["verdict"] == "worse":
                    why = entry.get("explanation") or "Not explained yet."
                    place = f"{panel['title']}, {row['label']}, {panel['scores'][score]}"
                    lines.append(f"- {place} ({entry['distance']:+.1f} sd): {why}")
    if not lines:
        return []
    return ["## Lower than the paper by more than two pooled deviations, and why", "", *lines, ""]
