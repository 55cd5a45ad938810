"""Class weights from class counts."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from eastward import _checks

__all__ = ["class_weights"]

SCHEMES = ("inverse_frequency", "effective_number")


def class_weights(
    class_counts: Sequence[float] | Tensor,
    *,
    scheme: str = "inverse_frequency",
    effective_beta: float = 0.999,
) -> Tensor:
    r"""Compute weights that make rare classes count as much as frequent ones, by one of two rules.

    .. math::
        w_y = \frac{n}{n_y} \qquad\text{or}\qquad
        w_y \propto \frac{1 - \beta}{1 - \beta^{n_y}},\quad \sum_y w_y = C

    Parameters
    ----------
    class_counts : sequence of float
        Training samples of each class, all positive, ``(C,)``.
    scheme : {"inverse_frequency", "effective_number"}, default="inverse_frequency"
        Lee's rule (on the left of the formula), or Cui's (on the right).
    effective_beta : float, default=0.999
        The beta of Cui's rule, in [0, 1): 0 gives equal weights, close to 1 the inverse frequency.

    Returns
    -------
    Tensor
        ``(C,)``, float64. Lee's sum to ``n * sum(1 / n_y)``, Cui's to ``C``.

    References
    ----------
    Cui et al., *Class-balanced loss based on effective number of samples*, CVPR 2019; Lee et al., section 3.1.

    Examples
    --------
    >>> class_weights([90, 10])
    tensor([ 1.1111, 10.0000], dtype=torch.float64)
    >>> class_weights([90, 10], scheme="effective_number", effective_beta=0.0)
    tensor([1., 1.], dtype=torch.float64)
    """
    caller = "class_weights"
    _checks.one_of(caller, "scheme", scheme, SCHEMES)
    counts = _positive_counts(caller, class_counts)
    if scheme == "inverse_frequency":
        return counts.sum() / counts
    beta = _checks.decay(caller, "effective_beta", effective_beta)
    # -expm1 keeps the digits of 1 - beta^n where beta^n is close to one
    exponent = counts * torch.log(torch.tensor(beta, dtype=torch.float64))
    weights = -1 / torch.expm1(exponent)
    return len(counts) * weights / weights.sum()


def _positive_counts(caller: str, class_counts: Sequence[float] | Tensor) -> Tensor:
    try:
        counts = torch.as_tensor(class_counts, dtype=torch.float64)
    except (TypeError, ValueError, RuntimeError):
        got = _checks.describe(class_counts)
        _checks.fail(caller, "class_counts", "one number per class", got, error=TypeError)
    if counts.dim() != 1 or len(counts) < 2:
        got = _checks.describe(class_counts)
        _checks.fail(caller, "class_counts", "counts of two or more classes", got)
    if not bool((torch.isfinite(counts) & (counts > 0)).all()):
        advice = "A class without samples has no weight: leave it out."
        _checks.fail(caller, "class_counts", "finite and > 0", counts.tolist()[:10], advice)
    return counts
