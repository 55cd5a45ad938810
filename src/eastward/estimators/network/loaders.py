"""Fit on a user's DataLoader: labels are read once, and batches are used in the loader's order."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader

from eastward import _checks
from eastward.estimators.network.construction import as_tensors
from eastward.estimators.network.preparation import CALLER, Labels, encode_labels, known_labels
from eastward.estimators.network.rare_classes import Supply
from eastward.training import Rows

if TYPE_CHECKING:
    from eastward.estimators.network.classifier import EASTClassifier

__all__ = [
    "Held",
    "check_arguments",
    "check_parameters",
    "encoded",
    "labels_of",
    "rows_of",
    "validation_pair",
    "validation_rows",
]


@dataclass(frozen=True)
class Held:
    """Validation data in memory."""

    inputs: Any
    targets: Any


def check_arguments(y: Any, sample_weight: Any, validation: Any) -> None:
    """Check the arguments of ``fit``: a loader has its own targets and weights, and cannot be split."""
    if y is not None or sample_weight is not None:
        advice = "Let the loader yield (inputs, targets) or (inputs, targets, weights)."
        _checks.fail(CALLER, "y and sample_weight", "None with a DataLoader", "values", advice)
    if validation is None:
        advice = "A loader cannot be split: pass (X, y) or a second DataLoader."
        _checks.fail(CALLER, "validation_data", "given with a DataLoader", "None", advice)


def check_parameters(model: EASTClassifier) -> None:
    """Check the parameters: rows of a loader can be neither weighted by class nor scaled."""
    if model.class_weight is not None:
        advice = "Let the loader yield (inputs, targets, weights)."
        _checks.fail(CALLER, "class_weight", "None with a DataLoader", model.class_weight, advice)
    if model.standardize is True:
        advice = "Let the loader yield scaled inputs."
        _checks.fail(CALLER, "standardize", "'auto' or False with a DataLoader", True, advice)
    if model.n_folds not in {"auto", 1}:
        advice = "Rows of a loader cannot be split into folds: leave n_folds at 'auto'."
        _checks.fail(CALLER, "n_folds", "'auto' or 1 with a DataLoader", model.n_folds, advice)


def validation_rows(validation: Any) -> Held:
    """Read validation data from ``(X, y)``, or from all batches of a loader."""
    inputs, targets = validation_pair(validation)
    return Held(_floating(as_tensors(inputs)), targets)


def validation_pair(validation: Any) -> tuple[Any, Any]:
    """Return inputs and targets of ``(X, y)``, or of all batches of a loader together."""
    if not isinstance(validation, DataLoader):
        inputs, targets = validation
        return inputs, targets
    batches = [(batch[0], batch[1]) for batch in validation]
    first = batches[0][0]
    inputs = (
        {name: torch.cat([x[name] for x, _ in batches]) for name in first}
        if isinstance(first, dict)
        else torch.cat([x for x, _ in batches])
    )
    return inputs, torch.cat([y for _, y in batches]).numpy()


def _floating(inputs: Any) -> Any:
    return inputs.float() if isinstance(inputs, Tensor) and inputs.dim() == 2 else inputs


def labels_of(loader: Iterable[Any], held_targets: Any) -> tuple[Labels, Supply]:
    """Collect classes, with their numbers of rows, in one pass over the loader and the validation data."""
    seen = [np.asarray(batch[1]) for batch in loader]
    values = np.concatenate(seen)
    labels = encode_labels(values)
    known_labels(held_targets, labels.classes, argument="validation_data")
    return labels, Supply.of_codes(labels.codes, len(labels.classes), "loader", len(seen))


def encoded(targets: Tensor, labels: Labels) -> Tensor:
    """Encode a batch of targets as class indices."""
    return known_labels(targets.cpu().numpy(), labels.classes, argument="X")


def rows_of(held: Held, labels: Labels) -> Rows:
    """Make rows of the validation data alone; training rows come from the loader."""
    codes = known_labels(held.targets, labels.classes, argument="validation_data")
    every = torch.arange(len(codes))
    return Rows(
        held.inputs, codes, None, [every[:0]], [every], len(labels.classes), labels.multilabel
    )
