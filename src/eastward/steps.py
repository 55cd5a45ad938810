r"""Heaviside approximations: how far a probability lies above a threshold.

A step maps :math:`p \in [0, 1]` to a degree in :math:`[0, 1]` that passes through one half at the threshold
:math:`\tau`. The piecewise-linear step has a gradient everywhere, so the confusion matrix can be trained.
Lowering its temperature :math:`T` turns it into the hard step.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import torch
from torch import Tensor

from eastward import _checks
from eastward._numerics import VANISHED, at_least_float32, safe_divide
from eastward.protocols import Step

__all__ = [
    "NARROWEST_PIECE",
    "STEPS",
    "btg_step",
    "hard_step",
    "heaviside",
    "resolve_step",
    "sigmoid_step",
    "step_and_complement",
    "step_ends",
    "step_slopes",
]


def heaviside(p: Tensor, tau: Tensor | float, temperature: Tensor | float = 0.2) -> Tensor:
    r"""Compute the piecewise-linear Heaviside step through (0, 0), (lo, T), (hi, 1-T) and (1, 1).

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
        ``0 < T <= 0.4``, broadcastable. It sets both the width of the middle piece and the height of the outer ones;
        :func:`btg_step` keeps the width. The two steps agree at 0.2. Towards zero this one becomes the hard step.

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
    _checks.threshold_in_range("heaviside", tau)
    p = at_least_float32(_checks.numeric("heaviside", "p", p))
    tau = _checks.beside_rows("heaviside", "tau", tau, p)
    temperature = _checks.beside_rows("heaviside", "temperature", temperature, p)
    return _linear_step(p, tau, temperature)


# As a share of the distance to the end of the interval; a narrower piece counts as having no width. Otherwise, at
# T = 0.4, rounding would decide on which side of the outer bend a probability of exactly 0 or 1 lies.
NARROWEST_PIECE = 1e-6
# Larger than any distance between two probabilities.
_NEVER = 2.0


def _linear_step(p: Tensor, tau: Tensor, temperature: Tensor) -> Tensor:
    return _linear_step_and_complement(p, 1 - p, tau, temperature)[0]


def _linear_step_and_complement(
    p: Tensor, opposite: Tensor, tau: Tensor, temperature: Tensor
) -> tuple[Tensor, Tensor]:
    return _three_pieces(p, opposite, tau, _pieces(tau, 2.5 * temperature), temperature)


def btg_step(p: Tensor, tau: Tensor | float, delta: Tensor | float = 0.2) -> Tensor:
    r"""Compute the piecewise-linear step of Bridging the Gap, with a middle piece of fixed width.

    It passes through (0, 0), (lo, :math:`\delta`), (:math:`\tau`, 1/2), (hi, :math:`1 - \delta`) and (1, 1):

    .. math::
        \tau_m = \min(\tau, 1-\tau),\quad lo = \tau - \tau_m/2,\quad hi = \tau + \tau_m/2

    .. math::
        \mathcal H^l(p, \tau) = \begin{cases}
            m_1 p & p < lo \\ \tfrac12 + m_2 (p - \tau) & lo \le p \le hi \\ 1 - m_3 (1 - p) & p > hi
        \end{cases}
        \qquad m_1 = \frac{\delta}{lo},\; m_2 = \frac{1-2\delta}{\tau_m},\; m_3 = \frac{\delta}{1-hi}

    Parameters
    ----------
    p : Tensor
        Probabilities in [0, 1], any shape.
    tau : Tensor or float
        Threshold in [0, 1], broadcastable with ``p``.
    delta : Tensor or float, default=0.2
        Height of the outer pieces, in [0, 0.5], broadcastable. At 0 they are flat and have no gradient; at 0.5 the
        middle piece is flat. At 0.2 the step is :func:`heaviside` at temperature 0.2.

    Returns
    -------
    Tensor
        Of the broadcast shape, in [0, 1], non-decreasing in ``p``, exactly 0.5 at ``p == tau``. Computed in
        float32 at least.

    Notes
    -----
    In a loss with ``step=btg_step``, the temperature of the loss is :math:`\delta`. Cooling it flattens the outer
    pieces; it does not make the step hard.

    References
    ----------
    Bridging the Gap, equation 5.

    Examples
    --------
    >>> import torch
    >>> p = torch.tensor([0.0, 0.25, 0.5, 0.75, 1.0])
    >>> btg_step(p, 0.5, 0.2)
    tensor([0.0000, 0.2000, 0.5000, 0.8000, 1.0000])
    >>> btg_step(p, 0.5, 0.1)
    tensor([0.0000, 0.1000, 0.5000, 0.9000, 1.0000])

    As the step of a loss, over the thresholds of the paper:

    >>> from eastward import EASTLoss
    >>> thresholds = [k / 10 for k in range(1, 10)]
    >>> loss = EASTLoss("f1", step=btg_step, temperature=0.1, threshold=thresholds)
    >>> round(loss(torch.tensor([2.0, -1.0, 0.5]), torch.tensor([1, 0, 1])).item(), 3)
    0.25
    """
    _checks.step_height("btg_step", delta)
    _checks.threshold_in_range("btg_step", tau)
    p = at_least_float32(_checks.numeric("btg_step", "p", p))
    tau = _checks.beside_rows("btg_step", "tau", tau, p)
    delta = _checks.beside_rows("btg_step", "delta", delta, p)
    pieces = _pieces(tau, torch.full_like(delta, 0.5))
    return _three_pieces(p, 1 - p, tau, pieces, delta)[0]


