"""Error messages of the command line, and its exit codes."""

from __future__ import annotations

import errno
import json
import logging
import os
import re
import sys
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer
from typer.core import TyperGroup

from eastward.cli.output import note, wants_json

__all__ = ["EXIT_INTERRUPTED", "EXIT_UNEXPECTED", "EXIT_WRONG_INPUT", "ExplainingGroup", "advising"]

EXIT_UNEXPECTED, EXIT_WRONG_INPUT, EXIT_INTERRUPTED = 1, 2, 130
# System errors for lack of space: full disk, quota used up, file-size limit.
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
# torch and safetensors report the same in their own words, as other types of errors.
NO_ROOM_WORDS = ("inline_container.cc", "iostream error", *(f"os error {code}" for code in NO_ROOM))

# Functions that users of the command line do not know; messages name the option instead.
INNER = re.compile(
    r"^(\w+)((?: '[^']*')?) of (?:load_task|load_model|read_table|metrics\.get|Decision\.with_prior) must"
    r"|^(subject_to|abstain_cost|coverage|prior) of \w+ must"
)
CALLED = {
    "source": "the file",
    "folder": "MODEL",
    "name": "--metric",
    "column": "column",
    "columns": "the columns",
}


class ExplainingGroup(TyperGroup):
    """Runs a command; an exception becomes a sentence and an exit code."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command; set EASTWARD_TRACEBACK=1 to see where an error comes from."""
        # Messages of training come with its result; without a handler, Python would print them in between.
        logging.getLogger("eastward").addHandler(logging.NullHandler())
        try:
            with warnings.catch_warnings():
                warnings.showwarning = _show_warning
                return super().invoke(ctx)
        except (Exception, KeyboardInterrupt) as error:
            if _is_the_parsers(error):
                raise
            _show_traceback_on_request()
            sentence, code = explanation(error)
            sentence = in_words_of_the_command(sentence, ctx.invoked_subcommand or "eastward")
        _say(sentence)
        raise typer.Exit(code)


@contextmanager
def advising(advice: str) -> Iterator[None]:
    """Print ``advice`` if the block is interrupted, or runs out of disk space."""
    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt(advice) from None
    except Exception as error:
        error.add_note(advice)
        raise


def in_words_of_the_command(sentence: str, command: str) -> str:
    """Replace the name of a function in a message by those of the option and the command.

    Examples
    --------
    >>> in_words_of_the_command("group of load_task must be a column; got 'a'", "train")
    "--group of train must be a column; got 'a'"
    """
    found = INNER.match(sentence)
    if found is None:
        return sentence
    argument, value = found[1] or found[3], found[2] or ""
    option = CALLED.get(argument, f"--{argument.replace('_', '-')}")
    return f"{option}{value} of {command} must{sentence[found.end() :]}"


def explanation(error: BaseException) -> tuple[str, int]:
    """Return the message for ``error``, and the exit code."""
    if isinstance(error, KeyboardInterrupt):
        hint = str(error) or "Nothing half-written was left behind."
        return f"interrupted. {hint}", EXIT_INTERRUPTED
    if _ran_out_of_room(error):
        return _no_room(error)
    if isinstance(error, OSError):
        return _of_the_system(error)
    if isinstance(error, ModuleNotFoundError):
        advice = ". Install everything with  pip install 'eastward[tabular]'"
        return f"{error}{'' if 'pip install' in str(error) else advice}", EXIT_UNEXPECTED
    if isinstance(error, ValueError | TypeError) and _is_ours(error):
        return str(error), EXIT_WRONG_INPUT
    return _unexpected(error)


def _ran_out_of_room(error: BaseException) -> bool:
    if isinstance(error, OSError) and error.errno in NO_ROOM:
        return True
    return any(words in str(error) for words in NO_ROOM_WORDS)


def _no_room(error: BaseException) -> tuple[str, int]:
    place = getattr(error, "filename", None)
    hint = " ".join(getattr(error, "__notes__", ())) or "Then run the command again."
    kept = "Finished files are complete, and nothing half-written was left behind"
    where = f" for {place}" if place else ""
    return f"no disk space left{where}. {kept}. Free some space. {hint}", EXIT_UNEXPECTED


def _of_the_system(error: OSError) -> tuple[str, int]:
    if isinstance(error, BrokenPipeError):
        # The reader (head, less) has closed the pipe. Python must not try to flush the rest.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return "", EXIT_UNEXPECTED
    if isinstance(error, FileNotFoundError | PermissionError | IsADirectoryError):
        return str(error), EXIT_WRONG_INPUT
    return _unexpected(error)


def _unexpected(error: BaseException) -> tuple[str, int]:
    advice = (
        "Run it again with EASTWARD_TRACEBACK=1 to see where it happened, and please report it."
    )
    return f"unexpected {type(error).__name__}: {error}. {advice}", EXIT_UNEXPECTED


def _is_ours(error: BaseException) -> bool:
    """Whether the message was written by this library, for the user."""
    frames = list(traceback.walk_tb(error.__traceback__))
    module = frames[-1][0].f_globals.get("__name__", "") if frames else ""
    return module.partition(".")[0] == "eastward"


def _is_the_parsers(error: BaseException) -> bool:
    """Whether the error is typer's own, which prints its message itself."""
    return type(error).__module__.partition(".")[0] in {"typer", "click"}


def _show_traceback_on_request() -> None:
    if os.environ.get("EASTWARD_TRACEBACK"):
        traceback.print_exc()


def _show_warning(message: Any, *_: Any, **__: Any) -> None:
    note(f"note: {message}")


def _say(sentence: str) -> None:
    if not sentence:
        return
    if wants_json():
        sys.stdout.write(json.dumps({"error": sentence}, ensure_ascii=False) + "\n")
    note(f"error: {sentence}", style="bold red")
