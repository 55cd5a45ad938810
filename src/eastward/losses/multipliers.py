r"""Constraints during training: multipliers that grow while a constraint is violated.

.. math:: L = 1 - M(C) - \sum_k \lambda_k\,\big(g_k(C) - b_k\big), \qquad \lambda_k \ge 0

Gradients flow through the soft table :math:`C`. The multipliers follow the *hard* table of decisions, because
decisions may violate a constraint that soft memberships seem to satisfy (the proxy-Lagrangian of Cotter et al. 2019).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from eastward import _checks
from eastward.confusion import Counts, soft_confusion
from eastward.constraints import Constraint, parse_constraints, split_constraints
from eastward.losses._batches import Batch
from eastward.losses._module import new_buffer
from eastward.metrics import Metric
from eastward.protocols import Reduce

__all__ = ["Multipliers"]

CALLER = "EASTLoss"
# Constraints are judged by about the last twenty batches: one batch has too few rows of a rare class.
DECAY = 0.95
# Otherwise a constraint that cannot be satisfied would drown the metric.
LARGEST = 100.0


class Multipliers(nn.Module):
    """Constraints of a loss and their multipliers, which are buffers.

    Parameters
    ----------
    subject_to : str or sequence of str
        Constraints in words, with classes by index.
    rate : float
        How far a multiplier moves in one batch, per unit of violation.

    Attributes
    ----------
    values : Tensor
        ``(K,)``, not negative.
    hard_table : Tensor
        ``(C, C)``: decisions of the last batches, decayed.

    Examples
    --------
    >>> import torch
    >>> asked = Multipliers("recall[1] >= 0.9", rate=0.5)
    >>> batch = Batch(torch.tensor([[2.0, 0.0], [2.0, 0.0]]), torch.tensor([0, 1]), None)
    >>> asked.update(batch, prior=None, ignore_index=None)
    >>> asked.values
    tensor([0.4500])
    """

    values: Tensor
    hard_table: Tensor

    def __init__(self, subject_to: Any, rate: float) -> None:
        super().__init__()
        self.texts = tuple(split_constraints(CALLER, subject_to))
        self.rate = rate
        self.register_buffer("values", new_buffer(torch.zeros(len(self.texts))))
        self.register_buffer("hard_table", new_buffer(torch.empty(0)), persistent=False)
        self._parsed: dict[int, tuple[Constraint, ...]] = {}

    def constraints(self, size: int) -> tuple[Constraint, ...]:
        """Return the constraints, parsed for this number of classes."""
        if size not in self._parsed:
            found = parse_constraints(CALLER, self.texts, size)
            if any(one.name == "coverage" for one in found):
                expected = "a constraint other than coverage"
                _checks.fail(
                    CALLER,
                    "subject_to",
                    expected,
                    "a bound on coverage",
                    "Tune the decision for it.",
                )
            self._parsed[size] = found
        return self._parsed[size]

    def bonus(self, table: Tensor) -> Tensor:
        """Compute the term that the constraints add to the metric at a table ``(C, C)``: multipliers times slack."""
        pairs = zip(self.constraints(len(table)), self.values, strict=True)
        return torch.stack([weight.to(table) * one.slack(table) for one, weight in pairs]).sum()

    @torch.no_grad()
    def update(
        self, batch: Batch, *, prior: Any, ignore_index: int | None, reduce: Reduce | None = None
    ) -> None:
        """Move the multipliers according to the decisions for a batch."""
        logits = batch.logits.detach().float()
        if logits.shape[1] == 1:
            logits = torch.cat([torch.zeros_like(logits), logits], 1)
        size = logits.shape[1]
        chosen = torch.nn.functional.one_hot(logits.argmax(1), size).float()
        table = soft_confusion(
            chosen,
            batch.targets.long(),
            num_classes=size,
            sample_weight=batch.sample_weight,
            prior=prior,
            ignore_index=ignore_index,
        )
        if reduce is not None:
            table = reduce(table)
        past = self.hard_table
        if past.shape == table.shape:
            table = table + DECAY * past.to(table)
        self.hard_table = new_buffer(table)
        if float(table.sum()) <= 0:
            return
        slack = torch.stack([one.slack(table) for one in self.constraints(size)])
        moved = self.values - self.rate * slack.to(self.values)
        self.values = new_buffer(moved.clamp(0.0, LARGEST))

    def added_to(self, metric: Metric) -> Metric:
        """Return the metric plus the term of the constraints."""
        return Metric(
            metric.name,
            _Lagrangian(metric, self),
            higher_is_better=metric.higher_is_better,
            needs_matrix=True,
            needs_two_classes=metric.needs_two_classes,
        )


class _Lagrangian:
    """A metric plus the term of the constraints, as a function of the matrix."""

    def __init__(self, metric: Metric, multipliers: Multipliers) -> None:
        self.metric, self.multipliers = metric, multipliers

    def __call__(self, confusion: Tensor | Counts) -> Tensor:
        """Evaluate the metric plus the term of the constraints."""
        table = confusion if isinstance(confusion, Tensor) else confusion.tp
        bonus = self.multipliers.bonus(table)
        value: Tensor = self.metric(confusion)
        return value + bonus if self.metric.higher_is_better else value - bonus
