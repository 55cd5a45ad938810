"""Options that several commands share, described once."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from eastward.cli.output import json_option

__all__ = [
    "AsText",
    "Cost",
    "Data",
    "Decimal",
    "DropMissing",
    "DropRare",
    "Encoding",
    "Group",
    "Ignore",
    "Json",
    "MergeLabels",
    "MergeRare",
    "MetricName",
    "MinClassRows",
    "Model",
    "Prefer",
    "Seed",
    "Target",
    "Time",
    "Weight",
    "command_line",
    "named_path",
    "reading",
]


def named_path(text: str | Path) -> Path:
    """Return the path that an option names; an empty one is refused, because it would mean the current folder."""
    if not str(text).strip():
        raise typer.BadParameter("must be a path; got an empty string.")
    return Path(text)


Data = Annotated[
    Path,
    typer.Argument(
        metavar="DATA",
        help="A table: .csv, .tsv, .jsonl, .json (also .gz, .zst, .zip), .xlsx, .parquet, .arrow or .feather. "
        "book.xlsx#Claims names a sheet, files.zip#claims.csv a member.",
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
        help="The metric you are judged by; `eastward metrics` lists all names, and f1[fraud] is the F1 of one class.",
    ),
]
Prefer = Annotated[
    list[str] | None,
    typer.Option(
        "--prefer",
        metavar="WHAT:CLASS=FACTOR",
        help="Weigh mistakes of one class: recall:fraud=5 finds more fraud, precision:dog=4 gives fewer false 'dog'. "
        "May be repeated. The metric becomes an F-score with a beta for each class.",
    ),
]
SubjectTo = Annotated[
    list[str] | None,
    typer.Option(
        "--subject-to",
        metavar="CONSTRAINT",
        help="Constraint on decisions, proven on held-out rows with 95 % confidence, such as 'recall[fraud] >= 0.9'. "
        "May be repeated.",
    ),
]
AbstainCost = Annotated[
    float | None,
    typer.Option(
        "--abstain-cost",
        metavar="COST",
        help="Cost of leaving a row undecided, in units of the metric or of --cost.",
    ),
]
Coverage = Annotated[
    float | None,
    typer.Option(
        "--coverage",
        metavar="SHARE",
        help="Share of rows that must be decided, such as 0.9; the least certain ones may be left to a person.",
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
        help="A column of weights for training and judging: a row of weight 2 counts twice.",
    ),
]
Group = Annotated[
    str | None,
    typer.Option(
        "--group",
        metavar="COLUMN",
        help="A column of groups: rows with the same value (of one patient, say) stay on one side of every split.",
    ),
]
Time = Annotated[
    str | None,
    typer.Option(
        "--time",
        metavar="COLUMN",
        help="A column of dates or numbers: the model is judged by rows later than those it was trained on.",
    ),
]
DropMissing = Annotated[
    bool, typer.Option("--drop-missing-target", help="Leave out rows without a label.")
]
DropRare = Annotated[
    bool, typer.Option("--drop-rare-classes", help="Leave out rows whose class occurs only once.")
]
MinClassRows = Annotated[
    int | None,
    typer.Option(
        "--min-class-rows",
        min=2,
        metavar="ROWS",
        help="Leave out rows whose class has fewer rows than this.",
    ),
]
MergeRare = Annotated[
    str | None,
    typer.Option(
        "--merge-rare",
        metavar="NAME",
        help="Merge classes with fewer than --min-class-rows rows (default 10) into one of this name, such as other.",
    ),
]
MergeLabels = Annotated[
    bool,
    typer.Option(
        "--merge-labels", help="Merge labels that differ only in case or spaces into one class."
    ),
]
Decimal = Annotated[
    str | None,
    typer.Option(
        "--decimal",
        metavar="SIGN",
        help="The decimal sign, . or , if a column could be read both ways; detected by default.",
    ),
]
AsText = Annotated[
    list[str] | None,
    typer.Option(
        "--text",
        metavar="COLUMN",
        help="Read a column as text, such as codes that look like numbers. May be repeated.",
    ),
]
Encoding = Annotated[
    str,
    typer.Option("--encoding", metavar="NAME", help="Encoding of text files, for example cp1252."),
]
Seed = Annotated[
    int,
    typer.Option(
        "--seed",
        min=0,
        max=2**32 - 1,
        help="Seed; equal seeds and data give equal results on one machine.",
    ),
]
Json = Annotated[
    bool,
    typer.Option(
        "--json", callback=json_option, help="Print one JSON document to standard output."
    ),
]


def command_line(context: Any, *, program: str = "eastward", **changes: Any) -> str:
    """Return the running command as one would type it, with some of its options changed.

    Options at their default are left out, and so are options changed to None or False.
    """
    words = [*program.split(), context.info_name]
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


# Options of reading a table, by the names that commands and `load_task` share.
_READING = (
    "drop_missing_target",
    "drop_rare_classes",
    "min_class_rows",
    "merge_rare",
    "merge_labels",
    "group",
    "time",
    "decimal",
    "encoding",
)


def reading(context: typer.Context) -> dict[str, Any]:
    """Return the arguments of `load_task` from the options of `train` and `compare`."""
    given = context.params
    lists = {name: given[name] or () for name in ("ignore", "text")}
    return {name: given[name] for name in _READING} | lists