def _three_pieces(
    p: Tensor, opposite: Tensor, tau: Tensor, pieces: _Pieces, height: Tensor
) -> tuple[Tensor, Tensor]:
    """Compute the step through (tau - half_width, height) and (tau + half_width, 1 - height), and one minus it."""
    first, middle, last = _slopes(height, pieces)
    # Compare the distance to the threshold, not p with tau +- half_width. A cold middle piece is only a few units in
    # the last place wide, and a rounded end would let it run far out of [0, 1].
    distance = p - tau
    low, high = distance < -pieces.lower_end, distance > pieces.upper_end
    # Measured from its far end, the last piece gives exactly 1 at p = 1 and never more.
    start, end, centre = p * first, opposite * last, distance * middle
    step = torch.where(low, start, torch.where(high, 1 - end, 0.5 + centre))
    return step, torch.where(low, 1 - start, torch.where(high, end, 0.5 - centre))


class _Pieces(NamedTuple):
    """Half the width of the middle piece, its two ends, and the widths of the first and last piece."""

    half_width: Tensor
    lower_end: Tensor
    upper_end: Tensor
    below: Tensor
    above: Tensor


def _pieces(tau: Tensor, share: Tensor) -> _Pieces:
    """Lay out the pieces; the middle one takes ``share`` of the way to the nearer end of the interval."""
    nearer = torch.minimum(tau, 1 - tau)
    room = 1 - share
    wide = room > NARROWEST_PIECE
    half_width = nearer * torch.where(wide, share, 1.0)
    outer = nearer * torch.where(wide, room, 0.0)
    below, above = (tau - nearer) + outer, (1 - tau - nearer) + outer
    # Make sure that rounding never selects a piece without width.
    lower_end = torch.where(below > NARROWEST_PIECE * tau, half_width, _NEVER)
    upper_end = torch.where(above > NARROWEST_PIECE * (1 - tau), half_width, _NEVER)
    return _Pieces(half_width, lower_end, upper_end, below, above)


def _slopes(height: Tensor, pieces: _Pieces) -> tuple[Tensor, Tensor, Tensor]:
    # A piece of zero width is never selected, but its slope takes part in the backward pass and must be finite.
    first = safe_divide(height, pieces.below)
    middle = (0.5 - height) / pieces.half_width.clamp_min(VANISHED)
    return first, middle, safe_divide(height, pieces.above)


