r"""Offsets that make ``argmax(log p + b)`` the best decision for a metric.

Every metric of the confusion matrix has a best decision rule. For many of them (F-scores, balanced accuracy, costs
that depend on the true class) it is the most probable class after a shift for each class. The shift is found on
predictions for samples that the model was not trained on. An exact search costs about :math:`N C^2` a sweep; gradient
descent on the annealed surrogate costs :math:`N C` a step.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from eastward import _checks
from eastward.decisions._inputs import Sample, class_sample
from eastward.decisions._search import Merit, best_offset, class_moves, merit_of_offsets
from eastward.losses import metric_loss
from eastward.metrics import Metric

__all__ = [
    "LABEL_SHARE",
    "anneal_offsets",
    "bagged_offsets",
    "smoothed_offsets",
    "smoothed_rows",
    "tune_offsets",
]

METHODS = ("auto", "scan", "surrogate")

# One sweep evaluates the metric at about N * C^2 numbers; a hundred million take about ten seconds on one core.
SCAN_BUDGET = 100_000_000

# More bags change nothing, and each is a search of its own.
MOST_BAGS = 10_000

# The best of many neighbouring break points differs from bag to bag anyway, and only the mean of the bags counts.
CANDIDATES_PER_SCAN = 1000

LABEL_SHARE = 0.25
"""The share of labels that did best on development splits of 33 tables (docs/quality.md)."""

# Smaller shares of a row cannot change a decision, but each would be one more row to sort.
SMALLEST_SHARE = 5e-3

# Temperatures of the surrogate, from soft to sharp.
LADDER = (0.2, 0.14, 0.1, 0.07, 0.05)


def tune_offsets(
    log_probabilities: Any,
    targets: Any,
    metric: str | Metric | Callable[[Any], Tensor] = "f1_macro",
    *,
    sample_weight: Any = None,
    max_offset: float = 6.0,
    max_sweeps: int = 3,
    method: str = "auto",
) -> Tensor:
    r"""Find offsets per class such that ``argmax(log p + b)`` is best for a metric.

    .. math:: b^* = \arg\max_b M\Big(\sum_n w_n\, e_{y_n} e^\top_{\arg\max_j (\log p_{nj} + b_j)}\Big)

    For two classes, every threshold is tried after one sort, and the result is the global optimum. For more classes,
    coordinate ascent runs the same exact search for each class in turn, rare classes first.

    Parameters
    ----------
    log_probabilities : Tensor or array
        ``(N, C)``, or any scores for which an offset makes sense. Use predictions for samples that the model was not
        trained on. Minus infinity is allowed.
    targets : Tensor or array
        ``(N,)`` integer class indices.
    metric : str, Metric or callable, default="f1_macro"
        A name from :func:`eastward.metrics.names`, or a callable from a confusion matrix to a number.
    sample_weight : Tensor or array, optional
        ``(N,)``, finite and not negative.
    max_offset : float, default=6.0
        Each offset is searched within plus or minus this many nats.
    max_sweeps : int, default=3
        Rounds of coordinate ascent; it stops early when a round changes nothing.
    method : {"auto", "scan", "surrogate"}, default="auto"
        ``"scan"`` is the search above, ``"surrogate"`` is :func:`anneal_offsets`; ``"auto"`` scans while N·C² is at
        most a hundred million.

    Returns
    -------
    Tensor
        ``(C,)`` with mean zero; all zero if nothing beats the plain argmax on these data.

    Notes
    -----
    Of several equally good intervals of offsets, the one nearest to zero is taken, at its middle. A metric that
    ``torch.func.vmap`` cannot run is evaluated at 200 break points per class instead of all.

    Examples
    --------
    >>> import torch
    >>> p = torch.tensor([[0.9, 0.1], [0.8, 0.2], [0.6, 0.4], [0.7, 0.3]])
    >>> b = tune_offsets(p.log(), torch.tensor([0, 0, 1, 1]), "f1")
    >>> (p.log() + b).argmax(1)
    tensor([0, 0, 1, 1])
    """
    caller = "tune_offsets"
    sample = class_sample(caller, log_probabilities, targets, sample_weight)
    limits = search_limits(caller, max_offset, max_sweeps)
    _checks.one_of(caller, "method", method, METHODS)
    return tuned(sample, Merit(metric, sample.num_classes), *limits, method)


def search_limits(caller: str, max_offset: Any, max_sweeps: Any) -> tuple[float, int]:
    """Check the two limits of a search."""
    reach = _checks.positive(caller, "max_offset", max_offset)
    return reach, _checks.whole_number(caller, "max_sweeps", max_sweeps, at_least=1)


def tuned(
    sample: Sample,
    merit: Merit,
    reach: float,
    max_sweeps: int,
    method: str,
    max_candidates: int | None = None,
) -> Tensor:
    """Run :func:`tune_offsets` on checked input; zeros if the plain argmax is as good.

    With ``max_candidates``, coordinate ascent evaluates only that many break points.
    """
    sample = sample.rows(torch.nonzero(sample.weight > 0).flatten())
    if method == "auto":
        cells = min(len(sample.scores), max_candidates or math.inf) * sample.num_classes**2
        method = "scan" if cells <= SCAN_BUDGET or sample.num_classes == 2 else "surrogate"
    if method == "surrogate":
        offsets = anneal_sample(sample, merit, reach)
    elif sample.num_classes == 2:
        offsets = _two_class_offsets(sample, merit, reach)
    else:
        offsets = _coordinate_ascent(sample, merit, reach, max_sweeps, max_candidates)
    # The result is judged in its final form: centred, and rounded to the caller's dtype.
    rounded = (offsets - offsets.mean()).to(sample.dtype)
    plain = merit_of_offsets(sample, merit, torch.zeros_like(offsets))
    better = merit_of_offsets(sample, merit, rounded.double()) > plain
    return rounded if better else torch.zeros_like(rounded)


def _two_class_offsets(sample: Sample, merit: Merit, reach: float) -> Tensor:
    # Only the difference of the two matters, and it may be as large as both limits together.
    difference = _scan_class(sample, merit, sample.scores.new_zeros(2), 1, 2 * reach)
    return sample.scores.new_tensor([-difference / 2, difference / 2])


def _coordinate_ascent(
    sample: Sample, merit: Merit, reach: float, max_sweeps: int, max_candidates: int | None
) -> Tensor:
    offsets = sample.scores.new_zeros(sample.num_classes)
    # Rare classes have the most to gain, and an order by mass does not depend on the numbering of classes.
    order = sample.class_mass().argsort(stable=True).tolist()
    for _ in range(max_sweeps):
        before = offsets.clone()
        for label in order:
            offsets[label] = _scan_class(sample, merit, offsets, label, reach, max_candidates)
        if torch.equal(before, offsets):
            break
        offsets -= offsets.mean()
    return offsets


def _scan_class(
    sample: Sample,
    merit: Merit,
    offsets: Tensor,
    label: int,
    reach: float,
    max_candidates: int | None = None,
) -> float:
    shifted = sample.scores + offsets
    shifted[:, label] = -torch.inf
    rival_score, rival = shifted.max(1)
    return best_offset(
        rival_score - sample.scores[:, label],
        class_moves(sample, rival, label, matrix=merit.needs_matrix),
        merit,
        current=float(offsets[label]),
        reach=reach,
        resolution=sample.resolution,
        max_candidates=max_candidates,
    )


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
    r"""Average :func:`tune_offsets` over bootstraps drawn within classes.

    .. math:: b = \frac1B \sum_{i=1}^{B} b^*(\text{bootstrap}_i)

    The best threshold jumps when single rows change; its mean over bootstraps does not. With more than two classes,
    a thousand break points per class stand for all.

    Parameters
    ----------
    log_probabilities : Tensor or array
        ``(N, C)``, of samples that the model was not trained on.
    targets : Tensor or array
        ``(N,)`` integer class indices.
    metric : str, Metric or callable, default="f1_macro"
        The metric to optimise: a name from :func:`eastward.metrics.names`, or a callable from a confusion matrix to a
        number.
    n_bags : int, default=15
        Number of bootstraps, at most 10000.
    sample_weight : Tensor or array, optional
        ``(N,)``, finite and not negative.
    random_state : int, default=0
        Seed of the bootstraps.
    max_offset : float, default=6.0
        Each offset is searched within plus or minus this many nats.
    max_sweeps : int, default=3
        Rounds of coordinate ascent.
    method : {"auto", "scan", "surrogate"}, default="auto"
        ``"scan"`` is exact, ``"surrogate"`` is :func:`anneal_offsets`; ``"auto"`` scans while N·C² is at most a
        hundred million.

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
    bags = _checks.whole_number(caller, "n_bags", n_bags, at_least=1, at_most=MOST_BAGS)
    seed = _checks.seed(caller, random_state)
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
    """Run :func:`bagged_offsets` on checked input."""
    generator = torch.Generator().manual_seed(seed)
    samples = (bootstrap(sample, generator) for _ in range(n_bags))
    search = (reach, max_sweeps, method, CANDIDATES_PER_SCAN)
    return torch.stack([tuned(bag, merit, *search) for bag in samples]).mean(0)


