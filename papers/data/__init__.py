"""The papers' data sets: where they come from, how they are read, and whether a file is the published one."""

from papers.data.balance import PUBLISHED, check_balance, shannon_equitability
from papers.data.catalogue import load, load_frames, load_own_table, names
from papers.data.sources import SOURCES, download
from papers.data.values import Frames, Images, Table

__all__ = [
    "PUBLISHED",
    "SOURCES",
    "Frames",
    "Images",
    "Table",
    "check_balance",
    "download",
    "load",
    "load_frames",
    "load_own_table",
    "names",
    "shannon_equitability",
]
