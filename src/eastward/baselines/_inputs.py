"""The input of a baseline: checked like that of our losses, as log-probabilities and weights."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from eastward import _checks
from eastward._numerics import at_least_float32
from eastward.losses._batches import prepare_batch

__all__ = [
    "Samples",
    "balanced",
    "class_weight_vector",
    "positive_only",
    "samples_of",
    "weighted_mean",
]


class Samples(NamedTuple):
    """Checked, flat samples.

    Attributes
    ----------
    log_probabilities : Tensor
        ``(M, C)``, float32 or wider; a single logit becomes two columns.
    targets : Tensor
        ``(M,)`` class indices; an ignored sample has class 0 and weight 0.
    weight : Tensor
        ``(M,)``.
    """

    log_probabilities: Tensor
    targets: Tensor
    weight: Tensor

    @property
    def num_classes(self) -> int:
        """Number of classes, 2 for a single logit."""
        return self.log_probabilities.shape[1]

    def log_true(self) -> Tensor:
        """Log-probability of the true class, ``(M,)``."""
        return self.log_probabilities.gather(1, self.targets.unsqueeze(1)).squeeze(1)


def samples_of(
    caller: str,
    logits: Tensor,
    targets: Tensor,
    sample_weight: Tensor | None = None,
    *,
    ignore_index: int | None,
    check_inputs: bool,
) -> Samples:
    """Check and flatten samples of ``(N,)``, ``(N, 1)``, ``(N, C)`` or ``(N, C, ...)`` logits."""
    batch = prepare_batch(caller, logits, targets, sample_weight, False, ignore_index, check_inputs)
    scores, labels = at_least_float32(batch.logits), batch.targets
    given = batch.sample_weight
    weight = torch.ones_like(scores[:, 0]) if given is None else given.to(scores)
    if ignore_index is not None:
        ignored = labels == ignore_index
        labels, weight = labels.masked_fill(ignored, 0), weight.masked_fill(ignored, 0.0)
    return Samples(_log_probabilities(scores), labels.long(), weight)


def _log_probabilities(scores: Tensor) -> Tensor:
    if scores.shape[1] > 1:
        return functional.log_softmax(scores, dim=1)
    # log(1 - sigmoid(z)) is logsigmoid(-z), which loses no digits
    return torch.cat([functional.logsigmoid(-scores), functional.logsigmoid(scores)], dim=1)


def positive_only(caller: str, samples: Samples) -> None:
    """Check that there are two classes; class 1 is the positive one."""
    if samples.num_classes != 2:
        advice = "Train one loss for each class against the rest, or use EASTLoss."
        expected = "of shape (N,), (N, 1) or (N, 2): the loss is binary"
        _checks.fail(caller, "logits", expected, f"{samples.num_classes} classes", advice)


def weighted_mean(values: Tensor, weight: Tensor) -> Tensor:
    """Average ``values`` by ``weight``; zero, with zero gradient, if all weights are zero."""
    total = weight.sum()
    return (values * weight).sum() / torch.where(total > 0, total, 1.0)


def class_weight_vector(caller: str, value: object) -> Tensor | None:
    """Return class weights as a float32 tensor of numbers >= 0, or None."""
    if value is None:
        return None
    try:
        weights = torch.as_tensor(value, dtype=torch.float64)
    except (TypeError, ValueError, RuntimeError):
        got = _checks.describe(value)
        expected = "one number per class, or None"
        _checks.fail(caller, "class_weight", expected, got, error=TypeError)
    if weights.dim() != 1 or len(weights) < 2:
        advice = "class_weights(class_counts) makes them."
        got = _checks.describe(value)
        _checks.fail(
            caller, "class_weight", "one number for each of two or more classes", got, advice
        )
    if not bool((torch.isfinite(weights) & (weights >= 0)).all()):
        _checks.fail(caller, "class_weight", "finite and >= 0", weights.tolist()[:10])
    return weights.float()


def balanced(caller: str, samples: Samples, class_weight: Tensor | None) -> Tensor:
    """Return the class weight of each sample ``(M,)``; ones without class weights."""
    if class_weight is None:
        return torch.ones_like(samples.weight)
    if len(class_weight) != samples.num_classes:
        expected = f"of length {samples.num_classes}, one number per class"
        _checks.fail(caller, "class_weight", expected, f"{len(class_weight)} numbers")
    return class_weight.to(samples.weight)[samples.targets]