def step_slopes(
    tau: Tensor | float, temperature: Tensor | float = 0.2
) -> tuple[Tensor, Tensor, Tensor]:
    r"""Compute the three slopes :math:`(m_1, m_2, m_3)` of :func:`heaviside`.

    Their maximum is the Lipschitz constant of the step: :func:`eastward.theory.heaviside_lipschitz`.

    Parameters
    ----------
    tau : Tensor or float
        Threshold in [0, 1].
    temperature : Tensor or float, default=0.2
        ``0 < T <= 0.4``, broadcastable with ``tau``.

    Returns
    -------
    tuple of Tensor
        The slopes below, around and above the threshold, each of the broadcast shape.

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
    return _slopes(temperature, _pieces(tau, 2.5 * temperature))


def step_ends(tau: Tensor, temperature: Tensor) -> tuple[Tensor, Tensor]:
    """Compute how far the middle piece of :func:`heaviside` reaches below and above the threshold.

    Examples
    --------
    >>> import torch
    >>> step_ends(torch.tensor(0.5), torch.tensor(0.2))
    (tensor(0.2500), tensor(0.2500))
    """
    pieces = _pieces(tau, 2.5 * temperature)
    return pieces.lower_end, pieces.upper_end


def sigmoid_step(p: Tensor, tau: Tensor | float, k: Tensor | float = 10.0) -> Tensor:
    r"""Compute the sigmoid step :math:`1 / (1 + e^{-k (p - \tau)})`.

    Parameters
    ----------
    p : Tensor
        Probabilities, any shape.
    tau : Tensor or float
        Threshold, broadcastable with ``p``.
    k : Tensor or float, default=10.0
        Steepness > 0; larger is harder.

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
    _checks.steepness("sigmoid_step", k)
    _checks.threshold_in_range("sigmoid_step", tau)
    p = at_least_float32(_checks.numeric("sigmoid_step", "p", p))
    tau = _checks.beside_rows("sigmoid_step", "tau", tau, p)
    return torch.sigmoid(_checks.beside_rows("sigmoid_step", "k", k, p) * (p - tau))


def _tempered_sigmoid(p: Tensor, tau: Tensor, temperature: Tensor) -> Tensor:
    # With k = 2 / T the papers' two defaults correspond: T = 0.2 is k = 10, and cooling sharpens both steps.
    return torch.sigmoid(2.0 / temperature * (p - tau))


def hard_step(
    p: Tensor,
    tau: Tensor | float,
    temperature: Tensor | float | None = None,  # noqa: ARG001 - the signature of every step
) -> Tensor:
    """Compute the true step: 1 where ``p >= tau``, else 0.

    Parameters
    ----------
    p : Tensor
        Probabilities, any shape.
    tau : Tensor or float
        Threshold, broadcastable with ``p``.
    temperature : ignored
        Accepted so that all steps share one signature. The hard step is the limit of the soft steps at temperature 0.

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
    _checks.threshold_in_range("hard_step", tau)
    p = at_least_float32(_checks.numeric("hard_step", "p", p))
    return (p >= _checks.beside_rows("hard_step", "tau", tau, p)).to(p.dtype)


def _hard_step(p: Tensor, tau: Tensor, temperature: Tensor) -> Tensor:  # noqa: ARG001 - of every step
    return (p >= tau).to(p.dtype)


STEPS: Mapping[str, Step] = MappingProxyType(
    {"linear": _linear_step, "sigmoid": _tempered_sigmoid, "hard": _hard_step}
)


def step_and_complement(
    step: Step, p: Tensor, opposite: Tensor, tau: Tensor, temperature: Tensor
) -> tuple[Tensor, Tensor]:
    """Compute the step h at ``p`` and 1 - h, without cancellation for the steps of this module.

    ``opposite`` is 1 - p, which the caller computes without a subtraction.

    Examples
    --------
    >>> import torch
    >>> step, rest = step_and_complement(
    ...     STEPS["linear"],
    ...     torch.tensor(1.0),
    ...     torch.tensor(1e-12),
    ...     torch.tensor(0.5),
    ...     torch.tensor(0.2),
    ... )
    >>> float(step), float(rest)
    (1.0, 8.0e-13)
    """
    if step is _linear_step:
        return _linear_step_and_complement(p, opposite, tau, temperature)
    degrees = step(p, tau, temperature)
    if step is _tempered_sigmoid:
        return degrees, step(tau, p, temperature)
    return degrees, 1 - degrees


def resolve_step(step: str | Step, *, caller: str = "step") -> Step:
    """Return the step called ``step``, or ``step`` itself if it is a callable.

    Examples
    --------
    >>> resolve_step(hard_step) is hard_step
    True
    """
    if callable(step):
        return step
    _checks.one_of(
        caller, "step", step, tuple(STEPS), otherwise="or a callable (p, tau, temperature)"
    )
    return STEPS[step]
