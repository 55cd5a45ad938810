"""Labels that kernels may index with, and weights in which ignored samples and the prior are folded."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from eastward import _checks
from eastward._numerics import safe_divide
from eastward.kernels.problems import Problem
from eastward.losses._batches import Batch
from eastward.protocols import Reduce

__all__ = ["are_weights", "labels_and_weights", "version_of"]

# Priors seen last, each beside the object whose id is its key.
_CHECKED: dict[int, tuple[Tensor, tuple[int, int], Tensor]] = {}
_REMEMBERED = 64


def labels_and_weights(
    batch: Batch,
    problem: Problem,
    *,
    ignore_index: int | None,
    prior: Any,
    reduce: Reduce | None,
    check: Callable[[], object] | None,
) -> tuple[Tensor, Tensor | None]:
    """Labels that are safe to index with, and weights in which ignoring and the prior are folded."""
    targets, size = batch.targets, 2 if problem.binary else batch.logits.shape[-1]
    weights = None if batch.sample_weight is None else batch.sample_weight.float()
    if weights is not None and check is not None and not are_weights(weights):
        check()
    labels = targets if targets.dtype == torch.int64 else targets.long()
    exact = not targets.is_floating_point()
    if not (
        exact
        and _all_within(labels, size)
        and (ignore_index is None or not 0 <= ignore_index < size)
    ):
        if check is not None:
            check()
        labels, weights = _masked(targets, labels, weights, problem, ignore_index, size)
    if prior is not None:
        weights = _corrected(batch, labels, weights, prior, problem, reduce)
    labels = labels if labels.is_contiguous() else labels.contiguous()
    return labels, None if weights is None else weights.contiguous()


def are_weights(weights: Tensor) -> bool:
    """Whether no weight is negative, and none NaN or infinite: a sum is finite only if its terms are."""
    return weights.numel() == 0 or (float(weights.min()) >= 0 and math.isfinite(weights.sum()))


def _all_within(labels: Tensor, size: int) -> bool:
    if labels.numel() == 0 or labels.device.type != "cpu":
        # On a GPU looking would stall; masking without looking costs less.
        return labels.numel() == 0
    low, high = labels.aminmax()
    return int(low) >= 0 and int(high) < size


def _masked(
    targets: Tensor,
    labels: Tensor,
    weights: Tensor | None,
    problem: Problem,
    ignored: int | None,
    size: int,
) -> tuple[Tensor, Tensor | None]:
    if problem.kind == "labels":
        labels = (targets == 1).long()
    if ignored is not None:
        # Masked before anything indexes: 255 or -100 must never be a place in an array.
        gone = targets == ignored
        blank = torch.ones_like(labels, dtype=torch.float32) if weights is None else weights
        labels, weights = labels.masked_fill(gone, 0), blank.masked_fill(gone, 0.0)
    if labels.device.type == "cpu" and not _all_within(labels, size):
        low, high = labels.aminmax()
        raise IndexError(f"labels lie in [{int(low)}, {int(high)}], outside [0, {size})")
    return labels, weights


def _checked_prior(prior: Any, size: int) -> Tensor:
    """The prior as a tensor; one that was looked at before is not looked at again."""
    known = _CHECKED.get(id(prior))
    if known is not None and known[0] is prior and known[1] == (size, version_of(prior)):
        return known[2]
    checked = _checks.prior("soft_confusion", prior, size)
    if isinstance(prior, Tensor):
        if len(_CHECKED) >= _REMEMBERED:
            _CHECKED.clear()
        _CHECKED[id(prior)] = (prior, (size, version_of(prior)), checked)
    return checked


def version_of(value: Any) -> int:
    """How often a tensor was changed in place; -1 for anything else."""
    return value._version if isinstance(value, Tensor) else -1  # noqa: SLF001 - torch has no public name for it


def _corrected_on_cpu(labels: np.ndarray, weights: np.ndarray, wanted: np.ndarray) -> Tensor:
    """The same by NumPy, whose calls cost a fraction on arrays of this size."""
    result = np.empty_like(weights)
    for member, (of_row, weight) in enumerate(zip(labels, weights, strict=True)):
        present = np.bincount(of_row, weights=weight, minlength=len(wanted))
        scale = np.zeros_like(wanted)
        np.divide(wanted, present, out=scale, where=present > 0, casting="same_kind")
        np.multiply(weight, scale[of_row], out=result[member])
    return torch.from_numpy(result)


def _corrected(
    batch: Batch,
    labels: Tensor,
    weights: Tensor | None,
    prior: Any,
    problem: Problem,
    reduce: Reduce | None,
) -> Tensor:
    """Weights by which every class has the mass that the prior gives it."""
    if weights is None:
        weights = torch.ones_like(labels, dtype=torch.float32)
    if problem.kind == "labels":
        rate = _checks.prior("multilabel_counts", prior, labels.shape[2], sums_to_one=False)
        rate = rate.to(weights)
        on = weights * labels
        mass = torch.stack([(weights - on).sum(1), on.sum(1)])
        mass = reduce(mass) if reduce is not None else mass
        scale = safe_divide(torch.stack([1 - rate, rate]).unsqueeze(1), mass).unsqueeze(2)
        return weights * torch.where(labels > 0, scale[1], scale[0])
    size = max(batch.logits.shape[-1], 2)
    wanted = _checked_prior(prior, size).to(weights)
    if reduce is None and labels.device.type == "cpu":
        return _corrected_on_cpu(labels.numpy(), weights.numpy(), wanted.numpy())
    present = weights.new_zeros(len(labels), size).scatter_add_(1, labels, weights)
    present = reduce(present) if reduce is not None else present
    return weights * safe_divide(wanted, present).gather(1, labels)
