"""Output of `eastward train`: about the data before training, and about the model after it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from eastward.cli.folders import REPORT
from eastward.cli.output import emit_json, note, result_console, say, wants_json

__all__ = ["conclude", "introduce"]


def introduce(facts: dict[str, Any], target: str) -> None:
    """Describe the data."""
    from eastward.cli.tables_shown import data_shown

    if wants_json():
        for warning in facts["warnings"]:
            note(f"warning: {warning}")
    say(data_shown(facts, target))


def conclude(summary: dict[str, Any], out: Path) -> None:
    """Show the scores of the model, and where it was saved."""
    from eastward.cli.tables_shown import confusion_table, verdict_shown

    if wants_json():
        kept = {key: summary[key] for key in ("title", "metric", "method", "verdict", "data")}
        scores = (summary["evaluation"] or {}).get("metrics")
        emit_json({"model": str(out), "report": str(out / REPORT), "metrics": scores, **kept})
        return
    for sentence in summary["training"]["notes"]:
        note(f"note: {sentence}")
    if summary["evaluation"] is not None:
        say(confusion_table(summary["evaluation"], width=result_console().width))
    say(verdict_shown(summary["verdict"]))
    say(f"\nreport   {out / REPORT}\nmodel    {out}\npredict  {summary['commands']['predict']}")
