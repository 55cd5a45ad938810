"""Read features and labels from a file or a frame, with clear messages if something is wrong."""

from eastward.data.columns import Column, conform, frame_columns
from eastward.data.description import copies_across, describe_task
from eastward.data.labels import label_codes, label_names
from eastward.data.profile import profile_task
from eastward.data.reading import count_rows, iter_tables, read_table, table_columns
from eastward.data.task import Task, load_task
from eastward.data.vectorizer import feature_origins, make_vectorizer
from eastward.data.writing import TableWriter

__all__ = [
    "Column",
    "TableWriter",
    "Task",
    "conform",
    "copies_across",
    "count_rows",
    "describe_task",
    "feature_origins",
    "frame_columns",
    "iter_tables",
    "label_codes",
    "label_names",
    "load_task",
    "make_vectorizer",
    "profile_task",
    "read_table",
    "table_columns",
]
