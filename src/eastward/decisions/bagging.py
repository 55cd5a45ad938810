"""Offsets averaged over bootstraps: steadier than the exact optimum of one sample."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from eastward import _checks
from eastward.decisions._inputs import Sample, class_sample
from eastward.decisions._merit import Merit
from eastward.decisions.offsets import METHODS, search_limits, tuned
from eastward.metrics import Metric

__all__ = ["bagged_offsets"]

# Which of a thousand neighbouring break points is best differs from bag to bag anyway; the mean is what counts.
CANDIDATES_PER_SCAN = 1000


def bagged_offsets(
    log_probabilities: Any,
    targets: Any,
    metric: str | Metric | Callable[[Any], Tensor] = "f1_macro",
    *,
    n_bags: int = 15,
    sample_weight: Any = None,
    random_state: int = 0,
    max_offset: float = 6.0,
    max_sweeps: int = 3,
    method: str = "auto",
) -> Tensor:
    r"""Mean of :func:`tune_offsets` over bootstraps, drawn within classes.

    .. math:: b = \frac1B \sum_{i=1}^{B} b^*(\text{bootstrap}_i)

    The best threshold of one sample jumps with single samples; the mean over bootstraps does not. With more than two
    classes a thousand break points per coordinate stand for all.

    Parameters
    ----------
    log_probabilities : Tensor or array
        ``(N, C)``, of samples that the model was not trained on.
    targets : Tensor or array
        ``(N,)`` integer class indices.
    metric : str, Metric or callable, default="f1_macro"
        What to maximise (or minimise, where lower is better).
    n_bags : int, default=15
        Number of bootstraps.
    sample_weight : Tensor or array, optional
        ``(N,)``, finite and not negative.
    random_state : int, default=0
        Seed of the bootstraps.
    max_offset, max_sweeps, method
        As in :func:`tune_offsets`.

    Returns
    -------
    Tensor
        ``(C,)`` with mean zero.

    Examples
    --------
    >>> import torch
    >>> p = torch.tensor([[0.9, 0.1], [0.8, 0.2], [0.6, 0.4], [0.7, 0.3]])
    >>> b = bagged_offsets(p.log(), torch.tensor([0, 0, 1, 1]), "f1")
    >>> (p.log() + b).argmax(1)
    tensor([0, 0, 1, 1])
    """
    caller = "bagged_offsets"
    sample = class_sample(caller, log_probabilities, targets, sample_weight)
    reach, sweeps = search_limits(caller, max_offset, max_sweeps)
    bags = _checks.whole_number(caller, "n_bags", n_bags, at_least=1)
    seed = _checks.whole_number(caller, "random_state", random_state, at_least=0)
    _checks.one_of(caller, "method", method, METHODS)
    merit = Merit(metric, sample.num_classes)
    return bagged(sample, merit, bags, seed, reach, sweeps, method)


def bagged(
    sample: Sample,
    merit: Merit,
    n_bags: int,
    seed: int,
    reach: float,
    max_sweeps: int,
    method: str,
) -> Tensor:
    """:func:`bagged_offsets` of checked input."""
    generator = torch.Generator().manual_seed(seed)
    samples = (bootstrap(sample, generator) for _ in range(n_bags))
    search = (reach, max_sweeps, method, CANDIDATES_PER_SCAN)
    return torch.stack([tuned(bag, merit, *search) for bag in samples]).mean(0)


def bootstrap(sample: Sample, generator: torch.Generator) -> Sample:
    """As many rows of each class as there are, drawn with replacement.

    A row drawn twice is a row of twice the weight, so a bag has only some 63 % of the rows to sort.
    """
    targets = sample.targets.cpu()
    by_class = targets.argsort(stable=True)
    sizes = torch.bincount(targets, minlength=sample.num_classes)
    first = (sizes.cumsum(0) - sizes)[targets[by_class]]
    size = sizes[targets[by_class]]
    drawn = (torch.rand(len(targets), generator=generator, dtype=torch.float64) * size).long()
    times = torch.bincount(by_class[first + drawn], minlength=len(targets))
    kept = torch.nonzero(times).flatten().to(sample.scores.device)
    return sample.rows(kept, sample.weight[kept] * times.to(sample.weight)[kept])
