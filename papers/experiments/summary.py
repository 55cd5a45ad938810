"""Finished cells of an experiment as one plain document: ours, theirs, and how far apart they are."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

from eastward import _checks
from eastward._version import __version__
from papers.experiments.cells import CellBook
from papers.experiments.design import Claim, Experiment, Panel
from papers.experiments.efforts import Effort, grid_points
from papers.experiments.explanations import explanation
from papers.experiments.figures import Figure, figure_of, pooled_distance, verdict
from papers.experiments.methods import METHODS
from papers.experiments.running import Run, chosen_point
from papers.experiments.scores import TITLES
from papers.experiments.verdicts import Gap, claim_verdict, mean_gap, paired_gap, printed_gap

__all__ = ["has_results", "pooled_claims", "summarise"]

TIMES = ("row_microseconds", "epoch_seconds", "train_minutes")
PACKAGES = ("torch", "numpy", "scikit-learn", "pandas")


def has_results(experiment: Experiment, run: Run) -> bool:
    """Whether any trial of ``experiment`` is finished."""
    book = run.book
    # An experiment without panels needs no training.
    return not experiment.panels or any(
        _done(panel, method, run, book) for panel in experiment.panels for method in panel.methods
    )


def summarise(experiment: Experiment, run: Run, *, command: str) -> dict[str, Any]:
    """Summarise an experiment in numbers and words.

    Parameters
    ----------
    experiment : Experiment
        The experiment.
    run : Run
        The settings of the run.
    command : str
        The command that runs the experiment.

    Returns
    -------
    dict
        The summary, ready for JSON. Rows that were not run have no figure of ours.
    """
    book = run.book
    panels = [_panel(experiment, panel, run, book) for panel in experiment.panels]
    if panels and not any(row["trials"] for panel in panels for row in panel["rows"]):
        advice = f"Run it first:  python -m papers run {experiment.name}"
        _checks.fail("summarise", "the experiment", "run", f"no cell of {experiment.name}", advice)
    return {
        "name": experiment.name,
        "title": experiment.title,
        "source": experiment.source,
        "scale": run.scale,
        "made_up_data": run.scale == "smoke" and run.folder is None,
        "command": command,
        "seed": run.seed,
        "versions": {
            "eastward": __version__,
            "python": platform.python_version(),
            **{package: version(package) for package in PACKAGES},
        },
        "wall_seconds": round(sum(row["wall"] for panel in panels for row in panel["rows"]), 1),
        "notes": list(experiment.notes),
        "picture": experiment.picture,
        "panels": panels,
        "pooled": pooled_claims(panels) if experiment.pooled and run.scale != "smoke" else [],
    }


def _panel(experiment: Experiment, panel: Panel, run: Run, book: CellBook) -> dict[str, Any]:
    done = {method: _done(panel, method, run, book) for method in panel.methods}
    rows = [_row(panel, method, run, book, done[method]) for method in panel.methods]
    claims = panel.claims if run.scale != "smoke" else ()
    key = panel.key or panel.data
    return {
        "title": panel.title,
        "key": key,
        "kind": panel.kind,
        "data": panel.data,
        "network": panel.network,
        "note": panel.note,
        "size": _sizes(panel, run),
        "scores": {name: TITLES[name] for name in panel.scores},
        "rows": rows,
        "claims": [_claim(f"{experiment.name}/{key}", claim, panel, done) for claim in claims],
    }


def _done(panel: Panel, method: str, run: Run, book: CellBook) -> dict[int, dict[str, Any]]:
    """Finished trials of a row at the point that its search chose, by number."""
    point = chosen_point(panel, method, run, book)
    trials = range(run.effort(panel, method).trials)
    found = {trial: book.find(run.cell(panel, method, point, trial)) for trial in trials}
    return {trial: result for trial, result in found.items() if result is not None}


def _row(
    panel: Panel, method: str, run: Run, book: CellBook, done: dict[int, dict[str, Any]]
) -> dict[str, Any]:
    effort = run.effort(panel, method)
    point = chosen_point(panel, method, run, book)
    searched = [book.find(run.cell(panel, method, p, 0)) for p in grid_points(effort) if p != point]
    results = list(done.values())
    # Results of a smoke test are not compared with the paper.
    published = {} if run.scale == "smoke" else panel.published.get(method, {})
    return {
        "method": method,
        "label": METHODS[method].label,
        "ours": METHODS[method].ours,
        "trials": len(results),
        "complete": len(results) == effort.trials and None not in searched,
        "chosen": {} if METHODS[method].classical or not results else point,
        "capped": sum(bool(result.get("capped")) for result in results),
        "collapsed": sum(bool(result.get("collapsed")) for result in results),
        "epochs": _mean(results, "epochs"),
        "seconds": _mean(results, "seconds"),
        "wall": sum(result["wall"] for result in [*results, *filter(None, searched)]),
        "scores": {score: _score(score, results, published.get(score)) for score in panel.scores},
        "auroc": _auroc(results),
        "history": [result["history"] for result in results if "history" in result],
        "pulls": next((result["pulls"] for result in results if "pulls" in result), None),
    }


def _mean(results: list[dict[str, Any]], key: str) -> float | None:
    return round(sum(result[key] for result in results) / len(results), 1) if results else None


def _auroc(done: list[dict[str, Any]]) -> float | None:
    values = [result["scores"]["auroc"] for result in done if "auroc" in result["scores"]]
    return round(sum(values) / len(values), 4) if values else None


def _score(score: str, done: list[dict[str, Any]], theirs: Figure | None) -> dict[str, Any]:
    values = [result["scores"][score] for result in done if score in result["scores"]]
    ours = figure_of(values) if values else None
    # One trial has no deviation to judge by.
    judged = ours is not None and ours.trials > 1 and theirs is not None
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
    place: str, claim: Claim, panel: Panel, done: Mapping[str, dict[int, dict[str, Any]]]
) -> dict[str, Any]:
    """The paper's difference between two rows beside ours."""
    theirs = _printed(claim, panel)
    ours = _measured(claim, done)
    word = claim_verdict(claim.expected, theirs, ours)
    short = _cut_short(claim, done)
    if short and ours is not None:
        word = "unclear"
    full = f"{place}/{claim.method}/{claim.rival}/{claim.score}"
    return {
        "method": METHODS[claim.method].label,
        "rival": METHODS[claim.rival].label if claim.rival else f"{claim.bound:g}",
        "names": [claim.method, claim.rival],
        "score": TITLES[claim.score],
        "column": claim.score,
        "expected": claim.expected,
        "theirs": _shown(theirs),
        "ours": _shown(ours),
        "verdict": word,
        "collapsed": _collapsed(claim, done),
        "cut_short": short,
        "explanation": explanation(full) if word == "worse" else None,
    }


