"""Lee's measurements: after each epoch, the loss and the scores it is meant to raise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from sklearn.metrics import accuracy_score, f1_score, fbeta_score
from torch import nn

from papers.experiments.networks import AUGMENTED_SIDE, padded
from papers.experiments.splits import Part, Split
from papers.experiments.training import predict_logits

__all__ = ["beta_of", "epoch_watch", "scores_of_epochs"]


def beta_of(method: str) -> float:
    """The beta in the name of a loss; 1 if it has none.

    Examples
    --------
    >>> beta_of("surrogate_0.5"), beta_of("mae")
    (0.5, 1.0)
    """
    _, _, last = method.rpartition("_")
    return float(last) if last.replace(".", "").isdigit() else 1.0


def epoch_watch(
    method: str, criterion: Any, split: Split
) -> Callable[[nn.Module], dict[str, float]]:
    """A function of the network: loss and F-beta of the training rows, F1 of validation, accuracy of test rows."""
    beta = beta_of(method)

    @torch.no_grad()
    def watch(network: nn.Module) -> dict[str, float]:
        logits, decided = _decided(network, split.train)
        true = split.train.targets.numpy()
        loss = criterion(logits, split.train.targets)
        _, valid = _decided(network, split.valid)
        _, test = _decided(network, split.test)
        return {
            "loss": float(loss),
            "f_beta": float(fbeta_score(true, decided, beta=beta, zero_division=0)),
            "train_f1": float(f1_score(true, decided, zero_division=0)),
            "valid_f1": float(f1_score(split.valid.targets.numpy(), valid, zero_division=0)),
            "accuracy": float(accuracy_score(split.test.targets.numpy(), test)),
        }

    return watch


def _decided(network: nn.Module, part: Part) -> tuple[torch.Tensor, Any]:
    inputs = part.inputs
    if inputs.dim() == 4 and inputs.shape[-1] < AUGMENTED_SIDE:
        inputs = padded(inputs, AUGMENTED_SIDE)  # as large as what training crops
    logits = predict_logits(network, inputs)
    return logits, logits.argmax(1).numpy()


def scores_of_epochs(history: list[dict[str, float]]) -> dict[str, float]:
    """Scores of the last epoch, and the correlation of loss and F-beta over all epochs.

    The correlation is left out where it has no meaning: with two epochs, or a score that never changed.

    Examples
    --------
    >>> rows = [
    ...     {"loss": x, "f_beta": 1 - x, "train_f1": 0, "valid_f1": 0, "accuracy": 1}
    ...     for x in (0.1, 0.5, 0.7)
    ... ]
    >>> round(scores_of_epochs(rows)["correlation"], 3)
    -1.0
    """
    last = history[-1]
    scores = {name: last[name] for name in ("train_f1", "valid_f1", "accuracy")}
    loss, score = (np.array([row[name] for row in history]) for name in ("loss", "f_beta"))
    if len(history) > 2 and loss.std() > 0 and score.std() > 0:
        scores["correlation"] = float(np.corrcoef(loss, score)[0, 1])
    return scores
