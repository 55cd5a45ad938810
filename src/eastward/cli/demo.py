"""`eastward demo`: the whole workflow on an embedded table, in about a minute."""

from __future__ import annotations

import shlex
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
METHODS = (
    "cross_entropy",
    "cross_entropy_tuned",
    "eastward",
    "random_forest_tuned",
    "gradient_boosting_tuned",
    "ensemble",
)
NETWORK: dict[str, Any] = {"hidden": (64, 32), "max_epochs": 30}
DATA, TARGET, SPLITS = "diabetes_progression", "progression", 5


def demo(
    out: Out = Path("eastward-demo"), seed: options.Seed = 0, json: options.Json = False
) -> None:
    """Find the patients whose diabetes will progress most: compare, train, report.

    A fifth of 442 patients had the strongest progression in the year after their examination. Six methods are compared
    by macro-F1 on the same splits, the recommended one is trained, and a report is written. Nothing is downloaded.
    """
    from eastward.cli.compare import live_table
    from eastward.cli.fit_model import FitPlan, fit_model
    from eastward.cli.tables_shown import comparison_table, data_shown, verdict_shown
    from eastward.comparison import DEFAULT_METHODS, compare
    from eastward.data import describe_task, load_task
    from eastward.datasets import load_embedded

    started = time.perf_counter()
    check_folder(out, resume=False, overwrite=True, command="demo")
    frame, target = load_embedded(DATA)
    task = replace(load_task(frame, target), name="diabetes patients")
    facts = describe_task(task)
    say(data_shown(facts, target))
    # The ensemble is one of them if LightGBM is installed.
    methods = [name for name in METHODS if name in DEFAULT_METHODS]
    say(f"\nWhich patients will progress most? {len(methods)} methods on the same splits ...")
    with live_table() as progress:
        comparison = compare(
            task.features,
            task.labels,
            methods=methods,
            n_splits=SPLITS,
            random_state=seed,
            n_jobs=-1,
            method_options=NETWORK,
            progress=progress,
        ).to_dict()
    say(comparison_table(comparison, width=result_console().width))
    say(verdict_shown(comparison["verdict"]))
    reason = "recommended by the comparison"
    plan = FitPlan(
        parameters=NETWORK, seed=seed, method=comparison["verdict"]["recommended"], reason=reason
    )
    say(f"\nTraining {plan.label}, {reason} ...")
    commands = _commands(out, methods, plan.method)
    summary = fit_model(task, facts, plan, out, comparison=comparison, commands=commands)
    seconds = time.perf_counter() - started
    if wants_json():
        report = str(out / REPORT)
        kept = {"verdict": summary["verdict"], "method": plan.method}
        emit_json({"report": report, "seconds": round(seconds, 1), **kept})
        return
    score = summary["evaluation"]["metrics"][0]
    rows = summary["evaluation"]["rows"]
    say(f"On {rows} patients that it has not seen it reaches {score['name']} {score['value']:.3f}.")
    say(f"\nreport   {out / REPORT}   (open it in a browser)\nmodel    {out}")
    say(f"done in {seconds:.0f} s; now your data:  eastward compare DATA --target COLUMN")


def _commands(out: Path, methods: list[str], method: str) -> dict[str, str]:
    """Return the commands that a person would type for the same steps: data set, comparison, training, predictions."""
    data, folder = "diabetes.csv", shlex.quote(str(out))
    widths = ",".join(map(str, NETWORK["hidden"]))
    words = f"{data} --target {TARGET} --hidden {widths} --epochs {NETWORK['max_epochs']}"
    return {
        "data": f"eastward datasets {DATA} -o {data}",
        "compare": f"eastward compare {words} --methods {','.join(methods)} --splits {SPLITS}",
        "train": f"eastward train {words} --method {method} --out {folder} --overwrite",
        "predict": f"eastward predict {folder} {data} -o predictions.csv",
    }
