"""Batches of rows for K members at once, without a loader for single samples.

A *source* yields index tensors ``(K, B)`` in each epoch. Row k of such a tensor holds the data rows for member k. The
batches of an epoch have nearly equal sizes, because a small last batch would estimate the metric badly.
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
    r"""Class frequencies of the training rows, :math:`\pi`, and those that the model is judged by, :math:`\pi'`.

    Attributes
    ----------
    trained : Tensor
        ``(C,)`` frequencies of the training rows.
    judged : Tensor
        ``(C,)`` frequencies that the model is judged by.
    """

    trained: Tensor
    judged: Tensor

    @property
    def shift(self) -> Tensor:
        r"""Shift of the logits from training to judged frequencies: :math:`\log \pi' - \log \pi`.

        Examples
        --------
        >>> import torch
        >>> Frequencies(torch.tensor([0.8, 0.2]), torch.tensor([0.5, 0.5])).shift
        tensor([-0.4700,  0.9163])
        """
        # The lower limit keeps the shift finite for a class that never occurs.
        return (self.judged.clamp_min(1e-12).log() - self.trained.clamp_min(1e-12).log()).float()


@dataclass(frozen=True)
class Rows:
    """Data of a training run, with the rows on which each member trains and is validated.

    Attributes
    ----------
    inputs : Tensor or dict of Tensor
        Inputs of N rows; the first dimension is N.
    targets : Tensor
        ``(N,)`` class indices or ``(N, L)`` indicators of labels.
    weights : Tensor or None
        ``(N,)`` weights of the rows; None gives all rows the same weight.
    train, valid : list of Tensor
        Indices of the training and validation rows, one tensor for each member.
    num_outputs : int
        Number of classes or labels.
    multilabel : bool, default=False
        Whether the targets are indicators of labels that do not exclude each other.
    frequencies : Frequencies, optional
        Class frequencies of the training rows, and those that the model is judged by, if the two differ.

    Examples
    --------
    Two members, each validated on half of the rows and trained on the other half:

    >>> import torch
    >>> from eastward.training import Rows
    >>> halves = [torch.tensor([0, 2]), torch.tensor([1, 3])]
    >>> rows = Rows(
    ...     torch.randn(4, 3),
    ...     torch.tensor([0, 0, 1, 0]),
    ...     weights=None,
    ...     train=halves,
    ...     valid=halves[::-1],
    ...     num_outputs=2,
    ... )
    >>> rows.class_mass
    tensor([0.7500, 0.2500])
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
        """Share of each class in the weight of all rows, ``(C,)``."""
        weights = torch.ones(len(self.targets)) if self.weights is None else self.weights
        mass = torch.zeros(self.num_outputs).index_add(0, self.targets, weights.float())
        return mass / mass.sum()

    def as_judged(self) -> Rows:
        """Return a copy whose weights give the held-out rows the class frequencies that the model is judged by."""
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
    """Select rows of a tensor or an array, or of every entry of a dictionary."""
    if isinstance(inputs, dict):
        return {name: value[rows] for name, value in inputs.items()}
    # NumPy would treat a tensor of one index as a number.
    if isinstance(inputs, Tensor) or isinstance(rows, slice):
        return inputs[rows]
    return inputs[rows.numpy()]


def assign_folds(labels: Tensor, num_folds: int, generator: torch.Generator) -> Tensor:
    """Assign each row to a fold, with the rows of every class spread evenly over the folds.

    The rows of a class are dealt out in random order, starting at the fold where the previous class ended. So the sizes
    of the folds differ by at most one row, even if classes are small. The only row of a class belongs to no fold, so
    that every member trains on it.

    Parameters
    ----------
    labels : Tensor
        ``(N,)`` class indices.
    num_folds : int
        Number of folds.
    generator : torch.Generator
        Generator of the random order.

    Returns
    -------
    Tensor
        ``(N,)`` fold of each row, counted from 0; -1 for the only row of a class.

    Examples
    --------
    >>> import torch
    >>> from eastward.training import assign_folds
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
    """Batches in random order that contain each row once per epoch.

    All members see equally many rows. If one has more training rows than another, a random part of them is left out in
    each epoch.

    Parameters
    ----------
    train : sequence of Tensor
        Indices of the training rows, one tensor for each member.
    batch_size : int
        Approximate number of rows in a batch; the rows of an epoch are split evenly.
    max_steps : int, optional
        Largest number of batches in an epoch. By default, an epoch contains all rows.

    Examples
    --------
    >>> import torch
    >>> from eastward.training import ShuffledBatches
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
        """Yield the index tensors ``(K, B)`` of one epoch, starting with batch ``start``."""
        orders = [rows[torch.randperm(len(rows), generator=generator)] for rows in self.train]
        together = torch.stack([order[: self.rows] for order in orders])
        yield from torch.tensor_split(together, self.steps, dim=1)[start : self.used]


