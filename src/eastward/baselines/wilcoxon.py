"""The Wilcoxon-Mann-Whitney statistic as a loss."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from eastward import _checks
from eastward.baselines._inputs import positive_only, samples_of
from eastward.losses._batches import result_dtype
from eastward.protocols import Logits, Scalar, Targets

__all__ = ["WilcoxonMannWhitneyLoss"]


class WilcoxonMannWhitneyLoss(nn.Module):
    r"""The mean shortfall of the margin between positives and negatives, over all pairs.

    .. math::
        \ell = \frac{1}{n_1 n_0} \sum_{i: y_i = 1} \sum_{j: y_j = 0}
        \max(0,\, \gamma - (p_i - p_j))^{\,r}

    Parameters
    ----------
    margin : float, default=0.2
        Yan's gamma, in (0, 1]. Values from 0.1 to 0.7 work; the default is that of *Bridging the Gap*.
    power : float, default=3.0
        Yan's p, at least 1; usually 2 or 3.
    ignore_index : int or None, default=-100
        Targets with this value are left out.
    check_inputs : bool, default=True
        Check values as well as types and shapes: NaN, labels out of range. False saves the time of these checks.

    Notes
    -----
    The loss is for two classes. The paper sums over pairs; the mean differs by a factor and does not depend on the
    batch size. A batch of one class has no pairs, so loss and gradient are zero. Memory grows with the number of
    pairs. A sample weight multiplies each pair of the sample.

    References
    ----------
    Yan et al., *Optimizing classifier performance via an approximation to the Wilcoxon-Mann-Whitney statistic*,
    ICML 2003, equations 5 and 6.

    Examples
    --------
    >>> import torch
    >>> loss = WilcoxonMannWhitneyLoss(margin=0.5, power=2)
    >>> loss(torch.zeros(2), torch.tensor([0, 1]))
    tensor(0.2500)
    """

    def __init__(
        self,
        *,
        margin: float = 0.2,
        power: float = 3.0,
        ignore_index: int | None = -100,
        check_inputs: bool = True,
    ) -> None:
        super().__init__()
        caller = "WilcoxonMannWhitneyLoss"
        self.margin = _checks.positive(caller, "margin", margin)
        if self.margin > 1:
            advice = "Scores are probabilities: no pair can be further apart than 1."
            _checks.fail(caller, "margin", "in (0, 1]", margin, advice)
        self.power = _checks.real(caller, "power", power)
        if self.power < 1:
            _checks.fail(caller, "power", ">= 1", power, "2 or 3 are usual.")
        self.ignore_index = _checks.ignore_index(caller, ignore_index)
        self.check_inputs = _checks.boolean(caller, "check_inputs", check_inputs)

    def forward(
        self, logits: Logits, targets: Targets, sample_weight: Tensor | None = None
    ) -> Scalar:
        """Compute the loss of one batch of ``(N,)``, ``(N, 1)`` or ``(N, 2)`` logits."""
        caller = "WilcoxonMannWhitneyLoss"
        samples = samples_of(
            caller,
            logits,
            targets,
            sample_weight,
            ignore_index=self.ignore_index,
            check_inputs=self.check_inputs,
        )
        positive_only(caller, samples)
        scores, is_positive = samples.log_probabilities[:, 1].exp(), samples.targets == 1
        lead = scores[is_positive].unsqueeze(1) - scores[~is_positive].unsqueeze(0)
        pairs = samples.weight[is_positive].unsqueeze(1) * samples.weight[~is_positive]
        # clamp before the power, because a power of a negative number has no gradient
        penalties = (self.margin - lead).clamp_min(0) ** self.power
        total = pairs.sum()
        mean = (penalties * pairs).sum() / torch.where(total > 0, total, 1.0)
        return mean.to(result_dtype(logits))
