"""A loss as one node of the graph: sums over samples, metric, and the gradient in closed form."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor

from eastward.kernels import eager
from eastward.kernels.problems import Backend, NotFiniteError, Problem, Samples
from eastward.kernels.scoring import Scoring, losses_and_slopes

__all__ = ["Evaluation", "evaluate"]

_AS_IT_IS: AbstractContextManager[None] = nullcontext()


class Evaluation:
    """One forward pass, and what its backward passes need.

    Parameters
    ----------
    backend : Backend
        The kernels.
    problem : Problem
        Kind of membership.
    scoring : Scoring
        Metric and what lies between sums and metric.
    labels, weights : Tensor
        As in :class:`~eastward.kernels.problems.Samples`.
    definition : callable
        From the logits to the same losses by plain operations; second derivatives are taken through it.
    single : bool
        Whether logits are ``(N, C)`` and the loss 0-d, instead of ``(K, N, C)`` and ``(K,)``.
    dtype : torch.dtype
        Of the losses.
    check : callable, optional
        Looks at every value and says what is wrong; called when some logit seems not to be finite.
    """

    def __init__(
        self,
        backend: Backend,
        problem: Problem,
        scoring: Scoring,
        labels: Tensor,
        weights: Tensor | None,
        definition: Callable[[Tensor], Tensor],
        *,
        single: bool,
        dtype: torch.dtype,
        check: Callable[[], object] | None = None,
    ) -> None:
        self.backend, self.problem, self.scoring = backend, problem, scoring
        self.labels, self.weights, self.definition = labels, weights, definition
        self.single, self.dtype, self.check = single, dtype, check
        self.empty: Tensor | bool = False
        self.saved: Any = None
        self.recorded = False
        self.prepared: Samples | None = None
        self.slopes: Tensor | None = None

    def samples(self, logits: Tensor) -> Samples:
        """Logits in the form that kernels take."""
        if self.prepared is not None:
            return self.prepared
        plain = logits.detach()
        if self.single:
            plain = plain.unsqueeze(0)
        if plain.dtype == torch.float32 and plain.is_contiguous():
            # No copy, so nothing is lost by keeping it for the backward pass.
            self.prepared = Samples(plain, self.labels, self.weights, self.recorded)
            return self.prepared
        return Samples(plain.float().contiguous(), self.labels, self.weights, self.recorded)

    def losses(self, logits: Tensor) -> Tensor:
        """Losses of the logits."""
        with _full_precision(logits):
            sums, self.saved = self._sums(self.samples(logits))
            if self.scoring.reduce is not None:
                sums = self.scoring.reduce(sums)
            compiled = getattr(self.backend, "loss_and_slope", None)
            losses, self.slopes, self.empty = losses_and_slopes(
                sums, self.problem, self.scoring, compiled
            )
        if self.single and losses.device.type == "cpu":
            return torch.tensor(losses.item(), dtype=self.dtype)
        return (losses[0] if self.single else losses).to(self.dtype)

    def _sums(self, samples: Samples) -> tuple[Tensor, Any]:
        if self.backend is not eager:
            try:
                return self.backend.sums(self.problem, samples)
            except NotFiniteError:
                # NaN and infinity go through plain operations, which give them the usual meaning.
                self.backend = eager
        # A sum is finite only if every logit is; the rare overflow of a sum is told apart by the check.
        if self.check is not None and not math.isfinite(samples.logits.sum()):
            self.check()
        return eager.sums(self.problem, samples)

    def gradient(self, logits: Tensor, by_losses: Tensor) -> Tensor:
        """Gradient at the logits, given that at the losses."""
        if self.slopes is None:
            raise RuntimeError("the backward pass of a loss was asked for before its forward pass")
        with _full_precision(logits):
            if self.scoring.reduce is not None:
                # Slopes at the summed table are alike in all processes: their sum needs the factors alone.
                by_losses = self.scoring.reduce(by_losses.float())
            slopes = self._scaled_slopes(self.slopes, by_losses)
            samples = self.samples(logits)
            found = self.backend.gradient(self.problem, samples, self.saved, slopes)
        found = found[0] if self.single else found
        return found if found.dtype == logits.dtype else found.to(logits.dtype)

    def _scaled_slopes(self, slopes: Tensor, by_losses: Tensor) -> Tensor:
        if self.single and by_losses.device.type == "cpu":
            factor = by_losses.item()
            return slopes if factor == 1 else slopes * factor
        return slopes * by_losses.view(-1, 1, 1, 1).to(slopes)


def evaluate(logits: Tensor, evaluation: Evaluation) -> Tensor:
    """Losses of logits, differentiable."""
    if not (logits.requires_grad and torch.is_grad_enabled()):
        return evaluation.losses(logits)
    evaluation.recorded = True
    losses: Tensor = _Fused.apply(logits, evaluation)  # type: ignore[no-untyped-call]  # torch has no types here
    return losses


class _Fused(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, evaluation: Evaluation) -> Tensor:
        ctx.evaluation = evaluation
        ctx.save_for_backward(logits)
        return evaluation.losses(logits)

    @staticmethod
    def backward(ctx: Any, by_losses: Tensor) -> tuple[Tensor, None]:
        (logits,) = ctx.saved_tensors
        if torch.is_grad_enabled():
            # Someone wants to differentiate once more: plain operations know how.
            losses = ctx.evaluation.definition(logits)
            (found,) = torch.autograd.grad(losses, logits, by_losses, create_graph=True)
            return found, None
        return ctx.evaluation.gradient(logits, by_losses), None


def _full_precision(logits: Tensor) -> AbstractContextManager[Any]:
    device = logits.device.type
    return torch.autocast(device, enabled=False) if torch.is_autocast_enabled(device) else _AS_IT_IS
