"""Finished cells of an experiment as one plain document: ours, theirs, and how far apart they are."""

from __future__ import annotations

import platform
from importlib.metadata import version
from typing import Any

from eastward import _checks
from eastward._version import __version__
from eastward.experiments.cells import CellBook
from eastward.experiments.design import Claim, Experiment, Panel
from eastward.experiments.efforts import Effort, grid_points
from eastward.experiments.explanations import explanation
from eastward.experiments.figures import Figure, figure_of, pooled_distance, verdict
from eastward.experiments.methods import METHODS
from eastward.experiments.running import Run, chosen_point
from eastward.experiments.scores import TITLES

__all__ = ["summarise"]

PACKAGES = ("torch", "numpy", "scikit-learn", "pandas")
# Trials from which something may be concluded.
TOLD = 2


def summarise(experiment: Experiment, run: Run, *, command: str) -> dict[str, Any]:
    """Everything that is shown, as numbers and words.

    Parameters
    ----------
    experiment : Experiment
        What was run.
    run : Run
        How.
    command : str
        What a person types to get the same.

    Returns
    -------
    dict
        Ready for JSON. Rows that were not run have no figure of ours.
    """
    book = run.book
    panels = [_panel(experiment, panel, run, book) for panel in experiment.panels]
    if not any(row["trials"] for panel in panels for row in panel["rows"]):
        advice = "Run it first, without --render."
        _checks.fail("summarise", "the experiment", "run", f"no cell of {experiment.name}", advice)
    return {
        "name": experiment.name,
        "title": experiment.title,
        "source": experiment.source,
        "scale": run.scale,
        "made_up_data": run.scale == "smoke" and run.folder is None,
        "command": command,
        "seed": run.seed,
        "split": run.split,
        "versions": {
            "eastward": __version__,
            "python": platform.python_version(),
            **{package: version(package) for package in PACKAGES},
        },
        "wall_seconds": round(sum(row["wall"] for panel in panels for row in panel["rows"]), 1),
        "notes": list(experiment.notes),
        "picture": experiment.picture,
        "panels": panels,
    }


def _panel(experiment: Experiment, panel: Panel, run: Run, book: CellBook) -> dict[str, Any]:
    rows = [_row(experiment.name, panel, method, run, book) for method in panel.methods]
    figures = {row["method"]: row["scores"] for row in rows if row["complete"]}
    return {
        "title": panel.title,
        "data": panel.data,
        "network": panel.network,
        "note": panel.note,
        "size": _size(panel, run.effort(panel, panel.methods[0])),
        "scores": {name: TITLES[name] for name in panel.scores},
        "rows": rows,
        "claims": [_claim(claim, panel, figures) for claim in panel.claims if run.scale != "smoke"],
    }


def _row(name: str, panel: Panel, method: str, run: Run, book: CellBook) -> dict[str, Any]:
    point = chosen_point(panel, method, run, book)
    effort = run.effort(panel, method)
    found = [book.find(run.cell(panel, method, point, trial)) for trial in range(effort.trials)]
    done = [result for result in found if result is not None]
    searched = [book.find(run.cell(panel, method, p, 0)) for p in grid_points(effort) if p != point]
    complete = len(done) == effort.trials and None not in searched
    # A test is compared with nothing.
    published = {} if run.scale == "smoke" else panel.published.get(method, {})
    scores = {score: _score(score, done, published.get(score), complete) for score in panel.scores}
    for score, entry in scores.items():
        if entry["verdict"] == "worse":
            entry["explanation"] = explanation(name, panel.data, method, score)
    return {
        "method": method,
        "label": METHODS[method].label,
        "trials": len(done),
        "complete": complete,
        "chosen": {} if METHODS[method].classical or not done else point,
        "epochs": _mean(done, "epochs"),
        "seconds": _mean(done, "seconds"),
        "wall": sum(result["wall"] for result in [*done, *filter(None, searched)]),
        "scores": scores,
        "auroc": _auroc(done),
        "history": [result["history"] for result in done if "history" in result],
    }


def _mean(results: list[dict[str, Any]], key: str) -> float | None:
    return round(sum(result[key] for result in results) / len(results), 1) if results else None


