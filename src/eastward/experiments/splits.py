"""Data sets split into 64 % training, 16 % validation and 20 % test rows, centred and scaled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.model_selection import train_test_split
from torch import Tensor

from eastward import datasets
from eastward.datasets import Images

__all__ = ["Part", "Split", "load_split"]

TEST_SHARE, VALID_SHARE = 0.2, 0.2  # of the whole, and of what is then left: 64 / 16 / 20
LEE_VALID_SHARE = 0.1
# Each of three parts needs a positive.
FEWEST_POSITIVES = 10


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
        """How many classes there are."""
        return len(self.classes)

    @property
    def class_counts(self) -> list[int]:
        """Training rows (or pairs) of each class."""
        counts = torch.bincount(self.train.targets.flatten(), minlength=self.num_classes)
        return [int(count) for count in counts]


@lru_cache(maxsize=2)
def _loaded(
    data: str, folder: Path | None, verify: bool, options: tuple[tuple[str, Any], ...]
) -> Any:
    if data in datasets.embedded_names():
        frame, target = datasets.load_embedded(data)
        codes = frame[target].astype("category").cat
        features = frame.drop(columns=target).to_numpy(np.float32)
        return features, codes.codes.to_numpy(np.int64), tuple(map(str, codes.categories)), 0
    if data == "cocktail_frames":
        return _frames(folder)
    loaded = datasets.load(data, folder, verify=verify, **dict(options))
    if isinstance(loaded, Images):
        return loaded.pixels, loaded.targets, loaded.classes, loaded.num_test
    return loaded.features, loaded.targets, ("negative", "positive"), 0


def _frames(folder: Path | None) -> Any:
    """People of each frame; for each of its pairs whether they are in one group, the more frequent class."""
    frames = datasets.load_frames(folder)
    first, second = np.triu_indices(frames.people.shape[1], 1)
    together = frames.together[:, first, second].astype(np.int64)
    return frames.people, together, ("apart", "together"), 0


def load_split(
    data: str,
    folder: Path | None,
    *,
    verify: bool = True,
    samples: int | None = None,
    official_test: bool = False,
    options: Mapping[str, Any] | None = None,
    seed: int = 0,
) -> Split:
    """A data set, split and scaled; the same rows each time.

    Parameters
    ----------
    data : str
        As in :class:`~eastward.experiments.design.Panel`.
    folder : Path or None
        The data folder.
    verify : bool, default=True
        Refuse files without the published class balance.
    samples : int, optional
        Use so many rows only, of every class its share; where that leaves less than a row for a part, whole classes.
    official_test : bool, default=False
        Test on the owners' test pictures, validate on a tenth of the others (Lee's protocol).
    options : mapping, optional
        For the loader; ``negatives_each`` keeps one positive for so many negatives.
    seed : int, default=0
        Of the split; the papers have one split.

    Returns
    -------
    Split
        Scaled by means and deviations of the training rows.
    """
    given = dict(options or {})
    negatives_each = given.pop("negatives_each", None)
    values, targets, classes, num_test = _loaded(data, folder, verify, tuple(sorted(given.items())))
    rows = np.arange(len(targets))
    if negatives_each is not None:
        rows = _thinned(targets, negatives_each, seed)
    if samples is not None and len(classes) > samples * (1 - TEST_SHARE) * VALID_SHARE:
        rows, targets, classes = _whole_classes(targets, classes, samples, seed)
    fixed_test = rows[len(rows) - num_test :] if official_test and num_test else None
    train, valid, test = _split_rows(rows, targets, samples, fixed_test, seed)
    scaled = _scaled(values, train)

    def part(rows: Any) -> Part:
        return Part(scaled(rows), torch.as_tensor(targets[rows]))

    return Split(part(train), part(valid), part(test), tuple(classes))


def _thinned(targets: Any, negatives_each: int, seed: int) -> Any:
    """All negatives, and one positive for each ``negatives_each`` of them."""
    positive = np.flatnonzero(targets == 1)
    wanted = max(FEWEST_POSITIVES, (len(targets) - len(positive)) // negatives_each)
    kept = np.random.default_rng(seed).permutation(positive)[:wanted]
    return np.sort(np.concatenate([np.flatnonzero(targets == 0), kept]))


def _whole_classes(targets: Any, classes: Any, samples: int, seed: int) -> tuple[Any, Any, Any]:
    """Rows of as many classes as have so many together; targets and names of these classes alone."""
    order = np.random.default_rng(seed).permutation(len(classes))
    sizes = np.bincount(targets, minlength=len(classes))[order].cumsum()
    kept = np.sort(order[: max(2, int((sizes <= samples).sum()))])
    codes = np.full(len(classes), -1)
    codes[kept] = np.arange(len(kept))
    recoded = codes[targets]
    return np.flatnonzero(recoded >= 0), recoded, tuple(classes[k] for k in kept)


def _split_rows(
    rows: Any, targets: Any, samples: int | None, fixed_test: Any, seed: int
) -> tuple[Any, ...]:
    # Frames have many labels each: nothing to stratify by.
    labels = targets if targets.ndim == 1 else np.zeros(len(targets), dtype=np.int64)
    if fixed_test is not None:
        share = 1.0 if samples is None else min(1.0, samples / len(rows))
        train, test = _share_of(np.setdiff1d(rows, fixed_test), labels, share, seed), fixed_test
        test = _share_of(test, labels, share, seed)
        train, valid = _cut(train, labels, LEE_VALID_SHARE, seed)
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


def _scaled(values: Any, train: Any) -> Any:
    """Rows as float32 tensors: each feature (of pictures: each channel) with mean 0 and deviation 1."""
    sample = values[train].astype(np.float32)
    if values.ndim == 3:
        return lambda rows: torch.as_tensor(values[rows])  # metres and angles of people
    axes = (0, 2, 3) if values.ndim == 4 else (0,)
    mean, deviation = sample.mean(axes, keepdims=True), sample.std(axes, keepdims=True)
    deviation = np.where(deviation > 0, deviation, 1).astype(np.float32)
    return lambda rows: torch.as_tensor((values[rows].astype(np.float32) - mean) / deviation)
