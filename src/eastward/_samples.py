"""Flatten spatial dimensions: every position is a sample like any other."""

from __future__ import annotations

from torch import Tensor

from eastward import _checks


def flatten_samples(
    caller: str,
    scores: Tensor,
    targets: Tensor,
    sample_weight: Tensor | None,
    *,
    argument: str = "logits",
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Move classes last and flatten the rest: ``(N, C, ...) + (N, ...) -> (M, C) + (M,)``."""
    if scores.dim() < 2:
        expected = "of shape (N, C) or (N, C, ...)"
        _checks.fail(caller, argument, expected, _checks.describe(scores))
    expected_shape = (scores.shape[0], *scores.shape[2:])
    if targets.shape != expected_shape:
        advice = f"They go with {argument} of shape {tuple(scores.shape)}."
        _checks.fail(
            caller, "targets", f"of shape {expected_shape}", _checks.describe(targets), advice
        )
    weight = flat_weight(caller, sample_weight, targets)
    return scores.movedim(1, -1).reshape(-1, scores.shape[1]), targets.reshape(-1), weight


def flat_weight(caller: str, sample_weight: Tensor | None, targets: Tensor) -> Tensor | None:
    """Flatten weights of shape ``(N,)`` or of the targets' shape, as the targets are flattened."""
    if sample_weight is None:
        return None
    if sample_weight.shape == targets.shape:
        return sample_weight.reshape(-1)
    if sample_weight.shape != targets.shape[:1]:
        expected = f"of shape ({targets.shape[0]},) or {tuple(targets.shape)}"
        _checks.fail(caller, "sample_weight", expected, _checks.describe(sample_weight))
    trailing = (1,) * (targets.dim() - 1)
    return sample_weight.reshape(-1, *trailing).expand(targets.shape).reshape(-1)
