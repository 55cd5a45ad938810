"""Scores of a trained classifier on held-out rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.metrics import (
    accuracy_score,
    balanced_accuracy_score,
    f1_score,
    fbeta_score,
    matthews_corrcoef,
    precision_score,
    recall_score,
    roc_auc_score,
)

__all__ = ["TITLES", "all_scores", "threshold_grid_scores"]

THRESHOLDS = tuple(k / 10 for k in range(1, 10))
TITLES = {
    "f1": "F1",
    "f1_macro": "macro F1",
    "accuracy": "accuracy",
    "mcc": "MCC",
    "auroc": "AUROC",
    "precision": "precision",
    "recall": "recall",
    "grid_f1": "F1",
    "grid_f2": "F2",
    "grid_f3": "F3",
    "grid_accuracy": "accuracy",
    "grid_auroc": "AUROC of decisions",
    "grid_precision": "precision",
    "grid_recall": "recall",
    "precision_dog": "precision (dog)",
    "recall_dog": "recall (dog)",
    "precision_frog": "precision (frog)",
    "recall_frog": "recall (frog)",
    "train_f1": "F1, training set",
    "valid_f1": "F1, validation set",
    "correlation": "correlation of loss and score",
    "epochs": "epochs",
    "epoch_seconds": "seconds per epoch",
    "row_microseconds": "µs per row and epoch",
    "train_minutes": "minutes of training",
}
WATCHED_CLASSES = ("dog", "frog")
Array = np.ndarray[Any, Any]


def all_scores(
    targets: Array,
    decided: Array,
    positive_probability: Array | None,
    classes: Sequence[str],
) -> dict[str, float]:
    """Every score that some table needs.

    Parameters
    ----------
    targets, decided : ndarray
        ``(N,)`` true and decided classes.
    positive_probability : ndarray or None
        ``(N,)`` of class 1, for two classes and a method that has probabilities.
    classes : sequence of str
        Names of the classes.

    Returns
    -------
    dict
        Scores by name.

    Examples
    --------
    >>> labels = np.array([0, 0, 1, 1])
    >>> scores = all_scores(labels, labels, np.array([0.15, 0.25, 0.85, 0.75]), ("no", "yes"))
    >>> scores["f1"], scores["auroc"], round(scores["grid_f1"], 3)
    (1.0, 1.0, 0.793)
    """
    scores = {
        "accuracy": accuracy_score(targets, decided),
        "mcc": matthews_corrcoef(targets, decided),
        "f1_macro": f1_score(targets, decided, average="macro", zero_division=0),
    }
    if len(classes) == 2:
        scores |= _binary_scores(targets, decided, positive_probability)
    scores |= _class_scores(targets, decided, classes)
    return {name: float(value) for name, value in scores.items()}


def _binary_scores(targets: Array, decided: Array, probability: Array | None) -> dict[str, float]:
    scores = {
        "f1": f1_score(targets, decided, zero_division=0),
        "precision": precision_score(targets, decided, zero_division=0),
        "recall": recall_score(targets, decided, zero_division=0),
    }
    if probability is None:
        return scores
    return (
        scores
        | {"auroc": roc_auc_score(targets, probability)}
        | threshold_grid_scores(targets, probability)
    )


def threshold_grid_scores(targets: Array, probability: Array) -> dict[str, float]:
    """Bridging the Gap's evaluation: the mean of each score over the thresholds 0.1 ... 0.9.

    ``grid_auroc`` is the area under the two-point curve of the decisions, which is their balanced accuracy: the
    published AUROC can be nothing else (0.50 for a network that predicts one class, near F1 everywhere).
    """
    rows = []
    for threshold in THRESHOLDS:
        decided = (probability >= threshold).astype(int)
        rows.append(
            {
                "grid_f1": f1_score(targets, decided, zero_division=0),
                "grid_f2": fbeta_score(targets, decided, beta=2, zero_division=0),
                "grid_f3": fbeta_score(targets, decided, beta=3, zero_division=0),
                "grid_accuracy": accuracy_score(targets, decided),
                "grid_auroc": balanced_accuracy_score(targets, decided),
                "grid_precision": precision_score(targets, decided, zero_division=0),
                "grid_recall": recall_score(targets, decided, zero_division=0),
            }
        )
    return {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}


def _class_scores(targets: Array, decided: Array, classes: Sequence[str]) -> dict[str, float]:
    """Precision and recall of the classes whose preferences are studied."""
    scores = {}
    for watched in WATCHED_CLASSES:
        # Caltech calls it "056.dog".
        codes = [k for k, name in enumerate(classes) if name.rpartition(".")[2] == watched]
        for code in codes:
            true, found = targets == code, decided == code
            scores[f"precision_{watched}"] = precision_score(true, found, zero_division=0)
            scores[f"recall_{watched}"] = recall_score(true, found, zero_division=0)
    return scores
