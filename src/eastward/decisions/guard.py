r"""How far to trust tuned offsets: shrinkage by how far bags disagree, and a guard by cross-validation.

Offsets that every bootstrap finds are kept; offsets that point another way in each are noise and are dropped. What is
left is judged on folds: tuned on all but one, applied to that one. The tables of the folds add up to one table, whose
metric is the honest value of the whole procedure; leaving each fold out in turn tells how sure the gain is.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from eastward import _checks
from eastward.decisions._inputs import Sample, class_sample
from eastward.decisions._merit import Merit
from eastward.decisions.bagging import bagged
from eastward.decisions.offsets import METHODS, search_limits
from eastward.metrics import Metric

__all__ = ["OffsetEvidence", "guarded_offsets", "offset_evidence", "stratified_folds"]

# Fewer rows than this do not show whether any offset helps: zero stays.
FEWEST_ROWS = 20

# One row decides the offset of a class of so few: then offsets are halved at least and the gain has to exceed a whole
# standard error.
FEWEST_ROWS_PER_CLASS = 5
CAUTIOUS_FACTOR = 0.5
CAUTIOUS_GUARD = 1.0

# Small samples need offsets that were tuned on nearly all rows; large ones are judged well enough by half the work.
MANY_ROWS = 2000


@dataclass(frozen=True)
class OffsetEvidence:
    """Offsets and what speaks for them.

    Attributes
    ----------
    offsets : Tensor
        ``(C,)``: the bagged offsets times ``factor``.
    factor : float
        Between 0 (the plain argmax) and 1 (no shrinkage).
    disagreement : float
        Variance of the offsets over bags, divided by the squared length of their mean.
    gain, standard_error : float
        Cross-validated gain of the metric by the shrunk offsets (positive is better, in either direction of the
        metric) and its standard error.
    favoured : bool
        Whether the guard let the offsets pass; if not, ``factor`` is zero.
    by_fold : Tensor
        ``(K, C)``: shrunk offsets tuned without each fold.
    folds : Tensor
        ``(N,)``: the fold of each sample.
    """

    offsets: Tensor
    factor: float
    disagreement: float
    gain: float
    standard_error: float
    favoured: bool
    by_fold: Tensor
    folds: Tensor

    def shifts(self) -> Tensor:
        """``(N, C)``: for each sample the offsets that were tuned without its fold; zero if not favoured."""
        return self.by_fold[self.folds] * float(self.favoured)


def guarded_offsets(
    log_probabilities: Any,
    targets: Any,
    metric: str | Metric | Callable[[Any], Tensor] = "f1_macro",
    **options: Any,
) -> Tensor:
    """Bagged offsets, shrunk as far as the bags disagree; zero unless cross-validation favours a change.

    Parameters
    ----------
    log_probabilities, targets, metric, **options
        As in :func:`offset_evidence`, which also returns what the choice rests on.

    Returns
    -------
    Tensor
        ``(C,)`` with mean zero.

    Examples
    --------
    >>> import torch
    >>> p = torch.tensor([[0.6, 0.4], [0.9, 0.1]]).repeat(20, 1)
    >>> b = guarded_offsets(p.log(), torch.tensor([1, 0]).repeat(20), "f1")
    >>> (p.log() + b).argmax(1)[:2]
    tensor([1, 0])
    """
    return offset_evidence(log_probabilities, targets, metric, **options).offsets


def offset_evidence(
    log_probabilities: Any,
    targets: Any,
    metric: str | Metric | Callable[[Any], Tensor] = "f1_macro",
    *,
    shrinkage: str | float = "auto",
    guard: float | None = 0.5,
    folds: int | Any = None,
    n_bags: int = 15,
    sample_weight: Any = None,
    random_state: int = 0,
    max_offset: float = 6.0,
    max_sweeps: int = 3,
    method: str = "auto",
) -> OffsetEvidence:
    r"""Bagged offsets, how far to shrink them, and whether cross-validation favours them.

    .. math:: \text{gain} = M\Big(\sum_k C_k(b_{-k})\Big) - M\Big(\sum_k C_k(0)\Big)

    :math:`C_k(b)` is the table of fold k under offsets b, :math:`b_{-k}` are tuned and shrunk without fold k. The
    standard error is the jackknife's over folds.

    Parameters
    ----------
    log_probabilities : Tensor or array
        ``(N, C)``, of samples that the model was not trained on.
    targets : Tensor or array
        ``(N,)`` integer class indices.
    metric : str, Metric or callable, default="f1_macro"
        What to maximise (or minimise, where lower is better).
    shrinkage : "auto" or float in [0, 1], default="auto"
        Factor for the offsets. "auto" is ``2 - q``, cut off at 0 and 1, where q is the variance of the offsets over
        bags, summed over classes, divided by the squared length of their mean.
    guard : float or None, default=0.5
        How many standard errors the gain has to exceed, or else the offsets are zero. None: no guard.
    folds : int or array of int, optional
        How many stratified folds, or ``(N,)`` the fold of each sample: 0, 1, ... By default 10, or 5 from 2000 samples
        on.
    n_bags, sample_weight, random_state, max_offset, max_sweeps, method
        As in :func:`bagged_offsets`.

    Returns
    -------
    OffsetEvidence
        The offsets, the factor, the gain and its standard error, the offsets of each fold.

    Notes
    -----
    Under a guard, fewer than 20 samples always give zero; if the smallest class has fewer than 5, the factor is at
    most 0.5 and the gain has to exceed a whole standard error.

    References
    ----------
    Efron and Morris (1973), "Stein's estimation rule and its competitors", for shrinkage by the ratio of variance to
    squared mean.

    Examples
    --------
    >>> import torch
    >>> p = torch.tensor([[0.6, 0.4], [0.9, 0.1]]).repeat(20, 1)
    >>> offset_evidence(p.log(), torch.tensor([1, 0]).repeat(20), "f1").factor
    1.0
    """
    caller = "offset_evidence"
    sample = class_sample(caller, log_probabilities, targets, sample_weight)
    limits = search_limits(caller, max_offset, max_sweeps)
    bags = _checks.whole_number(caller, "n_bags", n_bags, at_least=1)
    seed = _checks.whole_number(caller, "random_state", random_state, at_least=0)
    _checks.one_of(caller, "method", method, METHODS)
    fixed = checked_shrinkage(caller, shrinkage)
    hurdle, limit = _caution(
        sample, None if guard is None else _checks.real(caller, "guard", guard)
    )
    fold_of = _checked_folds(caller, folds, sample, seed)
    merit = Merit(metric, sample.num_classes)

    def tune(part: Sample) -> tuple[Tensor, float, float]:
        found = bagged(part, merit, bags, seed, *limits, method)
        factor = min(limit, found.agreement_factor() if fixed is None else fixed)
        return factor * found.mean + 0.0, factor, found.disagreement  # no negative zeros

    parts = [sample.rows(fold_of != fold) for fold in range(int(fold_of.max()) + 1)]
    by_fold = torch.stack([tune(part)[0] for part in parts])
    gain, error = _gain(sample, merit, fold_of, by_fold)
    favoured = hurdle is None or gain > hurdle * error
    offsets, factor, disagreement = tune(sample)
    return OffsetEvidence(
        offsets if favoured else torch.zeros_like(offsets),
        factor * float(favoured),
        disagreement,
        gain,
        error,
        favoured,
        by_fold,
        fold_of,
    )


def checked_shrinkage(caller: str, shrinkage: Any) -> float | None:
    """A fixed factor in [0, 1], or None for "auto"."""
    if isinstance(shrinkage, str):
        _checks.one_of(caller, "shrinkage", shrinkage, ("auto",), otherwise="a number in [0, 1]")
        return None
    factor = _checks.real(caller, "shrinkage", shrinkage)
    if not 0 <= factor <= 1:
        _checks.fail(caller, "shrinkage", "in [0, 1]", shrinkage)
    return factor


def stratified_folds(targets: Tensor, num_folds: int, seed: int) -> Tensor:
    """Folds ``(N,)`` that share out each class evenly, after a shuffle.

    Examples
    --------
    >>> import torch
    >>> stratified_folds(torch.tensor([0, 0, 1, 1]), 2, seed=0).sort().values
    tensor([0, 0, 1, 1])
    """
    shuffled = torch.randperm(len(targets), generator=torch.Generator().manual_seed(seed))
    order = shuffled[targets.cpu()[shuffled].argsort(stable=True)]
    folds = torch.empty_like(order)
    folds[order] = torch.arange(len(order)) % num_folds
    return folds.to(targets.device)


def _caution(sample: Sample, guard: float | None) -> tuple[float | None, float]:
    """The hurdle in standard errors and the largest factor that so many rows allow."""
    if guard is None:
        return None, 1.0
    counts = torch.bincount(sample.targets[sample.weight > 0])
    if int(counts.sum()) < FEWEST_ROWS:
        return math.inf, 0.0
    if int(counts[counts > 0].min()) < FEWEST_ROWS_PER_CLASS:
        return max(guard, CAUTIOUS_GUARD), CAUTIOUS_FACTOR
    return guard, 1.0


def _gain(sample: Sample, merit: Merit, folds: Tensor, by_fold: Tensor) -> tuple[float, float]:
    """Cross-validated gain of the offsets of each fold, and its jackknife standard error."""
    plain = _fold_tables(sample, merit, folds, torch.zeros_like(by_fold))
    shifted = _fold_tables(sample, merit, folds, by_fold)
    left_out = _pooled_gain(merit, _all_but_one(shifted), _all_but_one(plain))
    return float(_pooled_gain(merit, shifted[None], plain[None])), jackknife_error(left_out)


def _fold_tables(sample: Sample, merit: Merit, folds: Tensor, by_fold: Tensor) -> Tensor:
    """The table of each fold under its offsets, ``(K, ...)``."""
    decisions = (sample.scores + by_fold.double()[folds]).argmax(1)
    weights = torch.nn.functional.one_hot(folds, len(by_fold)) * sample.weight.unsqueeze(1)
    return merit.tables(sample.targets, decisions, weights)


def _pooled_gain(merit: Merit, shifted: Tensor, plain: Tensor) -> Tensor:
    return merit(shifted.sum(1)) - merit(plain.sum(1))


def _all_but_one(tables: Tensor) -> Tensor:
    keep = ~torch.eye(len(tables), dtype=torch.bool, device=tables.device)
    return torch.stack([tables[row] for row in keep])


def jackknife_error(values: Tensor) -> float:
    """Standard error of a number, from its values without each fold."""
    size = len(values)
    return float(((size - 1) / size * (values - values.mean()).square().sum()).sqrt())


def _checked_folds(caller: str, folds: Any, sample: Sample, seed: int) -> Tensor:
    if folds is None:
        folds = 10 if len(sample.targets) < MANY_ROWS else 5
    if isinstance(folds, int) and not isinstance(folds, bool):
        count = _checks.whole_number(caller, "folds", folds, at_least=2)
        return stratified_folds(sample.targets, min(count, len(sample.targets)), seed)
    given = torch.as_tensor(folds, device=sample.scores.device)
    if given.shape != sample.targets.shape or given.is_floating_point() or given.is_complex():
        expected = f"an integer, or one integer per sample, ({len(sample.targets)},)"
        _checks.fail(caller, "folds", expected, _checks.describe(given))
    numbers = given.unique()
    if len(numbers) < 2 or not torch.equal(numbers.cpu(), torch.arange(len(numbers))):
        expected = "numbered 0, 1, ... with two or more of them"
        _checks.fail(caller, "folds", expected, numbers[:10].tolist())
    return given.long()
