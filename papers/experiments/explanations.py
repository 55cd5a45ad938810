"""Explanations of claims that come out worse here than in the paper, each with the experiment that shows it."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatch
from types import MappingProxyType

__all__ = ["explanation"]

# "experiment/panel/method/rival/score", with wildcards; the first that fits is used.
_EXPLANATIONS: Mapping[str, str] = MappingProxyType({})


def explanation(place: str) -> str | None:
    """The line for a claim; None where nothing has been checked yet.

    Examples
    --------
    >>> explanation("no-table/no-data/f1_east/ce/f1") is None
    True
    """
    return next((text for pattern, text in _EXPLANATIONS.items() if fnmatch(place, pattern)), None)
