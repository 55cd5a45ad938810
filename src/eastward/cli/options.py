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
    """The path that an option names, or its default; an empty one would be the current folder, which nobody meant."""
    if not str(text).strip():
        raise typer.BadParameter("must be a path; got an empty text.")
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
        help="What you are judged by; `eastward metrics` lists all names, and f1[fraud] is the F1 of one class.",
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
SubjectTo = Annotated[
    list[str] | None,
    typer.Option(
        "--subject-to",
        metavar="CONSTRAINT",
        help="What decisions have to keep on held-out rows with 95 % confidence, such as 'recall[fraud] >= 0.9'. "
        "May be repeated.",
    ),
]
AbstainCost = Annotated[
    float | None,
    typer.Option(
        "--abstain-cost",
        metavar="COST",
        help="What leaving a row undecided costs, in units of the metric or of --cost.",
    ),
]
Coverage = Annotated[
    float | None,
    typer.Option(
        "--coverage",
        metavar="SHARE",
        help="Rows that have to be decided, such as 0.9; the least clear ones may be left to a person.",
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
Group = Annotated[
    str | None,
    typer.Option(
        "--group",
        metavar="COLUMN",
        help="Rows with the same value, such as rows of one patient, stay on one side of every split. No feature.",
    ),
]
Time = Annotated[
    str | None,
    typer.Option(
        "--time",
        metavar="COLUMN",
        help="Dates or numbers: judge by rows that are later than those trained on.",
    ),
]
DropMissing = Annotated[
    bool, typer.Option("--drop-missing-target", help="Leave rows without a label out.")
]
DropRare = Annotated[
    bool, typer.Option("--drop-rare-classes", help="Leave rows out whose class occurs only once.")
]
MinClassRows = Annotated[
    int | None,
    typer.Option(
        "--min-class-rows",
        min=2,
        metavar="ROWS",
        help="Leave rows out whose class has fewer rows than this.",
    ),
]
MergeRare = Annotated[
    str | None,
    typer.Option(
        "--merge-rare",
        metavar="NAME",
        help="Make one class of the classes with fewer than --min-class-rows (10 if not given), such as other.",
    ),
]
MergeLabels = Annotated[
    bool,
    typer.Option(
        "--merge-labels", help="Make one class of labels that differ by case or blanks only."
    ),
]
Decimal = Annotated[
    str | None,
    typer.Option(
        "--decimal",
        metavar="SIGN",
        help="The decimal sign, . or , where a column could be read both ways; found if not given.",
    ),
]
AsText = Annotated[
    list[str] | None,
    typer.Option(
        "--text",
        metavar="COLUMN",
        help="Keep a column as it is written, such as codes that look like numbers. May be repeated.",
    ),
]
Encoding = Annotated[
    str, typer.Option("--encoding", metavar="NAME", help="Of text files, for example cp1252.")
]
Seed = Annotated[
    int,
    typer.Option("--seed", min=0, max=2**32 - 1, help="Same seed, data and machine: same result."),
]
Json = Annotated[
    bool,
    typer.Option("--json", callback=json_option, help="One JSON document on standard output."),
]


def command_line(context: Any, *, program: str = "eastward", **changes: Any) -> str:
    """The command that is running, as one would type it, with some of its options changed.

    Options at their default are left out; an option changed to None or False is, too.
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


# How a table is read, by the names that commands and `load_task` share.
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
    """How the table of `train` and `compare` is to be read, as arguments of `load_task`."""
    given = context.params
    lists = {name: given[name] or () for name in ("ignore", "text")}
    return {name: given[name] for name in _READING} | lists
