"""The input of a loss, checked once and flattened to samples times classes."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import forward_ad

from eastward import _checks
from eastward._numerics import at_least_float32
from eastward._samples import flat_weight, flatten_samples


class Batch(NamedTuple):
    """Checked, flat input: ``(M, C)`` logits, ``(M,)`` or ``(M, L)`` targets, weights of the targets' shape."""

    logits: Tensor
    targets: Tensor
    sample_weight: Tensor | None


def is_ordinary(logits: Any, targets: Any, sample_weight: Any) -> bool:
    """Whether a batch has flat float32 logits, int64 labels and float32 weights (if any) on the CPU, as most do.

    Such tensors need no check of type or shape and no conversion before a fast kernel reads them.
    """
    if torch.compiler.is_compiling():
        return False
    if not (type(logits) is Tensor and type(targets) is Tensor):
        return False
    try:
        return (
            logits.dtype is torch.float32
            and targets.dtype is torch.int64
            and logits.layout is targets.layout is torch.strided
            and logits.is_cpu
            and targets.is_cpu
            and logits.dim() == 2
            and targets.shape == logits.shape[:1]
            and logits.shape[1] > 1
            and logits.is_contiguous()
            and targets.is_contiguous()
            and not logits.is_neg()
            and not targets.is_neg()
            and logits.data_ptr() != 0
            and targets.data_ptr() != 0
            and forward_ad.unpack_dual(logits).tangent is None
            and (sample_weight is None or _is_ordinary_weight(sample_weight, targets))
        )
    except (NotImplementedError, RuntimeError):
        # Tensors inside torch.func have no storage, and nested tensors have no shape.
        return False


def _is_ordinary_weight(weight: Any, targets: Tensor) -> bool:
    return (
        type(weight) is Tensor
        and weight.dtype is torch.float32
        and weight.layout is torch.strided
        and weight.is_cpu
        and weight.shape == targets.shape
        and weight.is_contiguous()
        and not weight.is_neg()
        and not weight.requires_grad
        and weight.data_ptr() != 0
    )


def prepare_batch(
    caller: str,
    logits: Tensor,
    targets: Tensor,
    sample_weight: Tensor | None,
    multilabel: bool,
    ignore_index: int | None,
    check_inputs: bool = True,
) -> Batch:
    """Check the input and flatten it to samples times classes; a single logit becomes one column."""
    _checks.ordinary_logits(caller, logits)
    _check_places(caller, logits, targets, sample_weight)
    inspect = check_inputs and _checks.can_inspect(logits, targets)
    if inspect:
        _checks.finite(caller, "logits", logits)
    if inspect and sample_weight is not None:
        _checks.weights(caller, sample_weight)
    flat = logits.dim() == 2 and logits.shape[1] > 1 and targets.shape == logits.shape[:1]
    if flat and not multilabel:
        # Already flat, so make no views: each one would be a node of the graph.
        batch = Batch(logits, targets, flat_weight(caller, sample_weight, targets))
    elif multilabel:
        batch = _multilabel_batch(caller, logits, targets, sample_weight)
    elif logits.dim() < 2 or logits.shape[1] == 1:
        batch = _single_logit_batch(caller, logits, targets, sample_weight)
    else:
        batch = Batch(*flatten_samples(caller, logits, targets, sample_weight))
    _check_targets(caller, batch, multilabel, ignore_index, inspect=inspect)
    return batch


def _check_targets(
    caller: str, batch: Batch, multilabel: bool, ignore_index: int | None, *, inspect: bool
) -> None:
    if multilabel or batch.logits.shape[1] == 1:
        if inspect:
            _checks.indicator_targets(caller, batch.targets, ignore_index)
    elif inspect or batch.targets.is_floating_point():
        _checks.class_targets(caller, batch.targets, batch.logits.shape[1], ignore_index)


def _check_places(caller: str, logits: Tensor, targets: object, weights: object) -> None:
    """Check that targets and weights are real tensors on the device of the logits."""
    _checks.tensor(caller, "targets", targets)
    _checks.beside(caller, "targets", targets, logits)
    if weights is not None:
        _checks.tensor(caller, "sample_weight", weights)
        _checks.beside(caller, "sample_weight", weights, logits)


def _single_logit_batch(
    caller: str, logits: Tensor, targets: Tensor, sample_weight: Tensor | None
) -> Batch:
    if logits.dim() == 0:
        expected = "of shape (N,), (N, C) or (N, C, ...)"
        _checks.fail(caller, "logits", expected, _checks.describe(logits))
    without_class = (logits.shape[0], *logits.shape[2:])
    if targets.shape not in (logits.shape, without_class):
        expected = f"of shape {tuple(logits.shape)}, like the single logit"
        _checks.fail(caller, "targets", expected, _checks.describe(targets))
    targets = targets.reshape(without_class)
    return Batch(
        logits.reshape(-1, 1), targets.reshape(-1), flat_weight(caller, sample_weight, targets)
    )


def _multilabel_batch(
    caller: str, logits: Tensor, targets: Tensor, sample_weight: Tensor | None
) -> Batch:
    if logits.dim() < 2 or targets.shape != logits.shape:
        expected = (
            f"of the logits' shape {tuple(logits.shape)}, at least (N, L), when multilabel=True"
        )
        _checks.fail(caller, "targets", expected, _checks.describe(targets))
    size = logits.shape[1]
    weight = None
    if sample_weight is not None and sample_weight.shape == logits.shape:
        weight = sample_weight.movedim(1, -1).reshape(-1, size)
    elif sample_weight is not None:
        per_sample = flat_weight(caller, sample_weight, targets.select(1, 0))
        weight = None if per_sample is None else per_sample.unsqueeze(1).expand(-1, size)
    flat_logits, flat_targets = (t.movedim(1, -1).reshape(-1, size) for t in (logits, targets))
    return Batch(flat_logits, flat_targets, weight)


def result_dtype(logits: Tensor) -> torch.dtype:
    """Return the dtype of the loss: that of the logits, but float32 inside autocast.

    A float16 loss overflows as soon as ``GradScaler`` multiplies it by 65536; PyTorch's own losses therefore
    return float32 under autocast, and so does ours.
    """
    if torch.is_autocast_enabled(logits.device.type):
        return at_least_float32(logits.detach()[:0]).dtype
    return logits.dtype