class StratifiedBatches:
    """Batches with equally many rows of every class, as far as a class has enough rows.

    Each of C classes contributes ``batch_size / C`` rows. A class with fewer rows contributes all of them, and larger
    classes fill the gap. The rows of a class come in random order, and repeat only when all have been used. If there
    are more classes than rows in a batch, each batch contains one row each of randomly chosen classes.

    The class frequencies of these batches are not those of the data, so the loss needs a class prior.

    Parameters
    ----------
    train : sequence of Tensor
        Indices of the training rows, one tensor for each member. A class is left out if one member has no row of it.
    labels : Tensor
        ``(N,)`` class indices of all rows.
    num_classes : int
        Number of classes, C.
    batch_size : int
        Number of rows in a batch.
    max_steps : int, optional
        Largest number of batches in an epoch. By default, an epoch draws about as many rows as there are.

    Examples
    --------
    >>> import torch
    >>> from eastward.training import StratifiedBatches
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
        """Yield the index tensors ``(K, B)`` of one epoch, starting with batch ``start``."""
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
    """Batches of a user's DataLoader, in its own order, for a single member.

    Parameters
    ----------
    loader : iterable
        Yields ``(inputs, targets)`` or ``(inputs, targets, sample_weight)``.
    encode : callable
        Turns the targets of the loader into class indices.

    Examples
    --------
    >>> import torch
    >>> from eastward.training import LoaderBatches
    >>> loader = [(torch.zeros(2, 3), torch.tensor([5, 7]))]
    >>> source = LoaderBatches(loader, encode=lambda labels: (labels == 7).long())
    >>> for inputs, targets, weights in source.epoch(torch.Generator()):
    ...     print(inputs.shape, targets, weights)
    torch.Size([2, 3]) tensor([[0, 1]]) None
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
        """Return this object itself, because the loader decides about its batches, not the stage."""
        return self

    def epoch(
        self,
        generator: torch.Generator,  # noqa: ARG002 - the loader does its own shuffling
        start: int = 0,
    ) -> Iterator[tuple[Any, Tensor, Tensor | None]]:
        """Yield inputs, ``(1, B)`` targets and weights of each batch, starting with batch ``start``."""
        if self.dealt_out:
            self.loader.sampler.set_epoch(self._epochs)  # type: ignore[attr-defined]
            self._epochs += 1
        for inputs, targets, *weight in islice(self.loader, start, None):
            weights = weight[0].float().unsqueeze(0) if weight else None
            yield inputs, self.encode(targets).unsqueeze(0), weights


def _equal_quotas(available: Sequence[int], batch_size: int) -> list[int]:
    """Compute the number of rows of each class in a batch: equal shares, as far as a class has enough rows."""
    quotas = [0] * len(available)
    left = batch_size
    pending = sorted((c for c in range(len(available)) if available[c]), key=lambda c: available[c])
    for position, c in enumerate(pending):
        share = max(1, left // (len(pending) - position))
        quotas[c] = min(available[c], share)
        left -= quotas[c]
    return quotas


def _cycled(rows: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Return ``count`` rows from random permutations, one after the other."""
    rounds = -(-count // len(rows))
    orders = [torch.randperm(len(rows), generator=generator) for _ in range(rounds)]
    return rows[torch.cat(orders)[:count]]
