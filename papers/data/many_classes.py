"""Pictures of hundreds of classes: Caltech-256, and Omniglot as its stand-in where there is no network."""

from __future__ import annotations

import io
import re
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from papers.data.sources import find
from papers.data.values import Images

__all__ = ["read_caltech256", "read_omniglot"]

# The archive has a few strays (a renamed file, a nested folder); pictures are called like this.
PICTURE = re.compile(r"(?:^|/)(\d{3}\.[^/]+)/\d{3}_\d{4}\.jpg$")
OMNIGLOT_SIDE = 28


def read_caltech256(folder: Path | None, *, side: int = 64) -> Images:
    """All pictures of the 256 objects and of «clutter», resized to squares.

    Parameters
    ----------
    folder : Path or None
        The data folder, with ``256_ObjectCategories`` or its archive.
    side : int, default=64
        Height and width.

    Returns
    -------
    Images
        Three channels; classes in the order of their numbers.
    """
    names, pictures = [], []
    for name, content in sorted(_caltech_files(find("caltech256", folder))):
        found = PICTURE.search(name)
        if found:
            names.append(found.group(1))
            pictures.append(_decoded(content, "RGB", side))
    classes = tuple(sorted(set(names)))
    codes = {name: code for code, name in enumerate(classes)}
    pixels = np.stack(pictures).transpose(0, 3, 1, 2)
    return Images(pixels, np.array([codes[name] for name in names], dtype=np.int64), classes)


def _caltech_files(path: Path) -> Iterator[tuple[str, bytes]]:
    if path.is_dir():
        for file in path.rglob("*.jpg"):
            yield file.relative_to(path).as_posix(), file.read_bytes()
        return
    with tarfile.open(path) as archive:
        for member in archive:
            content = archive.extractfile(member) if member.isfile() else None
            if content is not None:
                yield member.name, content.read()


def _decoded(content: bytes, mode: str, side: int) -> Any:
    from PIL import Image  # noqa: PLC0415  # only who reads pictures has to wait for it

    with Image.open(io.BytesIO(content)) as picture:
        return np.asarray(picture.convert(mode).resize((side, side), Image.Resampling.BILINEAR))


def read_omniglot(folder: Path | None) -> Images:
    """Characters of fifty alphabets, twenty drawings each: many classes, few samples.

    Returns
    -------
    Images
        28 x 28, one channel, ink bright; 1 623 classes.
    """
    path = find("omniglot", folder)
    if path.suffix == ".npz":
        with np.load(path) as stored:
            names = tuple(map(str, stored["char_names"]))
            return Images(stored["x"][:, None], stored["y_char"].astype(np.int64), names)
    classes: list[str] = []
    pictures, labels = [], []
    for archive in (path, path.with_name("images_evaluation.zip")):
        for name, content in _drawings(archive):
            character = name.rpartition("/")[0].partition("/")[2]
            if not classes or classes[-1] != character:
                classes.append(character)
            pictures.append(255 - _decoded(content, "L", OMNIGLOT_SIDE))
            labels.append(len(classes) - 1)
    return Images(np.stack(pictures)[:, None], np.array(labels, dtype=np.int64), tuple(classes))


def _drawings(path: Path) -> Iterator[tuple[str, bytes]]:
    if not path.exists():
        return
    with zipfile.ZipFile(path) as archive:
        for name in sorted(archive.namelist()):
            if name.endswith(".png") and not name.startswith("__MACOSX"):
                yield name, archive.read(name)
