r"""Class frequencies: those that the network assumes, and those that count.

A network trained on long-tailed rows assumes their frequencies, :math:`\pi`. If it is judged by other frequencies,
:math:`\pi'`, its probabilities become :math:`p'_i \propto p_i\,\pi'_i / \pi_i`. That is a shift of its logits by
:math:`\log \pi' - \log \pi`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from eastward import _checks
from eastward.alignment.batches import CALLER
from eastward.alignment.rows import HeadRows
from eastward.decisions import fit_calibration

# A shift of the logit of a class that never occurs; its probability becomes zero.
NEVER = -1000.0

__all__ = ["Adjustment", "adjustment", "judged_weight", "target_prior"]


class Adjustment(NamedTuple):
    """A scale and a shift ``(C,)`` of the logits, which calibrate probabilities for the frequencies that count.

    ``believed`` names the frequencies that the network seems to assume: "training" or "balanced".
    """

    scale: float
    shift: Tensor
    believed: str


def target_prior(prior: Any, train: Tensor) -> Tensor:
    """Return the class frequencies ``(C,)`` that count: those of training, equal ones, or given ones.

    Examples
    --------
    >>> import torch
    >>> target_prior("balanced", torch.tensor([0.75, 0.25, 0.0])).tolist()
    [0.5, 0.5, 0.0]
    """
    if prior is None:
        return train
    if isinstance(prior, str):
        _checks.one_of(CALLER, "prior", prior, ("balanced",), otherwise="None, or frequencies")
        present = (train > 0).double()
        return present / present.sum()
    given = _checks.prior(CALLER, prior, len(train)).double()
    strange = torch.nonzero((given > 0) & (train <= 0)).flatten().tolist()
    if strange:
        got = f"a frequency for class {strange[0]}, which has no training rows"
        _checks.fail(CALLER, "prior", "zero for classes without training rows", got)
    return given / given.sum()


def judged_weight(rows: HeadRows, target: Tensor) -> Tensor:
    """Compute weights ``(N,)`` with mean one that give the rows the frequencies ``target``."""
    mass = rows.class_mass(len(target))
    ratio = torch.where(mass > 0, target / mass.clamp_min(1e-300), 0.0)
    weight = rows.weight * ratio[rows.targets]
    return weight * (len(weight) / weight.sum().clamp_min(1e-300))


def adjustment(logits: Tensor, rows: HeadRows, train: Tensor, target: Tensor) -> Adjustment:
    """Find a scale and a shift of the logits, by the likelihood of held-out labels.

    A network trained without class weights assumes the frequencies of training. One trained with class weights,
    resampling or a logit-adjusted loss assumes equal ones. The user need not say which, because the likelihood of the
    validation labels shows which assumption fits better.
    """
    present = (train > 0).double()
    found = [
        _under(logits, rows, name, believed, target)
        for name, believed in (("training", train), ("balanced", present / present.sum()))
    ]
    return min(found, key=lambda pair: pair[0])[1]


def _under(
    logits: Tensor, rows: HeadRows, name: str, believed: Tensor, target: Tensor
) -> tuple[float, Adjustment]:
    """Fit the adjustment of a network that assumes the frequencies ``believed``, and return its log-loss, too."""
    logits = logits.double()
    own = judged_weight(rows, believed)
    map_ = fit_calibration(logits.softmax(1), rows.targets, "temperature", sample_weight=own)
    scale = float(map_.scales[0])
    shift = torch.full_like(target, NEVER)
    both = (believed > 0) & (target > 0)
    shift[both] = target[both].log() - believed[both].log()
    weight = judged_weight(rows, target)
    each = torch.nn.functional.cross_entropy(scale * logits + shift, rows.targets, reduction="none")
    return float((weight * each).mean()), Adjustment(scale, shift, name)
