"""CIFAR-10 (binary version) and Fashion-MNIST (IDX files), as their owners publish them."""

from __future__ import annotations

import gzip
import tarfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from eastward import _checks
from papers.data.sources import find, missing
from papers.data.values import Images

__all__ = ["CIFAR_CLASSES", "FASHION_CLASSES", "one_against_rest", "read_cifar10", "read_fashion"]

CIFAR_CLASSES = (
    *("airplane", "automobile", "bird", "cat", "deer"),
    *("dog", "frog", "horse", "ship", "truck"),
)
FASHION_CLASSES = (
    *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"),
    *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
)
TRANSPORTATION = ("airplane", "automobile", "ship", "truck")
CIFAR_FILES = (*(f"data_batch_{k}.bin" for k in range(1, 6)), "test_batch.bin")
CIFAR_ROW = 1 + 3 * 32 * 32


def read_cifar10(folder: Path | None) -> Images:
    """All 60 000 pictures, the official test pictures last.

    Returns
    -------
    Images
        32 x 32, three channels, ten classes.
    """
    path = find("cifar10", folder)
    parts = list(_cifar_bytes(path, folder))
    rows = np.frombuffer(b"".join(parts), dtype=np.uint8)
    if rows.size % CIFAR_ROW:
        _checks.fail("read_cifar10", str(path), f"rows of {CIFAR_ROW} bytes", f"{rows.size} bytes")
    rows = rows.reshape(-1, CIFAR_ROW)
    pixels, labels = rows[:, 1:].reshape(-1, 3, 32, 32), rows[:, 0].astype(np.int64)
    return Images(pixels, labels, CIFAR_CLASSES, num_test=len(parts[-1]) // CIFAR_ROW)


def _cifar_bytes(path: Path, folder: Path | None) -> Iterator[bytes]:
    if path.name.endswith(".tar.gz"):
        with tarfile.open(path) as archive:
            for name in CIFAR_FILES:
                member = archive.extractfile(f"cifar-10-batches-bin/{name}")
                if member is not None:
                    yield member.read()
        return
    for name in CIFAR_FILES:
        if not (path.parent / name).exists():
            missing("cifar10", folder, f"cifar-10-batches-bin/{name}")
        yield (path.parent / name).read_bytes()


def read_fashion(folder: Path | None) -> Images:
    """All 70 000 pictures, the official test pictures last.

    Returns
    -------
    Images
        28 x 28, one channel, ten classes.
    """
    first = find("fashion_mnist", folder)
    pixels, labels = [], []
    for part in ("train", "t10k"):
        images = first.with_name(first.name.replace("train", part))
        classes = images.with_name(images.name.replace("images-idx3", "labels-idx1"))
        for path in (images, classes):
            if not path.exists():
                missing("fashion_mnist", folder, f"fashion-mnist/{path.name}")
        pixels.append(idx_array(images))
        labels.append(idx_array(classes))
    codes = np.concatenate(labels).astype(np.int64)
    return Images(np.concatenate(pixels)[:, None], codes, FASHION_CLASSES, num_test=len(labels[-1]))


def idx_array(path: Path) -> Any:
    """An array of bytes in the IDX format: four bytes of magic (the last is the rank), sizes, values."""
    payload = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    rank = payload[3]
    start = 4 + 4 * rank
    shape = tuple(int(size) for size in np.frombuffer(payload[4:start], dtype=">u4"))
    values = np.frombuffer(payload, dtype=np.uint8, offset=start)
    if payload[:3] != b"\x00\x00\x08" or values.size != int(np.prod(shape)):
        _checks.fail("idx_array", str(path), f"{shape} bytes after a header", f"{values.size}")
    return values.reshape(shape)


def one_against_rest(images: Images, positive: tuple[str, ...]) -> Images:
    """Pictures with two classes: those named ``positive`` (class 1), and the rest.

    Examples
    --------
    >>> pictures = Images(np.zeros((3, 1, 2, 2), np.uint8), np.array([0, 1, 2]), ("a", "b", "c"))
    >>> one_against_rest(pictures, ("b", "c")).targets.tolist()
    [0, 1, 1]
    """
    for name in positive:
        _checks.one_of("one_against_rest", "positive", name, images.classes)
    codes = [images.classes.index(name) for name in positive]
    targets = np.isin(images.targets, codes).astype(np.int64)
    names = ("rest", " or ".join(positive))
    return replace(images, targets=targets, classes=names)
