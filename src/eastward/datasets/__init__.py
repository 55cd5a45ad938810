"""Small data sets that come with scikit-learn, and the tables in a folder of your own."""

from __future__ import annotations

from typing import NoReturn

from eastward.datasets.embedded import embedded_names, load_embedded
from eastward.datasets.folder import data_folder, find_tables

__all__ = ["data_folder", "embedded_names", "find_tables", "load_embedded"]

# Names that have moved to ``papers/``; the hint stays until 0.3.
_MOVED = (
    "PUBLISHED",
    "SOURCES",
    "Frames",
    "Images",
    "Table",
    "check_balance",
    "download",
    "load",
    "load_frames",
    "names",
    "shannon_equitability",
)


def __getattr__(name: str) -> NoReturn:
    message = f"module 'eastward.datasets' has no attribute {name!r}"
    if name in _MOVED:
        message += f": it is papers.data.{name} now, in a checkout of the project"
    raise AttributeError(message)
