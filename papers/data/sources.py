"""The origins of the papers' data, the files that may be in the data folder, and the message if none is there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import NoReturn

from eastward import _checks
from eastward.datasets.folder import data_folder
from papers.data.download import Progress, RemoteFile, fetch

__all__ = ["SOURCES", "Source", "download", "find", "given_folder", "missing"]


@dataclass(frozen=True)
class Source:
    """A data set and its owners.

    Attributes
    ----------
    title : str
        Name of the data set in the papers.
    home : str
        The owners' page.
    files : tuple of RemoteFile
        Files that ``download`` fetches; empty if the owners require a login or an agreement.
    wanted : tuple of str
        Files or folders of which one suffices, best first, below the data folder.
    note : str
        Further advice for fetching it by hand.
    """

    title: str
    home: str
    files: tuple[RemoteFile, ...]
    wanted: tuple[str, ...]
    note: str = ""


_UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases/adult"
_FASHION = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com"
_OMNIGLOT = "https://raw.githubusercontent.com/brendenlake/omniglot/master/python"
_CIFAR = "https://www.cs.toronto.edu/~kriz"

SOURCES: Mapping[str, Source] = MappingProxyType(
    {
        "adult": Source(
            "Adult",
            "https://archive.ics.uci.edu/dataset/2/adult",
            (
                RemoteFile(
                    f"{_UCI}/adult.data", "adult/adult.data", "md5:5d7c39d7b8804f071cdd1f2a7c460872"
                ),
                RemoteFile(
                    f"{_UCI}/adult.test", "adult/adult.test", "md5:35238206dfdf7f1fe215bbb874adecdc"
                ),
            ),
            ("adult/adult.data", "adult/adult.data.gz"),
            "adult.test (or adult.test.gz) belongs beside it.",
        ),
        "mammography": Source(
            "Mammography",
            "https://www.openml.org/d/310",
            (
                RemoteFile(
                    "https://www.openml.org/data/download/52214/phpn1jVwe",
                    "mammography/mammography.arff",
                    None,
                ),
            ),
            (
                "mammography/mammography.parquet",
                "mammography/mammography.arff",
                "mammography/mammography.csv",
            ),
        ),
        "credit_card": Source(
            "Kaggle credit-card fraud",
            "https://www.kaggle.com/datasets/mlg-ulb/creditcardfraud",
            (),
            (
                "creditcard/creditcard.parquet",
                "creditcard/creditcard.csv",
                "creditcard/creditcardfraud.zip",
            ),
            "Kaggle asks for a login; the archive may stay packed.",
        ),
        "cocktail_party": Source(
            "CocktailParty",
            "https://tev.fbk.eu/resources/cocktailparty",
            (),
            ("cocktail_party/dyads.parquet", "cocktail_party/dante_features.txt"),
            "For research only. The positions and groups of each frame as two text files "
            "(dante_features.txt, dante_group_names.txt) serve both the pairs and the graphs.",
        ),
        "cifar10": Source(
            "CIFAR-10",
            f"{_CIFAR}/cifar.html",
            (
                RemoteFile(
                    f"{_CIFAR}/cifar-10-binary.tar.gz",
                    "cifar-10-binary.tar.gz",
                    "md5:c32a1d4ab5d03f1284b67883e8d87530",
                ),
            ),
            ("cifar-10-batches-bin/data_batch_1.bin", "cifar-10-binary.tar.gz"),
            "The binary version: loading the Python version would execute what is in the file.",
        ),
        "fashion_mnist": Source(
            "Fashion-MNIST",
            "https://github.com/zalandoresearch/fashion-mnist",
            tuple(
                RemoteFile(f"{_FASHION}/{name}", f"fashion-mnist/{name}", f"md5:{digest}")
                for name, digest in (
                    ("train-images-idx3-ubyte.gz", "8d4fb7e6c68d591d4c3dfef9ec88bf0d"),
                    ("train-labels-idx1-ubyte.gz", "25c81989df183df01b3e8a0aad5dffbe"),
                    ("t10k-images-idx3-ubyte.gz", "bef4ecab320f06d8554ea6380940ec79"),
                    ("t10k-labels-idx1-ubyte.gz", "bb300cfdad3c16e7a12a480ee83cd310"),
                )
            ),
            ("fashion-mnist/train-images-idx3-ubyte.gz", "fashion-mnist/train-images-idx3-ubyte"),
        ),
        "caltech256": Source(
            "Caltech-256",
            "https://data.caltech.edu/records/nyy15-4j048",
            (
                RemoteFile(
                    "https://data.caltech.edu/records/nyy15-4j048/files/256_ObjectCategories.tar",
                    "256_ObjectCategories.tar",
                    "md5:67b4f42ca05d46448c6bb8ecd2220f6d",
                ),
            ),
            ("256_ObjectCategories", "256_ObjectCategories.tar"),
        ),
        "omniglot": Source(
            "Omniglot",
            "https://github.com/brendenlake/omniglot",
            (
                RemoteFile(
                    f"{_OMNIGLOT}/images_background.zip",
                    "omniglot/images_background.zip",
                    "md5:68d2efa1b9178cc56df9314c21c6e718",
                ),
                RemoteFile(
                    f"{_OMNIGLOT}/images_evaluation.zip",
                    "omniglot/images_evaluation.zip",
                    "md5:6b91aef0f799c5bb55b94e3f2daec811",
                ),
            ),
            ("omniglot/omniglot28.npz", "omniglot/images_background.zip"),
        ),
    }
)


def given_folder(folder: Path | str | None) -> Path | None:
    """Return ``folder`` if it is given, otherwise the one that EASTWARD_DATA names, or None."""
    return data_folder() if folder is None else Path(folder)


def find(name: str, folder: Path | None) -> Path:
    """Return the first existing file of the data set ``name``; without one, raise an error that says what to do."""
    source = SOURCES[name]
    for relative in source.wanted if folder is not None else ():
        path = (folder or Path()) / relative
        if path.exists():
            return path
    return missing(name, folder, source.wanted[0])


def missing(name: str, folder: Path | None, relative: str) -> NoReturn:
    """Raise an error about a missing file that says where to get it and where to put it."""
    source = SOURCES[name]
    place = f"{folder}/{relative}" if folder is not None else f"DIR/{relative}"
    other = ", or ".join(entry for entry in source.wanted if entry != relative)
    fetched = "or let --download fetch it, " if source.files else ""
    where = "" if folder is not None else " and set EASTWARD_DATA=DIR or give --data-dir DIR"
    message = (
        f"{source.title} is not there. Get it from {source.home}, {fetched}put it at {place}"
        f"{f' (also read: {other})' if other else ''}{where}. {source.note}"
    )
    raise FileNotFoundError(message.strip())


def download(
    name: str, folder: Path | str | None = None, progress: Progress | None = None
) -> list[Path]:
    """Fetch the files of a data set from their owners into the data folder.

    Parameters
    ----------
    name : str
        One of ``SOURCES``.
    folder : path, optional
        The data folder; the one that EASTWARD_DATA names if not given.
    progress : callable, optional
        Called with the bytes so far and in total (None if unknown).

    Returns
    -------
    list of Path
        The downloaded and verified files.
    """
    _checks.one_of("download", "name", name, tuple(SOURCES))
    place = given_folder(folder)
    if place is None:
        advice = "Set EASTWARD_DATA, or give folder (--data-dir)."
        _checks.fail("download", "folder", "given", "nothing", advice)
    if not SOURCES[name].files:
        missing(name, place, SOURCES[name].wanted[0])
    return [fetch(remote, place, progress) for remote in SOURCES[name].files]
