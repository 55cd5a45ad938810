"""Score the hard decisions of each member on held-out rows."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from eastward.confusion import Counts, hard_confusion, multilabel_counts
from eastward.metrics import Metric
from eastward.training.batches import Rows
from eastward.training.processes import Processes

__all__ = ["hard_table", "hard_tables", "padded", "score_members"]


def padded(parts: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Pad index tensors of unequal length to one ``(K, V)`` tensor, and return which entries are real.

    Examples
    --------
    >>> import torch
    >>> padded([torch.tensor([3, 4]), torch.tensor([5])])[1].tolist()
    [[True, True], [True, False]]
    """
    index = torch.nn.utils.rnn.pad_sequence(list(parts), batch_first=True)
    lengths = torch.tensor([len(part) for part in parts])
    return index, torch.arange(index.shape[1]) < lengths.unsqueeze(1)


def score_members(tables: Sequence[Tensor | Counts], metric: Metric) -> Tensor:
    """Compute the metric of each member's hard decisions; a cost is negated, so that higher is better."""
    values = torch.stack([metric(table) for table in tables]).float()
    return values if metric.higher_is_better else -values


def hard_tables(
    logits: Tensor, targets: Tensor, weights: Tensor | None, rows: Rows, processes: Processes
) -> list[Tensor | Counts]:
    """Compute one table for each member over all processes, because tables add up and scores do not."""
    tables: list[Tensor | Counts] = []
    for k in range(len(logits)):
        member_weights = None if weights is None else weights[k]
        table = hard_table(logits[k], targets[k], member_weights, rows)
        if isinstance(table, Counts):
            table = Counts.unstack(processes.sum(table.stack()), exclusive=table.exclusive)
        else:
            table = processes.sum(table)
        tables.append(table)
    return tables


def hard_table(
    scores: Tensor, targets: Tensor, weights: Tensor | None, rows: Rows
) -> Tensor | Counts:
    """Compute the confusion matrix of the decisions by ``scores``, or the counts of independent labels."""
    if rows.multilabel:
        return multilabel_counts((scores > 0).double(), targets, sample_weight=weights)
    return hard_confusion(
        scores.argmax(-1), targets, num_classes=rows.num_outputs, sample_weight=weights
    )
