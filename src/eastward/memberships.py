r"""From probabilities to memberships: a differentiable stand-in for the arg max.

A sample belongs to each class to a degree: the soft step of its probability at a threshold, normalised over
classes. With the dynamic threshold (the mean of the two largest probabilities) the membership tends to the
one-hot arg max as the temperature goes to zero (EAST, Proposition 5.2).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from eastward import _checks
from eastward._numerics import at_least_float32, safe_divide
from eastward.protocols import Logits, Memberships, Step
from eastward.steps import resolve_step, step_and_complement

__all__ = ["class_probabilities", "soft_memberships", "top2_threshold"]


def class_probabilities(logits: Logits, *, multilabel: bool = False) -> Tensor:
    """Turn flat logits into probabilities: softmax over classes, or a sigmoid per column.

    Parameters
    ----------
    logits : Tensor
        ``(N, C)``. A single column is the positive class of a binary problem. It becomes two columns here, so that
        later steps need no special case.
    multilabel : bool, default=False
        Each column is a binary problem of its own.

    Returns
    -------
    Tensor
        ``(N, C)``, or ``(N, 2)`` for one column, in float32 at least.

    Examples
    --------
    >>> import torch
    >>> class_probabilities(torch.zeros(1, 1))
    tensor([[0.5000, 0.5000]])
    """
    logits = at_least_float32(logits)
    if multilabel:
        return torch.sigmoid(logits)
    if logits.shape[1] == 1:
        # Two sigmoids instead of 1 - p, so that the smaller one keeps its digits.
        return torch.cat([torch.sigmoid(-logits), torch.sigmoid(logits)], dim=1)
    return torch.softmax(logits, dim=1)


def top2_threshold(probabilities: Tensor) -> Tensor:
    """Average the two largest entries of each row, ``(N, C) -> (N, 1)``.

    It uses no indices, so tied classes share the gradient equally. Neither value nor gradient depends on the order
    of the classes.

    Examples
    --------
    >>> import torch
    >>> top2_threshold(torch.tensor([[0.5, 0.3, 0.2]]))
    tensor([[0.4000]])
    """
    largest = probabilities.amax(dim=1, keepdim=True)
    is_largest = probabilities == largest
    runner_up = probabilities.masked_fill(is_largest, -1.0).amax(dim=1, keepdim=True)
    tied = is_largest.sum(dim=1, keepdim=True) > 1
    return torch.where(tied, largest, (largest + runner_up) / 2)


def soft_memberships(
    probabilities: Tensor,
    temperature: Tensor | float = 0.2,
    *,
    threshold: str | float | Sequence[float] = "top2",
    step: str | Step = "linear",
    detach_threshold: bool = False,
) -> Memberships:
    r"""Compute the degree to which each sample belongs to each class, differentiably.

    .. math::
        g_T(p)_k = \frac{\mathcal H_T(p_k, \tau(p))}{\sum_j \mathcal H_T(p_j, \tau(p))}, \qquad
        \tau(p) = \tfrac12 (p_{(1)} + p_{(2)})

    Parameters
    ----------
    probabilities : Tensor
        ``(N, C)`` with C >= 2, in [0, 1].
    temperature : Tensor or float, default=0.2
        In (0, 0.4]; a lower one makes the step harder.
    threshold : "top2", float, or sequence of float, default="top2"
        The dynamic threshold, a fixed one in (0, 1), or a grid of fixed ones. With two classes a fixed threshold
        applies to the probability of class 1 and the two memberships are ``(1 - h, h)``.
    step : {"linear", "sigmoid", "hard"} or callable, default="linear"
        Heaviside approximation ``(p, tau, temperature) -> degree``; "sigmoid" has steepness ``2 / temperature``.
    detach_threshold : bool, default=False
        Treat the dynamic threshold as a constant in the backward pass.

    Returns
    -------
    Tensor
        ``(N, C)``, or ``(G, N, C)`` for a grid of G thresholds; non-negative, rows sum to one.

    References
    ----------
    EAST, equations 3 to 5; Bridging the Gap, equation 6, for two classes and a fixed threshold.

    Examples
    --------
    >>> import torch
    >>> soft_memberships(torch.tensor([[0.7, 0.2, 0.1]]), 0.01)
    tensor([[0.9932, 0.0046, 0.0023]])
    """
    caller = "soft_memberships"
    _checks.floating(caller, "probabilities", probabilities)
    _checks.real_numbers(caller, "probabilities", probabilities)
    if probabilities.dim() != 2 or probabilities.shape[1] < 2:
        expected = "of shape (N, C) with C >= 2"
        _checks.fail(caller, "probabilities", expected, _checks.describe(probabilities))
    if _checks.can_inspect(probabilities):
        _checks.probabilities(caller, probabilities)
    _checks.temperature(caller, temperature)
    grid = _checks.thresholds(caller, threshold)
    _checks.boolean(caller, "detach_threshold", detach_threshold)
    probabilities = at_least_float32(probabilities)
    heat = _checks.beside_rows(caller, "temperature", temperature, probabilities)
    soft = resolve_step(step, caller=caller)
    rows = [
        memberships_at(probabilities, tau, heat, soft, detach_threshold=detach_threshold)
        for tau in (grid or (None,))
    ]
    return rows[0] if grid is None or isinstance(threshold, (int, float)) else torch.stack(rows)


def memberships_at(
    probabilities: Tensor,
    threshold: float | None,
    temperature: Tensor,
    step: Step,
    *,
    detach_threshold: bool = False,
) -> Memberships:
    """Compute memberships at one threshold (None: dynamic), without the checks of :func:`soft_memberships`."""
    if threshold is not None and probabilities.shape[1] == 2:
        no, yes = probabilities.unbind(1)
        tau = probabilities.new_tensor(threshold)
        found, missed = step_and_complement(step, yes, no, tau, temperature)
        return torch.stack([missed, found], dim=1)
    if threshold is None:
        tau = top2_threshold(probabilities)
        tau = tau.detach() if detach_threshold else tau
    else:
        tau = probabilities.new_tensor(threshold)
    degrees = step(probabilities, tau, temperature)
    total = degrees.sum(dim=1, keepdim=True)
    # Only a hard step at a fixed threshold can leave a row empty; the sample then belongs to all classes equally.
    return safe_divide(degrees, total, default=1.0 / probabilities.shape[1])
