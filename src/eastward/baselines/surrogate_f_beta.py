"""The surrogate F-beta loss of Lee et al., also for noisy labels."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from eastward import _checks
from eastward.baselines._inputs import Samples, positive_only
from eastward.baselines.pointwise import PointwiseLoss

__all__ = ["SurrogateFBetaLoss"]


class SurrogateFBetaLoss(PointwiseLoss):
    r"""A mean over samples with the stationary points of F-beta, in the limit of many samples.

    .. math::
        \ell_i = -y_i \log p_i + (1 - y_i) \log(\kappa + p_i), \qquad
        \kappa = \beta^2 \frac{\pi}{1 - \pi}

    and, with ``q``, both logarithms replaced by :math:`(x^q - 1) / q`.

    Parameters
    ----------
    beta : float, default=1.0
        The beta of F-beta: below 1 favours precision, above 1 recall.
    positive_rate : float, default=0.5
        Share of positive samples in the training set, strictly between 0 and 1.
    q : float, optional
        Robustness to wrong labels, in (0, 1]; None is the logarithm, the limit as q goes to 0.
    balanced : bool, default=True
        Weight classes by the inverse of their frequency, ``1 / positive_rate`` and ``1 / (1 - positive_rate)``. The
        paper's analysis assumes these weights.
    ignore_index : int or None, default=-100
        Targets with this value are left out.
    check_inputs : bool, default=True
        Check values as well as types and shapes: NaN, labels out of range. False saves the time of these checks.

    Notes
    -----
    The loss takes logits of two classes: ``(N,)``, ``(N, 1)`` or ``(N, 2)``. It can be negative: a correct negative
    sample contributes :math:`\log \kappa`, which is negative if positives are rare.

    References
    ----------
    Lee et al., equations 20, 21 and 25.

    Examples
    --------
    >>> import torch
    >>> loss = SurrogateFBetaLoss(beta=1.0, positive_rate=0.5)
    >>> loss(torch.zeros(2), torch.tensor([0, 1]))
    tensor(1.0986)
    """

    def __init__(
        self,
        beta: float = 1.0,
        positive_rate: float = 0.5,
        q: float | None = None,
        *,
        balanced: bool = True,
        ignore_index: int | None = -100,
        check_inputs: bool = True,
    ) -> None:
        caller = "SurrogateFBetaLoss"
        rate = _checks.in_unit_interval(caller, "positive_rate", positive_rate)
        _checks.boolean(caller, "balanced", balanced)
        super().__init__(
            class_weight=[1 / (1 - rate), 1 / rate] if balanced else None,
            ignore_index=ignore_index,
            check_inputs=check_inputs,
        )
        self.beta, self.positive_rate = _checks.positive(caller, "beta", beta), rate
        self.q = None if q is None else _checks.positive(caller, "q", q)
        if self.q is not None and self.q > 1:
            _checks.fail(caller, "q", "in (0, 1], or None", q, "1 is linear, None the logarithm.")

    def terms(self, samples: Samples) -> Tensor:
        """Compute the surrogate term of each sample."""
        positive_only("SurrogateFBetaLoss", samples)
        log_positive = samples.log_probabilities[:, 1]
        kappa = self.beta**2 * self.positive_rate / (1 - self.positive_rate)
        # log(kappa + p) in the log domain, because both kappa and p may be tiny
        log_shifted = torch.logaddexp(log_positive, torch.full_like(log_positive, math.log(kappa)))
        return torch.where(
            samples.targets == 1, -self._power(log_positive), self._power(log_shifted)
        )

    def _power(self, log_value: Tensor) -> Tensor:
        """Compute ``(x^q - 1) / q`` from log x; it tends to log x as q goes to 0."""
        return log_value if self.q is None else torch.expm1(self.q * log_value) / self.q
