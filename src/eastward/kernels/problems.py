"""What a kernel is asked: the kind of membership, and samples as plain arrays."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from torch import Tensor

__all__ = ["Backend", "NotFiniteError", "Problem", "Samples"]


class NotFiniteError(ArithmeticError):
    """Raised by kernels that cannot compute with NaN or infinite logits."""


class Problem(NamedTuple):
    """The part of a loss that touches every sample.

    Attributes
    ----------
    kind : {"dynamic", "fixed", "pair", "labels"}
        Threshold between the two largest of C >= 3 probabilities; fixed thresholds on C >= 3 probabilities; two
        classes; independent labels.
    thresholds : tuple of float
        G of them; for the dynamic one a single placeholder.
    temperature : float
        Of the linear step.
    detached : bool
        No gradient through the dynamic threshold.
    matrix : bool
        Sums are the matrix rather than diagonal and margins. Two classes never need it.
    """

    kind: str
    thresholds: tuple[float, ...]
    temperature: float
    detached: bool
    matrix: bool

    @property
    def binary(self) -> bool:
        """Whether columns are separate yes-or-no decisions."""
        return self.kind in ("pair", "labels")


class Samples(NamedTuple):
    """K groups of N samples, checked and masked: every label may be used as an index.

    Attributes
    ----------
    logits : Tensor
        ``(K, N, C)`` float32, contiguous.
    labels : Tensor
        ``(K, N)`` int64, or ``(K, N, L)`` of zeros and ones for independent labels.
    weights : Tensor or None
        Of the labels' shape, float32; zero for samples that do not exist.
    recorded : bool
        Whether a gradient will be asked for, so that it is worth while to prepare it.
    """

    logits: Tensor
    labels: Tensor
    weights: Tensor | None
    recorded: bool = False


class Backend(Protocol):
    """A pair of functions; ``saved`` is whatever the first wants to tell the second.

    Sums add up over samples. They are ``(K, G, 3, C)`` for diagonal and margins (right, predicted, true),
    ``(K, G, C, C)`` for matrices, and ``(K, G, 4, L)`` for binary columns: memberships of the positives, of the
    negatives, mass of the positives, of the negatives.
    """

    def sums(self, problem: Problem, samples: Samples) -> tuple[Tensor, Any]:
        """Sums over the samples of each group."""

    def gradient(self, problem: Problem, samples: Samples, saved: Any, slopes: Tensor) -> Tensor:
        """Gradient at the logits, given that at the sums.

        ``slopes`` are ``(K, G, 2, C)`` for margins (by right, by predicted) and for binary columns (by the two
        memberships), ``(K, G, C, C)`` for matrices.
        """
