"""Output of commands: results on standard output, everything else on standard error."""

from __future__ import annotations

import json
from typing import Any

import typer
from rich.console import Console
from rich.text import Text

__all__ = ["emit_json", "note", "result_console", "say", "status_console", "wants_json"]

_state = {"json": False}


def json_option(value: bool) -> bool:
    """Remember that a program reads the output, so that errors are JSON as well."""
    _state["json"] = value
    return value


def wants_json() -> bool:
    """Whether the command was given --json."""
    return _state["json"]


def result_console() -> Console:
    """Return the console for results that people read."""
    return Console(highlight=False)


def status_console() -> Console:
    """Return the console for progress and notes."""
    return Console(stderr=True, highlight=False)


def say(text: Any = "") -> None:
    """Print something for people, unless a program reads the output; a string is never read as markup."""
    if not wants_json():
        shown = Text(text) if isinstance(text, str) else text
        result_console().print(shown, soft_wrap=isinstance(text, str))


def note(sentence: str, *, style: str = "yellow") -> None:
    """Print a remark to standard error; values from data are never read as markup."""
    head, colon, rest = sentence.partition(": ")
    status_console().print(Text.assemble((f"{head}{colon}", style), rest), soft_wrap=True)


def emit_json(document: Any) -> None:
    """Print the result for programs."""
    typer.echo(json.dumps(document, ensure_ascii=False, allow_nan=False))
