"""Download files from their owners: interrupted downloads are resumed, and digests are checked."""

from __future__ import annotations

import hashlib
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eastward import _checks

__all__ = ["RemoteFile", "digest_of", "fetch"]

CHUNK = 1 << 18
PATIENCE_SECONDS = 30
PARTIAL_CONTENT, RANGE_NOT_SATISFIABLE = 206, 416

Progress = Callable[[int, int | None], None]


@dataclass(frozen=True)
class RemoteFile:
    """A file of a data set: its address, its place, and its digest.

    Attributes
    ----------
    url : str
        Address of the file at its owners.
    path : str
        Place below the data folder.
    digest : str or None
        ``"md5:..."`` or ``"sha256:..."`` as the owners publish it; None if they publish none; the loader then checks
        rows, columns and class balance instead.
    """

    url: str
    path: str
    digest: str | None


def digest_of(path: Path, algorithm: str) -> str:
    """Hexadecimal digest of a file, read in pieces.

    Examples
    --------
    >>> import tempfile
    >>> empty = Path(tempfile.mkdtemp()) / "empty"
    >>> empty.touch()
    >>> digest_of(empty, "md5")
    'd41d8cd98f00b204e9800998ecf8427e'
    """
    state = hashlib.new(algorithm, usedforsecurity=False)
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            state.update(chunk)
    return state.hexdigest()


def fetch(remote: RemoteFile, folder: Path, progress: Progress | None = None) -> Path:
    """Download ``remote`` to its place below ``folder``, and continue an earlier attempt.

    Parameters
    ----------
    remote : RemoteFile
        The file to download.
    folder : Path
        The data folder.
    progress : callable, optional
        Called with the bytes so far and in all (None if the server does not say).

    Returns
    -------
    Path
        The finished file. Until its digest is verified, it is called ``*.part``.
    """
    target = folder / remote.path
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(target.name + ".part")
    try:
        _receive(remote.url, part, progress)
    except (urllib.error.URLError, TimeoutError, ConnectionError) as error:
        _unreachable(remote, target, error)
    _believe(remote, part)
    part.replace(target)
    return target


def _receive(url: str, part: Path, progress: Progress | None) -> None:
    have = part.stat().st_size if part.exists() else 0
    with _open(url, have) as answer:
        # A server that does not know ranges answers 200 and starts again.
        resumed = answer.status == PARTIAL_CONTENT
        done = have if resumed else 0
        length = answer.headers.get("Content-Length")
        total = None if length is None else done + int(length)
        with part.open("ab" if resumed else "wb") as file:
            while chunk := answer.read(CHUNK):
                file.write(chunk)
                done += len(chunk)
                if progress is not None:
                    progress(done, total)
    if total is not None and done < total:
        raise ConnectionError(f"the connection ended after {done} of {total} bytes")


def _open(url: str, have: int) -> Any:
    if not url.startswith(("http://", "https://")):
        _checks.fail("fetch", "url", "an address that starts with http:// or https://", url)
    headers = {"User-Agent": "eastward", **({"Range": f"bytes={have}-"} if have else {})}
    request = urllib.request.Request(url, headers=headers)  # noqa: S310  # checked just before
    try:
        return urllib.request.urlopen(request, timeout=PATIENCE_SECONDS)  # noqa: S310  # the same
    except urllib.error.HTTPError as error:
        if error.code != RANGE_NOT_SATISFIABLE:
            raise
        # The server has nothing after our last byte: our part is complete, or longer than the file.
        error.close()
        return _open(url, 0)


def _unreachable(remote: RemoteFile, target: Path, error: Exception) -> None:
    advice = (
        f"What was received is kept, and the same command goes on. Without a network, get the file from "
        f"{remote.url} and put it at {target}."
    )
    message = f"{remote.url} cannot be read ({error}). {advice}"
    raise ConnectionError(message) from error


def _believe(remote: RemoteFile, part: Path) -> None:
    if remote.digest is None:
        return
    algorithm, _, expected = remote.digest.partition(":")
    found = digest_of(part, algorithm)
    if found != expected:
        part.unlink()
        advice = (
            "The file was removed; try again, and if that does not help, report a changed file."
        )
        _checks.fail(
            "fetch", f"{algorithm} of {remote.url}", f"the published {expected}", found, advice
        )
