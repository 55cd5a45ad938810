"""The options that only `eastward train` has."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from eastward import _messages
from eastward.cli import options
from eastward.cli.recommended import defaults_from

__all__ = [
    "Devices",
    "Epochs",
    "Folds",
    "From",
    "Hidden",
    "Holdout",
    "Method",
    "Out",
    "Overwrite",
    "Prior",
    "Recipe",
    "Resume",
    "Verbose",
]


def _share(value: float) -> float:
    """Check a share of rows before any of them is read."""
    if not 0 <= value < 1:
        advice = "For example, 0.2 holds out a fifth of the rows."
        _messages.fail("train", "--holdout", "in [0, 1)", value, advice)
    return value


Out = Annotated[
    Path,
    typer.Option(
        "--out",
        "-o",
        parser=options.named_path,
        metavar="DIR",
        help="Folder for the model and its report.",
    ),
]
Method = Annotated[
    str,
    typer.Option(
        "--method",
        metavar="NAME",
        help="auto: the ensemble of networks and trees. Or ensemble, "
        "network, boosting, or any method of `eastward compare`, such as random_forest_tuned.",
    ),
]
From = Annotated[
    Path | None,
    typer.Option(
        "--from",
        callback=defaults_from,
        is_eager=True,
        metavar="DIR",
        help="A folder of `eastward compare --out`: train the recommended method on the same data.",
    ),
]
Resume = Annotated[
    bool, typer.Option("--resume", help="Continue a run of a network that was stopped.")
]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Replace a model that is in the folder.")
]
Holdout = Annotated[
    float,
    typer.Option(
        "--holdout",
        callback=_share,
        metavar="SHARE",
        help="Share of rows to hold out for judging the model; 0 trains on all rows.",
    ),
]
Epochs = Annotated[
    int | None,
    typer.Option("--epochs", min=1, help="Largest number of epochs in each stage of a network."),
]
Hidden = Annotated[
    str | None,
    typer.Option("--hidden", metavar="WIDTHS", help="Layers of networks, such as 512,256,128."),
]
Recipe = Annotated[
    str | None,
    typer.Option(
        "--recipe",
        help="For --method network. auto: cross-entropy, then the metric itself; paper: EAST from scratch; "
        "cross_entropy; btg.",
    ),
]
Folds = Annotated[
    str | None,
    typer.Option(
        "--folds",
        help="For --method network: the number of cross-fitted networks; auto is 5 up to 50 000 rows.",
    ),
]
Prior = Annotated[
    str | None,
    typer.Option(
        "--prior",
        metavar="balanced|LABEL=SHARE,…",
        help="For --method network: the class frequencies that the model will meet, if they differ from the data; "
        "balanced: all classes alike.",
    ),
]
Devices = Annotated[
    int,
    typer.Option(
        "--devices",
        min=1,
        help="For --method network: number of processes that train together; the result is that of one.",
    ),
]
Verbose = Annotated[
    bool | None,
    typer.Option(
        "--verbose/--quiet",
        "-v/-q",
        help="Print a line for each epoch, or nothing. Default: a bar in a terminal.",
    ),
]
