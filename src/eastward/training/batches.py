"""Batches of rows for K members at once, without a loader for single samples.

A *source* yields, each epoch, index tensors ``(K, B)``: row k holds rows of the data for member k. Batches of one
epoch have nearly equal sizes, because a small remainder would estimate the metric badly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import torch
from torch import Tensor
from torch.utils.data.distributed import DistributedSampler

__all__ = [
    "Frequencies",
    "LoaderBatches",
    "Rows",
    "ShuffledBatches",
    "StratifiedBatches",
    "assign_folds",
    "take",
]


@dataclass(frozen=True)
class Frequencies:
    r"""Class frequencies ``(C,)`` of training, :math:`\pi`, and those that count, :math:`\pi'`."""

    trained: Tensor
    judged: Tensor

    @property
    def shift(self) -> Tensor:
        r"""The shift of logits from the first to the second: :math:`\log \pi' - \log \pi`.

        Examples
        --------
        >>> import torch
        >>> Frequencies(torch.tensor([0.8, 0.2]), torch.tensor([0.5, 0.5])).shift
        tensor([-0.4700,  0.9163])
        """
        # A class that never occurs gets the lowest logit that can still be distinguished.
        return (self.judged.clamp_min(1e-12).log() - self.trained.clamp_min(1e-12).log()).float()


@dataclass(frozen=True)
class Rows:
    """The training data: inputs, targets, weights, and each member's rows for training and validation.

    Attributes
    ----------
    inputs : Tensor or dict of Tensor
        First dimension N.
    targets : Tensor
        ``(N,)`` class indices or ``(N, L)`` indicators.
    weights : Tensor or None
        ``(N,)``.
    train, valid : list of Tensor
        Row indices, one tensor for each member.
    num_outputs : int
        Number of classes or labels.
    multilabel : bool
        Whether targets are indicators.
    frequencies : Frequencies, optional
        Class frequencies, if those that count differ from training.
    """

    inputs: Any
    targets: Tensor
    weights: Tensor | None
    train: list[Tensor]
    valid: list[Tensor]
    num_outputs: int
    multilabel: bool = False
    frequencies: Frequencies | None = None

    def with_held_out(self) -> Rows:
        """Return a copy in which every member also trains on its validation rows."""
        pairs = zip(self.train, self.valid, strict=True)
        return replace(self, train=[torch.cat(pair) for pair in pairs])

    @property
    def class_mass(self) -> Tensor:
        """Compute the weight of each class over all rows, normalised to one."""
        weights = torch.ones(len(self.targets)) if self.weights is None else self.weights
        mass = torch.zeros(self.num_outputs).index_add(0, self.targets, weights.float())
        return mass / mass.sum()

    def as_judged(self) -> Rows:
        """Return a copy whose weights give held-out rows the frequencies that count."""
        if self.frequencies is None:
            return self
        held = torch.cat(self.valid)
        weights = torch.ones(len(self.targets)) if self.weights is None else self.weights
        mass = torch.zeros(self.num_outputs).index_add(0, self.targets[held], weights[held].float())
        there = mass > 0
        ratio = torch.where(there, self.frequencies.judged / (mass / mass.sum()), 1.0).float()
        judged = weights * ratio[self.targets]
        return replace(self, weights=judged / judged[held].mean())


def take(inputs: Any, rows: Tensor | slice) -> Any:
    """Select rows of a tensor or array, or of every one in a dictionary."""
    if isinstance(inputs, dict):
        return {name: value[rows] for name, value in inputs.items()}
    # NumPy would treat a tensor of one index as a number.
    if isinstance(inputs, Tensor) or isinstance(rows, slice):
        return inputs[rows]
    return inputs[rows.numpy()]


def assign_folds(labels: Tensor, num_folds: int, generator: torch.Generator) -> Tensor:
    """Assign a stratified fold to each row; -1 for the only row of a class, which every member trains on.

    Rows of a class are distributed in random order, starting where the previous class ended, so that folds are equally
    large even if classes are small.

    Examples
    --------
    >>> import torch
    >>> folds = assign_folds(torch.tensor([0, 0, 0, 0, 1]), 2, torch.Generator().manual_seed(0))
    >>> sorted(folds.tolist())
    [-1, 0, 0, 1, 1]
    """
    folds = torch.full_like(labels, -1)
    start = 0
    for label in labels.unique():
        rows = torch.nonzero(labels == label).squeeze(1)
        if len(rows) == 1:
            continue
        order = torch.randperm(len(rows), generator=generator)
        folds[rows[order]] = (torch.arange(len(rows)) + start) % num_folds
        start += len(rows)
    return folds


class ShuffledBatches:
    """Batches that contain every row once per epoch, in random order.

    Examples
    --------
    >>> import torch
    >>> source = ShuffledBatches([torch.arange(10)], batch_size=4)
    >>> [tuple(rows.shape) for rows in source.epoch(torch.Generator().manual_seed(0))]
    [(1, 5), (1, 5)]
    """

    def __init__(
        self, train: Sequence[Tensor], batch_size: int, max_steps: int | None = None
    ) -> None:
        self.train = train
        self.rows = min(len(rows) for rows in train)
        self.steps = max(1, round(self.rows / batch_size))
        self.used = self.steps if max_steps is None else min(self.steps, max_steps)

    def epoch(self, generator: torch.Generator, start: int = 0) -> Iterator[Tensor]:
        """Yield index tensors ``(K, B)`` of one epoch, from batch ``start`` on."""
        orders = [rows[torch.randperm(len(rows), generator=generator)] for rows in self.train]
        together = torch.stack([order[: self.rows] for order in orders])
        yield from torch.tensor_split(together, self.steps, dim=1)[start : self.used]


class StratifiedBatches:
    """Batches with rows of every class, as equal as the rarest allows; use them with a class prior.

    Each class contributes ``batch_size / C`` rows. A class with fewer rows contributes all of them, and the others
    make up for it. Within a class, rows come in random order, without repetition until all were used. If there are
    more classes than fit into a batch, it contains one row each of random classes.

    Examples
    --------
    >>> import torch
    >>> labels = torch.tensor([0] * 90 + [1] * 10)
    >>> source = StratifiedBatches([torch.arange(100)], labels, 2, batch_size=20)
    >>> first = next(source.epoch(torch.Generator().manual_seed(0)))
    >>> labels[first].sum().item()
    10
    """

    def __init__(
        self,
        train: Sequence[Tensor],
        labels: Tensor,
        num_classes: int,
        batch_size: int,
        max_steps: int | None = None,
    ) -> None:
        rows = min(len(members) for members in train)
        self.by_class = [[part[labels[part] == c] for c in range(num_classes)] for part in train]
        available = [min(len(member[c]) for member in self.by_class) for c in range(num_classes)]
        self.batch_size = min(batch_size, rows)
        self.quotas = _equal_quotas(available, self.batch_size)
        self.crowded = sum(count > 0 for count in available) > self.batch_size
        self.steps = max(1, round(rows / batch_size))
        self.used = self.steps if max_steps is None else min(self.steps, max_steps)

    def epoch(self, generator: torch.Generator, start: int = 0) -> Iterator[Tensor]:
        """Yield index tensors ``(K, B)`` of one epoch, from batch ``start`` on."""
        return islice(self._epoch(generator), start, None)

    def _epoch(self, generator: torch.Generator) -> Iterator[Tensor]:
        members = [
            torch.cat(
                [
                    _cycled(rows, quota * self.used, generator).view(self.used, quota)
                    for rows, quota in zip(by_class, self.quotas, strict=True)
                    if quota
                ],
                dim=1,
            )
            for by_class in self.by_class
        ]
        together = torch.stack(members, dim=1)
        for rows in together:
            if self.crowded:
                chosen = torch.randperm(rows.shape[1], generator=generator)[: self.batch_size]
                yield rows[:, chosen]
            else:
                yield rows


class LoaderBatches:
    """The batches of a user's DataLoader, in its order, for a single member.

    Parameters
    ----------
    loader : iterable
        Yields ``(inputs, targets)`` or ``(inputs, targets, sample_weight)``.
    encode : callable
        Turns the loader's targets into class indices.
    """

    # Whether each process has its own batches, as with a DistributedSampler.
    dealt_out = False
    # Whether epochs are long enough to need checkpoints in between.
    long_epochs = False

    def __init__(self, loader: Iterable[Any], encode: Callable[[Tensor], Tensor]) -> None:
        self.loader, self.encode = loader, encode
        self.dealt_out = isinstance(getattr(loader, "sampler", None), DistributedSampler)
        self._epochs = 0

    def for_stage(self, stage: Any, processes: Any) -> LoaderBatches:  # noqa: ARG002
        """Return the loader itself; the options of the stage do not apply."""
        return self

    def epoch(
        self,
        generator: torch.Generator,  # noqa: ARG002 - the loader does its own shuffling
        start: int = 0,
    ) -> Iterator[tuple[Any, Tensor, Tensor | None]]:
        """Yield inputs, ``(1, B)`` targets and weights of each batch, from batch ``start`` on."""
        if self.dealt_out:
            self.loader.sampler.set_epoch(self._epochs)  # type: ignore[attr-defined]
            self._epochs += 1
        for inputs, targets, *weight in islice(self.loader, start, None):
            weights = weight[0].float().unsqueeze(0) if weight else None
            yield inputs, self.encode(targets).unsqueeze(0), weights


def _equal_quotas(available: Sequence[int], batch_size: int) -> list[int]:
    """Compute rows per class: equal shares, capped by what a class has; larger classes get the rest."""
    quotas = [0] * len(available)
    left = batch_size
    pending = sorted((c for c in range(len(available)) if available[c]), key=lambda c: available[c])
    for position, c in enumerate(pending):
        share = max(1, left // (len(pending) - position))
        quotas[c] = min(available[c], share)
        left -= quotas[c]
    return quotas


def _cycled(rows: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Return ``count`` rows from consecutive random permutations."""
    rounds = -(-count // len(rows))
    orders = [torch.randperm(len(rows), generator=generator) for _ in range(rounds)]
    return rows[torch.cat(orders)[:count]]
