r"""Offsets that give up no class.

The offsets that are best for held-out rows may leave a class out: a handful of its rows say little, and a mean over all
classes can be higher without it. On new rows, whoever decided by the most probable class would find it, and we would
not. So a class that the metric counts, however rare it is, has to be decided for

.. math:: \min\big(n_c, \max(3, \lceil n_c / 2 \rceil)\big)

times at least on held-out rows, of which :math:`n_c` belong to it. Where too few are, its offset is raised just far
enough. A class without held-out rows, of which nothing is known, is not lowered.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from eastward import _checks
from eastward.decisions._inputs import Sample, class_sample
from eastward.decisions._merit import Merit
from eastward.decisions._scan import FARTHEST_INTO_PLATEAU
from eastward.decisions.offsets import SCAN_BUDGET
from eastward.metrics import Metric

__all__ = ["keep_classes", "notices_class"]

FEWEST_ROWS, SHARE_OF_ROWS = 3, 0.5
SWEEPS = 3

# The share of a class so rare that only metrics in which each class has an equal say notice what becomes of it.
RARE, NOTICED = 1e-9, 1e-6


def keep_classes(
    offsets: Any,
    log_probabilities: Any,
    targets: Any,
    metric: str | Metric | Callable[[Any], Tensor] = "f1_macro",
    *,
    sample_weight: Any = None,
    max_offset: float = 6.0,
) -> Tensor:
    r"""Raise offsets where they would give up a class that the metric counts.

    Parameters
    ----------
    offsets : Tensor or array
        ``(C,)``, as tuned.
    log_probabilities : Tensor or array
        ``(N, C)``, by models that did not see the rows.
    targets : Tensor or array
        ``(N,)`` class indices.
    metric : str, Metric or callable, default="f1_macro"
        What the offsets were tuned for. A class is kept if the metric notices that half of its rows are missed, however
        rare they are: every class for macro-averaged F-scores, recall and balanced accuracy, the positive one for
        binary F-scores; none for accuracy, costs and precision, which giving up a class may serve best.
    sample_weight : Tensor or array, optional
        ``(N,)``; what counts is then the weight of the rows instead of their number.
    max_offset : float, default=6.0
        No offset is raised further than this many nats.

    Returns
    -------
    Tensor
        ``(C,)`` with mean zero; as they were where no class is given up, and for more than about a hundred million
        N·C².

    Examples
    --------
    >>> import torch
    >>> p = torch.tensor([[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.6, 0.4]])
    >>> given_up = torch.tensor([1.0, -1.0])
    >>> kept = keep_classes(given_up, p.log(), torch.tensor([0, 0, 0, 1]), "f1_macro")
    >>> (p.log() + kept).argmax(1)
    tensor([0, 0, 0, 1])
    """
    caller = "keep_classes"
    sample = class_sample(caller, log_probabilities, targets, sample_weight)
    start = torch.as_tensor(offsets, dtype=torch.float64, device=sample.scores.device)
    if start.shape != (sample.num_classes,):
        expected = f"of shape ({sample.num_classes},), one for each class"
        _checks.fail(caller, "offsets", expected, _checks.describe(start))
    reach = _checks.positive(caller, "max_offset", max_offset)
    sample = sample.rows(torch.nonzero(sample.weight > 0).flatten())
    if len(sample.scores) * sample.num_classes**2 > SCAN_BUDGET:
        return start.to(sample.dtype)
    return kept_classes(sample, Merit(metric, sample.num_classes), start, reach).to(sample.dtype)


def kept_classes(sample: Sample, merit: Merit, start: Tensor, reach: float) -> Tensor:
    """:func:`keep_classes` of checked input, for scores of any kind."""
    offsets = start - start.mean()
    known = torch.bincount(sample.targets, minlength=sample.num_classes)
    for label in torch.nonzero((known == 0) & (offsets < 0)).flatten().tolist():
        if _notices(merit, label):
            offsets[label] = 0.0
    wanted = _wanted(known, sample.class_mass())
    for _ in range(SWEEPS):
        decided = (sample.scores + offsets).argmax(1)
        given = torch.zeros_like(wanted).index_add(0, decided, sample.weight)
        short = [c for c in known.argsort(stable=True).tolist() if given[c] < wanted[c]]
        before = offsets.clone()
        for label in short:
            if _notices(merit, label):
                offsets[label] = _raised(sample, offsets, label, float(wanted[label]), reach)
        if torch.equal(before, offsets):
            break
    return start if torch.equal(offsets, start - start.mean()) else offsets - offsets.mean()


def _wanted(known: Tensor, mass: Tensor) -> Tensor:
    """The mass of rows that each class has to be given: so many rows of the weight that its own have on average."""
    rows = torch.minimum(known, (SHARE_OF_ROWS * known).ceil().long().clamp_min(FEWEST_ROWS))
    # Sums of weights round.
    return (1 - 1e-9) * rows * mass / known.clamp_min(1)


def _raised(sample: Sample, offsets: Tensor, label: int, wanted: float, reach: float) -> float:
    """The offset by which rows of that mass are decided for the class, or as much as is within reach."""
    current = float(offsets[label])
    shifted = sample.scores + offsets
    shifted[:, label] = -torch.inf
    margins, order = (shifted.max(1).values - sample.scores[:, label]).sort()
    enough = int((sample.weight[order].cumsum(0) < wanted).sum()) + 1
    count = min(enough, int((margins < reach).sum()))
    if count == 0:
        return current
    low = float(margins[count - 1])
    high = float(margins[count]) if count < len(margins) else torch.inf
    # Halfway to the next row, as the search does, and no further than where it would go.
    return max(current, min((low + high) / 2, low + FARTHEST_INTO_PLATEAU, reach))


def notices_class(metric: Metric, num_classes: int, label: int, *, exclusive: bool = True) -> bool:
    """Whether the metric notices that half of the rows of a class are missed, however rare the class is.

    Examples
    --------
    >>> from eastward.metrics import get
    >>> [notices_class(get(name), 3, 2) for name in ("f1_macro", "accuracy")]
    [True, False]
    """
    return _notices(Merit(metric, num_classes, exclusive=exclusive), label)


def _notices(merit: Merit, label: int) -> bool:
    size = merit.num_classes
    targets = torch.cat([torch.arange(size), torch.tensor([label])])
    missed = targets.clone()
    missed[-1] = (label + 1) % size
    weights = torch.where(targets == label, RARE, 1.0).double().unsqueeze(1)
    perfect, worse = (merit(merit.tables(targets, chosen, weights)) for chosen in (targets, missed))
    return float(perfect) - float(worse) > NOTICED
