"""`eastward demo`: the whole path on an embedded data set, in under a minute."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from eastward.cli import options
from eastward.cli.folders import REPORT, check_folder
from eastward.cli.output import emit_json, result_console, say, wants_json

__all__ = ["demo"]

Out = Annotated[
    Path,
    typer.Option(
        "--out",
        "-o",
        parser=options.named_path,
        metavar="DIR",
        help="Folder for the model and its report.",
    ),
]
METHODS = ("cross_entropy", "cross_entropy_tuned", "eastward", "random_forest")
NETWORK: dict[str, Any] = {"hidden": (64, 32), "max_epochs": 30}
SPLITS = 4


def demo(
    out: Out = Path("eastward-demo"), seed: options.Seed = 0, json: options.Json = False
) -> None:
    """Compare, train and report on handwritten digits some of which are rare.

    It compares four methods on the same splits, trains a model for macro-F1, and writes a report to look at.
    Nothing is downloaded.
    """
    from eastward.cli.compare import live_table
    from eastward.cli.fit_model import FitPlan, fit_model
    from eastward.cli.tables_shown import comparison_table, data_shown, verdict_shown
    from eastward.comparison import compare
    from eastward.data import describe_task, load_task
    from eastward.datasets import load_embedded

    started = time.perf_counter()
    check_folder(out, resume=False, overwrite=True)
    frame, target = load_embedded("digits_long_tail")
    task = replace(load_task(frame, target), name="handwritten digits")
    facts = describe_task(task)
    say(data_shown(facts, target))
    say("\nFour methods on the same splits ...")
    with live_table() as progress:
        comparison = compare(
            task.features,
            task.labels,
            methods=list(METHODS),
            n_splits=SPLITS,
            random_state=seed,
            n_jobs=-1,
            method_options=NETWORK,
            progress=progress,
        ).to_dict()
    say(comparison_table(comparison, width=result_console().width))
    say("Training the model for macro-F1 ...")
    plan = FitPlan(parameters=NETWORK, seed=seed)
    summary = fit_model(task, facts, plan, out, comparison=comparison, commands=_commands(out))
    seconds = time.perf_counter() - started
    if wants_json():
        report = str(out / REPORT)
        emit_json({"report": report, "seconds": round(seconds, 1), "verdict": summary["verdict"]})
        return
    say(verdict_shown(summary["verdict"]))
    say(f"\nreport   {out / REPORT}   (open it in a browser)\nmodel    {out}")
    say(f"done in {seconds:.0f} s; now your data:  eastward compare DATA --target COLUMN")


def _commands(out: Path) -> dict[str, str]:
    data = "digits.csv"
    return {
        "data": f"eastward datasets digits_long_tail -o {data}",
        "train": f"eastward train {data} --target digit --out {out}",
        "predict": f"eastward predict {out} {data} -o predictions.csv",
    }
