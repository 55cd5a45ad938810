"""Losses that are a mean over samples: balanced cross-entropy, focal loss, mean absolute error."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from eastward import _checks
from eastward.baselines._inputs import (
    Samples,
    balanced,
    class_weight_vector,
    samples_of,
    weighted_mean,
)
from eastward.baselines.class_balance import class_weights
from eastward.losses._batches import result_dtype
from eastward.protocols import Logits, Scalar, Targets

__all__ = ["BalancedCrossEntropyLoss", "FocalLoss", "MAELoss", "focal_terms"]


class PointwiseLoss(nn.Module, ABC):
    """Base class of losses that are a mean over samples of ``class weight * term``."""

    class_weight: Tensor | None

    def __init__(
        self, *, class_weight: object, ignore_index: int | None, check_inputs: bool
    ) -> None:
        super().__init__()
        caller = type(self).__name__
        self.ignore_index = _checks.ignore_index(caller, ignore_index)
        self.check_inputs = _checks.boolean(caller, "check_inputs", check_inputs)
        self.register_buffer("class_weight", class_weight_vector(caller, class_weight))

    def forward(
        self, logits: Logits, targets: Targets, sample_weight: Tensor | None = None
    ) -> Scalar:
        """Compute the loss of one batch; shapes as in :func:`~eastward.metric_loss`, but not multilabel."""
        caller = type(self).__name__
        samples = samples_of(
            caller,
            logits,
            targets,
            sample_weight,
            ignore_index=self.ignore_index,
            check_inputs=self.check_inputs,
        )
        terms = self.terms(samples) * balanced(caller, samples, self.class_weight)
        return weighted_mean(terms, samples.weight).to(result_dtype(logits))

    @abstractmethod
    def terms(self, samples: Samples) -> Tensor:
        """Compute the loss of each sample, ``(M,)``."""


class BalancedCrossEntropyLoss(PointwiseLoss):
    r"""Cross-entropy in which rare classes have more weight.

    .. math:: \ell = -\frac1n \sum_i w_{y_i} \log p_{i, y_i}

    Parameters
    ----------
    class_counts : sequence of float
        Number of training samples of each class, ``(C,)``, all positive.
    scheme : {"inverse_frequency", "effective_number"}, default="inverse_frequency"
        The rule for the weights; see :func:`class_weights`.
    effective_beta : float, default=0.999
        The beta of "effective_number", in [0, 1): 0 gives equal weights, close to 1 the inverse frequency.
    ignore_index : int or None, default=-100
        Targets with this value are left out.
    check_inputs : bool, default=True
        Check values as well as types and shapes: NaN, labels out of range. False saves the time of these checks.

    Notes
    -----
    As published, the sum is divided by the number of samples, not by the sum of their weights, as in
    :class:`torch.nn.CrossEntropyLoss`. If the composition of batches varies, only division by the number of samples
    gives an unbiased estimate of the balanced risk.

    References
    ----------
    Cui et al., *Class-balanced loss based on effective number of samples*, CVPR 2019; Lee et al., equation 15.

    Examples
    --------
    >>> import torch
    >>> loss = BalancedCrossEntropyLoss([90, 10])
    >>> loss(torch.zeros(10), (torch.arange(10) == 0).float())
    tensor(1.3863)
    """

    def __init__(
        self,
        class_counts: Sequence[float] | Tensor,
        *,
        scheme: str = "inverse_frequency",
        effective_beta: float = 0.999,
        ignore_index: int | None = -100,
        check_inputs: bool = True,
    ) -> None:
        weights = class_weights(class_counts, scheme=scheme, effective_beta=effective_beta)
        super().__init__(class_weight=weights, ignore_index=ignore_index, check_inputs=check_inputs)

    def terms(self, samples: Samples) -> Tensor:
        """Compute the cross-entropy of each sample."""
        return -samples.log_true()


class FocalLoss(PointwiseLoss):
    r"""Cross-entropy with less weight for samples that are already correct.

    .. math:: \ell = -\frac1n \sum_i w_{y_i} (1 - p_{i, y_i})^\gamma \log p_{i, y_i}

    Parameters
    ----------
    gamma : float, default=2.0
        At least 0; 0 is cross-entropy.
    class_weight : sequence of float, optional
        One number per class, the paper's alpha; see :func:`class_weights`.
    ignore_index : int or None, default=-100
        Targets with this value are left out.
    check_inputs : bool, default=True
        Check values as well as types and shapes: NaN, labels out of range. False saves the time of these checks.

    References
    ----------
    Lin et al., *Focal loss for dense object detection*, ICCV 2017.

    Examples
    --------
    >>> import torch
    >>> FocalLoss()(torch.zeros(4, 2), torch.zeros(4, dtype=torch.long))
    tensor(0.1733)
    """

    def __init__(
        self,
        gamma: float = 2.0,
        *,
        class_weight: Sequence[float] | Tensor | None = None,
        ignore_index: int | None = -100,
        check_inputs: bool = True,
    ) -> None:
        super().__init__(
            class_weight=class_weight, ignore_index=ignore_index, check_inputs=check_inputs
        )
        self.gamma = _checks.real("FocalLoss", "gamma", gamma)
        if self.gamma < 0:
            _checks.fail("FocalLoss", "gamma", ">= 0", gamma, "0 is cross-entropy, 2 is usual.")

    def terms(self, samples: Samples) -> Tensor:
        """Compute the focal term of each sample."""
        return focal_terms(samples.log_true(), self.gamma)


def focal_terms(log_probability: Tensor, gamma: float) -> Tensor:
    """Compute ``-(1 - p)^gamma log p`` from log-probabilities of the truth, of any shape.

    Examples
    --------
    >>> import torch
    >>> focal_terms(torch.tensor([0.5]).log(), 2.0)
    tensor([0.1733])
    """
    # expm1 keeps the digits of 1 - p where p is close to one. The clamp keeps the gradient of the power finite at
    # zero.
    miss = (-torch.expm1(log_probability)).clamp_min(torch.finfo(log_probability.dtype).tiny)
    return -(miss**gamma) * log_probability


class MAELoss(PointwiseLoss):
    r"""Mean absolute error between one-hot labels and probabilities.

    .. math:: \ell = \frac1n \sum_i w_{y_i} \lVert e_{y_i} - p_i \rVert_1
              = \frac2n \sum_i w_{y_i} (1 - p_{i, y_i})

    Parameters
    ----------
    class_weight : sequence of float, optional
        One number per class; see :func:`class_weights`.
    ignore_index : int or None, default=-100
        Targets with this value are left out.
    check_inputs : bool, default=True
        Check values as well as types and shapes: NaN, labels out of range. False saves the time of these checks.

    References
    ----------
    Lee et al., equations 14 and 18.

    Examples
    --------
    >>> import torch
    >>> MAELoss()(torch.zeros(4), torch.ones(4))
    tensor(1.)
    """

    def __init__(
        self,
        *,
        class_weight: Sequence[float] | Tensor | None = None,
        ignore_index: int | None = -100,
        check_inputs: bool = True,
    ) -> None:
        super().__init__(
            class_weight=class_weight, ignore_index=ignore_index, check_inputs=check_inputs
        )

    def terms(self, samples: Samples) -> Tensor:
        """Compute the absolute error of each sample: twice one minus the probability of the truth."""
        return -2 * torch.expm1(samples.log_true())
