"""From a file or a frame to features and labels, with plain words when something is wrong with it."""

from eastward.tables.columns import Column, conform, frame_columns
from eastward.tables.description import describe_task
from eastward.tables.reading import iter_tables, read_table
from eastward.tables.task import Task, load_task
from eastward.tables.vectorizer import make_vectorizer
from eastward.tables.writing import TableWriter

__all__ = [
    "Column",
    "TableWriter",
    "Task",
    "conform",
    "describe_task",
    "frame_columns",
    "iter_tables",
    "load_task",
    "make_vectorizer",
    "read_table",
]
