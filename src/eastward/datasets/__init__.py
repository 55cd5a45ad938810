"""Small data sets that come with scikit-learn, the papers' data sets, and the tables of a folder of one's own."""

from eastward.datasets.balance import PUBLISHED, check_balance, shannon_equitability
from eastward.datasets.catalogue import load, load_frames, names
from eastward.datasets.embedded import embedded_names, load_embedded
from eastward.datasets.folder import data_folder, find_tables
from eastward.datasets.sources import SOURCES, download
from eastward.datasets.values import Frames, Images, Table

__all__ = [
    "PUBLISHED",
    "SOURCES",
    "Frames",
    "Images",
    "Table",
    "check_balance",
    "data_folder",
    "download",
    "embedded_names",
    "find_tables",
    "load",
    "load_embedded",
    "load_frames",
    "names",
    "shannon_equitability",
]
