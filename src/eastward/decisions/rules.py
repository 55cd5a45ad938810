"""Rules that need no tuning, and descriptions of rules in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from eastward import _checks
from eastward._numerics import at_least_float32
from eastward.decisions.solving import scales_and_shifts

__all__ = ["ABSTAIN", "cheapest", "decide"]

ABSTAIN = -1
"""The result of :func:`cheapest` where abstaining is cheaper than every class."""


def decide(scores: Any, offsets: Any = None) -> Tensor:
    r"""Decide for the class with the largest shifted score, :math:`\arg\max_j (s_{nj} + b_j)`.

    Parameters
    ----------
    scores : Tensor or array
        ``(N, C)`` log-probabilities or logits.
    offsets : Tensor or array, optional
        ``(C,)``; zero by default.

    Returns
    -------
    Tensor
        ``(N,)`` class indices; the first of tied classes.

    Examples
    --------
    >>> import torch
    >>> decide(torch.tensor([[0.7, 0.3], [0.6, 0.4]]).log(), [-0.3, 0.3])
    tensor([0, 1])
    """
    table = _checks.numeric("decide", "scores", scores)
    _checks.floating("decide", "scores", table)
    if table.dim() != 2:
        _checks.fail("decide", "scores", "of shape (N, C)", _checks.describe(table))
    if offsets is None:
        return table.argmax(1)
    shift = _checks.numeric("decide", "offsets", offsets).to(at_least_float32(table[:0]))
    if shift.shape != table.shape[1:]:
        expected = f"of shape ({table.shape[1]},), one per class"
        _checks.fail("decide", "offsets", expected, _checks.describe(shift))
    return (table + shift).argmax(1)


def cheapest(probabilities: Any, cost: Any, abstain_cost: float | None = None) -> Tensor:
    r"""Decide for the class with the lowest expected cost, :math:`\arg\min_j \sum_i p_{ni}\,cost_{ij}`.

    Parameters
    ----------
    probabilities : Tensor or array
        ``(N, C)`` in [0, 1]. They are taken at face value, so calibrate an overconfident model first.
    cost : array-like
        ``(C, C)``: the cost of deciding for the column when the row is true.
    abstain_cost : float, optional
        The cost of not deciding, >= 0.

    Returns
    -------
    Tensor
        ``(N,)`` class indices, or -1 where abstaining is strictly cheaper than every class.

    References
    ----------
    Elkan (2001), "The foundations of cost-sensitive learning"; Chow (1970), "On optimum recognition error and reject
    tradeoff".

    Examples
    --------
    >>> import torch
    >>> p = torch.tensor([[0.95, 0.05], [0.8, 0.2], [0.1, 0.9]])
    >>> cheapest(p, cost=[[0, 1], [5, 0]], abstain_cost=0.4)
    tensor([ 0, -1,  1])
    """
    table = _checks.numeric("cheapest", "probabilities", probabilities)
    _checks.floating("cheapest", "probabilities", table)
    if table.dim() != 2:
        _checks.fail("cheapest", "probabilities", "of shape (N, C)", _checks.describe(table))
    _checks.probabilities("cheapest", table)
    table = at_least_float32(table)
    costs = table @ _checks.cost("cheapest", cost, table.shape[1]).to(table)
    lowest, decisions = costs.min(1)
    if abstain_cost is None:
        return decisions
    limit = _checks.not_negative("cheapest", "abstain_cost", abstain_cost)
    return decisions.masked_fill(lowest > limit, ABSTAIN)


def abstention_label(caller: str, classes: NDArray[Any], chosen: Any) -> Any:
    """Return the label for "no decision": ``chosen``, or one of the classes' type that is not a class."""
    label = chosen
    if chosen is None and classes.dtype != bool:
        label = ABSTAIN if np.issubdtype(classes.dtype, np.number) else "abstain"
    if label in classes.tolist():
        advice = "Set abstain_label to something else."
        _checks.fail(caller, "abstain_label", "other than every class", repr(label), advice)
    return label


def labels_or_abstention(
    caller: str, classes: NDArray[Any], decisions: NDArray[Any], chosen: Any
) -> NDArray[Any]:
    """Return the labels of the decisions, with the abstention label for undecided rows."""
    label = abstention_label(caller, classes, chosen)
    # NumPy would turn a mixture of text and numbers into text, so a mixture becomes an object array.
    common = np.result_type(classes, np.asarray(label)) if label is not None else np.dtype(object)
    text = "U" in (classes.dtype.kind, np.asarray(label).dtype.kind)
    alike = (
        common.kind == classes.dtype.kind == (np.asarray(label).dtype.kind if text else common.kind)
    )
    kind = common if alike else np.dtype(object)
    labels = np.append(classes.astype(kind), np.array([label], dtype=kind))
    decided: NDArray[Any] = labels[decisions]
    return decided


# The most classes that are listed one by one.
MAX_LISTED = 30

# Digits of the threshold between two decisions.
GRID = np.linspace(0, 1, 100_001)


def describe_matrix(matrix: NDArray[Any], names: Sequence[str], positive: int = 1) -> str:
    """Describe in words which probabilities lead to which decision.

    With two classes, the description is in terms of the class called ``positive``.

    Examples
    --------
    >>> import numpy as np
    >>> describe_matrix(np.diag([0.18, 0.82]), ["legal", "fraud"])
    'fraud from a probability of 0.18 on; legal below'
    >>> describe_matrix(np.diag([0.18, 0.82]), ["legal", "fraud"], positive=0)
    'legal from a probability of 0.82 on; fraud below'
    """
    size, width = matrix.shape
    if size == 2:
        order = [1 - positive, positive]
        columns = [*order, *range(2, width)]
        return _two_classes(matrix[order][:, columns], [names[place] for place in order])
    if width == size and _is_plain(matrix):
        return "the most probable class"
    lines = _listed(matrix, names)
    if width > size:
        lines.append(f"no decision: {_sum_of(matrix[:, size], names)}")
    return "the largest of\n" + "\n".join(f"  {line}" for line in lines)


def _two_classes(matrix: NDArray[Any], names: Sequence[str]) -> str:
    """Describe a rule for two classes by intervals of the probability of class 1."""
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
    """Format the terms of one column, largest first, four at most."""
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
