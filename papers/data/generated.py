"""Tiny data sets with generated values in their owners' formats, for a first try and for tests without a network."""

from __future__ import annotations

import gzip
import io
import tarfile
import zipfile
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from papers.data.cocktail_party import GROUPS_FILE, PEOPLE_FILE
from papers.data.images import CIFAR_FILES

__all__ = ["write_generated", "write_own_tables"]

Pixels = np.ndarray[Any, np.dtype[np.uint8]]


def write_generated(folder: Path, names: Collection[str] | None = None, *, seed: int = 0) -> None:
    """Write tiny versions of data sets below ``folder``.

    Classes can be told apart, but not perfectly. The values mean nothing.

    Parameters
    ----------
    folder : Path
        The folder; it is created if needed.
    names : collection of str, optional
        Names of :data:`papers.data.SOURCES`; all by default.
    seed : int, default=0
        Seed; equal seeds give equal files.

    Examples
    --------
    >>> import tempfile
    >>> from papers import data
    >>> place = Path(tempfile.mkdtemp())
    >>> write_generated(place, ["mammography"])
    >>> data.load("mammography", place, verify=False).features.shape
    (300, 6)
    """
    writers: dict[str, tuple[Callable[..., None], Path]] = {
        "adult": (_adult, folder / "adult"),
        "mammography": (_mammography, folder / "mammography"),
        "credit_card": (_credit_card, folder / "creditcard"),
        "cocktail_party": (_cocktail_party, folder / "cocktail_party"),
        "cifar10": (_cifar10, folder / "cifar-10-batches-bin"),
        "fashion_mnist": (_fashion, folder / "fashion-mnist"),
        "caltech256": (_caltech256, folder),
        "omniglot": (_omniglot, folder / "omniglot"),
    }
    for name in writers if names is None else names:
        write, place = writers[name]
        write(place, np.random.default_rng(seed))


def write_own_tables(folder: Path, names: Collection[str], *, seed: int = 0) -> None:
    """Write tiny tables of four classes for names such as ``"tabular/multiclass/glass"``."""
    for name in names:
        path = folder / f"{name}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        generator = np.random.default_rng(seed)
        labels = np.repeat([1, 2, 3, 4], (120, 60, 30, 30))
        values = generator.normal(size=(len(labels), 5)) + labels[:, None]
        frame = pd.DataFrame(values, columns=[f"x{k}" for k in range(5)])
        frame.assign(target=labels).to_parquet(path)


def _adult(folder: Path, generator: np.random.Generator) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, rows, start, end in (
        ("adult.data", 200, "", ""),
        ("adult.test", 100, "|1x3 Cross validator\n", "."),
    ):
        lines = []
        for _ in range(rows):
            rich = generator.random() < 0.3
            age, hours = generator.integers(20, 50) + 12 * rich, generator.integers(20, 60)
            numbers = f"{generator.integers(10_000, 99_999)}, Bachelors, {9 + 4 * rich}"
            job = "?" if generator.random() < 0.1 else "Sales"
            words = f"Never-married, {job}, Wife, White, Female"
            income = (">50K" if rich else "<=50K") + end
            lines.append(
                f"{age}, Private, {numbers}, {words}, {int(rich) * generator.integers(0, 9000)}, 0, {hours}, "
                f"United-States, {income}"
            )
        (folder / name).write_text(start + "\n".join(lines) + "\n\n", encoding="utf-8")


def _two_classes(
    generator: np.random.Generator, rows: int, columns: int, share: float
) -> tuple[Any, Any]:
    labels = np.zeros(rows, dtype=np.int64)
    labels[: max(10, round(rows * share))] = 1
    return generator.normal(size=(rows, columns)) + 1.5 * labels[:, None], labels


def _mammography(folder: Path, generator: np.random.Generator) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    values, labels = _two_classes(generator, 300, 6, 0.08)
    header = "".join(f"@attribute attr{k} numeric\n" for k in range(1, 7))
    rows = [
        ",".join(f"{value:.6f}" for value in row) + f",'{2 * label - 1}'"
        for row, label in zip(values, labels, strict=True)
    ]
    text = f"% made up\n@relation mammography\n{header}@attribute class {{'-1','1'}}\n@data\n"
    (folder / "mammography.arff").write_text(text + "\n".join(rows) + "\n", encoding="utf-8")


