"""The adversarial F-beta loss of Fathony and Kolter (AP-Perf)."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from eastward import _checks
from eastward._numerics import at_least_float32
from eastward.baselines.adversarial_admm import solve_game_by_admm
from eastward.baselines.adversarial_game import solve_game
from eastward.losses._batches import prepare_batch, result_dtype
from eastward.protocols import Logits, Scalar, Targets

__all__ = ["PUBLISHED_BATCH", "AdversarialFBetaLoss"]

PUBLISHED_BATCH = 25
"""The largest batch of the published experiments."""

SOLVERS = {"exact": solve_game, "admm": solve_game_by_admm}


class AdversarialFBetaLoss(nn.Module):
    r"""One minus the F-beta against an adversary, who chooses the labels but pays for deviating from the truth.

    .. math::
        \ell(z, y) = 1 - \Big( \min_Q \max_P \; \mathbb{E}_{\hat y \sim P,\, \check y \sim Q}
        \big[F_\beta(\hat y, \check y)\big] - \sum_i z_i \big(\Pr_Q(\check y_i = 1) - y_i\big) \Big)

    Parameters
    ----------
    beta : float, default=1.0
        Below 1 favours precision, above 1 recall.
    max_batch : int, default=25
        A larger batch is an error, unless ``split`` is set. The cost grows at least with the third power of the batch
        size.
    solver : {"exact", "admm"}, default="exact"
        "exact" solves a linear program (HiGHS). "admm" is the published approximation, which takes longer.
    split : bool, default=False
        Cut a larger batch into games of at most ``max_batch`` samples, in order, and average their losses.
    ignore_index : int or None, default=-100
        Targets with this value are left out.
    check_inputs : bool, default=True
        Check values as well as types and shapes: NaN, labels out of range. False saves the time of these checks.

    Notes
    -----
    The loss is for two classes: predict class 1 where the logit is positive. It is convex in the logits and never
    negative. By the envelope theorem, its gradient is the adversary's marginals minus the labels. The game is solved
    on the CPU; the linear program needs scipy. An empty batch has loss 0.

    References
    ----------
    Fathony and Kolter, *AP-Perf: Incorporating generic performance metrics in differentiable learning*, AISTATS 2020.

    Examples
    --------
    >>> import torch
    >>> logits = torch.zeros(2, requires_grad=True)
    >>> loss = AdversarialFBetaLoss()(logits, torch.tensor([1, 0]))
    >>> loss.backward()
    >>> round(loss.item(), 4)
    0.6
    """

    def __init__(
        self,
        beta: float = 1.0,
        *,
        max_batch: int = PUBLISHED_BATCH,
        solver: str = "exact",
        split: bool = False,
        ignore_index: int | None = -100,
        check_inputs: bool = True,
    ) -> None:
        super().__init__()
        caller = "AdversarialFBetaLoss"
        self.beta = _checks.positive(caller, "beta", beta)
        self.max_batch = _checks.whole_number(caller, "max_batch", max_batch, at_least=1)
        _checks.one_of(caller, "solver", solver, tuple(SOLVERS))
        self.solver = solver
        self.split = _checks.boolean(caller, "split", split)
        self.check_inputs = _checks.boolean(caller, "check_inputs", check_inputs)
        self.ignore_index = _checks.ignore_index(caller, ignore_index)

    def forward(self, logits: Logits, targets: Targets) -> Scalar:
        """Compute the loss of one batch of ``(N,)``, ``(N, 1)`` or ``(N, 2)`` logits."""
        caller = "AdversarialFBetaLoss"
        batch = prepare_batch(
            caller, logits, targets, None, False, self.ignore_index, self.check_inputs
        )
        scores, labels = _positive_scores(caller, batch.logits), batch.targets
        if self.ignore_index is not None:
            known = labels != self.ignore_index
            scores, labels = scores[known], labels[known]
        if not len(scores):
            return scores.sum().to(result_dtype(logits))
        losses = [
            _loss_of_game(*game, self.beta, self.solver) for game in self._games(scores, labels)
        ]
        return torch.stack(losses).mean().to(result_dtype(logits))

    def _games(self, scores: Tensor, labels: Tensor) -> list[tuple[Tensor, Tensor]]:
        count = -(-len(scores) // self.max_batch)
        if count > 1 and not self.split:
            expected = f"of at most {self.max_batch} samples"
            advice = "Use smaller batches, or split=True; a larger max_batch takes more time."
            got = f"{len(scores)} samples"
            _checks.fail("AdversarialFBetaLoss", "logits", expected, got, advice)
        # nearly equal parts, because a game of one or two samples would say little about F-beta
        return list(zip(scores.tensor_split(count), labels.tensor_split(count), strict=True))


def _positive_scores(caller: str, logits: Tensor) -> Tensor:
    """Return the score of class 1 in float32 or wider: the logit, or the difference of two."""
    if logits.shape[1] > 2:
        expected = "of shape (N,), (N, 1) or (N, 2): the loss is binary"
        _checks.fail(caller, "logits", expected, f"{logits.shape[1]} classes")
    wide = at_least_float32(logits)
    return wide[:, 0] if wide.shape[1] == 1 else wide[:, 1] - wide[:, 0]


def _loss_of_game(scores: Tensor, labels: Tensor, beta: float, solver: str) -> Tensor:
    loss: Tensor = _Game.apply(scores, labels.to(scores.dtype), beta, solver)  # type: ignore[no-untyped-call]
    return loss


class _Game(torch.autograd.Function):
    """The value of the game; its gradient by the envelope theorem."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor, labels: Tensor, beta: float, solver: str) -> Tensor:
        plain = scores.detach().cpu().numpy().astype(np.float64)
        solved = SOLVERS[solver](plain, beta)
        marginals = torch.as_tensor(solved.marginals).to(scores)
        ctx.save_for_backward(marginals - labels)
        value = solved.value + float(plain @ labels.detach().cpu().numpy().astype(np.float64))
        return scores.new_tensor(1 - value)

    @staticmethod
    def backward(ctx: Any, *outputs: Tensor) -> tuple[Tensor, None, None, None]:
        (slope,) = ctx.saved_tensors
        return outputs[0] * slope, None, None, None
