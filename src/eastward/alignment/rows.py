"""Compute the features of all training and validation rows once, for the head."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from eastward import _checks
from eastward.alignment.batches import CALLER, Batch, Forward, as_batch, output_of_loaded
from eastward.alignment.heads import Head, check_numbers, watched

__all__ = ["Collected", "HeadRows", "collect_rows", "concatenated", "thinned"]

IGNORED = -100


@dataclass(frozen=True)
class HeadRows:
    """The input of the head: features, targets and weights of rows.

    Attributes
    ----------
    features : Tensor
        ``(N, F)`` inputs of the head, in float32.
    targets : Tensor
        ``(N,)`` class indices or ``(N, L)`` indicators; -100 is an unknown label.
    weight : Tensor
        ``(N,)`` weights, in float64.
    groups : Tensor
        ``(N,)`` sample to which each row belongs, because rows of one image are not independent.
    """

    features: Tensor
    targets: Tensor
    weight: Tensor
    groups: Tensor

    def __len__(self) -> int:
        return len(self.targets)

    def taken(self, chosen: Tensor) -> HeadRows:
        """Select the rows ``chosen``, by index or mask."""
        return HeadRows(
            self.features[chosen], self.targets[chosen], self.weight[chosen], self.groups[chosen]
        )

    def class_mass(self, size: int) -> Tensor:
        """Compute the weight of each class ``(C,)``, or of each label's positives."""
        if self.targets.dim() > 1:
            return self.weight @ (self.targets == 1).double()
        return torch.zeros(size, dtype=torch.float64).index_add(0, self.targets, self.weight)


class Collected(NamedTuple):
    """Rows for the head, and the targets of all S samples in the order in which they were read.

    If a sample has many rows (pixels, tokens), zeros ``(S,)`` stand in for the targets.
    """

    rows: HeadRows
    targets: Tensor


def concatenated(first: HeadRows, second: HeadRows) -> HeadRows:
    """Concatenate two sets of rows; their samples stay distinct."""
    start = int(first.groups.max()) + 1 if len(first) else 0
    return _together([first, replace(second, groups=second.groups + start)])


def _together(parts: Sequence[HeadRows]) -> HeadRows:
    names = ("features", "targets", "weight", "groups")
    return HeadRows(*(torch.cat([getattr(part, name) for part in parts]) for name in names))


def collect_rows(
    model: nn.Module,
    head: Head,
    batches: Iterable[Any],
    *,
    argument: str,
    fabric: Any,
    forward: Forward | None,
    ignore_index: int,
    max_rows: int,
    generator: torch.Generator,
) -> Collected:
    """Collect rows in one pass over a loader, in evaluation mode.

    At most about ``max_rows`` rows are kept, and rows of rare classes first. The weight of a row says how many rows it
    stands for.
    """
    layer = model.get_submodule(head.name)
    parts: list[HeadRows] = []
    targets: list[Tensor] = []
    start = kept = 0
    model.eval()
    for number, raw in enumerate(batches, start=1):
        batch = as_batch(raw, argument)
        if not len(batch.targets):
            continue
        on_device = batch._replace(inputs=fabric.to_device(batch.inputs))
        with torch.no_grad(), watched({head.name: layer}) as seen, fabric.autocast():
            output = output_of_loaded(model, on_device, forward, argument=argument, number=number)
        check_numbers(argument, output)
        features = head.features(model, seen[head.name])
        samples = len(output)
        rows = _rows(head, batch, features, samples, ignore_index, argument)
        rows = replace(rows, groups=rows.groups + start)
        targets.append(batch.targets.cpu() if not head.layout.dense else torch.zeros(samples))
        if kept + len(rows) > max_rows // 2:
            # Later batches contribute fewer rows, because they share the room that is left.
            room = max(head.layout.size, (max_rows - kept) // 8)
            rows = thinned(rows, head.layout.size, room, generator)
        parts.append(rows)
        start, kept = start + samples, kept + len(rows)
    if not kept:
        got = "one whose rows are used up" if not start else "one without labels"
        _checks.fail(CALLER, argument, "a repeatable loader with at least one labelled row", got)
    return Collected(_together(parts), torch.cat(targets))


def _rows(
    head: Head, batch: Batch, features: Tensor, samples: int, ignore_index: int, argument: str
) -> HeadRows:
    layout = head.layout
    _check_whole_numbers(argument, batch.targets)
    targets = layout.targets(batch.targets.cpu(), ignore_index)
    if len(targets) != len(features):
        got = f"{len(targets)} targets for {len(features)} rows"
        _checks.fail(CALLER, argument, "a loader whose targets fit the outputs", got)
    if layout.labels:
        _checks.indicator_targets(_caller(argument), targets, IGNORED)
    else:
        _checks.class_targets(_caller(argument), targets, layout.size, IGNORED)
    per_sample = len(targets) // samples
    groups = torch.arange(samples).repeat_interleave(per_sample)
    weight = torch.ones(len(targets), dtype=torch.float64)
    if batch.weight is not None:
        given = torch.as_tensor(batch.weight).double().cpu()
        _checks.weights(CALLER, given)
        weight = given.reshape(samples, -1).expand(samples, per_sample).reshape(-1).clone()
    known = (targets != IGNORED) if targets.dim() == 1 else (targets != IGNORED).any(1)
    return HeadRows(features.float().cpu(), targets, weight, groups).taken(known)


def _caller(argument: str) -> str:
    """Name the loader whose targets are refused."""
    return f"{argument} of {CALLER}"


def _check_whole_numbers(argument: str, targets: Tensor) -> None:
    """Refuse soft labels, because they would be rounded down."""
    if not targets.is_floating_point():
        return
    parts = targets[targets != targets.round()]
    if len(parts):
        advice = "Choose a class, for example with targets.argmax(1), and pass weights with it."
        expected = "class indices, or zeros and ones"
        _checks.fail(
            _caller(argument), "targets", expected, f"values such as {float(parts[0]):.4g}", advice
        )


def thinned(rows: HeadRows, size: int, room: int, generator: torch.Generator) -> HeadRows:
    """Keep about ``room`` rows, equally many of each class if possible; weights preserve the mass of classes.

    Examples
    --------
    >>> import torch
    >>> y = torch.tensor([0] * 90 + [1] * 10)
    >>> rows = HeadRows(torch.zeros(100, 1), y, torch.ones(100).double(), torch.arange(100))
    >>> fewer = thinned(rows, 2, 20, torch.Generator().manual_seed(0))
    >>> len(fewer), fewer.class_mass(2)
    (20, tensor([90., 10.], dtype=torch.float64))
    """
    if len(rows) <= room:
        return rows
    if rows.targets.dim() > 1:
        chosen = torch.randperm(len(rows), generator=generator)[:room]
        fewer = rows.taken(chosen)
        return replace(fewer, weight=fewer.weight * (rows.weight.sum() / fewer.weight.sum()))
    by_class = [torch.nonzero(rows.targets == label).flatten() for label in range(size)]
    present = [own for own in by_class if len(own)]
    share = max(1, room // len(present))
    parts = []
    for own in present:
        chosen = own[torch.randperm(len(own), generator=generator)[:share]]
        fewer = rows.taken(chosen)
        ratio = rows.weight[own].sum() / fewer.weight.sum().clamp_min(1e-300)
        parts.append(replace(fewer, weight=fewer.weight * ratio))
    return _together(parts)
