"""The tables in a folder of your own, named by the environment variable EASTWARD_DATA."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from eastward import _messages

__all__ = ["data_folder", "find_tables"]

ENDINGS = (".csv", ".tsv", ".parquet", ".arrow", ".feather", ".jsonl")


def data_folder() -> Path | None:
    """Return the folder that the environment variable EASTWARD_DATA names.

    Returns
    -------
    Path or None
        The folder; None if the variable is not set.

    Examples
    --------
    >>> folder = data_folder()
    >>> folder is None or folder.is_dir()
    True
    """
    named = os.environ.get("EASTWARD_DATA")
    if not named:
        return None
    folder = Path(named)
    if not folder.is_dir():
        advice = "Set it to the folder with your tables, or unset it."
        _messages.fail("datasets", "EASTWARD_DATA", "a folder", named, advice)
    return folder


def find_tables(folder: Path | str) -> list[dict[str, Any]]:
    r"""List the tables below a folder, in alphabetical order.

    Parameters
    ----------
    folder : path
        The folder to search, with all its subfolders.

    Returns
    -------
    list of dict
        ``name``, ``path`` and ``bytes`` of each table.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     written = Path(folder, "claims.csv").write_text("age,fraud\n31,no\n")
    ...     [table["name"] for table in find_tables(folder)]
    ['claims.csv']
    """
    folder, found = _messages.path("find_tables", "folder", folder), []
    if not folder.is_dir():
        _messages.fail("find_tables", "folder", "a folder that exists", repr(str(folder)))
    for path in sorted(folder.rglob("*")):
        plain = path.name.removesuffix(".gz").removesuffix(".zst").lower()
        if plain.endswith(ENDINGS) and path.is_file():
            name = path.relative_to(folder).as_posix()
            found.append({"name": name, "path": str(path), "bytes": path.stat().st_size})
    return found
