"""The balance of classes, and whether a file has the balance that the papers publish."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from eastward import _checks

__all__ = ["PUBLISHED", "Balance", "check_balance", "shannon_equitability"]


@dataclass(frozen=True)
class Balance:
    """Published facts that a file must agree with; None if nothing is published.

    Attributes
    ----------
    samples, classes : int
        Numbers of samples and of classes.
    positive_percent : float or None
        Share of class 1 in percent, to two digits.
    equitability : float or None
        Shannon's index, to two digits.
    """

    samples: int
    classes: int = 2
    positive_percent: float | None = None
    equitability: float | None = None


PUBLISHED: Mapping[str, Balance] = MappingProxyType(
    {
        "adult": Balance(48_842, positive_percent=23.93),
        # The papers print 2.32 %: 260 of the 11 183 rows, which is 2.325 %.
        "mammography": Balance(11_183, positive_percent=2.32),
        "credit_card": Balance(284_807, positive_percent=0.17),
        "cocktail_party": Balance(4_800, positive_percent=30.29),
        "cifar10": Balance(60_000, 10, equitability=1.0),
        "fashion_mnist": Balance(70_000, 10, equitability=1.0),
        # The papers' index of 0.87 cannot be that of these classes: with 30 607 images, 80 to 827 in each of
        # 257 classes, no distribution has an index below 0.91. Only the counts are checked.
        "caltech256": Balance(30_607, 257),
        "omniglot": Balance(32_460, 1_623, equitability=1.0),
    }
)


def shannon_equitability(targets: Any, num_classes: int | None = None) -> float:
    r"""Shannon's equitability index (Pielou's evenness): 1 for equally frequent classes.

    .. math:: -\frac{1}{\log d} \sum_k q_k \log q_k

    Parameters
    ----------
    targets : array-like of int
        ``(N,)``.
    num_classes : int, optional
        :math:`d`; the classes that occur if not given.

    Returns
    -------
    float
        In [0, 1].

    References
    ----------
    Pielou (1966).

    Examples
    --------
    >>> shannon_equitability([0, 1, 2, 0, 1, 2])
    1.0
    >>> round(shannon_equitability([0, 0, 0, 1]), 3)
    0.811
    """
    labels = np.asarray(targets)
    if labels.ndim != 1 or not len(labels):
        expected, got = "one class index for each sample", _checks.describe(targets)
        _checks.fail("shannon_equitability", "targets", expected, got)
    counts = np.bincount(labels)
    present = counts[counts > 0]
    size = num_classes or len(present)
    if size < 2:
        return 1.0
    shares = present / present.sum()
    return float(-(shares * np.log(shares)).sum() / np.log(size))


def check_balance(name: str, targets: Any) -> None:
    """Refuse a file whose classes are not the published ones."""
    _checks.one_of("check_balance", "name", name, tuple(PUBLISHED))
    expected = PUBLISHED[name]
    labels = np.asarray(targets)
    found_classes = len(np.unique(labels))
    if (len(labels), found_classes) != (expected.samples, expected.classes):
        wanted = f"{expected.samples:,} samples of {expected.classes} classes"
        _wrong(name, wanted, f"{len(labels):,} of {found_classes}")
    if expected.positive_percent is not None:
        percent = 100 * float((labels == 1).mean())
        # Papers cut or round the second digit.
        if abs(percent - expected.positive_percent) > 0.01:
            _wrong(name, f"{expected.positive_percent} % positive", f"{percent:.3f} %")
    if expected.equitability is not None:
        index = shannon_equitability(labels)
        if abs(index - expected.equitability) > 0.005:
            _wrong(name, f"an equitability of {expected.equitability}", f"{index:.3f}")


def _wrong(name: str, expected: str, found: str) -> None:
    advice = "The file is another version or incomplete: fetch it again, or pass verify=False."
    _checks.fail("load", f"the data of {name!r}", f"{expected}, as published", found, advice)
