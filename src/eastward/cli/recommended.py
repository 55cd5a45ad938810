"""From a comparison to a trained model: the command that `compare` prints, and the file that `train --from` reads."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer

from eastward._files import read_document, write_whole
from eastward.cli.options import command_line

__all__ = ["compare_command", "defaults_from", "is_recommended", "remember", "train_command"]

RECOMMENDED = "recommended.json"
OWN = "own_estimator"
# Options of both commands: the model is trained on the same rows, for the same metric, with the same networks.
SHARED = (
    "data",
    "target",
    "metric",
    "prefer",
    "cost",
    "subject_to",
    "abstain_cost",
    "coverage",
    "ignore",
    "weight",
    "group",
    "time",
    "decimal",
    "text",
    "drop_missing_target",
    "drop_rare_classes",
    "min_class_rows",
    "merge_rare",
    "merge_labels",
    "epochs",
    "hidden",
    "seed",
    "encoding",
)
PATHS = ("data", "cost")
# Options that only a method with a tuned decision supports.
OF_DECISION = ("subject_to", "abstain_cost", "coverage")


def train_command(context: Any, method: str, folder: str = "model") -> str:
    """Return the `eastward train` command that fits ``method`` to the data of the `eastward compare` in ``context``."""
    words = _shared_words(context, _shared_options(method)).replace(
        "eastward compare", "eastward train", 1
    )
    return f"{words} --method {method} --out {folder}"


def compare_command(context: Any) -> str:
    """Return the `eastward compare` command for the data of the `eastward train` in ``context``."""
    return _shared_words(context, SHARED).replace("eastward train", "eastward compare", 1)


def _shared_options(method: str) -> tuple[str, ...]:
    """Return the options of both commands, without those of the decision if ``method`` does not tune one."""
    from eastward import metrics
    from eastward.comparison.methods import BUILT_IN, Settings, tunes_decision

    tuned = tunes_decision(BUILT_IN[method].make(Settings(metrics.get("f1_macro"))))
    return SHARED if tuned else tuple(name for name in SHARED if name not in OF_DECISION)


def _shared_words(context: Any, shared: Sequence[str]) -> str:
    left_out: dict[str, Any] = {
        parameter.name: None for parameter in context.command.params if parameter.name not in shared
    }
    return command_line(context, **left_out)


def remember(context: Any, method: str | None, folder: Path, *, own: bool) -> None:
    """Write the file that `eastward train --from` reads to the folder of a comparison.

    ``own`` means that the method is an estimator of the user, or that none is recommended. The file then says so, in
    place of one that an earlier comparison may have left there.
    """
    if own or method is None:
        write_whole(folder / RECOMMENDED, f"{json.dumps({OWN: method})}\n".encode())
        return
    shared = _shared_options(method)
    given = {name: context.params[name] for name in shared if context.params.get(name)}
    for name in PATHS:
        if name in given:
            given[name] = str(Path.cwd() / given[name])
    document = {"method": method, **given}
    text = json.dumps(document, indent=1, ensure_ascii=False)
    write_whole(folder / RECOMMENDED, f"{text}\n".encode())


def defaults_from(context: Any, folder: Path | None) -> Path | None:
    """Fill in options from the comparison in ``folder``, unless the command line has them (callback of ``--from``)."""
    if folder is None:
        return None
    try:
        document = read_document(folder / RECOMMENDED)
        if set(document) == {OWN}:
            own = document[OWN]
            told = "nothing" if own is None else f"{own!r}, an estimator of your own"
            raise typer.BadParameter(
                f"must be the folder of a comparison that recommends a method of eastward; this one recommends {told}. "
                f"Fit it with your own code, or choose with --method."
            )
        reason = "" if {"method", *SHARED} >= set(document) else "not written by compare"
    except FileNotFoundError:
        reason = "not there"
    except (OSError, ValueError, TypeError) as error:
        reason = str(error)
    if reason:
        message = f"must be the folder of a finished `eastward compare --out`; got {folder}"
        raise typer.BadParameter(f"{message} ({RECOMMENDED}: {reason}).")
    context.default_map = document
    return folder


def is_recommended(context: Any) -> bool:
    """Whether the method comes from the comparison of ``--from``, not from the command line."""
    return str(context.get_parameter_source("method").name) == "DEFAULT_MAP"
