"""How a decision matrix is estimated: bootstraps, no class given up, and evidence against the most probable class."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from eastward.decisions._inputs import Sample, stratified_folds
from eastward.decisions._merit import Merit
from eastward.decisions.keeping import keep_classes, kept_classes
from eastward.decisions.offsets import SCAN_BUDGET, bootstrap, smoothed_offsets
from eastward.decisions.solving import (
    Beliefs,
    Objective,
    centred,
    matrix_scores,
    solve,
    start_rules,
)
from eastward.metrics import Metric

__all__ = ["FEWEST_ROWS", "Evidence", "Tuner", "cross_validated", "is_favoured", "label_table"]

N_BAGS, N_FOLDS = 5, 5
# Fewer rows than this do not show whether any rule helps: the most probable class stays.
FEWEST_ROWS = 20
# Rows times classes from which on a bootstrap changes nothing, and many folds would take minutes.
LARGE = 3_000_000

# Columns are raised by no more than this where a class would be given up; scores of matrices of length one are below 1.
FARTHEST_RAISE = 2.0


@dataclass(frozen=True)
class Tuner:
    """How the matrix of an objective is estimated from rows."""

    objective: Objective
    label_share: float
    seed: int
    n_bags: int = N_BAGS

    def matrix(self, sample: Sample) -> Tensor:
        """The tuned matrix ``(C, K)``; no class that the metric counts is given up."""
        if self.is_linear(sample.num_classes):
            return self._solved(sample)
        if self.abstaining:
            return self._averaged(sample)
        if sample.num_classes > 2:
            return _without_losses(sample, self._averaged(sample), self.objective.metric)
        logs, metric = sample.scores.log(), self.objective.metric
        common: dict[str, Any] = {"sample_weight": sample.weight}
        offsets = smoothed_offsets(
            logs,
            sample.targets,
            metric,
            label_share=self.label_share,
            n_bags=self.n_bags,
            random_state=self.seed,
            **common,
        )
        return torch.diag(keep_classes(offsets, logs, sample.targets, metric, **common).exp())

    @property
    def abstaining(self) -> bool:
        """Whether rows may be left undecided."""
        return self.objective.abstain_cost is not None

    def needs_no_evidence(self, size: int) -> bool:
        """Whether the rule is what was asked for, and not an estimate that may be worse than the argmax."""
        return self.abstaining or self.is_linear(size)

    def is_linear(self, size: int) -> bool:
        """Whether the metric is a sum over rows, so that its gradient is the same everywhere."""
        generator = torch.Generator().manual_seed(0)
        tables = torch.rand(2, size, size, generator=generator, dtype=torch.float64) + 0.1
        plain = Objective(self.objective.metric)
        first, second = (centred(plain.slope(table / table.sum())) for table in tables)
        return torch.allclose(first, second, rtol=0, atol=1e-4)

    def _solved(self, sample: Sample) -> Tensor:
        beliefs = Beliefs.of(sample, self.label_share)
        starts = start_rules(beliefs.prior, abstaining=self.abstaining)
        return solve(beliefs, self.objective, starts)[0].matrix

    def _averaged(self, sample: Sample) -> Tensor:
        """The mean of the matrices of bootstraps, where it is better than the most probable class."""
        whole = Beliefs.of(sample, self.label_share)
        if sample.scores.numel() > LARGE or self.n_bags == 1:
            return self._solved(sample)
        generator = torch.Generator().manual_seed(self.seed)
        bags = (bootstrap(sample, generator) for _ in range(self.n_bags))
        mean = torch.stack([centred(self._solved(bag)) for bag in bags]).mean(0)
        plain = start_rules(whole.prior, abstaining=self.abstaining)[0]
        values = [self.objective.value(whole.table(rule)) for rule in (mean, plain)]
        return mean if values[0] > values[1] else self._solved(sample)


def _without_losses(sample: Sample, matrix: Tensor, metric: Metric) -> Tensor:
    """The matrix with columns raised where a class that the metric counts would be given up."""
    size = sample.num_classes
    if len(sample.scores) * size**2 > SCAN_BUDGET:
        return matrix
    scored = sample._replace(scores=matrix_scores(sample.scores, matrix))
    zeros = torch.zeros(size, dtype=torch.float64)
    return matrix + kept_classes(scored, Merit(metric, size), zeros, FARTHEST_RAISE)


@dataclass(frozen=True)
class Evidence:
    """Merits of the most probable class and of tuned rules, and the standard error of their difference.

    ``honest``: rows judged rules that were tuned without them.
    """

    before: float
    after: float
    error: float
    honest: bool = True

    @property
    def gain(self) -> float:
        """How much better tuned rules are."""
        return self.after - self.before if self.after != self.before else 0.0


def is_favoured(
    sample: Sample,
    matrix: Tensor,
    plain: Tensor,
    evidence: Evidence | None,
    guard: float | None,
) -> bool:
    """Whether a rule replaces the plain one: not if it changes no decision, nor if folds see no difference at all.

    Fewer than 20 rows show nothing. With a guard, the cross-validated gain has to exceed so many standard errors.
    """
    if len(sample.targets) < FEWEST_ROWS:
        return False
    pair = (matrix_scores(sample.scores, rule).argmax(1) for rule in (matrix, plain))
    if torch.equal(*pair):
        return False
    if guard is None:
        return evidence is None or evidence.gain != 0 or evidence.error > 0
    return evidence is not None and evidence.gain > guard * evidence.error


def cross_validated(tuner: Tuner, sample: Sample, plain: Tensor) -> Evidence:
    """What rules tuned without each fold are worth against a plain one, all folds together."""
    count = 2 if sample.scores.numel() > LARGE else min(N_FOLDS, len(sample.targets))
    folds = stratified_folds(sample.targets, count, tuner.seed)
    # What a single solution gains without bootstraps, their mean gains at least.
    quick = replace(tuner, n_bags=1) if sample.num_classes > 2 else tuner
    pairs = []
    for fold in range(count):
        rule, held_out = quick.matrix(sample.rows(folds != fold)), sample.rows(folds == fold)
        pairs.append(torch.stack([counts(held_out, plain), counts(held_out, rule)]))
    stacked = torch.stack(pairs)
    whole = stacked.sum(0)
    gains = torch.tensor([_gain(tuner.objective, whole - pair) for pair in stacked])
    before, after = (tuner.objective.value(table / table.sum()) for table in whole)
    return Evidence(before, after, jackknife_error(gains))


def _gain(objective: Objective, pair: Tensor) -> float:
    plain, tuned = (objective.value(table / table.sum()) for table in pair)
    return tuned - plain if tuned != plain else 0.0


def counts(sample: Sample, matrix: Tensor) -> Tensor:
    """The table ``(C, K)`` of the rule's decisions and the labels, in weights."""
    size, width = matrix.shape
    decisions = matrix_scores(sample.scores, matrix).argmax(1)
    flat = sample.weight.new_zeros(size * width)
    return flat.index_add(0, sample.targets * width + decisions, sample.weight).reshape(size, width)


def label_table(sample: Sample, matrix: Tensor) -> Tensor:
    """:func:`counts` in effective numbers of rows: unequal weights tell less than so many equal ones."""
    effective = sample.weight.sum().square() / sample.weight.square().sum()
    return counts(sample, matrix) * (effective / sample.weight.sum())


def jackknife_error(values: Tensor) -> float:
    """Standard error of a number, from its values without each fold."""
    size = len(values)
    return float(((size - 1) / size * (values - values.mean()).square().sum()).sqrt())
