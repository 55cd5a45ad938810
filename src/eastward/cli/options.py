"""Options that several commands share, described once."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from eastward.cli.output import json_option

__all__ = [
    "Cost",
    "Data",
    "DropMissing",
    "DropRare",
    "Encoding",
    "Ignore",
    "Json",
    "MetricName",
    "Model",
    "Prefer",
    "Seed",
    "Target",
    "Weight",
    "command_line",
]

Data = Annotated[
    Path,
    typer.Argument(
        metavar="DATA",
        help="A table: .csv, .tsv, .jsonl (also .gz, .zst), .parquet, .arrow or .feather.",
    ),
]
Model = Annotated[
    Path, typer.Argument(metavar="MODEL", help="The folder that `eastward train --out` wrote.")
]
Target = Annotated[
    str, typer.Option("--target", "-t", metavar="COLUMN", help="The column to predict.")
]
MetricName = Annotated[
    str,
    typer.Option(
        "--metric",
        "-m",
        metavar="NAME",
        help="What you are judged by; `eastward metrics` lists all names.",
    ),
]
Prefer = Annotated[
    list[str] | None,
    typer.Option(
        "--prefer",
        metavar="WHAT:CLASS=FACTOR",
        help="Weigh mistakes of one class: recall:fraud=5 finds more fraud, precision:dog=4 makes 'dog' surer. "
        "May be repeated. The metric becomes an F-score with a beta for each class.",
    ),
]
Cost = Annotated[
    Path | None,
    typer.Option(
        "--cost",
        metavar="FILE",
        help="A table of costs (.csv or .json): a row for each true class, a column for each predicted one. "
        "The metric becomes the mean cost.",
    ),
]
Ignore = Annotated[
    list[str] | None,
    typer.Option("--ignore", metavar="COLUMN", help="Leave a column out. May be repeated."),
]
Weight = Annotated[
    str | None,
    typer.Option(
        "--weight",
        metavar="COLUMN",
        help="Numbers that say how much each row counts, in training and in judging: 2 is the row twice.",
    ),
]
DropMissing = Annotated[
    bool, typer.Option("--drop-missing-target", help="Leave rows without a label out.")
]
DropRare = Annotated[
    bool, typer.Option("--drop-rare-classes", help="Leave rows out whose class occurs only once.")
]
Encoding = Annotated[
    str, typer.Option("--encoding", metavar="NAME", help="Of text files, for example cp1252.")
]
Seed = Annotated[
    int, typer.Option("--seed", min=0, help="Same seed, data and machine: same result.")
]
Json = Annotated[
    bool,
    typer.Option("--json", callback=json_option, help="One JSON document on standard output."),
]


def command_line(context: Any, **changes: Any) -> str:
    """The command that is running, as one would type it, with some of its options changed.

    Options at their default are left out; an option changed to None or False is, too.
    """
    words = ["eastward", context.info_name]
    given = {**context.params, **changes}
    for parameter in context.command.params:
        value = given.get(parameter.name)
        if (
            value is None
            or value is False
            or (value == parameter.default and parameter.name not in changes)
        ):
            continue
        values = value if isinstance(value, list | tuple) else [value]
        if parameter.param_type_name == "argument":
            words += map(str, values)
        elif value is True:
            words.append(parameter.opts[0])
        else:
            words += [word for entry in values for word in (parameter.opts[0], str(entry))]
    return shlex.join(words)
