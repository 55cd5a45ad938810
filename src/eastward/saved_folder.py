"""What all saved estimators share: a complete folder with a JSON document, or none at all.

The folder is written under a temporary name and then renamed, so that the final name never holds a half-written
model. Loading reads numbers and names; nothing in the folder is executed.
"""

from __future__ import annotations

import errno
import json
import math
import shutil
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, TypeVar, cast

import numpy as np

from eastward import _checks, metrics
from eastward._files import (
    OLD,
    beside,
    check_regular,
    is_moved_aside,
    read_document,
    remove_leftovers,
    restore,
)
from eastward._version import __version__

__all__ = [
    "BROKEN",
    "SavedFolder",
    "feature_names",
    "finite",
    "metric_document",
    "metric_of",
    "plain",
    "restored",
]

BROKEN = (OSError, ValueError, KeyError, TypeError)

# How long to wait for a folder that is being replaced: one second in total.
TRIES, PAUSE = 50, 0.02

T = TypeVar("T")


@dataclass(frozen=True)
class SavedFolder:
    """One kind of saved estimator.

    Attributes
    ----------
    kind : str
        Full name of the class, as in ``eastward.EASTClassifier``. A folder of another kind is neither loaded nor
        overwritten.
    header : str
        Name of the JSON document.
    called : str
        Name of the estimator in messages.
    format : int
        Newest format that this version can read, and the one it writes.
    """

    kind: str
    header: str = "model.json"
    called: str = "model"
    format: int = 1

    @property
    def advice(self) -> str:
        """Advice for a path that is not a folder of this kind."""
        return f"Pass the folder that {self.kind.removeprefix('eastward.')}.save wrote."

    def write(self, path: Path, document: dict[str, Any], fill: Callable[[Path], object]) -> None:
        """Write a folder in one step: the parts by ``fill``, and the document beside them."""
        found = next(place for place in path.absolute().parents if place.exists())
        if not found.is_dir():
            got = f"{path}, where {found} is a file"
            _checks.fail("save", "path", "inside a folder", got)
        head = {"kind": self.kind, "format": self.format, "version": __version__}
        text = json.dumps({**head, **document}, indent=1, allow_nan=False)
        remove_leftovers(path.parent, f".{path.name}.")
        restore(path)
        temporary = beside(path, "part")
        temporary.mkdir(parents=True)
        try:
            fill(temporary)
            (temporary / self.header).write_text(text, encoding="utf-8")
            self._replace(temporary, path)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)

    def _replace(self, temporary: Path, path: Path) -> None:
        old = beside(path, OLD)
        try:
            while True:
                if path.exists():
                    self._check_ours(path)
                    with suppress(FileNotFoundError):  # another thread or process was faster
                        path.rename(old)
                try:
                    temporary.rename(path)
                except OSError as error:
                    if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                        raise
                    shutil.rmtree(old, ignore_errors=True)
                else:
                    return
        finally:
            shutil.rmtree(old, ignore_errors=True)

    def _check_ours(self, path: Path) -> None:
        """Refuse to replace anything else; check again if another thread replaces the folder meanwhile."""
        while (before := _identity(path)) is not None and not self._is_ours(path):
            if _identity(path) != before:
                continue
            advice = "Choose another name; nothing was overwritten."
            got = f"{path.name}, which is neither"
            _checks.fail("save", "path", f"new, or a saved {self.called}", got, advice)

    def _is_ours(self, path: Path) -> bool:
        try:
            document = read_document(path / self.header)
        except (OSError, ValueError):
            return False
        return isinstance(document, dict) and document.get("kind") == self.kind

    def read(self, path: Path) -> dict[str, Any]:
        """Read the document of the folder ``path``, and check its kind and format."""
        try:
            restore(path)
            check_regular(path)
            document: dict[str, Any] = read_document(path / self.header)
            kind, version, number = document["kind"], document["version"], int(document["format"])
        except BROKEN as error:
            self.refuse(path, error)
        if kind != self.kind:
            _checks.fail("load", "path", f"a saved {self.kind}", f"a saved {kind}", self.advice)
        if number > self.format:
            expected, got = (
                f"of format {self.format} or older",
                f"format {number} of eastward {version}",
            )
            _checks.fail("load", "path", expected, got, "Update eastward.")
        return document

    def load(self, path: Path, build: Callable[[dict[str, Any]], T]) -> T:
        """Build an object from the document of a folder and its other files.

        A folder that somebody replaced meanwhile, another thread or process, is read again: while one folder takes the
        place of another, there is none for a moment, and parts of both must not be mixed.
        """
        for _ in range(TRIES):
            before = _identity(path)
            error, found = None, None
            try:
                found = self._built(path, build)
            except ValueError as said:
                error = said
            now = _identity(path)
            if now == before and (now is not None or not is_moved_aside(path)):
                break
            time.sleep(PAUSE)
        if error is not None:
            raise error
        return cast("T", found)

    def _built(self, path: Path, build: Callable[[dict[str, Any]], T]) -> T:
        """Turn any error of a damaged folder into one sentence."""
        document = self.read(path)
        try:
            return build(document)
        except Exception as error:
            # A message about another argument stays; one about the path is about a part of this folder.
            said = str(error) if isinstance(error, ValueError) else ""
            if " of load must " in said and not said.startswith("path"):
                raise
            self.refuse(path, error)

    def refuse(self, path: Path, error: Exception) -> NoReturn:
        """Raise an error that the folder is not of this kind, and say why."""
        reason = f"no {error}" if isinstance(error, KeyError) else str(error).partition("\n")[0]
        message = f"path of load must be a saved {self.called}; got {path.name} ({reason})."
        raise ValueError(f"{message} {self.advice}") from error


