"""Data sets split into 64 % training, 16 % validation and 20 % test rows, centred and scaled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from sklearn.model_selection import train_test_split
from torch import Tensor

from eastward import datasets
from papers import data as papers_data
from papers.data import Images

__all__ = ["Part", "Split", "load_split"]

TEST_SHARE, VALID_SHARE = 0.2, 0.2  # of the whole, and of what is then left: 64 / 16 / 20
LEE_VALID_SHARE = 0.1
# Each of three parts needs a positive.
FEWEST_POSITIVES = 10
# From one seed to the next, a stretch of time moves by this share of the whole.
STRETCH_STEP = 0.1
BRIGHTEST = 255.0
# Tables of the data folder that no paper uses: "tabular/multiclass/glass", "covertype/covertype", ...
OWN_TABLES = ("tabular/", "covertype/", "leaf99/")


@dataclass(frozen=True)
class Part:
    """Inputs and classes of some rows.

    Attributes
    ----------
    inputs : Tensor
        ``(N, ...)`` float32.
    targets : Tensor
        ``(N,)`` int64, or ``(N, pairs)`` for frames.
    """

    inputs: Tensor
    targets: Tensor


@dataclass(frozen=True)
class Split:
    """Training, validation and test rows of a data set."""

    train: Part
    valid: Part
    test: Part
    classes: tuple[str, ...]

    @property
    def num_classes(self) -> int:
        """Number of classes."""
        return len(self.classes)

    @property
    def class_counts(self) -> list[int]:
        """Training rows (or pairs) of each class."""
        counts = torch.bincount(self.train.targets.flatten(), minlength=self.num_classes)
        return [int(count) for count in counts]


class _Loaded(NamedTuple):
    """The common form of all data sets."""

    values: Any
    targets: Any
    classes: tuple[str, ...]
    num_test: int = 0
    groups: Any = None


@lru_cache(maxsize=2)
def _loaded(
    data: str, folder: Path | None, verify: bool, options: tuple[tuple[str, Any], ...]
) -> _Loaded:
    if data in datasets.embedded_names():
        return _Loaded(*_coded(*datasets.load_embedded(data)))
    if data == "cocktail_frames":
        found: _Loaded = _frames(folder)
        return found
    if data.startswith(OWN_TABLES):
        return _Loaded(*papers_data.load_own_table(data, folder))
    loaded = papers_data.load(data, folder, verify=verify, **dict(options))
    if isinstance(loaded, Images):
        return _Loaded(loaded.pixels, loaded.targets, loaded.classes, loaded.num_test)
    names = ("negative", "positive")
    return _Loaded(loaded.features, loaded.targets, names, loaded.num_test, loaded.groups)


def _coded(frame: Any, target: str) -> tuple[Any, Any, tuple[str, ...]]:
    codes = frame[target].astype("category").cat
    features = frame.drop(columns=target).to_numpy(np.float32)
    return features, codes.codes.to_numpy(np.int64), tuple(map(str, codes.categories))


def _frames(folder: Path | None) -> Any:
    """People of each frame; for each of its pairs whether they are in one group, the more frequent class."""
    frames = papers_data.load_frames(folder)
    first, second = np.triu_indices(frames.people.shape[1], 1)
    together = frames.together[:, first, second].astype(np.int64)
    return _Loaded(frames.people, together, ("apart", "together"))


def load_split(
    data: str,
    folder: Path | None,
    *,
    verify: bool = True,
    samples: int | None = None,
    official_test: bool = False,
    options: Mapping[str, Any] | None = None,
    how: str = "random",
    seed: int = 0,
) -> Split:
    """Load a data set, split and scaled; equal seeds give equal rows.

    Parameters
    ----------
    data : str
        Name of the data set; see :class:`~papers.experiments.design.Panel`.
    folder : Path or None
        The data folder.
    verify : bool, default=True
        Refuse files without the published class balance.
    samples : int, optional
        Number of rows to use, with every class at its share. Too few rows for that keep whole classes instead.
    official_test : bool, default=False
        Test on the owners' test pictures, validate on a tenth of the others (Lee's protocol). Tables whose owners set
        test rows apart (Adult) always use those.
    options : mapping, optional
        For the loader; ``negatives_each`` keeps one positive for this many negatives, and ``balanced_test`` thins the
        training and validation rows only.
    how : {"random", "time"}, default="random"
        Test rows at random, or a stretch of a fifth of the time that moves on by a tenth with each seed.
    seed : int, default=0
        Seed of the split; the papers have one split.

    Returns
    -------
    Split
        Scaled by means and deviations of the training rows.
    """
    given = dict(options or {})
    negatives_each = given.pop("negatives_each", None)
    loaded = _loaded(data, folder, verify, tuple(sorted(given.items())))
    values, targets, classes = loaded.values, loaded.targets, loaded.classes
    rows = np.arange(len(targets))
    if samples is not None and len(classes) > samples * (1 - TEST_SHARE) * VALID_SHARE:
        rows, targets, classes = _whole_classes(targets, classes, samples, seed)
    is_table = values.ndim == 2
    fixed = loaded.num_test and (official_test or is_table)
    fixed_test = rows[len(rows) - loaded.num_test :] if fixed else None
    valid_share = VALID_SHARE if is_table else LEE_VALID_SHARE
    if how == "time":
        train, valid, test = _stretches(loaded.groups, seed)
    else:
        train, valid, test = _split_rows(rows, targets, samples, fixed_test, valid_share, seed)
    if negatives_each is not None:
        # Test rows are thinned as well, but from all that there are: a handful of positives would not be informative.
        train, valid, test = (
            _thinned(part, targets, negatives_each, seed) for part in (train, valid, test)
        )
    scaled = _scaled(values, train, by_pixel=official_test)

    def part(rows: Any) -> Part:
        return Part(scaled(rows), torch.as_tensor(targets[rows]))

    return Split(part(train), part(valid), part(test), tuple(classes))


def _thinned(rows: Any, targets: Any, negatives_each: int, seed: int) -> Any:
    """All negatives among ``rows``, and one positive for each ``negatives_each`` of them."""
    positive, negative = rows[targets[rows] == 1], rows[targets[rows] == 0]
    wanted = max(FEWEST_POSITIVES, len(negative) // negatives_each)
    kept = np.random.default_rng(seed).permutation(positive)[:wanted]
    return np.sort(np.concatenate([negative, kept]))


def _stretches(groups: Any, seed: int) -> tuple[Any, Any, Any]:
    """Test rows: a fifth of the moments in a row; validation rows: the stretch before it; training rows: the rest."""
    moments = np.unique(groups)
    count = len(moments)
    num_test, num_valid = round(TEST_SHARE * count), round((1 - TEST_SHARE) * VALID_SHARE * count)
    order = np.roll(moments, -round(seed * STRETCH_STEP * count))
    cut = np.split(order, [num_valid, num_valid + num_test])
    valid, test, train = (np.flatnonzero(np.isin(groups, part)) for part in cut)
    return train, valid, test


def _whole_classes(targets: Any, classes: Any, samples: int, seed: int) -> tuple[Any, Any, Any]:
    """Rows of the first classes that fill the number of samples, with the targets and names of these classes."""
    order = np.random.default_rng(seed).permutation(len(classes))
    sizes = np.bincount(targets, minlength=len(classes))[order].cumsum()
    kept = np.sort(order[: max(2, int((sizes <= samples).sum()))])
    codes = np.full(len(classes), -1)
    codes[kept] = np.arange(len(kept))
    recoded = codes[targets]
    return np.flatnonzero(recoded >= 0), recoded, tuple(classes[k] for k in kept)


def _split_rows(
    rows: Any, targets: Any, samples: int | None, fixed_test: Any, valid_share: float, seed: int
) -> tuple[Any, ...]:
    # Frames have many labels each: nothing to stratify by.
    labels = targets if targets.ndim == 1 else np.zeros(len(targets), dtype=np.int64)
    if fixed_test is not None:
        share = 1.0 if samples is None else min(1.0, samples / len(rows))
        train, test = _share_of(np.setdiff1d(rows, fixed_test), labels, share, seed), fixed_test
        test = _share_of(test, labels, share, seed)
        train, valid = _cut(train, labels, valid_share, seed)
        return train, valid, test
    if samples is not None:
        rows = _share_of(rows, labels, min(1.0, samples / len(rows)), seed)
    rest, test = _cut(rows, labels, TEST_SHARE, seed)
    train, valid = _cut(rest, labels, VALID_SHARE, seed)
    return train, valid, test


def _share_of(rows: Any, labels: Any, share: float, seed: int) -> Any:
    return rows if share >= 1 else _cut(rows, labels, share, seed)[1]


def _cut(rows: Any, labels: Any, share: float, seed: int) -> Any:
    return train_test_split(rows, test_size=share, stratify=labels[rows], random_state=seed)


def _scaled(values: Any, train: Any, *, by_pixel: bool = False) -> Any:
    """Rows as float32 tensors: each feature (of pictures: each channel) with mean 0 and deviation 1.

    ``by_pixel``: Lee's preparation, values in [0, 1] minus the mean picture, not scaled otherwise.
    """
    sample = values[train].astype(np.float32)
    if values.ndim == 3:
        return lambda rows: torch.as_tensor(values[rows])  # metres and angles of people
    if by_pixel and values.ndim == 4:
        picture = sample.mean(0, keepdims=True)
        return lambda rows: torch.as_tensor((values[rows].astype(np.float32) - picture) / BRIGHTEST)
    axes = (0, 2, 3) if values.ndim == 4 else (0,)
    mean, deviation = sample.mean(axes, keepdims=True), sample.std(axes, keepdims=True)
    deviation = np.where(deviation > 0, deviation, 1).astype(np.float32)
    return lambda rows: torch.as_tensor((values[rows].astype(np.float32) - mean) / deviation)
