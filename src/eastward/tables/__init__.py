"""From a file or a frame to features and labels, with plain words when something is wrong with it."""

from eastward.tables.columns import Column, conform, frame_columns
from eastward.tables.description import copies_across, describe_task
from eastward.tables.labels import label_codes, label_names
from eastward.tables.reading import count_rows, iter_tables, read_table, table_columns
from eastward.tables.task import Task, load_task
from eastward.tables.vectorizer import make_vectorizer
from eastward.tables.writing import TableWriter

__all__ = [
    "Column",
    "TableWriter",
    "Task",
    "conform",
    "copies_across",
    "count_rows",
    "describe_task",
    "frame_columns",
    "iter_tables",
    "label_codes",
    "label_names",
    "load_task",
    "make_vectorizer",
    "read_table",
    "table_columns",
]
