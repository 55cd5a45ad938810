"""The document of a model folder: its target, its columns, and digests of its parts.

A command reads it first, to report a wrong folder or a missing column before it loads torch and the model.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from eastward import _messages
from eastward._files import check_regular, read_document

__all__ = ["FORMAT", "KIND", "PREPROCESSING", "TASK", "read_task"]

FORMAT, KIND = 2, "eastward.TableModel"
TASK, PREPROCESSING = "task.json", "preprocessing.skops"
COLUMN_KINDS = ("number", "boolean", "date", "category", "text")


def read_task(folder: Path) -> dict[str, Any]:
    """Read the document of a model folder, and refuse a folder that has none or an unusable one."""
    advice = "Pass the folder that `eastward train --out` wrote."
    try:
        check_regular(folder)
        task: dict[str, Any] = read_document(folder / TASK)
        kind, version = task["kind"], task["format"]
        sealed = dict(task["digests"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        if (folder / "checkpoint").is_dir():
            advice = "Its training was not finished: repeat the command with --resume."
        reason = f"{folder} ({type(error).__name__}: {TASK})"
        if not folder.exists():
            reason = f"{folder}, which does not exist"
        return _messages.fail("load_model", "folder", "a model folder", reason, advice)
    if kind != KIND or PREPROCESSING not in sealed:
        _messages.fail("load_model", "folder", "a model folder", f"{folder} with a {kind}", advice)
    if isinstance(version, int) and version > FORMAT:
        got = f"format {version} of eastward {task.get('version', 'without a version')}"
        _messages.fail(
            "load_model", "folder", f"of format {FORMAT} or older", got, "Update eastward."
        )
    if wrong := _wrong_entry(task):
        got = f"{folder} with an unusable entry {wrong!r} in {TASK}"
        _messages.fail("load_model", "folder", "a model folder", got, "Train again.")
    return task


def _wrong_entry(task: dict[str, Any]) -> str | None:
    """Find the first entry whose type is not the one that :func:`save_model` writes."""
    columns, labels = task.get("columns"), task.get("renamed_labels", {})
    sound = {
        "format": isinstance(task["format"], int),
        "target": isinstance(task.get("target"), str),
        "columns": isinstance(columns, list) and all(map(_is_column, columns)),
        "renamed_labels": isinstance(labels, dict),
    }
    return next((name for name, fine in sound.items() if not fine), None)


def _is_column(entry: Any) -> bool:
    return (
        isinstance(entry, dict)
        and {"name", "kind"} <= set(entry) <= {"name", "kind", "format"}
        and all(isinstance(value, str) for value in entry.values())
        and entry["kind"] in COLUMN_KINDS
    )
