"""What a stage minimises: one loss for each member.

An objective maps logits ``(K, B, C)``, targets ``(K, B)`` and weights to K losses. Members share no parameter, so the
gradient of their sum is the gradient of each.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from eastward.losses import metric_loss
from eastward.losses.stacked import stacked_losses, stacked_losses_and_gradient
from eastward.metrics import Metric
from eastward.protocols import Reduce

__all__ = ["IGNORED", "CrossEntropyObjective", "MetricObjective", "member_means"]

IGNORED = -100


class CrossEntropyObjective:
    """Weighted mean cross-entropy of each member (binary cross-entropy for independent labels).

    Examples
    --------
    >>> import torch
    >>> objective = CrossEntropyObjective()
    >>> objective(torch.zeros(2, 4, 3), torch.zeros(2, 4, dtype=torch.long), None)
    tensor([1.0986, 1.0986])
    """

    def __init__(self, *, multilabel: bool = False, reduce: Reduce | None = None) -> None:
        self.multilabel, self.reduce = multilabel, reduce
        self.temperature: float | None = None

    def __call__(self, logits: Tensor, targets: Tensor, weights: Tensor | None) -> Tensor:
        """Losses ``(K,)``."""
        members, size = targets.shape[:2]
        if self.multilabel:
            known = targets != IGNORED
            each = functional.binary_cross_entropy_with_logits(
                logits.float(), targets.clamp_min(0).to(logits.dtype).float(), reduction="none"
            )
            each = (each * known).mean(-1)
            known = known.all(-1)
        else:
            each = functional.cross_entropy(
                logits.float().flatten(0, 1),
                targets.flatten(),
                reduction="none",
                ignore_index=IGNORED,
            ).view(members, size)
            known = targets != IGNORED
        mass = known.to(each.dtype) if weights is None else weights * known
        return member_means(each, mass, self.reduce)

    def with_gradient(
        self, logits: Tensor, targets: Tensor, weights: Tensor | None
    ) -> tuple[Tensor, Tensor] | None:
        """Losses ``(K,)`` and their gradient, softmax minus the truth, without autograd; None for labels.

        Every target has to be a class: nothing is ignored here.
        """
        if self.multilabel:
            return None
        logarithms = functional.log_softmax(logits, dim=-1)
        true = targets.unsqueeze(-1)
        mass = _shares(targets, weights)
        losses = (logarithms.gather(-1, true).squeeze(-1) * -mass).sum(1)
        slope = logarithms.exp_().scatter_add_(-1, true, _minus_one(true))
        return losses, slope.mul_(mass.unsqueeze(-1) if weights is not None else mass)


def _shares(targets: Tensor, weights: Tensor | None) -> Tensor:
    """Each row's part in a weighted mean; one number where all rows count the same."""
    if weights is None:
        return torch.tensor(1 / targets.shape[1])
    return weights / weights.sum(1, keepdim=True).clamp_min(torch.finfo(weights.dtype).tiny)


def _minus_one(indices: Tensor) -> Tensor:
    return torch.tensor(-1.0).expand(indices.shape)


def member_means(each: Tensor, mass: Tensor, reduce: Reduce | None) -> Tensor:
    """Weighted means ``(K,)`` of ``(K, B)`` values, over the rows of all processes together."""
    total, weight = (each * mass).sum(1), mass.sum(1)
    if reduce is not None:
        total, weight = reduce(torch.stack([total, weight])).unbind()
    return total / weight.clamp_min(torch.finfo(each.dtype).tiny)


class MetricObjective:
    """One minus the soft metric of each member, with an optional share of cross-entropy.

    Parameters
    ----------
    metric : Metric
        What is to be maximised.
    prior : Tensor, optional
        Class distribution that stratified batches are corrected to.
    threshold : "top2", float or sequence of float, default="top2"
        As in :func:`~eastward.metric_loss`.
    step : str or callable, default="linear"
        As in :func:`~eastward.metric_loss`.
    multilabel : bool, default=False
        Independent labels.
    reduce : callable, optional
        Differentiable sum over processes.

    Attributes
    ----------
    temperature : float
        Set by whoever anneals.
    blend : float
        Weight of cross-entropy in the sum, 0 unless a collapse is being answered.
    """

    def __init__(
        self,
        metric: Metric,
        *,
        prior: Tensor | None = None,
        threshold: Any = "top2",
        step: Any = "linear",
        multilabel: bool = False,
        reduce: Reduce | None = None,
    ) -> None:
        self.metric, self.prior, self.reduce = metric, prior, reduce
        self.options = {"threshold": threshold, "step": step, "multilabel": multilabel}
        self.temperature: float = 0.2
        self.blend = 0.0
        # What travels between processes cannot be vectorised.
        self._vectorised = reduce is None
        self._cross_entropy = CrossEntropyObjective(multilabel=multilabel, reduce=reduce)

    def __call__(self, logits: Tensor, targets: Tensor, weights: Tensor | None) -> Tensor:
        """Losses ``(K,)``."""
        losses = self._losses(logits, targets, weights)
        if self.blend:
            losses = losses + self.blend * self._cross_entropy(logits, targets, weights)
        return losses

    def with_gradient(
        self, logits: Tensor, targets: Tensor, weights: Tensor | None
    ) -> tuple[Tensor, Tensor] | None:
        """Losses ``(K,)`` and their gradient from one kernel, without autograd; None where there is none."""
        found = stacked_losses_and_gradient(logits, targets, weights, self.metric, **self._terms())
        if found is None or not self.blend:
            return found
        mixed = self._cross_entropy.with_gradient(logits, targets, weights)
        if mixed is None:
            return None
        (losses, slope), (entropy, its_slope) = found, mixed
        return losses + self.blend * entropy, slope.add_(its_slope, alpha=self.blend)

    def _terms(self) -> dict[str, Any]:
        return {
            "temperature": self.temperature,
            "prior": self.prior,
            "ignore_index": IGNORED,
            "reduce": self.reduce,
            **self.options,
        }

    def _losses(self, logits: Tensor, targets: Tensor, weights: Tensor | None) -> Tensor:
        found = stacked_losses(logits, targets, weights, self.metric, **self._terms())
        if found is not None:
            return found.to(logits.dtype)
        if len(logits) > 1 and self._vectorised:
            try:
                return self._all_at_once(logits, targets, weights)
            except RuntimeError:
                # A user's metric may do what vmap cannot vectorise; then members go one by one, for good.
                self._vectorised = False
        rows = [None] * len(logits) if weights is None else list(weights)
        return torch.stack(
            [self._one(*member) for member in zip(logits, targets, rows, strict=True)]
        )

    def _all_at_once(self, logits: Tensor, targets: Tensor, weights: Tensor | None) -> Tensor:
        if weights is None:
            return torch.func.vmap(lambda z, y: self._one(z, y, None))(logits, targets)
        return torch.func.vmap(self._one)(logits, targets, weights)

    def _one(self, logits: Tensor, targets: Tensor, weights: Tensor | None) -> Tensor:
        return metric_loss(
            logits,
            targets,
            self.metric,
            sample_weight=weights,
            check_inputs=False,
            **self._terms(),
        )
