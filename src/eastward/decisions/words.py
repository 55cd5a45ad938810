"""What a decision matrix does, in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from eastward.decisions.solving import scales_and_shifts

# More classes than this are not listed one by one.
MAX_LISTED = 30

# Where two decisions for two classes change places, to this many digits.
GRID = np.linspace(0, 1, 100_001)


def describe_matrix(matrix: NDArray[Any], names: Sequence[str]) -> str:
    """A sentence or a few lines that say which probabilities lead to which decision.

    Examples
    --------
    >>> import numpy as np
    >>> describe_matrix(np.diag([0.18, 0.82]), ["legal", "fraud"])
    'fraud from a probability of 0.18 on; legal below'
    """
    size, width = matrix.shape
    if size == 2:
        return _two_classes(matrix, names)
    if width == size and _is_plain(matrix):
        return "the most probable class"
    lines = _listed(matrix, names)
    if width > size:
        lines.append(f"no decision: {_sum_of(matrix[:, size], names)}")
    return "the largest of\n" + "\n".join(f"  {line}" for line in lines)


def _two_classes(matrix: NDArray[Any], names: Sequence[str]) -> str:
    """Intervals of the probability of class 1, from where each decision is taken."""
    scores = np.stack([1 - GRID, GRID], 1) @ matrix
    chosen = scores.argmax(1)
    starts = np.flatnonzero(np.diff(chosen, prepend=-1))
    labels = [names[code] if code < 2 else "no decision" for code in chosen[starts]]
    if len(labels) == 1:
        return f"always {labels[0]}"
    cuts = GRID[starts]
    parts = [f"{labels[-1]} from a probability of {_short(cuts[-1])} on"]
    middle = range(len(labels) - 2, 0, -1)
    parts += [f"{labels[place]} from {_short(cuts[place])}" for place in middle]
    subject = "" if labels[-1] == names[1] else f" (probability of {names[1]})"
    return "; ".join([*parts, f"{labels[0]} below"]) + subject


def _short(cut: float) -> str:
    return f"{cut:.2f}" if 0.02 <= cut <= 0.98 else f"{cut:.3g}"


def _listed(matrix: NDArray[Any], names: Sequence[str]) -> list[str]:
    parts = scales_and_shifts(torch.tensor(matrix)) if len(matrix) == matrix.shape[1] else None
    if parts is None:
        lines = [
            f"{name}: {_sum_of(column, names)}"
            for name, column in zip(names, matrix.T, strict=False)
        ]
    else:
        scales, shifts = (part.numpy() for part in parts)
        unit = np.abs(scales).mean() or 1.0
        lines = [
            f"{name}: {scale / unit:.3g} × its probability{_shift(shift / unit)}"
            for name, scale, shift in zip(names, scales, shifts, strict=True)
        ]
    hidden = len(lines) - MAX_LISTED
    return lines if hidden <= 0 else [*lines[:MAX_LISTED], f"and {hidden} more classes"]


def _shift(shift: float) -> str:
    return "" if abs(shift) < 5e-4 else f" {'+' if shift > 0 else '−'} {abs(shift):.3g}"


def _sum_of(column: NDArray[Any], names: Sequence[str]) -> str:
    """The terms of one column, the largest first, no more than four."""
    order = np.argsort(-np.abs(column))[:4]
    terms = [f"{column[place]:+.3g} p({names[place]})" for place in order if column[place]]
    more = " …" if len(column) > len(order) else ""
    return (
        " ".join(terms).replace("+", "+ ").replace("-", "− ").removeprefix("+ ") + more
        if terms
        else "0"
    )


def _is_plain(matrix: NDArray[Any]) -> bool:
    """Whether the rule is the plain argmax."""
    parts = scales_and_shifts(torch.tensor(matrix))
    if parts is None:
        return False
    scales, shifts = parts
    equal = torch.allclose(scales, scales[:1].expand_as(scales), rtol=1e-9)
    return bool(scales[0] > 0) and equal and bool((shifts.abs() <= 1e-9 * scales[0]).all())
