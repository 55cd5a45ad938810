"""The interface of the two passes over the logits, which every kernel implements."""

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

# What a pass can find, worst last: nothing, a class masked by minus infinity, NaN or infinity, an unknown label.
FINE, MASKED, NOT_FINITE, BAD_LABEL = range(4)


class StepNumbers(NamedTuple):
    """The linear step in units of a threshold below one half, with the numbers that its formulas need; 0-d tensors.

    It bends at ``low`` and ``high``. Its first piece is ``slope * u``, its second ``offset + middle * u``; it
    ``bends_up`` if the second is steeper, and ``jumps`` if the first has no width.
    """

    low: Tensor
    high: Tensor
    slope: Tensor
    middle: Tensor
    offset: Tensor
    heat: Tensor
    tiny: Tensor
    minus_half: Tensor
    half: Tensor
    one: Tensor
    two: Tensor
    bends_up: bool
    jumps: bool


@dataclass(frozen=True)
class Problem:
    """The options of a loss that the passes over the samples need.

    Attributes
    ----------
    kind : {"top2", "fixed", "pair", "labels"}
        In this order: a threshold between the two largest of C >= 3 probabilities; fixed thresholds on C >= 3
        probabilities; two classes, with one logit or two; labels that are independent yes-or-no decisions.
    thresholds : tuple of float
        G thresholds; a single placeholder for the dynamic one.
    temperature : float
        Temperature of the linear step.
    detached : bool
        Whether the dynamic threshold passes no gradient.
    matrix : bool
        Whether tables are matrices instead of counts; never for labels.
    ignored : int
        The label of ignored samples.
    check_values : bool
        Whether the pass has to report what is wrong with the samples.
    """

    kind: str
    thresholds: tuple[float, ...]
    temperature: float
    detached: bool
    matrix: bool
    ignored: int
    check_values: bool = True

    @cached_property
    def constants(self) -> np.ndarray:
        """The step in float32: ``(1, 5)`` in units of a dynamic threshold, else ``(G, 6)`` pieces."""
        if self.kind == "top2":
            return np.array([step_in_thresholds(self.temperature)], np.float32)
        return step_pieces(self.thresholds, self.temperature)

    @cached_property
    def numbers(self) -> StepNumbers:
        """The step in units of a dynamic threshold, as tensors; PyTorch would convert a number in every operation."""
        low, high, slope, middle, heat = step_in_thresholds(self.temperature)
        numbers = (low, high, slope, middle, 0.5 - middle, heat, 1e-12, -0.5, 0.5, 1.0, 2.0)
        tensors = torch.tensor(numbers, dtype=torch.float32, device="cpu").unbind()
        return StepNumbers._make([*tensors, slope < middle, low < 0])

    @cached_property
    def pieces(self) -> list[tuple[Tensor, ...]]:
        """The step at each fixed threshold as in :func:`step_pieces`, the first reach negative; tensors again."""
        signs = np.array([1, -1, 1, 1, 1, 1], np.float32)
        return [row.unbind() for row in torch.from_numpy(self.constants * signs)]

    @cached_property
    def options(self) -> tuple[int, bool, bool, bool]:
        """Options for a compiled pass: the ignored label, matrix or counts, detached, two classes."""
        return self.ignored, self.matrix, self.detached, self.kind == "pair"


class Samples(NamedTuple):
    """N samples, or K separate groups of samples.

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
        """Return the samples with a dimension of groups in front."""
        if not self.is_one_group:
            return self
        weights = None if self.weights is None else self.weights.unsqueeze(0)
        return Samples(self.logits.unsqueeze(0), self.labels.unsqueeze(0), weights)


class Kernel(Protocol):
    """The two passes over the logits that a fast version must implement."""

    def tables(
        self, problem: Problem, samples: Samples, *, keep: bool
    ) -> tuple[Tensor | np.ndarray, int, Any]:
        """Compute tables that add up over samples, what was wrong with the samples, and what the second pass can use.

        Counts ``([K,] G, 4, C)`` (tp, fp, fn, tn) or matrices ``([K,] G, C, C)``, in float64 where the device has it.
        What the second pass can use is computed only if ``keep`` is set, and may be None.
        """

    def pullback(
        self,
        problem: Problem,
        samples: Samples,
        slopes: Any,
        factors: Tensor | float,
        kept: Any,
    ) -> Tensor:
        """Compute the gradient ``([K,] N, C)`` at the logits, given slopes at the tables times factors.

        A factor is one number, or one for each group ``(K,)``. Slopes are a tensor, or an array on the CPU. What was
        ``kept`` by the first pass may be overwritten by the gradient, and must not be used again.
        """


def step_in_thresholds(temperature: float) -> tuple[float, ...]:
    """Describe the linear step in units of a threshold below one half: two bends, two slopes, the temperature.

    Examples
    --------
    >>> step_in_thresholds(0.2)
    (0.5, 1.5, 0.4, 0.6, 0.2)
    """
    room = 1 - 2.5 * temperature
    middle = (0.5 - temperature) / min(2.5 * temperature, 1.0)
    if room <= NARROWEST_PIECE:
        # The outer pieces have no width: nothing lies below the first bend or above the second.
        return -1.0, 3.0, 0.0, middle, temperature
    return room, 1 + 2.5 * temperature, temperature / room, middle, temperature


def step_pieces(thresholds: tuple[float, ...], temperature: float) -> np.ndarray:
    """Describe the step at each threshold: the threshold, both reaches of the middle piece, three slopes.

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
    """Multiply slopes by one factor, or by one for each group.

    Examples
    --------
    >>> scaled(np.ones((1, 2)), 3.0)
    tensor([[3., 3.]], dtype=torch.float64)
    """
    tensor: Tensor = torch.as_tensor(slopes)
    if isinstance(factors, Tensor) and factors.dim():
        factors = factors.view(-1, 1, 1, 1)
    return tensor * factors
