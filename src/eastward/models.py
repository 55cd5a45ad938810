"""The papers' networks have moved to ``papers.networks``; until 0.3 this module says so."""

from __future__ import annotations

from typing import NoReturn

__all__: list[str] = []


def __getattr__(name: str) -> NoReturn:
    message = f"module 'eastward.models' has no attribute {name!r}"
    if not name.startswith("__"):
        message += f": the papers' networks are in papers.networks now ({name} among them, if it was one of theirs)"
    raise AttributeError(message)
