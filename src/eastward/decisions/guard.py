r"""How far to trust tuned offsets: cross-validated shrinkage, and a guard that keeps zero without evidence.

Offsets are tuned on all folds but one and judged on that one. The tables of the folds add up to one table, whose
metric is the honest value of the tuned rule; leaving each fold out in turn tells how sure the gain is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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

FACTORS = (0.25, 0.5, 1.0)

# Fewer rows than this do not show whether any offset helps: zero stays.
FEWEST_ROWS = 20

# A class of so few rows is missing from most folds, and one row decides its offset: then the offsets are halved at
# least and the gain has to exceed a whole standard error.
FEWEST_ROWS_PER_CLASS = 5
CAUTIOUS_FACTOR = 0.5
CAUTIOUS_GUARD = 1.0

# Small samples need offsets that were tuned on nearly all rows; large ones are judged well enough by half the work.
MANY_ROWS = 2000


@dataclass(frozen=True)
class OffsetEvidence:
    """Offsets and what cross-validation says about them.

    Attributes
    ----------
    offsets : Tensor
        ``(C,)``: ``factor`` times the offsets tuned on all samples.
    factor : float
        Between 0 (the plain argmax) and 1 (no shrinkage).
    by_fold : Tensor
        ``(K, C)``: offsets tuned without each fold, not shrunk.
    gains, standard_errors : dict
        From each factor that was tried to the cross-validated gain of the metric (positive is better, in either
        direction of the metric) and its standard error.
    folds : Tensor
        ``(N,)``: the fold of each sample.
    """

    offsets: Tensor
    factor: float
    by_fold: Tensor
    gains: dict[float, float]
    standard_errors: dict[float, float]
    folds: Tensor

    def shifts(self) -> Tensor:
        """``(N, C)``: for each sample the shrunk offsets that were tuned without its fold."""
        return self.factor * self.by_fold[self.folds]


def guarded_offsets(
    log_probabilities: Any,
    targets: Any,
    metric: str | Metric | Callable[[Any], Tensor] = "f1_macro",
    **options: Any,
) -> Tensor:
    """Bagged offsets times a cross-validated factor; zero unless cross-validation favours a change.

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
    folds: int | Any = None,
    factors: Sequence[float] = FACTORS,
    guard: float | None = 0.5,
    n_bags: int = 15,
    sample_weight: Any = None,
    random_state: int = 0,
    max_offset: float = 6.0,
    max_sweeps: int = 3,
    method: str = "auto",
) -> OffsetEvidence:
    r"""Bagged offsets, the shrinkage factor that cross-validation allows, and the evidence for it.

    .. math:: \text{gain}(s) = M\Big(\sum_k C_k(s\,b_{-k})\Big) - M\Big(\sum_k C_k(0)\Big)

    :math:`C_k(b)` is the table of fold k under offsets b, :math:`b_{-k}` are tuned without fold k. The standard error
    is the jackknife's over folds.

    Parameters
    ----------
    log_probabilities : Tensor or array
        ``(N, C)``, of samples that the model was not trained on.
    targets : Tensor or array
        ``(N,)`` integer class indices.
    metric : str, Metric or callable, default="f1_macro"
        What to maximise (or minimise, where lower is better).
    folds : int or array of int, optional
        How many stratified folds, or ``(N,)`` the fold of each sample: 0, 1, ... By default 10, or 5 from 2000 samples
        on.
    factors : sequence of float, default=(0.25, 0.5, 1.0)
        Shrinkage factors to choose from, in [0, 1].
    guard : float or None, default=0.5
        How many standard errors the gain of a factor has to exceed; the largest such factor is taken, or zero. Negative
        numbers forgive a small loss. None takes the largest factor whatever its gain.
    n_bags, sample_weight, random_state, max_offset, max_sweeps, method
        As in :func:`bagged_offsets`.

    Returns
    -------
    OffsetEvidence
        The offsets, the factor, the offsets of each fold, gains and their standard errors.

    Notes
    -----
    Under a guard, fewer than 20 samples always give zero; if the smallest class has fewer than 5, the factor is at
    most 0.5 and the gain has to exceed a whole standard error.

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
    if guard is not None:
        guard = _checks.real(caller, "guard", guard)
    choices = _checked_factors(caller, factors)
    fold_of = _checked_folds(caller, folds, sample, seed)
    merit = Merit(metric, sample.num_classes)

    def tune(part: Sample) -> Tensor:
        return bagged(part, merit, bags, seed, *limits, method)

    by_fold = torch.stack(
        [tune(sample.rows(fold_of != fold)) for fold in range(int(fold_of.max()) + 1)]
    )
    gains, errors = _gains(sample, merit, fold_of, by_fold, choices)
    factor = _chosen_factor(sample, gains, errors, guard)
    return OffsetEvidence(factor * tune(sample), factor, by_fold, gains, errors, fold_of)


def caution(caller: str, guard: Any, shrinkage: Any, num_classes: int) -> tuple[Any, Any]:
    """What "auto" stands for: the guard, and the shrinkage factors to choose from.

    One threshold between two classes overfits little, so there a small loss in cross-validation is forgiven
    (docs/decisions/0010-when-to-trust-tuned-offsets.md has the figures).
    """
    if isinstance(guard, str):
        _checks.one_of(caller, "guard", guard, ("auto",), otherwise="a number, or None")
        guard = -0.5 if num_classes == 2 else 0.5
    if not isinstance(shrinkage, str):
        return guard, (shrinkage,)
    _checks.one_of(caller, "shrinkage", shrinkage, ("auto",), otherwise="a number in [0, 1]")
    return guard, FACTORS


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


def _gains(
    sample: Sample, merit: Merit, folds: Tensor, by_fold: Tensor, factors: tuple[float, ...]
) -> tuple[dict[float, float], dict[float, float]]:
    plain = _fold_tables(sample, merit, folds, torch.zeros_like(by_fold))
    gains, errors = {}, {}
    for factor in factors:
        shifted = _fold_tables(sample, merit, folds, factor * by_fold)
        gains[factor] = float(_pooled_gain(merit, shifted[None], plain[None]))
        left_out = _pooled_gain(merit, _all_but_one(shifted), _all_but_one(plain))
        errors[factor] = _jackknife_error(left_out)
    return gains, errors


def _fold_tables(sample: Sample, merit: Merit, folds: Tensor, by_fold: Tensor) -> Tensor:
    """The table of each fold under its offsets, ``(K, ...)``."""
    decisions = (sample.scores + by_fold.double()[folds]).argmax(1)
    weights = [sample.weight * (folds == fold) for fold in range(len(by_fold))]
    return torch.stack([merit.table(sample.targets, decisions, weight) for weight in weights])


def _pooled_gain(merit: Merit, shifted: Tensor, plain: Tensor) -> Tensor:
    return merit(shifted.sum(1)) - merit(plain.sum(1))


def _all_but_one(tables: Tensor) -> Tensor:
    keep = ~torch.eye(len(tables), dtype=torch.bool, device=tables.device)
    return torch.stack([tables[row] for row in keep])


def _jackknife_error(values: Tensor) -> float:
    size = len(values)
    return float(((size - 1) / size * (values - values.mean()).square().sum()).sqrt())


def _chosen_factor(
    sample: Sample, gains: dict[float, float], errors: dict[float, float], guard: float | None
) -> float:
    """The largest factor that the guard lets pass, or 0."""
    if guard is None:
        return max(gains)
    counts = torch.bincount(sample.targets[sample.weight > 0])
    if int(counts.sum()) < FEWEST_ROWS:
        return 0.0
    largest = 1.0
    if int(counts[counts > 0].min()) < FEWEST_ROWS_PER_CLASS:
        guard, largest = max(guard, CAUTIOUS_GUARD), CAUTIOUS_FACTOR
    passing = [
        factor for factor in gains if factor <= largest and gains[factor] > guard * errors[factor]
    ]
    return max(passing, default=0.0)


def _checked_factors(caller: str, factors: Sequence[float]) -> tuple[float, ...]:
    choices = tuple(_checks.real(caller, "factors", factor) for factor in factors)
    if not choices or not all(0 <= factor <= 1 for factor in choices):
        _checks.fail(caller, "factors", "one or more numbers in [0, 1]", list(factors))
    return choices


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
