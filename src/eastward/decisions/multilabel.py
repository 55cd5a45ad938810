"""Thresholds of labels that do not exclude each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import torch
from torch import Tensor

from eastward import _checks
from eastward.decisions._inputs import Sample, resolution_of, row_weight, score_table
from eastward.decisions._search import LabelMoves, Merit, best_offset
from eastward.decisions.offsets import search_limits
from eastward.metrics import Metric

__all__ = ["LabelThresholds", "multilabel_thresholds"]


@dataclass(frozen=True)
class LabelThresholds:
    """A rule for labels that do not exclude each other: each label has its own threshold.

    Parameters
    ----------
    thresholds : sequence of float
        ``(L,)``, in [0, 1]: a label is predicted if its probability is above its threshold.

    Examples
    --------
    >>> import numpy as np
    >>> rule = LabelThresholds([0.2, 0.5])
    >>> rule.decide(np.array([[0.3, 0.3]]))
    array([[1, 0]])
    >>> print(rule)
    label 0 above 0.20, label 1 above 0.50.
    """

    thresholds: Sequence[float]

    def __post_init__(self) -> None:
        limits = _checks.numeric("LabelThresholds", "thresholds", self.thresholds)
        if limits.dim() != 1 or not bool(((limits >= 0) & (limits <= 1)).all()):
            expected, got = "one number in [0, 1] for each label", _checks.describe(self.thresholds)
            _checks.fail("LabelThresholds", "thresholds", expected, got)
        object.__setattr__(self, "thresholds", tuple(limits.tolist()))

    def decide(self, probabilities: Any) -> Any:
        """Decide probabilities ``(N, L)`` for indicators ``(N, L)``, array or Tensor like the input."""
        table = _checks.numeric("LabelThresholds.decide", "probabilities", probabilities)
        _checks.floating("LabelThresholds.decide", "probabilities", table)
        if table.dim() != 2 or table.shape[1] != len(self.thresholds):
            expected = f"of shape (N, {len(self.thresholds)})"
            got = _checks.describe(table)
            _checks.fail("LabelThresholds.decide", "probabilities", expected, got)
        limits = torch.tensor(self.thresholds, dtype=torch.float64, device=table.device)
        given = (table.double() > limits).long()
        return given if isinstance(probabilities, Tensor) else given.numpy()

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain JSON values."""
        return {"thresholds": [float(one) for one in self.thresholds]}

    def __str__(self) -> str:
        parts = [f"label {index} above {limit:.2f}" for index, limit in enumerate(self.thresholds)]
        return ", ".join(parts) + "."


def multilabel_thresholds(
    log_odds: Any,
    targets: Any,
    metric: str | Metric | Callable[[Any], Tensor] = "f1_macro",
    *,
    sample_weight: Any = None,
    max_offset: float = 6.0,
    max_sweeps: int = 3,
) -> Tensor:
    r"""Find offsets per label such that ``log_odds + b > 0`` is best for a metric.

    Label l is given when its probability exceeds :math:`1 / (1 + e^{b_l})`. A macro average is a sum over labels, so
    each label is searched alone and the result is the global optimum. Other metrics use coordinate ascent.

    Parameters
    ----------
    log_odds : Tensor or array
        ``(N, L)``: :math:`\log p - \log(1 - p)`, the logit of each label.
    targets : Tensor or array
        ``(N, L)`` zeros and ones.
    metric : str, Metric or callable, default="f1_macro"
        A callable receives :class:`~eastward.Counts`.
    sample_weight : Tensor or array, optional
        ``(N,)``, finite and not negative.
    max_offset : float, default=6.0
        Each offset is searched within plus or minus this many nats.
    max_sweeps : int, default=3
        Rounds of coordinate ascent.

    Returns
    -------
    Tensor
        ``(L,)``, to add to the log-odds; zero where nothing beats the threshold 0.5.

    Examples
    --------
    >>> import torch
    >>> z = torch.tensor([[-2.0, 1.0], [-0.5, 2.0], [-3.0, 0.5]])
    >>> b = multilabel_thresholds(z, torch.tensor([[0, 0], [1, 1], [0, 0]]))
    >>> (z + b > 0).int()
    tensor([[0, 0],
            [1, 1],
            [0, 0]], dtype=torch.int32)
    """
    caller = "multilabel_thresholds"
    sample = _label_sample(caller, log_odds, targets, sample_weight)
    reach, sweeps = search_limits(caller, max_offset, max_sweeps)
    merit = Merit(metric, sample.num_classes, exclusive=False)
    if _is_sum_over_labels(merit.metric, sample):
        offsets = _each_label_alone(sample, merit, reach)
    else:
        offsets = _coordinate_ascent(sample, merit, reach, sweeps)
    rounded = offsets.to(sample.dtype)
    plain = _merit_of(sample, merit, torch.zeros_like(offsets))
    better = _merit_of(sample, merit, rounded.double()) > plain
    return rounded if better else torch.zeros_like(rounded)