def bootstrap(sample: Sample, generator: torch.Generator) -> Sample:
    """Draw as many rows of each class as there are, with replacement.

    A row drawn twice has twice the weight, so a bag has only about 63 % of the rows to sort.
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


def smoothed_offsets(
    log_probabilities: Any,
    targets: Any,
    metric: str | Metric | Callable[[Any], Tensor] = "f1_macro",
    *,
    label_share: float = LABEL_SHARE,
    n_bags: int = 5,
    sample_weight: Any = None,
    random_state: int = 0,
) -> Tensor:
    """Find bagged offsets for a mixture of labels and expectations.

    Parameters
    ----------
    log_probabilities : Tensor or array
        ``(N, C)``, predicted by models that were not trained on the rows.
    targets : Tensor or array
        ``(N,)`` class indices.
    metric : str, Metric or callable, default="f1_macro"
        The metric to optimise: a name from :func:`eastward.metrics.names`, or a callable from a confusion matrix to a
        number.
    label_share : float, default=0.25
        Weight of the labels, in [0, 1]; 1 gives :func:`bagged_offsets`.
    n_bags : int, default=5
        Bootstraps to average over, at most 10000.
    sample_weight : Tensor or array, optional
        ``(N,)``, finite and not negative.
    random_state : int, default=0
        Seed of the bootstraps.

    Returns
    -------
    Tensor
        ``(C,)`` with mean zero.

    Examples
    --------
    >>> import torch
    >>> p = torch.tensor([[0.9, 0.1], [0.8, 0.2], [0.6, 0.4], [0.7, 0.3]])
    >>> b = smoothed_offsets(p.log(), torch.tensor([0, 0, 1, 1]), "f1", label_share=0.5)
    >>> bool(b[1] > 0)
    True
    """
    caller = "smoothed_offsets"
    if not 0 <= _checks.real(caller, "label_share", label_share) <= 1:
        _checks.fail(caller, "label_share", "in [0, 1]", label_share)
    _checks.whole_number(caller, "n_bags", n_bags, at_least=1, at_most=MOST_BAGS)
    sample = class_sample(caller, log_probabilities, targets, sample_weight)
    rows, classes, shares = smoothed_rows(sample.scores, sample.targets, float(label_share))
    return bagged_offsets(
        sample.scores[rows].to(sample.dtype),
        classes,
        metric,
        n_bags=n_bags,
        sample_weight=shares * sample.weight[rows],
        random_state=random_state,
    )


def smoothed_rows(
    log_probabilities: Tensor, targets: Tensor, label_share: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Represent a mixture of labels and probabilities by rows, classes and weights.

    Examples
    --------
    >>> import torch
    >>> logs = torch.tensor([[0.8, 0.2]], dtype=torch.float64).log()
    >>> rows, classes, weights = smoothed_rows(logs, torch.tensor([1]), 0.5)
    >>> rows.tolist(), classes.tolist(), [round(w, 2) for w in weights.tolist()]
    ([0, 0], [0, 1], [0.4, 0.6])
    """
    share = (1 - label_share) * log_probabilities.softmax(1)
    share[torch.arange(len(targets)), targets] += label_share
    share[share < SMALLEST_SHARE] = 0.0
    share /= share.sum(1, keepdim=True)
    rows, classes = torch.nonzero(share, as_tuple=True)
    return rows, classes, share[rows, classes]


