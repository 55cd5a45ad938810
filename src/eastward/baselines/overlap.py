"""Losses that are one minus an overlap of probabilities and labels: Dice and soft F-beta."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot

from eastward import _checks
from eastward._numerics import safe_divide
from eastward.baselines._inputs import Samples, samples_of, weighted_mean
from eastward.losses._batches import result_dtype
from eastward.protocols import Logits, Scalar, Targets

__all__ = ["DiceLoss", "SoftFBetaLoss"]


class _OverlapLoss(nn.Module, ABC):
    """Base class of losses that are one minus an overlap, of class 1 of two or averaged over the classes."""

    def __init__(self, *, ignore_index: int | None, check_inputs: bool) -> None:
        super().__init__()
        caller = type(self).__name__
        self.ignore_index = _checks.ignore_index(caller, ignore_index)
        self.check_inputs = _checks.boolean(caller, "check_inputs", check_inputs)

    def forward(
        self, logits: Logits, targets: Targets, sample_weight: Tensor | None = None
    ) -> Scalar:
        """Compute the loss of one batch; shapes as in :func:`~eastward.metric_loss`, but not multilabel."""
        samples = samples_of(
            type(self).__name__,
            logits,
            targets,
            sample_weight,
            ignore_index=self.ignore_index,
            check_inputs=self.check_inputs,
        )
        loss = self.loss_of(samples)
        return torch.where(samples.weight.sum() > 0, loss, loss * 0).to(result_dtype(logits))

    @abstractmethod
    def loss_of(self, samples: Samples) -> Tensor:
        """Compute the loss of checked samples."""


def _columns(samples: Samples) -> tuple[Tensor, Tensor]:
    """Return probabilities and indicators of the classes that count: class 1 of two, else all."""
    probabilities = samples.log_probabilities.exp()
    indicators = one_hot(samples.targets, samples.num_classes).to(probabilities.dtype)
    if samples.num_classes == 2:
        return probabilities[:, 1:], indicators[:, 1:]
    return probabilities, indicators


def _mean_over_present(overlaps: Tensor, true_mass: Tensor) -> Tensor:
    """Average over classes with true samples; a single class gives its own value."""
    if len(overlaps) == 1:
        return overlaps[0]
    present = (true_mass > 0).to(overlaps.dtype)
    return (overlaps * present).sum() / present.sum().clamp_min(1)


class DiceLoss(_OverlapLoss):
    r"""One minus the soft Dice coefficient.

    .. math:: \ell = 1 - \frac{2 \sum_i p_i y_i + s}{\sum_i p_i^2 + \sum_i y_i^2 + s}

    Parameters
    ----------
    squared : bool, default=True
        Use squares in the denominator, as in V-Net; False gives the soft F1.
    per_sample : bool, default=False
        Compute the coefficient of every sample over its classes, and average over samples, as the published code of
        *Bridging the Gap* does. By default it is computed for every class over the samples.
    smooth : float, default=0.0
        The s in the formula, at least 0. A positive s gives a batch without positives a gradient.
    ignore_index : int or None, default=-100
        Targets with this value are left out.
    check_inputs : bool, default=True
        Check values as well as types and shapes: NaN, labels out of range. False saves the time of these checks.

    Notes
    -----
    With two classes it is the coefficient of class 1, with more the mean over classes with true samples. Without
    smoothing, a batch without positives has loss 1 and no gradient. With ``per_sample`` and two classes, the negatives
    never have a gradient.

    References
    ----------
    Milletari et al., *V-Net*, 3DV 2016, section 3.

    Examples
    --------
    >>> import torch
    >>> DiceLoss()(torch.tensor([0.0, 0.0]), torch.tensor([1, 0]))
    tensor(0.3333)
    """

    def __init__(
        self,
        *,
        squared: bool = True,
        per_sample: bool = False,
        smooth: float = 0.0,
        ignore_index: int | None = -100,
        check_inputs: bool = True,
    ) -> None:
        super().__init__(ignore_index=ignore_index, check_inputs=check_inputs)
        self.squared = _checks.boolean("DiceLoss", "squared", squared)
        self.per_sample = _checks.boolean("DiceLoss", "per_sample", per_sample)
        self.smooth = _checks.real("DiceLoss", "smooth", smooth)
        if self.smooth < 0:
            _checks.fail("DiceLoss", "smooth", ">= 0", smooth)

    def loss_of(self, samples: Samples) -> Tensor:
        """Compute one minus the mean coefficient."""
        probabilities, indicators = _columns(samples)
        sizes = probabilities**2 if self.squared else probabilities
        if self.per_sample:
            overlap = self._coefficient(probabilities * indicators, sizes + indicators, dim=1)
            return weighted_mean(1 - overlap, samples.weight)
        weight = samples.weight.unsqueeze(1)
        overlaps = self._coefficient(
            weight * probabilities * indicators, weight * (sizes + indicators), dim=0
        )
        return 1 - _mean_over_present(overlaps, (weight * indicators).sum(0))

    def _coefficient(self, shared: Tensor, sizes: Tensor, *, dim: int) -> Tensor:
        return safe_divide(2 * shared.sum(dim) + self.smooth, sizes.sum(dim) + self.smooth)


class SoftFBetaLoss(_OverlapLoss):
    r"""One minus F-beta of probabilities instead of decisions (Lee's *macro soft* loss).

    .. math::
        \ell = 1 - \frac{(1 + \beta^2)\, tp}{(1 + \beta^2)\, tp + \beta^2 fn + fp}, \qquad
        tp = \sum_i y_i p_i,\; fn = \sum_i y_i (1 - p_i),\; fp = \sum_i (1 - y_i) p_i

    Parameters
    ----------
    beta : float, sequence of float or mapping, default=1.0
        One number for all classes, one number per class, or ``{class: beta}`` with 1 for the others. Below 1 favours
        precision, above 1 recall.
    ignore_index : int or None, default=-100
        Targets with this value are left out.
    check_inputs : bool, default=True
        Check values as well as types and shapes: NaN, labels out of range. False saves the time of these checks.

    Notes
    -----
    With two classes it is F-beta of class 1, with more the mean over classes with true samples. A batch without
    positives has loss 1 and no gradient; :class:`~eastward.EASTLoss` has a gradient there.

    References
    ----------
    Pastor-Pellicer et al., *F-measure as the error function to train neural networks*, IWANN 2013; Lee et al.,
    equations 23 and 24.

    Examples
    --------
    >>> import torch
    >>> SoftFBetaLoss(beta=1.0)(torch.zeros(4), torch.tensor([1, 1, 0, 0]))
    tensor(0.5000)
    """

    def __init__(
        self,
        beta: float | Sequence[float] | Tensor | Mapping[int, float] = 1.0,
        *,
        ignore_index: int | None = -100,
        check_inputs: bool = True,
    ) -> None:
        super().__init__(ignore_index=ignore_index, check_inputs=check_inputs)
        if not isinstance(beta, Mapping):
            _checks.beta("SoftFBetaLoss", beta, np.asarray(beta).size)
        self.beta = beta

    def loss_of(self, samples: Samples) -> Tensor:
        """Compute one minus the mean F-beta."""
        probabilities, indicators = _columns(samples)
        weight = samples.weight.unsqueeze(1)
        found, true = (weight * probabilities * indicators).sum(0), (weight * indicators).sum(0)
        predicted = (weight * probabilities).sum(0)
        squares = self._squares(samples).to(found)
        # (1 + b^2) tp + b^2 fn + fp = b^2 (tp + fn) + (tp + fp)
        scores = safe_divide((1 + squares) * found, squares * true + predicted)
        return 1 - _mean_over_present(scores, true)

    def _squares(self, samples: Samples) -> Tensor:
        betas = _checks.beta("SoftFBetaLoss", self.beta, samples.num_classes)
        if betas.dim() == 1 and samples.num_classes == 2:
            betas = betas[1:]
        return betas**2
