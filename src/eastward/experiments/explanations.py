"""Why a figure of ours is lower than a paper's by more than two pooled deviations: one checked line each."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatch
from types import MappingProxyType

__all__ = ["explanation"]

# "experiment/data/method/score", with wildcards; the first that fits is used.
_EXPLANATIONS: Mapping[str, str] = MappingProxyType(
    {
        "btg-table4/mammography/f3_btg/*": (
            "The luck of one split: on splits 1, 2 and 3 the first trial has F3 0.756, 0.687, 0.708 and recall 0.808, "
            "0.765, 0.763 (`--split`), which trials on one split do not show."
        ),
    }
)


def explanation(experiment: str, data: str, method: str, score: str) -> str | None:
    """The line for a cell; None where nothing has been checked yet.

    Examples
    --------
    >>> explanation("no-table", "no-data", "ce", "f1") is None
    True
    """
    place = f"{experiment}/{data}/{method}/{score}"
    return next((text for pattern, text in _EXPLANATIONS.items() if fnmatch(place, pattern)), None)
