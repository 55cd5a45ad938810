r"""Scale features for the default network, and cut them into pieces for small tables.

With a few hundred rows, a network can hardly learn to change its slope at a particular value of one feature, which a
tree does with its first split. Pieces make such changes easy. With edges :math:`e_0 < \dots < e_B` at quantiles of the
feature, piece
:math:`b` is how far the value has come through the interval :math:`[e_{b-1}, e_b]`,

.. math:: t_b(x) = \min\!\big(1, \max(0, (x - e_{b-1}) / (e_b - e_{b-1}))\big),

(Gorishniy et al., *On Embeddings for Numerical Features in Tabular Deep Learning*, 2022).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

__all__ = ["Pieces", "Scaler"]

OUTLIER = 10.0
# How far outside the range of training a value may lie, in widths of the outermost pieces.
BEYOND = 1.0


@dataclass(frozen=True)
class Pieces:
    """All intervals of all features: feature number, start, width and limits, ``(P,)`` each."""

    column: Tensor
    start: Tensor
    width: Tensor
    lowest: Tensor
    highest: Tensor

    @classmethod
    def of(cls, features: NDArray[Any], bins: int) -> Pieces | None:
        """Compute quantile intervals of features with more than two values; None if there is no such feature."""
        parts = []
        for column in range(features.shape[1]):
            edges = _edges(features[:, column], bins)
            if len(edges) < 3:  # a single piece carries no more information than the scaled feature
                continue
            size = len(edges) - 1
            lowest, highest = np.zeros(size), np.ones(size)
            lowest[0], highest[-1] = -BEYOND, 1 + BEYOND
            parts.append((np.full(size, column), edges[:-1], np.diff(edges), lowest, highest))
        if not parts:
            return None
        columns, *rest = (np.concatenate(values) for values in zip(*parts, strict=True))
        return cls(
            torch.from_numpy(columns), *(torch.from_numpy(v.astype(np.float32)) for v in rest)
        )

    def __call__(self, features: Tensor) -> Tensor:
        """Compute how far each row has come through each piece, ``(N, P)``."""
        come = (features[:, self.column] - self.start) / self.width
        return torch.minimum(torch.maximum(come, self.lowest), self.highest)


def _edges(values: NDArray[Any], bins: int) -> NDArray[np.float32]:
    """Compute the quantiles of a feature, without repetitions and intervals too narrow for float32."""
    if len(np.unique(values)) <= 2:  # nothing has to change between only two values
        return np.empty(0, dtype=np.float32)
    quantiles = np.quantile(values.astype(np.float64), np.linspace(0, 1, bins + 1))
    edges = np.unique(quantiles.astype(np.float32))
    wide = np.diff(edges) > 1e-6 * np.maximum(np.abs(edges[1:]), np.abs(edges[:-1]))
    kept: NDArray[np.float32] = edges[np.concatenate([[True], wide])]
    return kept


@dataclass(frozen=True)
class Scaler:
    """Centre and scale of each feature, as in the papers; outliers are cut at ten deviations.

    Attributes
    ----------
    mean, scale : Tensor
        ``(n_features,)``.
    pieces : Pieces, optional
        Pieces that follow the scaled features.
    """

    mean: Tensor
    scale: Tensor
    pieces: Pieces | None = None

    @classmethod
    def of(cls, features: NDArray[Any], *, bins: int = 0, chunk: int = 8_192) -> Scaler:
        """Estimate centre and scale in chunks, so that no second copy of the table is made."""
        columns = features.shape[1]
        total, squares = np.zeros(columns), np.zeros(columns)
        pivot = features[0].astype(np.float64)  # keeps the digits of a large offset
        for start in range(0, len(features), chunk):
            part = features[start : start + chunk].astype(np.float64) - pivot
            total += part.sum(0)
            squares += np.square(part).sum(0)
        mean = total / len(features)
        deviation = np.sqrt(np.maximum(squares / len(features) - mean**2, 0))
        noise = 1e-7 * np.maximum(np.abs(mean + pivot), 1e-30)
        scale = np.where(deviation > noise, deviation, 1.0)
        pieces = Pieces.of(features, bins) if bins else None
        tensors = torch.from_numpy(mean + pivot).float(), torch.from_numpy(scale).float()
        return cls(*tensors, pieces)

    @property
    def width(self) -> int:
        """Number of inputs of the network."""
        return len(self.mean) + (0 if self.pieces is None else len(self.pieces.column))

    def __call__(self, features: Tensor) -> Tensor:
        """Scale features to ``(N, width)``; without pieces this allocates one new tensor."""
        numbers = features.float()
        scaled = (numbers - self.mean).div_(self.scale).clamp_(-OUTLIER, OUTLIER)
        return scaled if self.pieces is None else torch.cat([scaled, self.pieces(numbers)], dim=1)

    def in_place(self, features: Tensor) -> Tensor:
        """Scale float32 features in place; the caller must not need the originals."""
        if self.pieces is not None:
            return self(features)
        return features.sub_(self.mean).div_(self.scale).clamp_(-OUTLIER, OUTLIER)

    def tensors(self) -> dict[str, Tensor]:
        """Return all tensors by name, for a file."""
        kept = {"mean": self.mean, "scale": self.scale}
        if self.pieces is not None:
            kept |= {f"pieces.{name}": value for name, value in vars(self.pieces).items()}
        return kept

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor]) -> Scaler:
        """Restore a scaler from :meth:`tensors`."""
        inner = {
            k.removeprefix("pieces."): v for k, v in tensors.items() if k.startswith("pieces.")
        }
        return cls(tensors["mean"], tensors["scale"], Pieces(**inner) if inner else None)
