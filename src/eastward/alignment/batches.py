"""Read inputs, targets and weights from a user's loader, whatever kind of batch it yields.

A batch is a tuple ``(inputs, targets)`` or ``(inputs, targets, sample_weight)``, a mapping with ``labels`` (Hugging
Face), or an object with ``y`` (PyTorch Geometric). A data set with an index can be read in any order, which stratified
batches need. All other data sets are read in the order of the loader.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor, nn
from torch.utils.data import (
    BatchSampler,
    ConcatDataset,
    DataLoader,
    IterableDataset,
    Subset,
    WeightedRandomSampler,
)
from torch.utils.data.distributed import DistributedSampler

from eastward import _checks

__all__ = [
    "CALLER",
    "Batch",
    "Forward",
    "as_batch",
    "check_loader",
    "has_index",
    "in_order",
    "joined_loaders",
    "of_drawn_rows",
    "output_of",
    "output_of_loaded",
    "sampled_mass",
    "with_indices",
]

CALLER = "align"
TARGET_KEYS = ("labels", "label", "targets", "target")

Forward: TypeAlias = Callable[[nn.Module, Any], Any]
"""A function ``(model, inputs) -> logits``, for a model that cannot be called as ``model(inputs)``."""


class Batch(NamedTuple):
    """Inputs of the model, targets, weights of the rows, and whether inputs are keyword arguments."""

    inputs: Any
    targets: Tensor
    weight: Tensor | None = None
    by_name: bool = False


def as_batch(raw: Any, argument: str = "train_loader") -> Batch:
    """Split a batch of the loader ``argument`` into inputs, targets and weights.

    Examples
    --------
    >>> import torch
    >>> as_batch({"x": torch.zeros(2, 3), "labels": torch.tensor([0, 1])}).by_name
    True
    """
    if isinstance(raw, Mapping):
        key = next((name for name in TARGET_KEYS if name in raw), None)
        if key is None:
            got = f"a mapping with {list(raw)}"
            _checks.fail(
                CALLER, argument, f"one whose mappings have one of the keys {TARGET_KEYS}", got
            )
        weight = raw.get("sample_weight")
        rest = {name: raw[name] for name in raw if name not in (key, "sample_weight")}
        return Batch(rest, _targets(raw[key]), weight, by_name=True)
    if isinstance(raw, tuple | list) and len(raw) in (2, 3):
        return Batch(raw[0], _targets(raw[1]), raw[2] if len(raw) == 3 else None)
    if isinstance(getattr(raw, "y", None), Tensor):
        return Batch(raw, raw.y)
    expected = "one that yields (inputs, targets), (inputs, targets, sample_weight) or a mapping"
    advice = "Wrap it in a class whose __iter__ yields such batches."
    return _checks.fail(CALLER, argument, expected, _checks.describe(raw), advice, error=TypeError)


def _targets(value: Any) -> Tensor:
    return value if isinstance(value, Tensor) else _checks.numeric(CALLER, "targets", value)


def output_of(model: nn.Module, batch: Batch, forward: Forward | None) -> Tensor:
    """Compute the logits of a batch."""
    return logits_in(_called(model, batch, forward))


def output_of_loaded(
    model: nn.Module, batch: Batch, forward: Forward | None, *, argument: str, number: int
) -> Tensor:
    """Compute the logits of batch ``number`` of a loader, or name the batch that the model refuses."""
    try:
        found = _called(model, batch, forward)
    except torch.OutOfMemoryError:
        raise
    except (AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
        words = " ".join(str(error).split())[:300]
        shape = f" of shape {tuple(batch.inputs.shape)}" if isinstance(batch.inputs, Tensor) else ""
        got = f"batch {number}{shape}, for which the model raised {type(error).__name__}: {words}"
        advice = "Pass forward=lambda model, inputs: ... to call the model in its own way."
        _checks.fail(CALLER, argument, "a loader whose batches the model accepts", got, advice)
    return logits_in(found)


def _called(model: nn.Module, batch: Batch, forward: Forward | None) -> Any:
    if forward is not None:
        return forward(model, batch.inputs)
    return model(**batch.inputs) if batch.by_name else model(batch.inputs)


def logits_in(output: Any, *, caller: str = CALLER, argument: str = "model") -> Tensor:
    """Find the logits in the output of a model: a tensor, an object with ``logits``, or the first of a tuple.

    Examples
    --------
    >>> import torch
    >>> logits_in({"logits": torch.zeros(1), "loss": None})
    tensor([0.])
    """
    if isinstance(output, Tensor):
        return output
    if isinstance(output, Mapping) and "logits" in output:
        found = output["logits"]
    elif isinstance(output, tuple | list) and output:
        found = output[0]
    else:
        found = getattr(output, "logits", None)
    if not isinstance(found, Tensor):
        names = f" with {list(output)}" if isinstance(output, Mapping) else ""
        got = f"an output of type {type(output).__name__}{names}"
        advice = "Pass forward=lambda model, inputs: logits." if caller == CALLER else ""
        expected = (
            "a network that returns logits" if argument == "model" else "an output with logits"
        )
        _checks.fail(caller, argument, expected, got, advice)
    return found


def check_loader(argument: str, loader: Any) -> None:
    """Check that a loader is not empty and can be iterated repeatedly."""
    expected = "a DataLoader, or another iterable of batches"
    if not isinstance(loader, Iterable) or isinstance(loader, str | Tensor | Mapping):
        _checks.fail(CALLER, argument, expected, _checks.describe(loader), error=TypeError)
    if iter(loader) is loader:
        advice = "Pass list(...) of it, or a DataLoader."
        got = f"a {type(loader).__name__}, which is used up after one pass"
        _checks.fail(CALLER, argument, "repeatable", got, advice, error=TypeError)
    rows: Any = getattr(loader, "dataset", None)
    # A data set whose __iter__ returns the data set itself may still start over.
    if isinstance(rows, IterableDataset) and _shared_iterator(rows):
        advice = "Let its __iter__ start over each time, or keep its rows in a list."
        got = f"a loader of a {type(rows).__name__} whose rows are used up after one pass"
        _checks.fail(CALLER, argument, "repeatable", got, advice, error=TypeError)
    if next(iter(loader), None) is None:
        _checks.fail(CALLER, argument, "a loader with at least one batch", "an empty one")


def _shared_iterator(rows: Any) -> bool:
    """Return whether every pass over a data set continues with the same iterator."""
    first = iter(rows)
    return first is not rows and first is iter(rows)


def has_index(loader: Any) -> bool:
    """Return whether rows can be fetched by number, in any order."""
    return (
        isinstance(loader, DataLoader)
        and not isinstance(loader.dataset, IterableDataset)
        and loader.batch_sampler is not None
        and hasattr(loader.dataset, "__len__")
    )


def of_drawn_rows(loader: Any) -> Any:
    """Return a loader of the rows alone that the sampler of ``loader`` draws; most samplers draw all rows.

    A training and a validation loader often share one data set, and only their samplers keep the rows apart.

    Examples
    --------
    >>> import torch
    >>> from torch.utils.data import DataLoader, SubsetRandomSampler, TensorDataset
    >>> rows = TensorDataset(torch.arange(10), torch.zeros(10))
    >>> loader = of_drawn_rows(DataLoader(rows, 2, sampler=SubsetRandomSampler([7, 1, 4])))
    >>> [row for row, _ in loader.dataset]
    [tensor(1), tensor(4), tensor(7)]
    """
    if not has_index(loader):
        return loader
    sampler = getattr(loader.batch_sampler, "sampler", None)
    rows = _drawn(loader, sampler)
    if len(rows) == len(loader.dataset):
        return loader
    weighted = None
    if isinstance(sampler, WeightedRandomSampler):
        chances = torch.as_tensor(sampler.weights).double()[rows]
        weighted = WeightedRandomSampler(chances.tolist(), sampler.num_samples)
    return DataLoader(
        Subset(loader.dataset, rows),
        batch_size=_batch_size(loader),
        sampler=weighted,
        collate_fn=loader.collate_fn,
        num_workers=loader.num_workers,
        pin_memory=loader.pin_memory,
        worker_init_fn=loader.worker_init_fn,
    )


def _drawn(loader: Any, sampler: Any) -> list[int]:
    """Return the numbers of all rows that a loader can draw, in ascending order."""
    if type(loader.batch_sampler) is BatchSampler:
        if isinstance(sampler, WeightedRandomSampler):
            chances = torch.as_tensor(sampler.weights)
            return torch.nonzero(chances > 0).flatten().tolist()
        if isinstance(sampler, DistributedSampler):  # each process draws a share of all rows
            return list(range(len(loader.dataset)))
        for name in ("indices", "data_source"):
            source = getattr(sampler, name, None)
            if source is not None:
                return sorted(set(source)) if name == "indices" else list(range(len(source)))
    # Nothing is known about other samplers, so one pass shows the rows.
    return sorted({int(row) for batch in loader.batch_sampler for row in batch})


def with_indices(loader: Any, batches: list[list[int]]) -> Iterator[Any]:
    """Yield batches of chosen rows of a data set with an index."""
    again = DataLoader(
        loader.dataset,
        batch_sampler=batches,
        collate_fn=loader.collate_fn,
        num_workers=loader.num_workers,
        pin_memory=loader.pin_memory,
        worker_init_fn=loader.worker_init_fn,
    )
    return iter(again)


def in_order(loader: Any) -> Iterator[Any]:
    """Yield every row once, in the order of the data set if rows have an index."""
    if not has_index(loader):
        return iter(loader)
    size, rows = len(loader.dataset), _batch_size(loader)
    order = [list(range(start, min(start + rows, size))) for start in range(0, size, rows)]
    return with_indices(loader, order)


def _batch_size(loader: Any) -> int:
    if loader.batch_size is not None:
        return int(loader.batch_size)
    first = next(iter(loader.batch_sampler))
    return max(1, len(list(first)))


def rows_per_batch(loader: Any, default: int) -> int:
    """Return the batch size of the loader, or ``default`` if it is unknown."""
    return _batch_size(loader) if has_index(loader) else default


def joined_loaders(first: Any, second: Any) -> Any:
    """Join two loaders into one; it has an index if both have one."""
    if has_index(first) and has_index(second):
        return DataLoader(
            ConcatDataset([first.dataset, second.dataset]),
            batch_size=_batch_size(first),
            collate_fn=first.collate_fn,
            num_workers=first.num_workers,
        )
    return _Chain(first, second)


class _Chain:
    """Two loaders, one after the other, which can be iterated repeatedly."""

    def __init__(self, *loaders: Any) -> None:
        self.loaders = loaders

    def __iter__(self) -> Iterator[Any]:
        for loader in self.loaders:
            yield from loader


def sampled_mass(loader: Any, targets: Tensor, size: int) -> Tensor | None:
    """Return the class frequencies that a weighted sampler draws, or None if all rows are drawn equally often."""
    sampler = getattr(loader, "sampler", None)
    if not isinstance(sampler, WeightedRandomSampler) or targets.dim() > 1:
        return None
    chance = torch.as_tensor(sampler.weights).double()
    if len(chance) != len(targets):
        return None
    mass = torch.zeros(size, dtype=torch.float64).index_add(0, targets, chance)
    return mass / mass.sum()


def in_groups(batches: Iterable[Any], size: int) -> Iterator[list[Any]]:
    """Group consecutive batches, ``size`` at a time; the last group may be smaller."""
    iterator = iter(batches)
    while group := list(islice(iterator, size)):
        yield group
