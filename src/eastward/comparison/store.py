"""Store finished cells on disk, so that a stopped comparison continues."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import platform
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import joblib
import sklearn
import torch

from eastward import _checks
from eastward._files import is_running, read_document
from eastward._version import __version__

__all__ = ["CellStore", "fingerprint"]

logger = logging.getLogger("eastward")

UNFINISHED, SECONDS_TO_WRITE = ".unfinished-", 60.0


class CellStore:
    """A folder with one JSON file for each finished cell.

    Files are named by everything that a result depends on (data, split, method, metric, versions). So one folder can
    serve any number of comparisons, and more splits or methods only add to it.

    Parameters
    ----------
    folder : path
        The folder; it is created when needed.

    Examples
    --------
    >>> import tempfile
    >>> store = CellStore(tempfile.mkdtemp())
    >>> store.save("some-key", {"score": 0.5})
    >>> store.load("some-key"), store.load("other-key")
    ({'score': 0.5}, None)
    """

    def __init__(self, folder: Any) -> None:
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        for path in self.folder.glob(f"{UNFINISHED}*"):
            with suppress(OSError):
                if _is_left(path):
                    path.unlink()

    def load(self, key: str) -> dict[str, Any] | None:
        """Load the cell under ``key``; None if there is no readable one."""
        path = self._path(key)
        try:
            cell = read_document(path)
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            logger.warning("%s cannot be read (%s): its cell is computed again", path, error)
            return None
        return cell if isinstance(cell, dict) else None

    def save(self, key: str, cell: dict[str, Any]) -> None:
        """Write ``cell`` completely or not at all."""
        handle, name = tempfile.mkstemp(dir=self.folder, prefix=f"{_own_prefix()}{os.getpid()}-")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump(cell, file, allow_nan=False)
                file.flush()
                os.fsync(file.fileno())
            Path(name).replace(self._path(key))
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}.json"


def _own_prefix() -> str:
    """Start of the names of files that this machine writes."""
    return f"{UNFINISHED}{platform.node()}-"


def _is_left(path: Path) -> bool:
    """Whether the process that wrote a file no longer runs; for other machines, only the file's age can tell."""
    number = path.name.removeprefix(_own_prefix()).partition("-")[0]
    if path.name.startswith(_own_prefix()) and number.isdigit():
        return not is_running(int(number))
    return time.time() - path.stat().st_mtime > SECONDS_TO_WRITE


def fingerprint(argument: str, *parts: Any) -> str:
    """Compute a short name for everything in ``parts`` and for the versions in use.

    Equal frames, arrays, estimators or settings have the same name, in this process and in the next.
    """
    versions = (__version__, sklearn.__version__, torch.__version__)
    try:
        digests = [joblib.hash(_plain(part)) for part in parts]
    except Exception as error:  # noqa: BLE001  # pickling can fail in any way
        advice = "Use functions and classes that are defined in a module, or leave store out."
        _checks.fail(
            "compare",
            argument,
            "picklable when store is given",
            f"{error}",
            advice,
            error=TypeError,
        )
    return hashlib.sha256(json.dumps([versions, digests]).encode()).hexdigest()[:32]


def _plain(part: Any) -> Any:
    """Reduce a pandas frame to its values, whatever their layout in memory."""
    if not (hasattr(part, "columns") and hasattr(part, "iloc")):
        return part
    import pandas as pd  # noqa: PLC0415  # only needed for a frame

    names, kinds = [str(name) for name in part.columns], [str(kind) for kind in part.dtypes]
    return names, kinds, pd.util.hash_pandas_object(part, index=False).to_numpy()
