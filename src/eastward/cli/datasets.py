"""`eastward datasets`: tables to experiment with."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.table import Table
from rich.text import Text

from eastward.cli import options
from eastward.cli.output import emit_json, say, wants_json

__all__ = ["datasets"]

Name = Annotated[str | None, typer.Argument(metavar="NAME", help="An embedded data set to write.")]
Output = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="FILE", help="The file to write.")
]


def datasets(name: Name = None, output: Output = None, json: options.Json = False) -> None:
    """List the available data sets, or write an embedded one to a file.

    A few small data sets come with scikit-learn; nothing is downloaded. Tables of your own are listed if the
    environment variable EASTWARD_DATA names their folder.

    \b
    Examples:
      eastward datasets
      eastward datasets wine -o wine.csv
    """
    from eastward.datasets import data_folder, embedded_names, find_tables

    if name is not None:
        _write(name, output)
        return
    folder = data_folder()
    listing = {
        "embedded": [{"name": key, **facts} for key, facts in embedded_names().items()],
        "folder": None if folder is None else str(folder),
        "tables": [] if folder is None else find_tables(folder),
    }
    if wants_json():
        emit_json(listing)
        return
    table = Table(box=box.SIMPLE_HEAD, title="embedded", title_style="bold", title_justify="left")
    for column in ("name", "target", "about"):
        table.add_column(column, no_wrap=column != "about")
    for facts in embedded_names().items():
        table.add_row(facts[0], facts[1]["target"], facts[1]["about"])
    say(table)
    if folder is None:
        say("Set EASTWARD_DATA to a folder to list its tables here.")
        return
    found = Table(
        box=box.SIMPLE_HEAD, title=Text(str(folder)), title_style="bold", title_justify="left"
    )
    found.add_column("table")
    found.add_column("size", justify="right", no_wrap=True)
    for row in find_tables(folder):
        found.add_row(Text(row["name"]), _size(row["bytes"]))
    say(found)


def _write(name: str, output: Path | None) -> None:
    from eastward import _messages
    from eastward.data import TableWriter
    from eastward.datasets import load_embedded

    if output is None:
        advice = f"For example: eastward datasets {name} -o {name}.csv"
        _messages.fail("datasets", "--output", "given with a name", "nothing", advice)
    frame, target = load_embedded(name)
    with TableWriter(output) as writer:
        writer.write(frame)
    if wants_json():
        emit_json({"output": str(output), "rows": len(frame), "target": target})
    say(
        f"{len(frame):,} rows written to {output}; try:\n  eastward compare {output} --target {target}"
    )


def _size(count: int) -> str:
    return f"{count / 1e6:,.1f} MB" if count >= 1e5 else f"{count / 1e3:,.1f} kB"
