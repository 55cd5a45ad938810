"""Every data set of the papers under one name, read and checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd

from eastward import _checks
from papers.data.balance import check_balance
from papers.data.cocktail_party import read_cocktail_frames, read_cocktail_pairs
from papers.data.images import TRANSPORTATION, one_against_rest, read_cifar10, read_fashion
from papers.data.many_classes import read_caltech256, read_omniglot
from papers.data.sources import given_folder
from papers.data.tabular import read_adult, read_credit_card, read_mammography
from papers.data.values import Frames, Images, Table

__all__ = ["load", "load_frames", "load_own_table", "names", "origin_of"]

# Names of the column with the class, in tables that no paper uses.
LABEL_COLUMNS = ("target", "Cover_Type", "species", "class")
# A class needs rows in all three parts of a split.
FEWEST_ROWS = 10

_READERS: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        "adult": read_adult,
        "mammography": read_mammography,
        "credit_card": read_credit_card,
        "cocktail_party": read_cocktail_pairs,
        "cifar10": read_cifar10,
        "fashion_mnist": read_fashion,
        "caltech256": read_caltech256,
        "omniglot": read_omniglot,
    }
)
# Binary tasks that the papers make of ten classes.
_DERIVED: Mapping[str, tuple[str, tuple[str, ...]]] = MappingProxyType(
    {
        "cifar10_transportation": ("cifar10", TRANSPORTATION),
        "cifar10_frog": ("cifar10", ("frog",)),
        "cifar10_airplane": ("cifar10", ("airplane",)),
        "fashion_tshirt": ("fashion_mnist", ("T-shirt/top",)),
    }
)


def names() -> tuple[str, ...]:
    """List the names that :func:`load` knows.

    Examples
    --------
    >>> "mammography" in names()
    True
    """
    return (*_READERS, *_DERIVED)


def origin_of(name: str) -> str:
    """Return the data set whose files contain ``name``.

    Examples
    --------
    >>> origin_of("cifar10_frog"), origin_of("adult")
    ('cifar10', 'adult')
    >>> origin_of("covertype/class4")
    'covertype/covertype'
    """
    if name == "cocktail_frames":
        return "cocktail_party"
    table, _, positive = name.partition("/class")
    if positive:
        return f"{table}/{table}"
    return _DERIVED.get(name, (name, ()))[0]


def load(
    name: str, folder: Path | str | None = None, *, verify: bool = True, **options: Any
) -> Table | Images:
    """Load a data set of the papers from the data folder, and check it against published figures.

    Parameters
    ----------
    name : str
        One of :func:`names`.
    folder : path, optional
        The data folder; the one that EASTWARD_DATA names if not given.
    verify : bool, default=True
        Refuse files whose size or class balance is not the published one.
    **options
        Options of the reader: ``features`` of Adult, ``side`` of Caltech-256, ``order_seed`` of CocktailParty.

    Returns
    -------
    Table or Images
        The data, with values as the owners publish them.
    """
    _checks.one_of("load", "name", name, names())
    origin, positive = _DERIVED.get(name, (name, ()))
    data = _READERS[origin](given_folder(folder), **options)
    if verify:
        check_balance(origin, data.targets)
    if positive:
        return one_against_rest(data, positive)
    return data  # type: ignore[no-any-return]  # every reader returns one of the two


def load_frames(folder: Path | str | None = None) -> Frames:
    """Load CocktailParty as frames of six people, for the graph experiment."""
    return read_cocktail_frames(given_folder(folder))


def load_own_table(name: str, folder: Path | str | None = None) -> tuple[Any, Any, tuple[str, ...]]:
    """Load features, class numbers and class names of a Parquet table that no paper uses.

    Parameters
    ----------
    name : str
        Its path below the data folder without the suffix, for example ``"tabular/multiclass/glass"``;
        ``"covertype/class4"`` is Covertype's fourth class against the rest.
    folder : path, optional
        The data folder; the one that EASTWARD_DATA names if not given.

    Returns
    -------
    features : ndarray
        ``(N, F)`` float32; a column of its own for each category of a text column, 0 where a value is missing.
    targets : ndarray
        ``(N,)`` int64; of two classes, the rarer is class 1.
    classes : tuple of str
        Names; classes of fewer than ten rows are left out with their rows.
    """
    place = given_folder(folder)
    _, _, positive = name.partition("/class")
    path = None if place is None else place / f"{origin_of(name)}.parquet"
    if path is None or not path.exists():
        advice = "Set EASTWARD_DATA=DIR or give --data-dir DIR."
        raise FileNotFoundError(f"The table DIR/{origin_of(name)}.parquet is not there. {advice}")
    frame = pd.read_parquet(path)
    label = next(column for column in LABEL_COLUMNS if column in frame)
    sizes = frame[label].value_counts()
    frame = frame[frame[label].isin(sizes.index[sizes >= FEWEST_ROWS])]
    labels = frame.pop(label)
    if positive:
        labels = labels.astype(str).eq(positive).map({False: "other", True: f"class {positive}"})
    order = (
        labels.value_counts().index.tolist() if labels.nunique() == 2 else sorted(labels.unique())
    )
    targets = labels.map({name: code for code, name in enumerate(order)}).to_numpy(np.int64)
    features = pd.get_dummies(frame, dtype=np.float32).fillna(0)
    return features.to_numpy(np.float32), targets, tuple(map(str, order))
