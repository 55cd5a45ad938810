r"""Heaviside approximations: how far a probability lies above a threshold.

A step maps :math:`p \in [0, 1]` to a degree in :math:`[0, 1]` that passes through one half at the threshold
:math:`\tau`. The piecewise-linear one keeps a gradient everywhere, which is what makes the confusion matrix
trainable; its temperature :math:`T` is annealed towards the hard step.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import torch
from torch import Tensor

from eastward import _checks
from eastward._numerics import at_least_float32, tiny
from eastward.protocols import Step

__all__ = ["STEPS", "hard_step", "heaviside", "resolve_step", "sigmoid_step", "step_slopes"]


def heaviside(p: Tensor, tau: Tensor | float, temperature: Tensor | float = 0.2) -> Tensor:
    r"""Piecewise-linear Heaviside step through (0, 0), (lo, T), (hi, 1-T) and (1, 1).

    .. math::
        \tau_m = 5T\min(\tau, 1-\tau),\quad lo = \tau - \tau_m/2,\quad hi = \tau + \tau_m/2

    .. math::
        \mathcal H_T(p, \tau) = \begin{cases}
            m_1 p & p < lo \\ \tfrac12 + m_2 (p - \tau) & lo \le p \le hi \\ 1 - m_3 (1 - p) & p > hi
        \end{cases}
        \qquad m_1 = \frac{T}{lo},\; m_2 = \frac{1-2T}{\tau_m},\; m_3 = \frac{T}{1-hi}

    Parameters
    ----------
    p : Tensor
        Probabilities in [0, 1], any shape.
    tau : Tensor or float
        Threshold in [0, 1], broadcastable with ``p``.
    temperature : Tensor or float, default=0.2
        ``0 < T <= 0.4``, broadcastable. At 0.2 the step is that of Bridging the Gap with delta = 0.2; towards
        zero it becomes the hard step.

    Returns
    -------
    Tensor
        Of the broadcast shape, in [0, 1], non-decreasing in ``p``, exactly 0.5 at ``p == tau``. Computed in
        float32 at least.

    Notes
    -----
    At the ends (``T = 0.4``, where ``lo`` reaches 0, or ``tau`` in {0, 1}, where the middle piece has no width)
    value and gradient stay finite. On a kink the gradient is the slope of the middle piece.

    References
    ----------
    EAST, equation 4 and section B.1; Bridging the Gap, equation 5.

    Examples
    --------
    >>> import torch
    >>> heaviside(torch.tensor([0.0, 0.25, 0.5, 0.75, 1.0]), 0.5, 0.2)
    tensor([0.0000, 0.2000, 0.5000, 0.8000, 1.0000])
    """
    _checks.temperature("heaviside", temperature)
    p = at_least_float32(torch.as_tensor(p))
    tau = torch.as_tensor(tau, dtype=p.dtype, device=p.device)
    temperature = torch.as_tensor(temperature, dtype=p.dtype, device=p.device)
    return _linear_step(p, tau, temperature)


def _linear_step(p: Tensor, tau: Tensor, temperature: Tensor) -> Tensor:
    half_width = 2.5 * temperature * torch.minimum(tau, 1 - tau)
    first, middle, last = _slopes(tau, temperature, half_width)
    # The distance to the threshold decides, not p against tau +- half_width: a cold middle piece is only a few
    # units in the last place wide, and a rounded end would let it run far out of [0, 1].
    distance = p - tau
    # The last piece is measured from its far end, so that p = 1 gives 1 and never more.
    above = 1 - (1 - p) * last
    upper = torch.where(distance > half_width, above, 0.5 + distance * middle)
    return torch.where(distance < -half_width, p * first, upper)


def _slopes(tau: Tensor, temperature: Tensor, half_width: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    # A piece of zero width is never selected away from its single point, but its slope still takes part in
    # the backward pass, so it has to be finite.
    guard = tiny(tau.dtype)
    first = temperature / (tau - half_width).clamp_min(guard)
    middle = (0.5 - temperature) / half_width.clamp_min(guard)
    last = temperature / (1 - tau - half_width).clamp_min(guard)
    return first, middle, last


def step_slopes(
    tau: Tensor | float, temperature: Tensor | float = 0.2
) -> tuple[Tensor, Tensor, Tensor]:
    r"""The three slopes :math:`(m_1, m_2, m_3)` of :func:`heaviside`.

    Their maximum is the Lipschitz constant of the step (Bridging the Gap, Theorem 4.1).

    Parameters
    ----------
    tau, temperature : Tensor or float
        As in :func:`heaviside`.

    Returns
    -------
    tuple of Tensor
        Slopes below, around and above the threshold.

    Examples
    --------
    >>> [round(float(slope), 3) for slope in step_slopes(0.5, 0.2)]
    [0.8, 1.2, 0.8]
    """
    _checks.temperature("step_slopes", temperature)
    tau = at_least_float32(
        torch.as_tensor(tau, dtype=None if isinstance(tau, Tensor) else torch.float64)
    )
    temperature = torch.as_tensor(temperature, dtype=tau.dtype, device=tau.device)
    return _slopes(tau, temperature, 2.5 * temperature * torch.minimum(tau, 1 - tau))


def sigmoid_step(p: Tensor, tau: Tensor | float, k: Tensor | float = 10.0) -> Tensor:
    r"""Sigmoid step :math:`1 / (1 + e^{-k (p - \tau)})`.

    Parameters
    ----------
    p : Tensor
        Probabilities, any shape.
    tau : Tensor or float
        Threshold, broadcastable with ``p``.
    k : Tensor or float, default=10.0
        Steepness; larger is harder.

    Returns
    -------
    Tensor
        In (0, 1), one half at the threshold. Unlike :func:`heaviside` it does not reach 0 and 1 at the ends.

    References
    ----------
    Bridging the Gap, section 3.1.

    Examples
    --------
    >>> import torch
    >>> sigmoid_step(torch.tensor([0.3, 0.5]), 0.5)
    tensor([0.1192, 0.5000])
    """
    p = at_least_float32(torch.as_tensor(p))
    return torch.sigmoid(k * (p - tau))


def _tempered_sigmoid(p: Tensor, tau: Tensor, temperature: Tensor) -> Tensor:
    # k = 2 / T puts the papers' two defaults side by side: T = 0.2 is k = 10, and cooling sharpens both.
    return torch.sigmoid(2.0 / temperature * (p - tau))


def hard_step(
    p: Tensor,
    tau: Tensor | float,
    temperature: Tensor | float | None = None,  # noqa: ARG001 - the signature of every step
) -> Tensor:
    """The true step: 1 where ``p >= tau``, else 0. It has no gradient; evaluation uses it.

    Parameters
    ----------
    p : Tensor
        Probabilities, any shape.
    tau : Tensor or float
        Threshold, broadcastable with ``p``.
    temperature : ignored
        Present so that the signature is that of every step; the hard step is their limit.

    Returns
    -------
    Tensor
        Zeros and ones.

    Examples
    --------
    >>> import torch
    >>> hard_step(torch.tensor([0.2, 0.5, 0.8]), 0.5)
    tensor([0., 1., 1.])
    """
    p = at_least_float32(torch.as_tensor(p))
    return (p >= tau).to(p.dtype)


STEPS: Mapping[str, Step] = MappingProxyType(
    {"linear": _linear_step, "sigmoid": _tempered_sigmoid, "hard": hard_step}
)


def resolve_step(step: str | Step, *, caller: str = "step") -> Step:
    """Return the step called ``step``, or ``step`` itself if it is a callable.

    Examples
    --------
    >>> resolve_step("hard") is hard_step
    True
    """
    if callable(step):
        return step
    _checks.one_of(
        caller, "step", step, tuple(STEPS), otherwise="or a callable (p, tau, temperature)"
    )
    return STEPS[step]
