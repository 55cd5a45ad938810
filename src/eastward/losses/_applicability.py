"""Whether kernels apply to a batch, and what they are asked.

Float64, other steps than the linear one, functorch, forward-mode differentiation, compilation, and gradients by
something else than the logits take the definition.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad

from eastward.kernels.problems import Problem
from eastward.losses._batches import Batch
from eastward.losses._definition import Terms
from eastward.steps import STEPS

__all__ = ["LINEAR", "PLAIN_TENSORS", "kernels_apply", "problem_of", "transforms"]

PLAIN_TENSORS = (Tensor, nn.Parameter)
LINEAR = STEPS["linear"]
# torch has no public questions for these.
_is_wrapped = torch._C._functorch.is_functorch_wrapped_tensor  # noqa: SLF001
transforms = torch._C._functorch.peek_interpreter_stack  # noqa: SLF001


def kernels_apply(batch: Batch, terms: Terms, temperature: Tensor | float) -> bool:
    """Whether the closed forms hold for this batch and these options."""
    logits, targets, weights = batch
    if torch.compiler.is_compiling() or terms.step is not LINEAR:
        return False
    if logits.dtype == torch.float64 or logits.is_meta or _learns(temperature):
        return False
    if forward_ad._current_level >= 0:  # noqa: SLF001 - torch has no public question for it
        return False
    if weights is not None and (weights.requires_grad or not _is_plain(weights)):
        return False
    return _is_plain(logits) and _is_plain(targets) and not _learns(terms.prior)


def _learns(value: Any) -> bool:
    return isinstance(value, Tensor) and value.requires_grad


def _is_plain(tensor: Tensor) -> bool:
    return type(tensor) in PLAIN_TENSORS and not _is_wrapped(tensor)


def problem_of(size: int, terms: Terms, temperature: float) -> Problem:
    """What a kernel is asked for logits of ``size`` columns."""
    if terms.multilabel:
        kind, thresholds = "labels", terms.thresholds or (0.5,)
    elif size <= 2:
        kind, thresholds = "pair", terms.thresholds or (0.5,)
    elif terms.thresholds is None:
        kind, thresholds = "dynamic", (0.5,)
    else:
        kind, thresholds = "fixed", terms.thresholds
    matrix = terms.metric.needs_matrix and kind in ("dynamic", "fixed")
    return Problem(kind, thresholds, temperature, terms.detach_threshold, matrix)
