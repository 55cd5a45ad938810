"""Data sets for a first try; scikit-learn ships them, so nothing is downloaded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np
import pandas as pd
from sklearn import datasets

from eastward import _messages

__all__ = ["embedded_names", "load_embedded"]

DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
# Each digit has this share of the previous digit's rows.
TAIL = 0.7
# Patients above this quantile of progression are the positive class.
STRONG = 0.8


def long_tailed_digits() -> pd.DataFrame:
    """Load handwritten digits of 8 x 8 pixels, each digit rarer than the one before."""
    bunch = datasets.load_digits(as_frame=True)
    codes = np.asarray(bunch.target)
    largest = np.bincount(codes).min()
    kept = [np.flatnonzero(codes == k)[: round(largest * TAIL**k)] for k in range(len(DIGITS))]
    rows = np.sort(np.concatenate(kept))
    frame = bunch.data.iloc[rows].reset_index(drop=True)
    return frame.assign(digit=np.take(DIGITS, codes[rows]))


def diabetes_progression() -> pd.DataFrame:
    """Load ten measurements of 442 patients; the fifth with the strongest progression is the class "strong".

    Efron, Hastie, Johnstone and Tibshirani, *Least angle regression*, 2004, as scikit-learn ships it (BSD-3-Clause).
    """
    bunch = datasets.load_diabetes(as_frame=True, scaled=False)
    strong = bunch.target > bunch.target.quantile(STRONG)
    return bunch.data.assign(progression=np.where(strong, "strong", "weaker"))


def _named(load: Callable[..., object], target: str) -> Callable[[], pd.DataFrame]:
    def frame() -> pd.DataFrame:
        bunch = load(as_frame=True)
        names = np.take(bunch.target_names, bunch.target)  # type: ignore[attr-defined]  # a Bunch
        return bunch.data.assign(**{target: names})  # type: ignore[attr-defined]  # a Bunch

    return frame


_SETS: Mapping[str, tuple[Callable[[], pd.DataFrame], str, str]] = MappingProxyType(
    {
        "diabetes_progression": (
            diabetes_progression,
            "progression",
            "measurements of 442 patients, a fifth with a strong progression of their diabetes",
        ),
        "digits_long_tail": (long_tailed_digits, "digit", "pixels of digits, some of them rare"),
        "breast_cancer": (
            _named(datasets.load_breast_cancer, "diagnosis"),
            "diagnosis",
            "measurements of cell nuclei",
        ),
        "wine": (_named(datasets.load_wine, "cultivar"), "cultivar", "chemistry of three wines"),
        "iris": (_named(datasets.load_iris, "species"), "species", "sizes of flowers"),
    }
)


def embedded_names() -> dict[str, dict[str, str]]:
    """List the embedded data sets, with target column and a short description.

    Returns
    -------
    dict
        ``target`` and ``about`` for each name.

    Examples
    --------
    >>> embedded_names()["iris"]
    {'target': 'species', 'about': 'sizes of flowers'}
    """
    return {name: {"target": target, "about": about} for name, (_, target, about) in _SETS.items()}


def load_embedded(name: str) -> tuple[pd.DataFrame, str]:
    """Load an embedded data set as a frame, with the name of its target column.

    Parameters
    ----------
    name : str
        One of :func:`embedded_names`.

    Returns
    -------
    tuple of DataFrame and str
        The table, and the name of the column to predict.

    Examples
    --------
    >>> frame, target = load_embedded("wine")
    >>> frame.shape, target
    ((178, 14), 'cultivar')
    """
    _messages.one_of("load_embedded", "name", name, tuple(_SETS))
    load, target, _ = _SETS[name]
    return load(), target
