"""Small data sets that come with scikit-learn, and the tables of a folder of one's own."""

from eastward.datasets.embedded import embedded_names, load_embedded
from eastward.datasets.folder import data_folder, find_tables

__all__ = ["data_folder", "embedded_names", "find_tables", "load_embedded"]
