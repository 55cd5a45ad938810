"""Arithmetic with safe gradients. No other module contains an epsilon.

The value *and* the gradient must stay finite. ``torch.where(den != 0, num / den, 0)`` does not achieve that:
the unselected branch still sends ``0 * inf = NaN`` backwards. So denominators are replaced first and the
result is selected afterwards.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

# Masses below this share of the whole count as zero in every dtype: the square root of the smallest normal float32.
# Autograd divides by the square of a denominator, which must not underflow, and the slope of its inverse must still
# fit a float32. Otherwise value and gradient would depend on the dtype of the logits.
VANISHED = math.sqrt(torch.finfo(torch.float32).tiny)


def at_least_float32(tensor: Tensor) -> Tensor:
    """Return ``tensor`` in float32, or float64 if it is float64 already.

    Half-precision sums saturate after 2048 samples, so everything past the logits is computed wider.
    Integer and boolean tensors, which are exact counts, become float64.

    Examples
    --------
    >>> import torch
    >>> at_least_float32(torch.zeros(2, dtype=torch.float16)).dtype
    torch.float32
    """
    if tensor.dtype == torch.float64:
        return tensor
    return tensor.to(torch.float32 if tensor.is_floating_point() else torch.float64)


def safe_divide(numerator: Tensor, denominator: Tensor, default: float = 0.0) -> Tensor:
    """``numerator / denominator``, and ``default`` with zero gradient where the denominator vanishes.

    Examples
    --------
    >>> import torch
    >>> safe_divide(torch.tensor([1.0, 0.0]), torch.tensor([2.0, 0.0]))
    tensor([0.5000, 0.0000])
    """
    # written so that NaN does not count as zero: an earlier mistake must stay visible
    vanished = denominator.abs() <= VANISHED
    quotient = numerator / torch.where(vanished, 1.0, denominator)
    return torch.where(vanished, default, quotient)


def safe_sqrt(value: Tensor) -> Tensor:
    """Square root with zero value and zero gradient where ``value`` vanishes.

    Examples
    --------
    >>> import torch
    >>> safe_sqrt(torch.tensor([4.0, 0.0]))
    tensor([2., 0.])
    """
    vanished = value <= VANISHED  # NaN compares false and stays NaN
    return torch.where(vanished, 0.0, torch.where(vanished, 1.0, value).sqrt())