def _credit_card(folder: Path, generator: np.random.Generator) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    values, labels = _two_classes(generator, 400, 30, 0.04)
    values[:, -1] = np.abs(values[:, -1])  # an amount of money
    names = ["Time", *(f"V{k}" for k in range(1, 29)), "Amount", "Class"]
    lines = [",".join(f'"{name}"' for name in names)]
    for row, label in zip(values, labels, strict=True):
        lines.append(",".join(f"{value:.6f}" for value in row) + f',"{label}"')
    (folder / "creditcard.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _cocktail_party(folder: Path, generator: np.random.Generator) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    people, groups = [], []
    for frame in range(24):
        time = f"{1275403283 + 5 * frame}.250000"
        apart = generator.permutation(6)
        rooms = np.zeros(6, dtype=int)
        rooms[apart[:2]] = frame % 4 > 0
        places = generator.normal(0, 0.4, (6, 2)) + 3 * rooms[:, None]
        angles = generator.uniform(0, 6.28, 6)
        people.append(
            f"{time} "
            + " ".join(
                f"ID_{k + 1:03d} {places[k, 0]:.2f} {places[k, 1]:.2f} {angles[k]:.3f}"
                for k in range(6)
            )
        )
        parts = [[f"ID_{k + 1:03d}" for k in range(6) if rooms[k] == room] for room in (0, 1)]
        groups.append(f"{time} " + " ".join(f"< {' '.join(part)} >" for part in parts if part))
    (folder / PEOPLE_FILE).write_text("\n".join(people) + "\n", encoding="utf-8")
    (folder / GROUPS_FILE).write_text("\n".join(groups) + "\n", encoding="utf-8")


def _pictures(generator: np.random.Generator, labels: Any, shape: tuple[int, ...]) -> Pixels:
    """Noise, brighter the higher the class."""
    noise = generator.integers(0, 90, (len(labels), *shape))
    pixels: Pixels = (noise + 16 * labels.reshape(-1, *([1] * len(shape)))).astype(np.uint8)
    return pixels


def _cifar10(folder: Path, generator: np.random.Generator) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in CIFAR_FILES:
        labels = generator.permutation(np.repeat(np.arange(10), 4))
        rows = _pictures(generator, labels, (3 * 32 * 32,))
        stored = np.concatenate([labels[:, None].astype(np.uint8), rows], axis=1)
        (folder / name).write_bytes(stored.tobytes())


def _fashion(folder: Path, generator: np.random.Generator) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for part, each in (("train", 16), ("t10k", 4)):
        labels = generator.permutation(np.repeat(np.arange(10), each))
        pixels = _pictures(generator, labels, (28, 28))
        for name, values in (
            (f"{part}-images-idx3-ubyte.gz", pixels),
            (f"{part}-labels-idx1-ubyte.gz", labels.astype(np.uint8)),
        ):
            sizes = np.array(values.shape, dtype=">u4").tobytes()
            payload = bytes([0, 0, 8, values.ndim]) + sizes + values.tobytes()
            (folder / name).write_bytes(gzip.compress(payload, mtime=0))


def _picture_file(pixels: Pixels, kind: str) -> bytes:
    from PIL import Image  # noqa: PLC0415  # only who writes pictures has to wait for it

    file = io.BytesIO()
    Image.fromarray(pixels).save(file, kind)
    return file.getvalue()


def _caltech256(folder: Path, generator: np.random.Generator) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with tarfile.open(folder / "256_ObjectCategories.tar", "w") as archive:
        for code, name in enumerate(("001.ak47", "056.dog", "080.frog", "257.clutter")):
            for number in range(1, 9 + code):
                shape = (40, 30 + number, 3)
                pixels = _pictures(generator, np.array([3 * code]), shape)[0]
                content = _picture_file(pixels, "JPEG")
                place = f"256_ObjectCategories/{name}/{name[:3]}_{number:04d}.jpg"
                entry = tarfile.TarInfo(place)
                entry.size = len(content)
                archive.addfile(entry, io.BytesIO(content))


def _omniglot(folder: Path, generator: np.random.Generator) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for part, alphabets in (("background", ("Greek", "Latin")), ("evaluation", ("Atlantean",))):
        with zipfile.ZipFile(folder / f"images_{part}.zip", "w") as archive:
            for code, alphabet in enumerate(alphabets):
                for number in (1, 2):
                    for drawing in range(1, 11):
                        labels = np.array([4 * code + 2 * number])
                        pixels = 255 - _pictures(generator, labels, (105, 105))[0]
                        place = f"images_{part}/{alphabet}/character{number:02d}/"
                        content = _picture_file(pixels, "PNG")
                        archive.writestr(f"{place}{number:04d}_{drawing:02d}.png", content)
