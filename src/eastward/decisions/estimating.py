r"""Estimate a decision matrix from bootstraps, without giving up a class, and only if there is evidence for it.

The best rule for held-out rows may give up a class: a handful of rows say little, and a mean over all classes can be
higher without it. On new rows, the most probable class would still find this class, and our rule would not. So a class
that the metric counts, however rare, must be decided for at least

.. math:: \min\big(n_c, \max(3, \lceil n_c / 2 \rceil)\big)

times on held-out rows, where :math:`n_c` of them belong to it. If that is not reached, its offset is raised just far
enough. A class without held-out rows is not lowered, because nothing is known about it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from eastward import _checks
from eastward.decisions._inputs import Sample, class_sample, stratified_folds
from eastward.decisions._search import FARTHEST_INTO_PLATEAU, Merit
from eastward.decisions.offsets import SCAN_BUDGET, bootstrap, smoothed_offsets
from eastward.decisions.solving import (
    Beliefs,
    Objective,
    centred,
    decided,
    matrix_scores,
    solve,
    start_rules,
)
from eastward.metrics import Metric

__all__ = [
    "FEWEST_ROWS",
    "Evidence",
    "Tuner",
    "cross_validated",
    "is_favoured",
    "keep_classes",
    "label_table",
    "notices_class",
]

N_BAGS, N_FOLDS = 5, 5
# Fewer rows cannot show whether any rule helps, so the most probable class stays.
FEWEST_ROWS = 20
# A rule counts as worse beyond this many standard errors. They are trusted only if every class has this many rows.
CLEARLY, FEWEST_OF_A_CLASS = 2.0, 30
# For more rows times classes, bootstraps change nothing and many folds would take minutes.
LARGE = 3_000_000

# A column is raised by at most this much to keep a class; scores of matrices of length one are below 1.
FARTHEST_RAISE = 2.0

# The least number of decisions for a class (or all its rows, or half of them), and the sweeps to get there.
FEWEST_DECISIONS, SHARE_OF_ROWS = 3, 0.5
SWEEPS = 3

# A share so small that only metrics that weigh all classes equally notice a change of the class.
RARE, NOTICED = 1e-9, 1e-6


@dataclass(frozen=True)
class Tuner:
    """Estimates the matrix of an objective from rows."""

    objective: Objective
    label_share: float
    seed: int
    n_bags: int = N_BAGS

    def matrix(self, sample: Sample) -> Tensor:
        """Tune the matrix ``(C, K)`` without giving up a class that the metric counts."""
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
        """Whether the user requested the rule, so that it need not prove better than the argmax."""
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
        """Average the matrices of bootstraps, if the average beats the most probable class."""
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
    """Raise columns of the matrix where it would give up a class that the metric counts."""
    size = sample.num_classes
    if len(sample.scores) * size**2 > SCAN_BUDGET:
        return matrix
    scored = sample._replace(scores=matrix_scores(sample.scores, matrix))
    zeros = torch.zeros(size, dtype=torch.float64)
    return matrix + kept_classes(scored, Merit(metric, size), zeros, FARTHEST_RAISE)


@dataclass(frozen=True)
class Evidence:
    """Merits of the most probable class and of tuned rules, and the standard error of their difference.

    ``honest`` means that rules were judged by rows that had not tuned them, ``differs`` that the two decided some of
    these rows differently.
    """

    before: float
    after: float
    error: float
    honest: bool = True
    differs: bool = True

    @property
    def gain(self) -> float:
        """Gain of the tuned rules over the most probable class."""
        return self.after - self.before if self.after != self.before else 0.0


def is_favoured(
    sample: Sample,
    matrix: Tensor,
    plain: Tensor,
    evidence: Evidence | None,
    guard: float | None,
) -> bool:
    """Whether a rule replaces the plain one: it must change decisions, also those about rows that did not tune it.

    Fewer than 20 rows never suffice. With a guard, the cross-validated gain must exceed that many standard errors.
    Without one, a rule that is worse by two standard errors is rejected, provided every class has at least 30 rows:
    with fewer, the standard error is unreliable.
    """
    if len(sample.targets) < FEWEST_ROWS:
        return False
    pair = (decided(sample.scores, rule) for rule in (matrix, plain))
    if torch.equal(*pair):
        return False
    if guard is None:
        return evidence is None or (evidence.differs and not _clearly_worse(evidence, sample))
    return evidence is not None and evidence.gain > guard * evidence.error


def _clearly_worse(evidence: Evidence, sample: Sample) -> bool:
    rows = torch.bincount(sample.targets, minlength=sample.num_classes)
    return bool(rows.min() >= FEWEST_OF_A_CLASS) and evidence.gain < -CLEARLY * evidence.error


def cross_validated(tuner: Tuner, sample: Sample, plain: Tensor) -> Evidence:
    """Compare rules that were tuned without each fold with the plain rule, over all folds."""
    count = 2 if sample.scores.numel() > LARGE else min(N_FOLDS, len(sample.targets))
    folds = stratified_folds(sample.targets, count, tuner.seed)
    # A single solution without bootstraps gains no more than their mean would.
    quick = replace(tuner, n_bags=1) if sample.num_classes > 2 else tuner
    pairs = []
    for fold in range(count):
        rule, held_out = quick.matrix(sample.rows(folds != fold)), sample.rows(folds == fold)
        pairs.append(torch.stack([counts(held_out, plain), counts(held_out, rule)]))
    stacked = torch.stack(pairs)
    whole = stacked.sum(0)
    gains = torch.tensor([_gain(tuner.objective, whole - pair) for pair in stacked])
    before, after = (tuner.objective.value(table / table.sum()) for table in whole)
    # Different decisions may have equal merit: the geometric mean is zero for both if a rare class is missed.
    differs = not torch.equal(stacked[:, 0], stacked[:, 1])
    return Evidence(before, after, jackknife_error(gains), differs=differs)


def _gain(objective: Objective, pair: Tensor) -> float:
    plain, tuned = (objective.value(table / table.sum()) for table in pair)
    return tuned - plain if tuned != plain else 0.0


def counts(sample: Sample, matrix: Tensor) -> Tensor:
    """Compute the weighted table ``(C, K)`` of labels and decisions."""
    size, width = matrix.shape
    decisions = decided(sample.scores, matrix)
    flat = sample.weight.new_zeros(size * width)
    return flat.index_add(0, sample.targets * width + decisions, sample.weight).reshape(size, width)


def label_table(sample: Sample, matrix: Tensor) -> Tensor:
    """Compute :func:`counts` in effective numbers of rows, because unequal weights carry less evidence."""
    effective = sample.weight.sum().square() / sample.weight.square().sum()
    return counts(sample, matrix) * (effective / sample.weight.sum())


def jackknife_error(values: Tensor) -> float:
    """Estimate the standard error of a number from its values without each fold."""
    size = len(values)
    return float(((size - 1) / size * (values - values.mean()).square().sum()).sqrt())


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
        ``(C,)``, the tuned offsets.
    log_probabilities : Tensor or array
        ``(N, C)``, predicted by models that were not trained on the rows.
    targets : Tensor or array
        ``(N,)`` class indices.
    metric : str, Metric or callable, default="f1_macro"
        The metric that the offsets were tuned for. A class must still be predicted if the metric drops when half of
        its rows are missed, however rare they are. That is every class for macro-averaged F-scores, recall and
        balanced accuracy, and the positive class for binary F-scores. It is none for accuracy, costs and precision,
        which may be best without a class.
    sample_weight : Tensor or array, optional
        ``(N,)``, finite and not negative; the weight of rows then replaces their number.
    max_offset : float, default=6.0
        No offset is raised beyond this many nats.

    Returns
    -------
    Tensor
        ``(C,)`` with mean zero. Unchanged if no class is given up, or if N·C² is above about a hundred million.

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
    """Run :func:`keep_classes` on checked input, for scores of any kind."""
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
    """Compute the mass that each class must get: a number of rows times the average weight of its rows."""
    rows = torch.minimum(known, (SHARE_OF_ROWS * known).ceil().long().clamp_min(FEWEST_DECISIONS))
    # Sums of weights are rounded.
    return (1 - 1e-9) * rows * mass / known.clamp_min(1)


def _raised(sample: Sample, offsets: Tensor, label: int, wanted: float, reach: float) -> float:
    """Find the offset that gives the class this mass of rows, or as much as is within reach."""
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
    # Halfway to the next row, and no farther than the search itself would go.
    return max(current, min((low + high) / 2, low + FARTHEST_INTO_PLATEAU, reach))


def notices_class(metric: Metric, num_classes: int, label: int, *, exclusive: bool = True) -> bool:
    """Whether the metric notices when half of the rows of a rare class are missed.

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