def anneal_offsets(
    log_probabilities: Any,
    targets: Any,
    metric: str | Metric | Callable[[Any], Tensor] = "f1_macro",
    *,
    sample_weight: Any = None,
    max_offset: float = 6.0,
    temperatures: Sequence[float] = LADDER,
    steps: int = 30,
    learning_rate: float = 0.1,
) -> Tensor:
    r"""Find offsets by gradient descent on the soft metric, with falling temperature.

    .. math:: b \leftarrow b - \eta\,\nabla_b\big(1 - M_T(\log p + b)\big), \quad T = T_1 > T_2 > \ldots

    Parameters
    ----------
    log_probabilities : Tensor or array
        ``(N, C)``, of samples that the model was not trained on.
    targets : Tensor or array
        ``(N,)`` integer class indices.
    metric : str, Metric or callable, default="f1_macro"
        The metric to optimise. A callable of your own must be differentiable.
    sample_weight : Tensor or array, optional
        ``(N,)``, finite and not negative.
    max_offset : float, default=6.0
        Offsets are kept within plus or minus this many nats.
    temperatures : sequence of float, default=(0.2, 0.14, 0.1, 0.07, 0.05)
        Each in (0, 0.4].
    steps : int, default=30
        Steps of Adam at each temperature.
    learning_rate : float, default=0.1
        Roughly the number of nats per step.

    Returns
    -------
    Tensor
        ``(C,)`` with mean zero: the best offsets at the end of any temperature, by the hard metric; zero if none beat
        the plain argmax.

    References
    ----------
    EAST, sections 4.1 and 4.2 (the surrogate) and 4.3 (annealing).

    Examples
    --------
    >>> import torch
    >>> p = torch.tensor([[0.9, 0.1], [0.8, 0.2], [0.6, 0.4], [0.7, 0.3]])
    >>> b = anneal_offsets(p.log(), torch.tensor([0, 0, 1, 1]), "f1_macro")
    >>> (p.log() + b).argmax(1)
    tensor([0, 0, 1, 1])
    """
    caller = "anneal_offsets"
    sample = class_sample(caller, log_probabilities, targets, sample_weight)
    reach = _checks.positive(caller, "max_offset", max_offset)
    rate = _checks.positive(caller, "learning_rate", learning_rate)
    count = _checks.whole_number(caller, "steps", steps, at_least=1)
    for temperature in temperatures:
        _checks.temperature(caller, temperature, argument="temperatures")
    merit = Merit(metric, sample.num_classes)
    offsets = anneal_sample(sample, merit, reach, tuple(temperatures), count, rate)
    return offsets.to(sample.dtype)


