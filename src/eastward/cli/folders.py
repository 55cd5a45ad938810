"""Names in the folder that a command writes, and what is in the way there."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from eastward import _messages

__all__ = ["CARD", "CHECKPOINT", "REPORT", "SUMMARY", "check_folder", "check_place"]

CHECKPOINT, SUMMARY, REPORT, TASK = "checkpoint", "summary.json", "report.html", "task.json"
CARD = "README.md"


def check_place(command: str, folder: Path) -> None:
    """A folder can be made there: said before the work, not after it."""
    found = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    if not found.is_dir():
        _messages.fail(command, "--out", "a folder", f"{folder}, where {found} is a file")
    if not os.access(found, os.W_OK):
        advice = "Choose another folder, or change its permissions."
        _messages.fail(command, "--out", "a folder that can be written", str(folder), advice)


def check_folder(folder: Path, *, resume: bool, overwrite: bool, command: str = "train") -> None:
    """A model or an unfinished run is not replaced unless that is wanted."""
    check_place(command, folder)
    unfinished, finished = (folder / CHECKPOINT).is_dir(), (folder / TASK).is_file()
    if overwrite and not resume:
        shutil.rmtree(folder / CHECKPOINT, ignore_errors=True)
    elif unfinished and not resume:
        advice = "Add --resume to continue it, or --overwrite to start anew."
        _messages.fail("train", "--out", "a new folder", f"{folder} with an unfinished run", advice)
    elif finished and not unfinished and not (resume and not (folder / CARD).is_file()):
        # The card is written last: a model without one was stopped before its report.
        advice = "Choose another folder, or add --overwrite to replace the model."
        _messages.fail("train", "--out", "a new folder", f"{folder} with a finished model", advice)
