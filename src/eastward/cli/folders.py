"""File names in the folder that a command writes, and checks of that folder."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from eastward import _messages

__all__ = ["CARD", "CHECKPOINT", "REPORT", "SUMMARY", "check_folder", "check_place"]

CHECKPOINT, SUMMARY, REPORT, TASK = "checkpoint", "summary.json", "report.html", "task.json"
CARD = "README.md"


def check_place(command: str, folder: Path) -> None:
    """Check, before any work, that the folder can be created."""
    found = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    if not found.is_dir():
        _messages.fail(command, "--out", "a folder", f"{folder}, where {found} is a file")
    if not os.access(found, os.W_OK):
        advice = "Choose another folder, or change its permissions."
        _messages.fail(command, "--out", "a folder that can be written", str(folder), advice)


def check_folder(folder: Path, *, resume: bool, overwrite: bool, command: str = "train") -> None:
    """Refuse to replace a model or an unfinished run, unless the options allow it."""
    check_place(command, folder)
    unfinished, finished = (folder / CHECKPOINT).is_dir(), (folder / TASK).is_file()
    if overwrite and not resume:
        shutil.rmtree(folder / CHECKPOINT, ignore_errors=True)
    elif unfinished and not resume:
        advice = "Add --resume to continue it, or --overwrite to start again."
        _messages.fail("train", "--out", "a new folder", f"{folder} with an unfinished run", advice)
    elif finished and not unfinished and not (resume and not (folder / CARD).is_file()):
        # The card is written last, so a model without one was stopped before its report was written.
        advice = "Choose another folder, or add --overwrite to replace the model."
        _messages.fail("train", "--out", "a new folder", f"{folder} with a finished model", advice)
