"""What the two passes over the logits are asked, whoever computes them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from eastward.steps import NARROWEST_PIECE, step_ends, step_slopes

__all__ = [
    "BAD_LABEL",
    "FINE",
    "MASKED",
    "NOT_FINITE",
    "Kernel",
    "Problem",
    "Samples",
    "scaled",
    "step_in_thresholds",
    "step_pieces",
]

# What a pass found, the worst last: nothing, a class masked by minus infinity, NaN or infinity, an unknown label.
FINE, MASKED, NOT_FINITE, BAD_LABEL = range(4)


@dataclass(frozen=True)
class Problem:
    """The part of a loss that touches every sample.

    Attributes
    ----------
    kind : {"top2", "fixed", "pair", "labels"}
        A threshold between the two largest of C >= 3 probabilities; fixed thresholds on C >= 3 probabilities; two
        classes, with one logit or two; labels that are yes-or-no decisions of their own.
    thresholds : tuple of float
        G of them; for the dynamic one a single placeholder.
    temperature : float
        Of the linear step.
    detached : bool
        No gradient through the dynamic threshold.
    matrix : bool
        Tables are matrices rather than counts; never for labels.
    ignored : int
        The label of samples that do not exist.
    looks : bool
        Whether anybody wants to know what is wrong with the samples.
    """

    kind: str
    thresholds: tuple[float, ...]
    temperature: float
    detached: bool
    matrix: bool
    ignored: int
    looks: bool = True

    @cached_property
    def constants(self) -> np.ndarray:
        """The step in float32: ``(1, 5)`` in thresholds where they are dynamic, else ``(G, 6)`` pieces."""
        if self.kind == "top2":
            return np.array([step_in_thresholds(self.temperature)], np.float32)
        return step_pieces(self.thresholds, self.temperature)

    @cached_property
    def options(self) -> tuple[int, bool, bool, bool]:
        """What a compiled pass has to know: the ignored label, a matrix or counts, detached, two classes."""
        return self.ignored, self.matrix, self.detached, self.kind == "pair"


class Samples(NamedTuple):
    """N samples, or K groups of them that share nothing.

    Attributes
    ----------
    logits : Tensor
        ``(N, C)`` or ``(K, N, C)``, float32, contiguous.
    labels : Tensor
        ``([K,] N)`` int64, or ``([K,] N, L)`` of zeros and ones for labels; contiguous.
    weights : Tensor or None
        Of the labels' shape, float32, contiguous.
    """

    logits: Tensor
    labels: Tensor
    weights: Tensor | None

    @property
    def is_one_group(self) -> bool:
        """Whether there is no dimension of groups."""
        return self.logits.dim() == 2

    def in_groups(self) -> Samples:
        """The samples with a dimension of groups in front, if they have none."""
        if not self.is_one_group:
            return self
        weights = None if self.weights is None else self.weights.unsqueeze(0)
        return Samples(self.logits.unsqueeze(0), self.labels.unsqueeze(0), weights)


class Kernel(Protocol):
    """The two passes over the logits: what a fast version has to bring."""

    def tables(
        self, problem: Problem, samples: Samples, *, keep: bool
    ) -> tuple[Tensor | np.ndarray, int, Any]:
        """Tables that add up over samples, what was wrong with the samples, and what the second pass can use.

        Counts ``([K,] G, 4, C)`` (tp, fp, fn, tn) or matrices ``([K,] G, C, C)``, in float64 where the device has it.
        The third is asked for by ``keep``, and may be None.
        """

    def pullback(
        self,
        problem: Problem,
        samples: Samples,
        slopes: Any,
        factors: Tensor | float,
        kept: Any,
    ) -> Tensor:
        """The gradient ``([K,] N, C)`` at the logits, given that at the tables: slopes of their shape, times factors.

        A factor is one number, or one for each group ``(K,)``. Slopes are a tensor, or an array on the CPU. What was
        ``kept`` by the first pass may become the gradient, and is useless afterwards.
        """


def step_in_thresholds(temperature: float) -> tuple[float, ...]:
    """The linear step in units of a threshold below one half: two bends, two slopes, the temperature.

    Examples
    --------
    >>> step_in_thresholds(0.2)
    (0.5, 1.5, 0.4, 0.6, 0.2)
    """
    room = 1 - 2.5 * temperature
    middle = (0.5 - temperature) / min(2.5 * temperature, 1.0)
    if room <= NARROWEST_PIECE:
        # The outer pieces have no width: nothing is below the first bend, nothing above the second.
        return -1.0, 3.0, 0.0, middle, temperature
    return room, 1 + 2.5 * temperature, temperature / room, middle, temperature


def step_pieces(thresholds: tuple[float, ...], temperature: float) -> np.ndarray:
    """One row for each threshold: itself, how far the middle piece reaches below and above it, three slopes.

    Examples
    --------
    >>> step_pieces((0.5,), 0.2)
    array([[0.5 , 0.25, 0.25, 0.8 , 1.2 , 0.8 ]], dtype=float32)
    """
    taus = torch.tensor(thresholds, dtype=torch.float64)
    heat = torch.tensor(temperature, dtype=torch.float64)
    columns = (taus, *step_ends(taus, heat), *step_slopes(taus, heat))
    return torch.stack(columns, dim=1).float().numpy()


def scaled(slopes: Any, factors: Tensor | float) -> Tensor:
    """The slopes as a tensor, times one factor or one for each group.

    Examples
    --------
    >>> scaled(np.ones((1, 2)), 3.0)
    tensor([[3., 3.]], dtype=torch.float64)
    """
    tensor: Tensor = torch.as_tensor(slopes)
    if isinstance(factors, Tensor) and factors.dim():
        factors = factors.view(-1, 1, 1, 1)
    return tensor * factors
