r"""Offsets by gradient descent on the annealed surrogate, for many classes.

The search over break points costs about :math:`N C^2` per sweep; a gradient step costs :math:`N C`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from eastward import _checks
from eastward.decisions._inputs import Sample, class_sample
from eastward.decisions._merit import Merit, merit_of_offsets
from eastward.losses import metric_loss
from eastward.metrics import Metric

__all__ = ["anneal_offsets"]

LADDER = (0.2, 0.14, 0.1, 0.07, 0.05)


def anneal_offsets(
    log_probabilities: Any,
    targets: Any,
    metric: str | Metric | Callable[[Any], Tensor] = "f1_macro",
    *,
    sample_weight: Any = None,
    max_offset: float = 6.0,
    temperatures: Sequence[float] = LADDER,
    steps: int = 30,
    learning_rate: float = 0.1,
) -> Tensor:
    r"""Offsets by descent on the soft metric, cooled step by step.

    .. math:: b \leftarrow b - \eta\,\nabla_b\big(1 - M_T(\log p + b)\big), \quad T = T_1 > T_2 > \ldots

    Parameters
    ----------
    log_probabilities : Tensor or array
        ``(N, C)``, of samples that the model was not trained on.
    targets : Tensor or array
        ``(N,)`` integer class indices.
    metric : str, Metric or callable, default="f1_macro"
        A callable of your own must be differentiable.
    sample_weight : Tensor or array, optional
        ``(N,)``, finite and not negative.
    max_offset : float, default=6.0
        Offsets are kept within plus or minus this many nats.
    temperatures : sequence of float, default=(0.2, 0.14, 0.1, 0.07, 0.05)
        Each in (0, 0.4].
    steps : int, default=30
        Steps of Adam at each temperature.
    learning_rate : float, default=0.1
        Nats per step, about.

    Returns
    -------
    Tensor
        ``(C,)`` with mean zero: the best of the offsets at the ends of the stages, by the hard metric; zero if none
        beats the plain argmax.

    References
    ----------
    EAST, sections 4.1 and 4.2 (the surrogate) and 4.3 (annealing).

    Examples
    --------
    >>> import torch
    >>> p = torch.tensor([[0.9, 0.1], [0.8, 0.2], [0.6, 0.4], [0.7, 0.3]])
    >>> b = anneal_offsets(p.log(), torch.tensor([0, 0, 1, 1]), "f1_macro")
    >>> (p.log() + b).argmax(1)
    tensor([0, 0, 1, 1])
    """
    caller = "anneal_offsets"
    sample = class_sample(caller, log_probabilities, targets, sample_weight)
    reach = _checks.positive(caller, "max_offset", max_offset)
    rate = _checks.positive(caller, "learning_rate", learning_rate)
    count = _checks.whole_number(caller, "steps", steps, at_least=1)
    for temperature in temperatures:
        _checks.temperature(caller, temperature, argument="temperatures")
    merit = Merit(metric, sample.num_classes)
    offsets = anneal_sample(sample, merit, reach, tuple(temperatures), count, rate)
    return offsets.to(sample.dtype)


def anneal_sample(
    sample: Sample,
    merit: Merit,
    reach: float,
    temperatures: tuple[float, ...] = LADDER,
    steps: int = 30,
    learning_rate: float = 0.1,
) -> Tensor:
    """:func:`anneal_offsets` of checked input, in float64."""
    scores = sample.scores.float()  # the soft table needs no more, and it is twice as fast
    offsets = scores.new_zeros(sample.num_classes).requires_grad_()
    optimiser = torch.optim.Adam([offsets], lr=learning_rate)
    best = torch.zeros_like(sample.scores[0])
    best_merit = merit_of_offsets(sample, merit, best)
    for temperature in temperatures:
        for _ in range(steps):
            _descend(optimiser, scores, offsets, sample, merit.metric, temperature)
            with torch.no_grad():
                offsets.sub_(offsets.mean()).clamp_(-reach, reach)
        found = offsets.detach().double()
        value = merit_of_offsets(sample, merit, found)
        if value > best_merit:
            best, best_merit = found - found.mean(), value
    return best


def _descend(
    optimiser: torch.optim.Optimizer,
    scores: Tensor,
    offsets: Tensor,
    sample: Sample,
    metric: Metric,
    temperature: float,
) -> None:
    optimiser.zero_grad()
    metric_loss(
        scores + offsets,
        sample.targets,
        metric,
        temperature=temperature,
        sample_weight=sample.weight,
        check_inputs=False,
    ).backward()
    optimiser.step()
