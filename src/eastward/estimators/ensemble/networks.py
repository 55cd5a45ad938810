"""The ensemble's networks: an EASTClassifier with the folds of the ensemble."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray

from eastward._random_numbers import seeded
from eastward.estimators.ensemble.folds import Fitting
from eastward.estimators.network import EASTClassifier, construction, fitting, preparation
from eastward.metrics import Metric
from eastward.training import Rows
from eastward.training.scoring import padded

__all__ = ["Networks", "pace"]

Array = NDArray[Any]

# Number of networks of a large table, which all hold out the same rows.
MEMBERS = 5
# Rows that a network sees in total. For a large table, a few passes over more rows beat many passes over a sample, and
# many small steps are better, too (docs/scale.md).
ROW_PASSES, MOST_EPOCHS, FEWEST_EPOCHS = 4_000_000, 100, 10
ROWS_FOR_LARGER_BATCHES, LARGEST_BATCH = 30_000, 256


@dataclass(frozen=True)
class Networks:
    """Cross-fitted networks, and log-probabilities ``(N, C)`` of rows by networks not trained on them."""

    model: EASTClassifier
    held_out: Array | None = None
    # Extrapolated from fits of up to 80 000 rows: decision note 30.
    most_rows: ClassVar[int] = 400_000

    @classmethod
    def fitted(cls, data: Fitting, metric: Metric, options: Mapping[str, Any]) -> Networks:
        """Train one network for each fold in one batched graph, or several that hold out the same rows."""
        model = EASTClassifier(metric, **options)
        construction.check_parameters(model)
        scaler = fitting.fitted_scaler(model, data.filled)
        labels = preparation.Labels(
            torch.from_numpy(data.codes), np.arange(data.num_classes), multilabel=False
        )
        rows = _rows(data, construction.network_inputs(data.filled, scaler))
        with seeded(data.seed):
            ready = fitting.Prepared(rows, labels, scaler)
            model.fit_prepared(ready, data.filled.shape[1], data.seed)
        if data.num_folds > 1:
            return cls(model, _held_out(model, rows))
        held = np.full((len(data.codes), data.num_classes), np.nan)
        out = data.folds == 0
        held[out] = cls(model).log_probabilities(data.raw[out], data.filled[out])
        return cls(model, held)

    def log_probabilities(self, raw: Array, filled: Array) -> Array:  # noqa: ARG002  # one call for all parts
        """Compute the logarithm of the networks' mean probability, ``(n, C)``."""
        probabilities = self.model.raw_predict_proba(filled)
        logarithms: Array = np.log(np.maximum(probabilities, np.finfo(np.float64).tiny))
        return logarithms

    def save(self, folder: Path) -> None:
        """Write safetensors and JSON."""
        self.model.save(folder / "networks")

    @classmethod
    def load(cls, folder: Path, num_classes: int) -> Self:  # noqa: ARG003  # one call for all parts
        """Load what :meth:`save` wrote."""
        return cls(EASTClassifier.load(folder / "networks"))


def pace(rows: int) -> dict[str, Any]:
    """Return the most epochs for this many rows, and the batch size.

    Examples
    --------
    >>> pace(1_000), pace(200_000)
    ({'max_epochs': 100, 'batch_size': 'auto'}, {'max_epochs': 20, 'batch_size': 256})
    """
    epochs = max(FEWEST_EPOCHS, min(MOST_EPOCHS, ROW_PASSES // rows))
    batch: Any = LARGEST_BATCH if rows > ROWS_FOR_LARGER_BATCHES else "auto"
    return {"max_epochs": epochs, "batch_size": batch}


def _rows(data: Fitting, inputs: torch.Tensor) -> Rows:
    folds, every = torch.from_numpy(data.folds), torch.arange(len(data.folds))
    weights = None
    if data.weights is not None:
        weights = torch.from_numpy(data.weights / data.weights.mean()).float()
    holding = range(data.num_folds) if data.num_folds > 1 else [0] * MEMBERS
    train = [every[folds != k] for k in holding]
    valid = [every[folds == k] for k in holding]
    return Rows(inputs, torch.from_numpy(data.codes), weights, train, valid, data.num_classes)


@torch.no_grad()
def _held_out(model: EASTClassifier, rows: Rows) -> Array:
    """Return held-out log-probabilities; NaN for rows that every network was trained on."""
    index, known = padded(rows.valid)
    logits = model.members_(rows.inputs[index].double()).log_softmax(-1)
    table = torch.full((len(rows.targets), rows.num_outputs), torch.nan, dtype=torch.float64)
    table[index[known]] = logits[known]
    return table.numpy()
