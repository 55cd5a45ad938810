"""Judge a stage by validation rows: its value, its gain, and the error of the gain.

Counting correct decisions of a few hundred rows is a coarse measure, because most stages change only a handful of them.
So the head and the network are judged by the metric of *soft* decisions, which training also maximises. A row near the
boundary counts in part, and every row contributes. Decision note 31 has the figures.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from eastward.alignment.rows import HeadRows
from eastward.confusion import hard_confusion, multilabel_counts
from eastward.decisions import decision_gain, stratified_folds
from eastward.decisions._search import CELLS_AT_ONCE, Merit, count_tables
from eastward.decisions.gain import times_drawn
from eastward.memberships import soft_memberships
from eastward.metrics import Metric

__all__ = ["Gain", "Judge"]

FOLDS = 3
BOOTSTRAPS = 100
# Soft decisions have the temperature at which training starts, and a step without kinks (decision note 31).
TEMPERATURE, STEP = 0.2, "sigmoid"
# Width of a 95 % interval in standard errors.
WIDTH = 3.92


class Gain(NamedTuple):
    """The gain of a stage (positive is better), its standard error, and whether decisions count "hard" or "soft"."""

    gain: float
    error: float
    counts: str = "hard"

    def passes(self, hurdle: float) -> bool:
        """Return whether the gain exceeds ``hurdle`` standard errors; a stage that changes nothing never passes.

        Examples
        --------
        >>> Gain(0.02, 0.01).passes(1.0), Gain(0.0, 0.0).passes(0.0)
        (True, False)
        """
        return self.gain > hurdle * self.error


@dataclass(frozen=True)
class Judge:
    """Validation rows that judge a stage, weighted to the class frequencies that count and split into folds.

    Attributes
    ----------
    rows : HeadRows
        Validation rows, with the weights by which they judge.
    metric : Metric
        The metric that judges the network.
    size : int
        Number of classes or labels.
    folds : Tensor
        ``(N,)`` fold of each row. A stage that learns from validation rows leaves out the fold that it decides.
    grouped : bool
        Whether the bootstrap draws the rows of one sample together.
    seed : int
        Seed of folds and bootstraps.
    """

    rows: HeadRows
    metric: Metric
    size: int
    folds: Tensor
    grouped: bool
    seed: int

    @classmethod
    def of(cls, rows: HeadRows, metric: Metric, size: int, *, grouped: bool, seed: int) -> Judge:
        """Split the rows into folds: grouped samples stay whole, and otherwise classes are spread evenly."""
        return cls(rows, metric, size, _folds(rows, grouped=grouped, seed=seed), grouped, seed)

    def value(self, chosen: Tensor) -> float:
        """Compute the metric of hard decisions."""
        targets, weight = self.rows.targets, self.rows.weight
        if targets.dim() > 1:
            counts = multilabel_counts(chosen.double(), targets, sample_weight=weight)
            return float(self.metric(counts))
        table = hard_confusion(chosen, targets, num_classes=self.size, sample_weight=weight)
        return float(self.metric(table))

    def counted_gain(self, before: Tensor, after: Tensor) -> Gain:
        """Compute the gain of one set of decisions over another on the same rows."""
        found = decision_gain(
            before,
            after,
            self.rows.targets,
            self.metric,
            num_classes=self.size,
            sample_weight=self.rows.weight,
            groups=self.rows.groups if self.grouped else None,
            n_bootstraps=BOOTSTRAPS,
            random_state=self.seed,
        )
        return Gain(found.gain, (found.high - found.low) / WIDTH)

    def soft_gain(self, before: Tensor, after: Tensor) -> Gain:
        """Compute the gain of the soft decisions by ``after`` over those by ``before``, both logits ``(N, C)``."""
        pair = [_memberships(logits, self.rows.targets) for logits in (before, after)]
        merit = Merit(self.metric, self.size, exclusive=self.rows.targets.dim() == 1)
        weight = self.rows.weight.double().unsqueeze(1)
        first, second = (float(self._merits(merit, one, weight)) for one in pair)
        groups = self.rows.groups.unique(return_inverse=True)[1] if self.grouped else None
        generator = torch.Generator().manual_seed(self.seed)
        chunk = max(1, min(BOOTSTRAPS, CELLS_AT_ONCE // max(1, len(self.rows))))
        gains = []
        for done in range(0, BOOTSTRAPS, chunk):
            count = min(chunk, BOOTSTRAPS - done)
            drawn = weight * times_drawn(len(self.rows), groups, count, generator)
            gains.append(self._merits(merit, pair[1], drawn) - self._merits(merit, pair[0], drawn))
        return Gain(second - first, float(torch.cat(gains).std()), "soft")

    def _merits(self, merit: Merit, memberships: Tensor, weights: Tensor) -> Tensor:
        """Compute the metric of soft decisions ``(N, C)`` for each weighting of ``(N, B)``; higher is better."""
        targets = self.rows.targets
        if merit.needs_matrix:
            rows = [
                weights[own].T @ memberships[own]
                for own in (targets == label for label in range(self.size))
            ]
            return merit(torch.stack(rows, dim=1)).double()
        known = torch.ones_like(memberships)
        truth = functional.one_hot(targets, self.size).double() if targets.dim() == 1 else None
        if truth is None:
            known, truth = (targets >= 0).double(), (targets == 1).double()
        parts = (truth * memberships, memberships * known, truth, known)
        return merit(count_tables(*(weights.T @ part for part in parts))).double()


def _memberships(logits: Tensor, targets: Tensor) -> Tensor:
    """Compute soft decisions: memberships of classes that sum to one, or a membership for each label."""
    if targets.dim() == 1:
        return soft_memberships(logits.double().softmax(1), TEMPERATURE, step=STEP)
    given = logits.double().sigmoid().flatten()
    pair = torch.stack([1 - given, given], dim=1)
    both = soft_memberships(pair, TEMPERATURE, step=STEP)
    return both[:, 1].reshape(logits.shape)


def _folds(rows: HeadRows, *, grouped: bool, seed: int) -> Tensor:
    count = max(2, min(FOLDS, len(rows)))
    if grouped or rows.targets.dim() > 1:
        samples, place = rows.groups.unique(return_inverse=True)
        generator = torch.Generator().manual_seed(seed)
        order = torch.randperm(len(samples), generator=generator)
        fold_of_sample = torch.empty_like(order)
        fold_of_sample[order] = torch.arange(len(samples)) % count
        return fold_of_sample[place]
    return stratified_folds(rows.targets, count, seed)
