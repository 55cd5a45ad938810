"""Turn a user's X and y into the rows of the trainer."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import _check_sample_weight, column_or_1d
from torch import Tensor

from eastward import _checks
from eastward.estimators.frames import refuse_odd_labels
from eastward.training import Rows, assign_folds
from eastward.training.grouped_folds import grouped_folds

__all__ = ["Labels", "encode_labels", "fold_rows", "row_weights"]

CALLER = "EASTClassifier.fit"


@dataclass(frozen=True)
class Labels:
    """Encoded targets and their classes."""

    codes: Tensor
    classes: NDArray[Any]
    multilabel: bool


def encode_labels(y: Any) -> Labels:
    """Encode ``y`` as class indices (or 0/1 indicators), with its sorted classes."""
    if y is None:
        # scikit-learn's estimator checks expect these words.
        message = "y of EASTClassifier.fit must be given: it requires y to be passed, but the target y is None."
        raise ValueError(message)
    refuse_odd_labels(CALLER, y)
    check_classification_targets(y)
    if type_of_target(y, input_name="y") == "multilabel-indicator":
        indicators = np.asarray(y.toarray() if hasattr(y, "toarray") else y).astype(np.int64)
        return Labels(torch.from_numpy(indicators), np.arange(indicators.shape[1]), True)
    labels = column_or_1d(y, warn=True)
    classes = np.unique(labels)
    if len(classes) < 2:
        advice = "A classifier needs rows of at least two classes."
        _checks.fail(
            CALLER, "y", "made of at least two classes", f"one class, {classes[0]!r}", advice
        )
    # np.unique could also return the codes, but it would need five times their memory.
    codes = np.searchsorted(classes, labels).astype(np.int64, copy=False)
    return Labels(torch.from_numpy(codes), classes, False)


def known_labels(y: Any, classes: NDArray[Any], *, argument: str) -> Tensor:
    """Return the indices of ``y`` among ``classes``; other labels are an error."""
    values = np.asarray(y)
    if values.ndim == 2:
        return torch.from_numpy(values.astype(np.int64))
    unknown = np.setdiff1d(values, classes)
    if len(unknown):
        expected = "made of classes that occur in y"
        advice = "Leave those rows out, or put the class into the training data."
        _checks.fail(CALLER, argument, expected, f"unknown {unknown[:5].tolist()}", advice)
    return torch.from_numpy(np.searchsorted(classes, values).astype(np.int64))


def row_weights(
    sample_weight: Any, class_weight: Any, X: Any, labels: Labels
) -> tuple[Tensor | None, Tensor | None]:
    """Return the weight of each row (None: all one), and the rows of positive weight (None: all)."""
    count = len(labels.codes)
    if sample_weight is None and class_weight is None:
        return None, None
    weights = np.ones(count)
    if sample_weight is not None:
        like = X if hasattr(X, "shape") else np.zeros(count)
        weights = np.asarray(_check_sample_weight(sample_weight, like, dtype=np.float64))
        _checks.weights(CALLER, torch.from_numpy(weights))
    weights = weights * _class_weights(class_weight, labels, weights)
    # Scaled to mean one, so that loss and gradient do not depend on the scale of weights.
    used = weights > 0
    if not used.any():
        _checks.fail(CALLER, "sample_weight", "positive for some rows", "zero for all")
    tensor = torch.from_numpy(weights / weights[used].mean()).float()
    return tensor, None if used.all() else torch.from_numpy(np.flatnonzero(used))


def _class_weights(
    class_weight: Any, labels: Labels, weights: NDArray[np.float64]
) -> NDArray[np.float64] | float:
    if class_weight is None:
        return 1.0
    if labels.multilabel:
        advice = "Use sample_weight."
        _checks.fail(CALLER, "class_weight", "None for multilabel targets", class_weight, advice)
    codes = labels.codes.numpy()
    if isinstance(class_weight, Mapping):
        known = labels.classes.tolist()
        if unknown := [name for name in class_weight if name not in known]:
            expected = f"keyed by classes of y, {known[:10]}"
            _checks.fail(CALLER, "class_weight", expected, repr(unknown[0]))
        given = [float(class_weight.get(name, 1.0)) for name in labels.classes.tolist()]
        return np.take(np.asarray(given), codes)
    _checks.one_of(CALLER, "class_weight", class_weight, ("balanced",), otherwise="a mapping, None")
    mass = np.bincount(codes, weights=weights, minlength=len(labels.classes))
    balanced = weights.sum() / (len(mass) * np.maximum(mass, np.finfo(float).tiny))
    return np.take(balanced, codes)


def fold_rows(
    inputs: Any,
    labels: Labels,
    weights: Tensor | None,
    *,
    num_folds: int,
    validation_fraction: float,
    validation_rows: Tensor | None,
    generator: torch.Generator,
    groups: Any = None,
) -> Rows:
    """Assign rows to networks: K folds, or one validation split for a single network."""
    codes = labels.codes
    every = torch.arange(len(codes))
    if validation_rows is not None:
        held = torch.zeros(len(codes), dtype=torch.bool)
        held[validation_rows] = True
        train, valid = [every[~held]], [validation_rows]
    else:
        parts = num_folds if num_folds > 1 else max(2, round(1 / validation_fraction))
        keys = _fold_keys(codes) if labels.multilabel else codes
        folds = _folds_of(keys, parts, generator, groups)
        _warn_of_singles(folds, labels)
        # There may be fewer groups than folds.
        members = max(1, num_folds if groups is None else min(num_folds, int(folds.max()) + 1))
        valid = [every[folds == k] for k in range(members)]
        train = [every[folds != k] for k in range(members)]
    if any(len(part) == 0 for part in (*valid, *train)):
        advice = "Give more rows, or validation_data."
        got = f"{len(codes)} rows for {len(labels.classes)} classes"
        _checks.fail(CALLER, "y", "large enough to hold rows out", got, advice)
    return Rows(inputs, codes, weights, train, valid, len(labels.classes), labels.multilabel)


def _folds_of(keys: Tensor, parts: int, generator: torch.Generator, groups: Any) -> Tensor:
    """Assign a fold to each row; groups stay together."""
    if groups is None:
        return assign_folds(keys, parts, generator)
    seed = int(torch.randint(2**31 - 1, (1,), generator=generator))
    return torch.from_numpy(grouped_folds(keys.numpy(), groups, parts, seed, caller=CALLER))


def fail_groups() -> NoReturn:
    """Refuse groups for streamed rows, which cannot be kept together."""
    advice = "Read the rows into memory for it."
    _checks.fail(CALLER, "groups", "None with Parquet files or a DataLoader", "a value", advice)


def _fold_keys(indicators: Tensor) -> Tensor:
    """Return a key for each combination of labels; combinations that occur once share a key."""
    _, keys, counts = indicators.unique(dim=0, return_inverse=True, return_counts=True)
    return torch.where(counts[keys] > 1, keys + 1, 0)


def _warn_of_singles(folds: Tensor, labels: Labels) -> None:
    single = torch.nonzero(folds == -1).flatten()
    if len(single) and not labels.multilabel:
        names = [labels.classes[int(code)] for code in labels.codes[single]][:5]
        warnings.warn(
            f"classes with a single row cannot be validated and are only trained on: {names}",
            stacklevel=4,
        )