def _label_sample(caller: str, log_odds: Any, targets: Any, sample_weight: Any) -> Sample:
    scores, dtype = score_table(caller, "log_odds", log_odds)
    truth = _checks.numeric(caller, "targets", targets).to(scores.device)
    if truth.shape != scores.shape:
        expected = f"of shape {tuple(scores.shape)}, one column per label"
        _checks.fail(caller, "targets", expected, _checks.describe(truth))
    _checks.indicator_targets(caller, truth, None)
    weight = row_weight(caller, sample_weight, scores)
    return Sample(scores, truth.double(), weight, dtype, resolution_of(scores, dtype))


def _is_sum_over_labels(metric: Metric, sample: Sample) -> bool:
    """Whether the metric's best offsets are those of each label alone.

    This fails for a label without positives, which counts in the average only if it is predicted.
    """
    one_beta = isinstance(metric.options.get("beta", 1.0), Real)
    everywhere = bool((_label_mass(sample) > 0).all())
    return metric.options.get("average") == "macro" and one_beta and everywhere


def _label_mass(sample: Sample) -> Tensor:
    return sample.weight @ sample.targets


def _each_label_alone(sample: Sample, merit: Merit, reach: float) -> Tensor:
    alone = [
        sample._replace(scores=column.unsqueeze(1), targets=truth.unsqueeze(1))
        for column, truth in zip(sample.scores.unbind(1), sample.targets.unbind(1), strict=True)
    ]
    nothing = sample.scores.new_zeros(1)
    return sample.scores.new_tensor([_scan_label(one, merit, nothing, 0, reach) for one in alone])


def _coordinate_ascent(sample: Sample, merit: Merit, reach: float, max_sweeps: int) -> Tensor:
    offsets = sample.scores.new_zeros(sample.num_classes)
    order = _label_mass(sample).argsort(stable=True).tolist()
    for _ in range(max_sweeps):
        before = offsets.clone()
        for label in order:
            offsets[label] = _scan_label(sample, merit, offsets, label, reach)
        if torch.equal(before, offsets):
            break
    return offsets


def _scan_label(sample: Sample, merit: Merit, offsets: Tensor, label: int, reach: float) -> float:
    return best_offset(
        -sample.scores[:, label],
        _label_moves(sample, offsets, label),
        merit,
        current=float(offsets[label]),
        reach=reach,
        resolution=sample.resolution,
    )


def _label_moves(sample: Sample, offsets: Tensor, label: int) -> LabelMoves:
    given = (sample.scores + offsets > 0).double()
    given[:, label] = 0.0
    weight, size = sample.weight, sample.num_classes
    start = torch.cat([weight @ (given * sample.targets), weight @ given])
    columns = torch.tensor([label, size + label], device=weight.device).expand(len(weight), 2)
    amounts = torch.stack([weight * sample.targets[:, label], weight], 1)
    return LabelMoves(columns, amounts, start, _label_mass(sample), weight.sum())


def _merit_of(sample: Sample, merit: Merit, offsets: Tensor) -> float:
    given = (sample.scores + offsets > 0).double()
    weight = sample.weight
    flat = torch.cat([weight @ (given * sample.targets), weight @ given])
    moves = LabelMoves(flat, flat, flat, _label_mass(sample), weight.sum())
    return float(merit(moves.tables(flat.unsqueeze(0))))
