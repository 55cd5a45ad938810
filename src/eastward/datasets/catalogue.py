"""Every data set of the papers under one name, read and checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from eastward import _checks
from eastward.datasets.balance import check_balance
from eastward.datasets.cocktail_party import read_cocktail_frames, read_cocktail_pairs
from eastward.datasets.images import TRANSPORTATION, one_against_rest, read_cifar10, read_fashion
from eastward.datasets.many_classes import read_caltech256, read_omniglot
from eastward.datasets.sources import given_folder
from eastward.datasets.tabular import read_adult, read_credit_card, read_mammography
from eastward.datasets.values import Frames, Images, Table

__all__ = ["load", "load_frames", "names", "origin_of"]

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
    """Names that :func:`load` knows.

    Examples
    --------
    >>> "mammography" in names()
    True
    """
    return (*_READERS, *_DERIVED)


def origin_of(name: str) -> str:
    """The set whose files hold ``name``.

    Examples
    --------
    >>> origin_of("cifar10_frog"), origin_of("adult")
    ('cifar10', 'adult')
    """
    if name == "cocktail_frames":
        return "cocktail_party"
    return _DERIVED.get(name, (name, ()))[0]


def load(
    name: str, folder: Path | str | None = None, *, verify: bool = True, **options: Any
) -> Table | Images:
    """A data set of the papers, read from the data folder and checked against published figures.

    Parameters
    ----------
    name : str
        One of :func:`names`.
    folder : path, optional
        The data folder; the one that EASTWARD_DATA names if not given.
    verify : bool, default=True
        Refuse files whose size or class balance is not the published one.
    **options
        Of the reader: ``features`` of Adult, ``side`` of Caltech-256, ``order_seed`` of CocktailParty.

    Returns
    -------
    Table or Images
        Values as the owners give them.
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
    """CocktailParty as frames of six people, for the graph experiment."""
    return read_cocktail_frames(given_folder(folder))
