"""`eastward reproduce`, which says where it has moved; removed in 0.3."""

from __future__ import annotations

from typing import Annotated

import typer

from eastward import _messages

__all__ = ["reproduce"]

Words = Annotated[list[str] | None, typer.Argument(metavar="NAME", help="Not used any more.")]


def reproduce(names: Words = None) -> None:
    """Moved: the papers' tables and figures are run from a checkout, by `python -m papers`."""
    name = (names or ["NAME"])[0]
    advice = f"Clone the project and run  python -m papers run {name}  there."
    _messages.fail(
        "eastward", "reproduce", "run from a checkout of the project", "the package", advice
    )