def _auroc(done: list[dict[str, Any]]) -> float | None:
    values = [result["scores"]["auroc"] for result in done if "auroc" in result["scores"]]
    return round(sum(values) / len(values), 4) if values else None


def _score(
    score: str, done: list[dict[str, Any]], theirs: Figure | None, complete: bool
) -> dict[str, Any]:
    values = [result["scores"][score] for result in done if score in result["scores"]]
    ours = figure_of(values) if values else None
    # A row that was stopped half-way is shown, but nothing is concluded from it.
    judged = complete and ours is not None and theirs is not None
    distance = pooled_distance(ours, theirs) if judged else None  # type: ignore[arg-type]  # neither is None then
    return {
        "ours": None if ours is None else _plain(ours),
        "theirs": None if theirs is None else {"mean": theirs.mean, "spread": theirs.spread},
        "distance": None if distance is None else round(distance, 2),
        "verdict": None if theirs is None else verdict(distance),
    }


def _plain(figure: Figure) -> dict[str, Any]:
    return {
        "mean": round(figure.mean, 4),
        "spread": round(figure.spread, 4),
        "trials": figure.trials,
    }


def _claim(
    claim: Claim, panel: Panel, figures: dict[str, dict[str, dict[str, Any]]]
) -> dict[str, Any]:
    """The paper's difference between two rows beside ours."""
    theirs = _difference(claim, panel.published)
    measured = {
        method: {
            score: Figure(entry["ours"]["mean"], entry["ours"]["spread"], entry["ours"]["trials"])
            for score, entry in scores.items()
            if entry["ours"] is not None
        }
        for method, scores in figures.items()
    }
    ours = _difference(claim, measured)
    return {
        "method": METHODS[claim.method].label,
        "rival": METHODS[claim.rival].label,
        "score": TITLES[claim.score],
        "theirs": theirs,
        "ours": ours,
        "verdict": _found(ours) if claim.is_open else _claim_verdict(theirs, ours),
    }


def _difference(claim: Claim, table: Any) -> dict[str, float] | None:
    method = table.get(claim.method, {}).get(claim.score)
    rival = table.get(claim.rival, {}).get(claim.score)
    if method is None or rival is None:
        return None
    gap = method.mean - rival.mean
    trials = min(figure.trials or TOLD for figure in (method, rival))
    distance = round(pooled_distance(method, rival), 2)
    return {"gap": round(gap, 4), "distance": distance, "trials": trials}


def _side(difference: dict[str, float]) -> int:
    """1 higher, -1 lower, 0 within one pooled standard deviation."""
    return 0 if abs(difference["distance"]) < 1 else 1 if difference["gap"] > 0 else -1


def _found(ours: dict[str, float] | None) -> str:
    return "not run here" if ours is None else ("level", "higher", "lower")[_side(ours)]


def _claim_verdict(theirs: dict[str, float] | None, ours: dict[str, float] | None) -> str:
    if ours is None:
        return "not run here"
    # Without a published figure the claim itself is that the first is higher.
    expected = 1 if theirs is None else _side(theirs)
    if ours.get("trials", TOLD) < TOLD:
        return "unclear"
    found = _side(ours)
    if found == expected:
        return "reproduced"
    if theirs is not None and (found > expected) != (ours["gap"] > theirs["gap"]):
        # The same difference, hidden by the noise of one of the two.
        return "unclear" if found == 0 else "reproduced"
    return "better" if found > expected else "worse"


def _size(panel: Panel, effort: Effort) -> str:
    """What was computed, in words; printed above each panel so that nobody takes it for the paper's."""
    rows = "all rows" if effort.samples is None else f"{effort.samples:,} rows"
    trials = "1 trial" if effort.trials == 1 else f"{effort.trials} trials"
    width = (
        ""
        if effort.width == 1 or panel.network == "32-16"
        else f" at {effort.width:g} of its width"
    )
    searched = ", ".join(
        f"{name.replace('_', ' ')} {'/'.join(f'{value:g}' for value in values)}"
        for name, values in effort.grid.items()
    )
    return (
        f"{rows}; network {panel.network}{width}; {trials}; at most {effort.max_epochs} epochs, patience "
        f"{effort.patience}, while cooling {effort.cooling_patience} at each temperature; searched: {searched}"
    )
