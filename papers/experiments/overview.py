"""One page over all results: every claim with a verdict in plain words."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from eastward._files import write_whole
from papers.experiments.catalogue import EXPERIMENTS
from papers.experiments.rendering import interval, markdown

__all__ = ["overview", "stored_summaries", "write_overview", "write_page"]

FIGURES = ("reproduced", "better", "worse", "not run here")
CLAIMS = ("reproduced", "better", "worse", "unclear", "not run here")
# Of questions that nobody has answered before.
FINDINGS = ("higher", "level", "lower", "unclear", "not run here")
SUMMARY_FILE, PAGE_FILE = "results.json", "README.md"
PICTURE_FILE, PROGRESS_PICTURE = "picture.png", "progress.png"
CLAIMS_PICTURE, FIGURES_PICTURE = "claims.png", "figures.png"
HEAD = """# The papers' tables and figures, run again

Written by `python -m papers report` from the cells in `cells.jsonl`. Each name below has a page, a picture and the
numbers; [the answer in one page](../README.md) is the place to start.

A *claim* compares two losses by one score. Both differences, the paper's and ours, have a 95 % interval: theirs from
the printed deviations (over initial weights, ten trials), ours from paired trials, each with a split of its own. An
interval above zero is *higher*, one below zero *lower*, one within ±0.02 *level*; an interval that is none of these
cannot tell.

- *reproduced*: ours is on the paper's side. *better*, *worse*: the first loss does better or worse against the second
  here than in the paper. *unclear*: one of the two intervals cannot tell. *not run here*: fewer than three pairs.
- A question that no paper answers is *higher*, *level*, *lower* or *unclear*.
- A *figure* is the same if ours is within two pooled standard deviations of the printed one; ▲ and ▼ count those above
  and below.

![every claim with an interval: the paper's difference and ours](claims.png)
"""


def write_page(summary: dict[str, Any], results: Path) -> Path:
    """Write page, picture and numbers of one experiment.

    Parameters
    ----------
    summary : dict
        What :func:`~papers.experiments.summary.summarise` returns.
    results : Path
        Folder of all results.

    Returns
    -------
    Path
        The page.
    """
    from papers.experiments.pictures import draw, draw_progress  # noqa: PLC0415  # drawing takes long to import

    place = results / str(summary["name"])
    place.mkdir(parents=True, exist_ok=True)
    text = json.dumps(summary, indent=1, ensure_ascii=False, allow_nan=False)
    draw(summary, place / PICTURE_FILE)
    pictures = [PICTURE_FILE]
    if draw_progress(summary, place / PROGRESS_PICTURE):
        pictures.append(PROGRESS_PICTURE)
    write_whole(place / PAGE_FILE, markdown(summary, pictures).encode())
    write_whole(place / SUMMARY_FILE, f"{text}\n".encode())
    return place / PAGE_FILE


def write_overview(results: Path) -> Path:
    """Write the page of all claims, and its picture."""
    from papers.experiments.pictures import draw_claims, draw_figures  # noqa: PLC0415  # as above

    summaries = stored_summaries(results)
    draw_claims(summaries, results / CLAIMS_PICTURE)
    draw_figures(summaries, results / FIGURES_PICTURE)
    write_whole(results / PAGE_FILE, overview(summaries).encode())
    return results / PAGE_FILE


def stored_summaries(results: Path) -> dict[str, dict[str, Any]]:
    """The summaries of all experiments that have one, in the order of the catalogue."""
    found = {}
    for name in EXPERIMENTS:
        path = results / name / SUMMARY_FILE
        if path.exists():
            found[name] = json.loads(path.read_text(encoding="utf-8"))
    return found


def overview(summaries: dict[str, dict[str, Any]]) -> str:
    """The page as Markdown."""
    told = list(_claims(summaries, open_questions=False))
    asked = list(_claims(summaries, open_questions=True))
    lines = [
        HEAD,
        _count(summaries),
        "",
        *_by_experiment(summaries),
        "",
        "## Claims of the papers",
        "",
        *told,
    ]
    lines += ["", "## Questions that no paper answers", "", *asked]
    return "\n".join([*lines, ""])


def _count(summaries: dict[str, dict[str, Any]]) -> str:
    """How many claims of the papers have which verdict, those of experiments without a cell included."""
    total = sum(
        claim.expected != "open"
        for experiment in EXPERIMENTS.values()
        for panel in experiment.panels
        for claim in panel.claims
    )
    words = Counter(
        claim["verdict"]
        for summary in summaries.values()
        for panel in summary["panels"]
        for claim in panel["claims"]
        if claim["expected"] != "open"
    )
    judged = [f"{words[word]} {word}" for word in CLAIMS[:-1]]
    left = total - sum(words[word] for word in CLAIMS[:-1])
    return f"Of {total} claims, {', '.join(judged)}; {left} were not run here."


def _by_experiment(summaries: dict[str, dict[str, Any]]) -> Iterable[str]:
    yield "| name | what | claims: reproduced, better, worse, unclear, not run | figures: same, ▲, ▼, not run |"
    yield "|---|---|---|---|"
    for name, experiment in EXPERIMENTS.items():
        if name not in summaries:
            yield f"| {name} | {experiment.title} | not run here | not run here |"
            continue
        panels = summaries[name]["panels"]
        claims = Counter(
            c["verdict"] for panel in panels for c in panel["claims"] if c["expected"] != "open"
        )
        entries = [e for panel in panels for row in panel["rows"] for e in row["scores"].values()]
        cells = Counter(entry["verdict"] for entry in entries)
        link, title = f"[{name}]({name}/README.md)", summaries[name]["title"]
        counts = [
            ", ".join(str(count[word]) for word in words) if count.total() - count[None] else "–"
            for count, words in ((claims, CLAIMS), (cells, FIGURES))
        ]
        yield f"| {link} | {title} | {counts[0]} | {counts[1]} |"


def _claims(summaries: dict[str, dict[str, Any]], *, open_questions: bool) -> Iterable[str]:
    last = "found" if open_questions else "verdict"
    yield f"| where | data | claim | paper | here | pairs | {last} |"
    yield "|---|---|---|---|---|---|---|"
    for name in EXPERIMENTS:
        for panel in summaries.get(name, {"panels": ()})["panels"]:
            for claim in panel["claims"]:
                if (claim["expected"] == "open") == open_questions:
                    yield _claim_line(name, panel, claim)


def _claim_line(name: str, panel: dict[str, Any], claim: dict[str, Any]) -> str:
    text = f"{claim['score']}: {claim['method']} against {claim['rival']}"
    gaps = " | ".join(interval(claim[who]) for who in ("theirs", "ours"))
    pairs = "–" if claim["ours"] is None else str(claim["ours"]["pairs"])
    word = f"**{claim['verdict']}**" if claim["verdict"] == "worse" else claim["verdict"]
    reasons = [] if claim["ours"] is None else list(claim["cut_short"])
    reasons += [f"{entry}: that is the finding" for entry in claim["collapsed"] if claim["ours"]]
    if claim["verdict"] == "worse":
        reasons.append(claim["explanation"] or "not explained yet")
    why = f" ({'; '.join(reason.rstrip('.') for reason in reasons)})" if reasons else ""
    return f"| {name} | {panel['title']} | {text} | {gaps} | {pairs} | {word}{why} |"