def _printed(claim: Claim, panel: Panel) -> Gap | None:
    method = panel.published.get(claim.method, {}).get(claim.score)
    rival = panel.published.get(claim.rival, {}).get(claim.score)
    return None if method is None or rival is None else printed_gap(method, rival)


def _measured(claim: Claim, done: Mapping[str, dict[int, dict[str, Any]]]) -> Gap | None:
    def scores(method: str) -> dict[int, float]:
        found = {k: result["scores"].get(claim.score) for k, result in done[method].items()}
        return {k: value for k, value in found.items() if value is not None}

    return paired_gap(scores(claim.method), scores(claim.rival) if claim.rival else claim.bound)


def _shown(gap: Gap | None) -> dict[str, float] | None:
    if gap is None:
        return None
    numbers = {name: round(getattr(gap, name), 4) for name in ("mean", "low", "high")}
    return {**numbers, "pairs": gap.pairs}


def _collapsed(claim: Claim, done: Mapping[str, dict[int, dict[str, Any]]]) -> list[str]:
    """Rows of the claim that predict one class in half of their trials or more."""
    words = []
    for method in filter(None, (claim.method, claim.rival)):
        count = sum(bool(result.get("collapsed")) for result in done[method].values())
        if done[method] and 2 * count >= len(done[method]):
            words.append(
                f"{METHODS[method].label} predicts one class in {count} of {len(done[method])} trials"
            )
    return words


def _cut_short(claim: Claim, done: Mapping[str, dict[int, dict[str, Any]]]) -> list[str]:
    """Rows of the claim whose training is cut to a few batches here: their times can be compared, not their scores."""
    if claim.score in TIMES:
        return []
    return [
        f"{METHODS[method].label} is not trained to its end here"
        for method in filter(None, (claim.method, claim.rival))
        if METHODS[method].small_batches and any(r.get("capped") for r in done[method].values())
    ]


def pooled_claims(panels: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each question over all panels of a kind that have an answer, a panel being one case."""
    cases: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for panel in panels:
        for claim in panel["claims"]:
            question = (panel["kind"], claim["method"], claim["rival"])
            cases.setdefault(question, []).append(claim)
    rows = []
    for (kind, method, rival), claims in cases.items():
        gaps = [claim["ours"]["mean"] for claim in claims if claim["ours"] is not None]
        gap = mean_gap(gaps)
        signs = [sum(g > 0.005 for g in gaps), sum(abs(g) <= 0.005 for g in gaps)]
        rows.append(
            {
                "kind": kind,
                "method": method,
                "rival": rival,
                "gap": _shown(gap),
                "wins_ties_losses": [*signs, len(gaps) - sum(signs)],
                "verdict": claim_verdict("open", None, gap),
            }
        )
    return rows


def _sizes(panel: Panel, run: Run) -> list[str]:
    """What was computed, in words, once for each group of rows that share it; printed above each panel."""
    groups: dict[str, list[str]] = {}
    for method in panel.methods:
        if METHODS[method].classical is None:
            text = _size(panel, run.effort(panel, method), annealed=METHODS[method].annealed)
            groups.setdefault(text, []).append(METHODS[method].label)
    if len(groups) == 1:
        return list(groups)
    return [f"{', '.join(labels)}: {text}" for text, labels in groups.items()]


def _size(panel: Panel, effort: Effort, *, annealed: bool) -> str:
    rows = "all rows" if effort.samples is None else f"{effort.samples:,} rows"
    trials = "1 trial" if effort.trials == 1 else f"{effort.trials} trials"
    reduced = effort.width != 1 and panel.network != "32-16"
    width = f" at {effort.width:g} of its width" if reduced else ""
    patience = (
        f"{effort.cooling_patience} at each temperature, {effort.cold_steps} coolings without a gain end it"
        if annealed
        else f"{effort.patience}"
    )
    searched = ", ".join(
        f"{name.replace('_', ' ')} {'/'.join(f'{value:g}' for value in values)}"
        for name, values in effort.grid.items()
        if annealed or name != "rate"
    )
    return (
        f"{rows}; network {panel.network}{width}; {trials}; at most {effort.max_epochs} epochs, patience {patience}; "
        f"{searched}"
    )