def anneal_sample(
    sample: Sample,
    merit: Merit,
    reach: float,
    temperatures: tuple[float, ...] = LADDER,
    steps: int = 30,
    learning_rate: float = 0.1,
) -> Tensor:
    """Run :func:`anneal_offsets` on checked input, in float64."""
    scores = sample.scores.float()  # enough for the soft table, and twice as fast
    offsets = scores.new_zeros(sample.num_classes).requires_grad_()
    optimiser = torch.optim.Adam([offsets], lr=learning_rate)
    best = torch.zeros_like(sample.scores[0])
    best_merit = merit_of_offsets(sample, merit, best)
    for temperature in temperatures:
        for _ in range(steps):
            _descend(optimiser, scores, offsets, sample, merit.metric, temperature)
            with torch.no_grad():
                offsets.sub_(offsets.mean()).clamp_(-reach, reach)
        found = offsets.detach().double()
        value = merit_of_offsets(sample, merit, found)
        if value > best_merit:
            best, best_merit = found - found.mean(), value
    return best


def _descend(
    optimiser: torch.optim.Optimizer,
    scores: Tensor,
    offsets: Tensor,
    sample: Sample,
    metric: Metric,
    temperature: float,
) -> None:
    optimiser.zero_grad()
    metric_loss(
        scores + offsets,
        sample.targets,
        metric,
        temperature=temperature,
        sample_weight=sample.weight,
        check_inputs=False,
    ).backward()
    optimiser.step()
