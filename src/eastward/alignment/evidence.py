"""How the validation rows judge a stage: its value, and what it gains with its error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from eastward.alignment.rows import HeadRows
from eastward.decisions import decision_gain, stratified_folds
from eastward.metrics import Metric

__all__ = ["Gain", "Judge"]

FOLDS = 3
BOOTSTRAPS = 200
# An interval of 95 % is so many standard errors wide.
WIDTH = 3.92


class Gain(NamedTuple):
    """Value of the metric before and after, the gain (positive is better), and its standard error."""

    before: float
    after: float
    gain: float
    error: float


@dataclass(frozen=True)
class Judge:
    """Validation rows, weighted to the frequencies that one is judged by, and dealt out to folds.

    Attributes
    ----------
    rows : HeadRows
        Validation rows; their weights are those of the judgement.
    metric : Metric
        What counts.
    size : int
        Classes or labels.
    folds : Tensor
        ``(N,)``: what a stage learns from validation rows, it learns without the fold that it decides.
    grouped : bool
        Whether rows of one sample have to be resampled together.
    seed : int
        Of the bootstrap.
    """

    rows: HeadRows
    metric: Metric
    size: int
    folds: Tensor
    grouped: bool
    seed: int

    @classmethod
    def of(cls, rows: HeadRows, metric: Metric, size: int, *, grouped: bool, seed: int) -> Judge:
        """Deal the rows out to folds; rows of one sample, and rows of a class, evenly."""
        return cls(rows, metric, size, _folds(rows, grouped=grouped, seed=seed), grouped, seed)

    def gain(self, before: Tensor, after: Tensor) -> Gain:
        """What one set of decisions gains over another on the same rows."""
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
        return Gain(found.before, found.after, found.gain, (found.high - found.low) / WIDTH)


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
