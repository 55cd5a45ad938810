"""The gain from a change of decisions, with a confidence interval."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from eastward import _checks
from eastward.decisions._search import CELLS_AT_ONCE, Merit, count_tables
from eastward.metrics import Metric

__all__ = ["DecisionGain", "decision_gain"]

CALLER = "decision_gain"
MOST_RESAMPLES = 1_000_000


class DecisionGain(NamedTuple):
    """The gain of a metric from one set of decisions to another, with its interval.

    Attributes
    ----------
    before, after : float
        The metric of the first and of the second set.
    gain : float
        Positive if the second set is better, whatever the direction of the metric.
    low, high : float
        Ends of the bootstrap interval of the gain.

    Examples
    --------
    >>> DecisionGain(before=0.7, after=0.75, gain=0.05, low=0.01, high=0.09).low > 0
    True
    """

    before: float
    after: float
    gain: float
    low: float
    high: float


def decision_gain(
    before: Any,
    after: Any,
    targets: Any,
    metric: str | Metric | Callable[[Any], Tensor] = "f1_macro",
    *,
    num_classes: int,
    sample_weight: Any = None,
    groups: Any = None,
    level: float = 0.95,
    n_bootstraps: int = 300,
    random_state: int = 0,
) -> DecisionGain:
    r"""Compare two sets of decisions for the same samples by a metric, with a paired bootstrap.

    Parameters
    ----------
    before, after : Tensor or array
        ``(N,)`` class indices, or ``(N, L)`` indicators of labels that do not exclude each other.
    targets : Tensor or array
        ``(N,)`` true class indices, or ``(N, L)`` indicators.
    metric : str, Metric or callable, default="f1_macro"
        The metric that judges the decisions.
    num_classes : int
        Number of classes, C, or of labels.
    sample_weight : Tensor or array, optional
        Weights of the samples, ``(N,)``, finite and not negative.
    groups : Tensor or array, optional
        ``(N,)`` integers: rows of one group (pixels of an image, rows of a patient) are resampled together.
    level : float, default=0.95
        Coverage of the interval, in (0, 1).
    n_bootstraps : int, default=300
        Number of resamples; each takes the same rows from both sets.
    random_state : int, default=0
        Seed of the bootstrap.

    Returns
    -------
    DecisionGain
        ``before``, ``after``, ``gain``, ``low``, ``high``.

    Examples
    --------
    >>> truth = [0, 0, 0, 1, 1, 1]
    >>> decision_gain([0, 0, 0, 0, 0, 1], truth, truth, "accuracy", num_classes=2).gain
    0.3333
    """
    _checks.in_unit_interval(CALLER, "level", level)
    _checks.whole_number(CALLER, "num_classes", num_classes, at_least=1)
    _checks.whole_number(CALLER, "n_bootstraps", n_bootstraps, at_least=1, at_most=MOST_RESAMPLES)
    truth = _checks.numeric(CALLER, "targets", targets).long()
    merit = Merit(metric, num_classes, exclusive=truth.dim() == 1)
    pair = (_decisions("before", before, truth), _decisions("after", after, truth))
    weight = _beside("sample_weight", sample_weight, truth)
    weight = (torch.ones(len(truth)) if weight is None else weight).double().unsqueeze(1)
    generator = torch.Generator().manual_seed(_checks.seed(CALLER, random_state))
    first, second = _merits(merit, truth, pair, weight).flatten().tolist()
    group = _beside("groups", groups, truth)
    group_of_row = None if group is None else group.unique(return_inverse=True)[1]
    chunk = max(1, CELLS_AT_ONCE // max(len(truth), _cells(merit)))
    counts = [min(chunk, n_bootstraps - done) for done in range(0, n_bootstraps, chunk)]
    resampled = [
        _merits(
            merit, truth, pair, weight * times_drawn(len(truth), group_of_row, count, generator)
        )
        for count in counts
    ]
    gains = torch.cat([values[1] - values[0] for values in resampled])
    tail = (1 - level) / 2
    low, high = gains.quantile(gains.new_tensor([tail, 1 - tail])).tolist()
    sign = 1 if merit.metric.higher_is_better else -1
    return DecisionGain(sign * first, sign * second, second - first, low, high)


def _decisions(argument: str, given: Any, truth: Tensor) -> Tensor:
    """Return decisions as integers, of the shape of the targets."""
    found = _checks.numeric(CALLER, argument, given).long()
    if found.shape != truth.shape or truth.dim() not in (1, 2):
        expected = f"of the shape of targets, {tuple(truth.shape)}, which is (N,) or (N, L)"
        _checks.fail(CALLER, argument, expected, _checks.describe(found))
    return found


def _beside(argument: str, given: Any, truth: Tensor) -> Tensor | None:
    """Return one number for each row, or None."""
    if given is None:
        return None
    found = _checks.numeric(CALLER, argument, given)
    if found.shape != truth.shape[:1]:
        expected = f"of shape {tuple(truth.shape[:1])}, one number for each row"
        _checks.fail(CALLER, argument, expected, _checks.describe(found))
    return found


def _cells(merit: Merit) -> int:
    """Return the number of entries of one table."""
    return merit.num_classes * (merit.num_classes if merit.needs_matrix else 4)


def times_drawn(rows: int, groups: Tensor | None, count: int, generator: torch.Generator) -> Tensor:
    """Draw ``count`` bootstraps: how often each row appears, ``(rows, count)``; groups stay together."""
    if groups is None:
        return _draws(rows, count, generator)
    return _draws(int(groups.max()) + 1, count, generator)[groups]


def _draws(size: int, count: int, generator: torch.Generator) -> Tensor:
    """Draw ``count`` bootstraps of ``size`` items: how often each appears, ``(size, count)``."""
    rows = torch.randint(size, (count, size), generator=generator)
    shift = torch.arange(count).unsqueeze(1) * size
    return torch.bincount((rows + shift).flatten(), minlength=size * count).view(count, size).T


def _merits(merit: Merit, targets: Tensor, pair: tuple[Tensor, Tensor], weights: Tensor) -> Tensor:
    """Compute the merit of both sets of decisions under each column of weights, ``(2, B)``."""
    if targets.dim() > 1:
        tables = [_label_tables(targets, decisions, weights) for decisions in pair]
    else:
        tables = [merit.tables(targets, decisions, weights) for decisions in pair]
    return torch.stack([merit(stack).double() for stack in tables])


def _label_tables(targets: Tensor, decisions: Tensor, weights: Tensor) -> Tensor:
    """Count labels under each column of weights, ``(B, 4, L)``; unknown labels are left out."""
    known = (targets >= 0).double()
    truth, given = (targets == 1).double(), (decisions == 1) * known
    tp, predicted, true = (weights.T @ part for part in (truth * given, given, truth))
    return count_tables(tp, predicted, true, weights.T @ known)