def _identity(path: Path) -> tuple[int, int] | None:
    """Tell one folder from another that takes its name; None where there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns


def plain(value: Any) -> Any:
    """Convert ``value`` for JSON; a mapping becomes a list of pairs, because JSON keys are strings.

    Examples
    --------
    >>> plain({1: (2.0, 3.0)})
    {'pairs': [[1, [2.0, 3.0]]]}
    """
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, Mapping):
        return {"pairs": [[plain(key), plain(item)] for key, item in value.items()]}
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value


def restored(value: Any) -> Any:
    """Undo :func:`plain`, as far as JSON keeps the types.

    Examples
    --------
    >>> restored(plain({1: {"a": 2}}))
    {1: {'a': 2}}
    """
    if isinstance(value, dict) and "pairs" in value:
        return {key: restored(item) for key, item in value["pairs"]}
    return value


def finite(value: Any) -> Any:
    """Replace NaN and infinity in a document by null, because JSON has no such numbers.

    Examples
    --------
    >>> finite({"loss": [0.5, float("nan")]})
    {'loss': [0.5, None]}
    """
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def metric_document(metric: metrics.Metric, advice: str) -> dict[str, Any]:
    """Describe a registered metric by name and options; a callable cannot be saved."""
    try:
        metrics.get(metric.name, **metric.options)
    except (TypeError, ValueError):
        _checks.fail("save", "metric", "a registered one", f"the callable {metric.name}", advice)
    options = {name: plain(value) for name, value in metric.options.items()}
    return {"name": metric.name, "options": options}


def metric_of(document: dict[str, Any]) -> metrics.Metric:
    """Rebuild the metric that :func:`metric_document` described."""
    options = {name: restored(value) for name, value in document["options"].items()}
    return metrics.get(document["name"], **options)


def feature_names(model: Any) -> list[str] | None:
    """Return the names of the columns that ``model`` was fitted on, if they had any."""
    names: np.ndarray[Any, Any] | None = getattr(model, "feature_names_in_", None)
    return None if names is None else [str(name) for name in names]
