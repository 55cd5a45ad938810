"""The interfaces of plug-ins, and names for tensor shapes.

Everything that you can replace is a plain callable: a step, a metric, a schedule, a reduction. The aliases below only
let a signature say which shape it expects.
"""

from __future__ import annotations

from typing import Protocol, TypeAlias

from torch import Tensor

Logits: TypeAlias = Tensor
"""Raw scores: ``(N, C)``, ``(N, C, ...)``, or ``(N,)``/``(N, 1)`` for one positive-class logit."""

Targets: TypeAlias = Tensor
"""Class indices ``(N, ...)``, or 0/1 indicators of the shape of the logits."""

Memberships: TypeAlias = Tensor
"""Soft degrees of belonging, ``(N, C)``; rows sum to one in multiclass problems."""

Confusion: TypeAlias = Tensor
"""Matrix ``(C, C)``: rows are true classes, columns predicted ones."""

Scalar: TypeAlias = Tensor
"""A 0-d tensor."""


class Step(Protocol):
    """A soft Heaviside step: how far ``p`` lies above ``tau``, in [0, 1]."""

    def __call__(self, p: Tensor, tau: Tensor, temperature: Tensor) -> Tensor:
        """Return the soft step of ``p`` at ``tau``; smaller temperatures are harder."""


class Schedule(Protocol):
    """A temperature as a function of progress."""

    def __call__(self, step: int) -> float:
        """Return the temperature at ``step``."""


class Reduce(Protocol):
    """A sum over processes, differentiable if its input is."""

    def __call__(self, table: Tensor) -> Tensor:
        """Return the sum of ``table`` over all processes."""
