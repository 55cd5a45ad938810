r"""Class frequencies: those that the network believes in, and those that it is judged by.

A network trained on long-tailed rows believes in their frequencies, :math:`\pi`. Judged by others, :math:`\pi'`, its
probabilities become :math:`p'_i \propto p_i\,\pi'_i / \pi_i`, which is a shift of its logits:
:math:`+\log \pi' - \log \pi`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from eastward import _checks
from eastward.alignment.batches import CALLER
from eastward.alignment.rows import HeadRows
from eastward.decisions import fit_calibration

__all__ = ["Adjustment", "adjustment", "judged_weight", "target_prior"]


class Adjustment(NamedTuple):
    """A scale and a shift ``(C,)`` of logits, after which softmax gives calibrated probabilities for the judged rows.

    ``believed``: the frequencies that the network turned out to believe in, "training" or "balanced".
    """

    scale: float
    shift: Tensor
    believed: str


def target_prior(prior: Any, train: Tensor) -> Tensor:
    """Frequencies ``(C,)`` that one is judged by: those of training, equal ones, or given ones.

    Examples
    --------
    >>> import torch
    >>> target_prior("balanced", torch.tensor([0.75, 0.25, 0.0])).tolist()
    [0.5, 0.5, 0.0]
    """
    if prior is None:
        return train
    if isinstance(prior, str):
        _checks.one_of(CALLER, "prior", prior, ("balanced",), otherwise="None, frequencies")
        present = (train > 0).double()
        return present / present.sum()
    given = _checks.prior(CALLER, prior, len(train)).double()
    strange = torch.nonzero((given > 0) & (train <= 0)).flatten().tolist()
    if strange:
        got = f"a frequency for class {strange[0]}, of which training has no row"
        _checks.fail(CALLER, "prior", "zero for classes that training has not", got)
    return given / given.sum()


def judged_weight(rows: HeadRows, target: Tensor) -> Tensor:
    """Weights ``(N,)`` under which the rows have the frequencies ``target``, with mean one."""
    mass = rows.class_mass(len(target))
    ratio = torch.where(mass > 0, target / mass.clamp_min(1e-300), 0.0)
    weight = rows.weight * ratio[rows.targets]
    return weight * (len(weight) / weight.sum().clamp_min(1e-300))


def adjustment(logits: Tensor, rows: HeadRows, train: Tensor, target: Tensor) -> Adjustment:
    """The scale and shift under which held-out labels are most likely, of two.

    A network trained plainly believes in the frequencies of training; one trained with class weights, resampling or a
    logit-adjusted loss in equal ones. Nobody has to say which: the likelihood of the validation labels does.
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
    """Log-loss for the judged rows if the network believes in these frequencies, and what to change then."""
    logits = logits.double()
    own = judged_weight(rows, believed)
    map_ = fit_calibration(logits.softmax(1), rows.targets, "temperature", sample_weight=own)
    scale = float(map_.scales[0])
    shift = torch.zeros_like(target)
    both = (believed > 0) & (target > 0)
    shift[both] = target[both].log() - believed[both].log()
    weight = judged_weight(rows, target)
    each = torch.nn.functional.cross_entropy(scale * logits + shift, rows.targets, reduction="none")
    return float((weight * each).mean()), Adjustment(scale, shift, name)
