"""Read and write files safely: others may have written them, or left them half-written."""

from __future__ import annotations

import glob
import json
import os
import shutil
import stat
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

__all__ = [
    "OLD",
    "beside",
    "check_regular",
    "read_document",
    "remove_leftovers",
    "restore",
    "write_whole",
]

# Ends the name of a folder that is being replaced.
OLD = "old"

# Far more than any document that this library writes.
MOST_BYTES = 256 << 20


def read_document(path: Path) -> Any:
    """Read JSON from a regular file of bounded size; a pipe or a device could block for ever.

    Raises
    ------
    OSError
        If the file cannot be read.
    ValueError
        If it is not a regular file, too large, nested too deeply, or not JSON.

    Examples
    --------
    >>> read_document(Path("/dev/null"))
    Traceback (most recent call last):
        ...
    ValueError: null is not a regular file
    """
    # Non-blocking, because opening a pipe that nobody writes to would wait for ever.
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


def write_whole(path: Path, content: bytes) -> None:
    """Replace a file in one step, so that a kill or a full disk leaves the old one intact.

    Examples
    --------
    >>> import tempfile
    >>> place = Path(tempfile.mkdtemp()) / "page.md"
    >>> write_whole(place, b"done")
    >>> place.read_bytes()
    b'done'
    """
    remove_leftovers(path.parent, f".{path.name}.")
    part = beside(path, "part")
    try:
        with part.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def beside(path: Path, end: str) -> Path:
    """Return a hidden name beside ``path`` that no other process or thread uses."""
    return path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}.{end}")


def restore(path: Path) -> None:
    """Restore a folder that a killed process had moved aside but not yet replaced.

    Examples
    --------
    >>> import tempfile
    >>> model = Path(tempfile.mkdtemp()) / "model"
    >>> model.with_name(f".model.999999999-1.{OLD}").mkdir()
    >>> restore(model)
    >>> model.exists()
    True
    """
    start = f".{path.name}."
    for left in _of_the_dead(path.parent, start, OLD):
        with suppress(OSError):
            if not path.exists():
                left.rename(path)
                return
        shutil.rmtree(left, ignore_errors=True)


def is_moved_aside(path: Path) -> bool:
    """Whether a running process is about to put another folder in the place of ``path``."""
    return any(path.parent.glob(f".{glob.escape(path.name)}.*.{OLD}"))


def check_regular(folder: Path) -> None:
    """Refuse a folder that contains, at any depth, anything but files and folders."""
    odd = [path for path in folder.rglob("*") if not (path.is_file() or path.is_dir())]
    if odd:
        raise ValueError(f"{odd[0].relative_to(folder)} is not a regular file")


def remove_leftovers(folder: Path, start: str = ".") -> None:
    """Remove leftovers of dead processes, named ``START PID.part`` or ``START PID-ANYTHING.part``.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> (folder / ".999999999.part").mkdir()
    >>> remove_leftovers(folder)
    >>> list(folder.iterdir())
    []
    """
    for path in _of_the_dead(folder, start, "part"):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _of_the_dead(folder: Path, start: str, end: str) -> Iterator[Path]:
    """List ``START PID.END`` and ``START PID-ANYTHING.END`` of processes that no longer run."""
    for path in folder.glob(f"{glob.escape(start)}*.{end}"):
        number = path.name.removeprefix(start).removesuffix(f".{end}").partition("-")[0]
        if number.isdigit() and not is_running(int(number)):
            yield path


def is_running(process: int) -> bool:
    """Whether a process of this machine has this number."""
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True
    return True
