"""Names in the folder that a command writes, and what is in the way there."""

from __future__ import annotations

import shutil
from pathlib import Path

from eastward import _messages

__all__ = ["CHECKPOINT", "REPORT", "SUMMARY", "check_folder"]

CHECKPOINT, SUMMARY, REPORT, TASK = "checkpoint", "summary.json", "report.html", "task.json"


def check_folder(folder: Path, *, resume: bool, overwrite: bool) -> None:
    """A model or an unfinished run is not replaced unless that is wanted."""
    if folder.exists() and not folder.is_dir():
        _messages.fail("train", "--out", "a folder", f"{folder}, a file")
    unfinished, finished = (folder / CHECKPOINT).is_dir(), (folder / TASK).is_file()
    if overwrite and not resume:
        shutil.rmtree(folder / CHECKPOINT, ignore_errors=True)
    elif unfinished and not resume:
        advice = "Add --resume to continue it, or --overwrite to start anew."
        _messages.fail("train", "--out", "a new folder", f"{folder} with an unfinished run", advice)
    elif finished and not unfinished:
        advice = "Choose another folder, or add --overwrite to replace the model."
        _messages.fail("train", "--out", "a new folder", f"{folder} with a finished model", advice)
