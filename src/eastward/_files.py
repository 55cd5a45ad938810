"""Files that somebody else may have written, or left behind."""

from __future__ import annotations

import glob
import json
import os
import shutil
import stat
from pathlib import Path
from typing import Any

__all__ = ["check_regular", "read_document", "remove_leftovers"]

# No document of ours comes near it.
MOST_BYTES = 256 << 20


def read_document(path: Path) -> Any:
    """The JSON in a regular file of bounded size; a pipe or a device would keep its reader waiting for ever.

    Raises
    ------
    OSError
        If the file cannot be read.
    ValueError
        If it is no regular file, too large, nested too deeply, or no JSON.

    Examples
    --------
    >>> read_document(Path("/dev/null"))
    Traceback (most recent call last):
        ...
    ValueError: null is not a regular file
    """
    # Without waiting: to open a pipe that nobody writes to would block.
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    with os.fdopen(handle, "rb") as file:
        facts = os.fstat(handle)
        if not stat.S_ISREG(facts.st_mode):
            raise ValueError(f"{path.name} is not a regular file")
        if facts.st_size > MOST_BYTES:
            raise ValueError(f"{path.name} has {facts.st_size:,} bytes, more than {MOST_BYTES:,}")
        text = file.read(MOST_BYTES)
    try:
        return json.loads(text.decode("utf-8"))
    except RecursionError:
        raise ValueError(f"{path.name} is nested too deeply") from None


def check_regular(folder: Path) -> None:
    """Refuse a folder in which something is neither a file nor a folder, wherever it lies."""
    odd = [path for path in folder.rglob("*") if not (path.is_file() or path.is_dir())]
    if odd:
        raise ValueError(f"{odd[0].relative_to(folder)} is not a regular file")


def remove_leftovers(folder: Path, start: str = ".") -> None:
    """Remove what killed processes left: ``START PID.part`` of processes that no longer run.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> (folder / ".999999999.part").mkdir()
    >>> remove_leftovers(folder)
    >>> list(folder.iterdir())
    []
    """
    for path in folder.glob(f"{glob.escape(start)}*.part"):
        number = path.name.removeprefix(start).removesuffix(".part")
        if number.isdigit() and not _is_running(int(number)):
            shutil.rmtree(path, ignore_errors=True)


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True
    return True
