"""`eastward report`: write the report of a model folder again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from eastward._files import read_document
from eastward.cli import options
from eastward.cli.folders import REPORT, SUMMARY
from eastward.cli.output import emit_json, say, wants_json

__all__ = ["report"]

Folder = Annotated[
    Path, typer.Argument(metavar="DIR", help="A folder that `train`, `compare` or `demo` wrote.")
]
Output = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        parser=options.named_path,
        metavar="FILE",
        help="The file to write: .html, .md or .json. Default: DIR/report.html.",
    ),
]
Figures = Annotated[
    Path | None,
    typer.Option(
        "--figures",
        parser=options.named_path,
        metavar="DIR",
        help="Also write every picture as PNG and SVG.",
    ),
]


def report(
    folder: Folder, output: Output = None, figures: Figures = None, json: options.Json = False
) -> None:
    """Write the report again from its numbers, as HTML, Markdown or pictures.

    \b
    Examples:
      eastward report fraud-model
      eastward report fraud-model -o fraud.md --figures pictures
    """
    from eastward.reporting import write_figures, write_report

    path = output or folder / REPORT
    summary = _summary(folder)
    try:
        write_report(summary, path)
        pictures = [] if figures is None else write_figures(summary, figures)
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        _refuse(folder, error)
    if wants_json():
        emit_json({"report": str(path), "figures": [str(picture) for picture in pictures]})
    say(f"report   {path}")
    if pictures:
        say(f"figures  {len(pictures)} files in {figures}")


def _summary(folder: Path) -> dict[str, Any]:
    path = folder / SUMMARY
    try:
        summary: dict[str, Any] = read_document(path)
        _ = summary["title"], summary["metric"]["name"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        _refuse(folder, error)
    return summary


def _refuse(folder: Path, error: Exception) -> NoReturn:
    from eastward import _messages

    advice = "Pass the folder that `eastward train --out` wrote."
    got = f"{folder} ({type(error).__name__}: {SUMMARY})"
    _messages.fail("report", "DIR", "a folder with a summary.json of eastward", got, advice)
