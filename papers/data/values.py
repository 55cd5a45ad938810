"""The results of loaders: numbers that are ready for a network, and their classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["Frames", "Images", "Table"]


@dataclass(frozen=True)
class Table:
    """Rows of numbers and a class each.

    Attributes
    ----------
    features : ndarray
        ``(N, F)`` float32, as the owners give them: nothing is centred or scaled yet.
    targets : ndarray
        ``(N,)`` int64; class 1 is the positive one.
    columns : tuple of str
        A name for each feature.
    groups : ndarray or None
        ``(N,)`` int64, in the order of time: rows of one moment share a number.
    num_test : int, default=0
        The number of rows at the end that are the owners' test set.
    """

    features: np.ndarray[Any, np.dtype[np.float32]]
    targets: np.ndarray[Any, np.dtype[np.int64]]
    columns: tuple[str, ...]
    groups: np.ndarray[Any, np.dtype[np.int64]] | None = None
    num_test: int = 0


@dataclass(frozen=True)
class Images:
    """Pictures of one size and a class each.

    Attributes
    ----------
    pixels : ndarray
        ``(N, channels, height, width)`` uint8.
    targets : ndarray
        ``(N,)`` int64.
    classes : tuple of str
        A name for each class.
    num_test : int, default=0
        The number of pictures at the end that are the owners' test set.
    """

    pixels: np.ndarray[Any, np.dtype[np.uint8]]
    targets: np.ndarray[Any, np.dtype[np.int64]]
    classes: tuple[str, ...]
    num_test: int = 0


@dataclass(frozen=True)
class Frames:
    """Moments of a scene: where everybody stands, and who stands with whom.

    Attributes
    ----------
    people : ndarray
        ``(F, P, 4)`` float32: x, y, and cosine and sine of where the head points.
    together : ndarray
        ``(F, P, P)`` bool: whether two people are in one group.
    times : ndarray
        ``(F,)`` seconds.
    """

    people: np.ndarray[Any, np.dtype[np.float32]]
    together: np.ndarray[Any, np.dtype[np.bool_]]
    times: np.ndarray[Any, np.dtype[np.float64]]
