"""The focal loss as an objective of the trainer: cross-entropy with less weight for easy rows."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional

from eastward.baselines.pointwise import focal_terms
from eastward.protocols import Reduce
from eastward.training.objectives import IGNORED, member_means

__all__ = ["FocalObjective"]


class FocalObjective:
    r"""The weighted mean focal loss of each member.

    .. math:: -(1 - p_y)^\gamma \log p_y

    Parameters
    ----------
    gamma : float, default=2.0
        0 gives cross-entropy; a larger value gives less weight to rows that are predicted correctly.
    multilabel : bool, default=False
        Whether labels are independent; the loss is then the mean of their binary focal losses.
    reduce : callable, optional
        A differentiable sum over processes.

    References
    ----------
    Lin et al., *Focal loss for dense object detection*, ICCV 2017.

    Examples
    --------
    >>> import torch
    >>> FocalObjective(gamma=2.0)(torch.zeros(1, 4, 2), torch.zeros(1, 4, dtype=torch.long), None)
    tensor([0.1733])
    """

    def __init__(
        self, gamma: float = 2.0, *, multilabel: bool = False, reduce: Reduce | None = None
    ) -> None:
        self.gamma, self.multilabel, self.reduce = gamma, multilabel, reduce
        self.temperature: float | None = None

    def __call__(self, logits: Tensor, targets: Tensor, weights: Tensor | None) -> Tensor:
        """Compute losses ``(K,)`` of logits ``(K, B, C)``, targets ``(K, B)`` and weights."""
        known = targets != IGNORED
        labels = targets.clamp_min(0)
        if self.multilabel:
            # The log-probability of the true value of every label.
            signs = labels.to(logits.dtype) * 2 - 1
            logs = functional.logsigmoid(logits.float() * signs)
            each = (focal_terms(logs, self.gamma) * known).mean(-1)
            known = known.all(-1)
        else:
            logs = logits.float().log_softmax(-1)
            each = focal_terms(logs.gather(-1, labels.unsqueeze(-1)).squeeze(-1), self.gamma)
        mass = known.to(each.dtype) if weights is None else weights * known
        return member_means(each, mass, self.reduce)
