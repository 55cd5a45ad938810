"""The exact full-batch gradient from micro-batches, in two passes.

The mean of F1 over micro-batches is not F1. But the table C is a sum over samples, so a first pass without gradient
gives its value and the slope ``K = dL/dC``. The gradient of the whole is then the sum of the gradients of
``<K, C_b>`` over the micro-batches, which a second pass computes.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from eastward import _checks
from eastward._random_numbers import turn
from eastward.distributed import agree_on_classes, resolve_reduce
from eastward.losses.modules import EASTLoss
from eastward.protocols import Reduce, Scalar

__all__ = ["BATCH_NORMS", "exact_backward"]

BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)


def exact_backward(
    loss: EASTLoss,
    model: Callable[[Any], Tensor],
    micro_batches: Iterable[Sequence[Any]],
    *,
    chunk_rows: int | None = None,
    backward: Callable[[Tensor], None] = torch.autograd.backward,
) -> Scalar:
    r"""Compute the gradient of one large batch from micro-batches, with the memory of one micro-batch.

    .. math:: \nabla_\theta L\Big(\sum_b C_b\Big) = \sum_b \nabla_\theta \langle K, C_b \rangle,
              \qquad K = \frac{\partial L}{\partial C} \quad \text{at } \sum_b C_b

    Parameters
    ----------
    loss : EASTLoss
        The loss. It must not use ``running``, an approximation that this function replaces.
    model : Module or callable
        Maps inputs to logits. Gradients are added to its parameters' ``.grad``, as ``backward()`` does.
    micro_batches : iterable of (inputs, targets) or (inputs, targets, sample_weight)
        The parts of the large batch, of any sizes. They are stored in a list.
    chunk_rows : int, optional
        Cut every micro-batch into pieces of at most this many rows, which pass through the network one by one. The
        batches of a loader can then have any size. Inputs must be tensors, or dictionaries of tensors.
    backward : callable, default=torch.autograd.backward
        Runs the backward pass of one micro-batch, for frameworks that call it themselves:
        ``lambda share: scaler.scale(share).backward()``, ``fabric.backward``.

    Returns
    -------
    Tensor
        0-d, detached: the loss of the full batch.

    Notes
    -----
    Dropout uses the same random numbers in both passes. Batch norm in training mode normalises each micro-batch on its
    own, so the network differs from one that sees all rows at once. A warning says so: put batch norm in evaluation
    mode, or use another norm. Its running statistics are updated once, in the second pass. Inside a process group the
    tables are summed over processes, and under DistributedDataParallel gradients are synchronised once, in the last
    micro-batch.

    Examples
    --------
    >>> import torch
    >>> model, loss = torch.nn.Linear(4, 3), EASTLoss("f1_macro")
    >>> X, y = torch.randn(64, 4), torch.randint(3, (64,))
    >>> value = exact_backward(loss, model, zip(X.split(16), y.split(16)))
    >>> torch.allclose(value, loss(model(X), y))
    True
    """
    batches = _as_batches(micro_batches)
    _check(loss, model, batches)
    if chunk_rows is not None:
        batches = _chunks(batches, chunk_rows)
    across = resolve_reduce(loss.process_group)
    totals = _class_totals(loss, batches, across)
    tables, states, dtype = _summed_tables(loss, model, batches, totals)
    if across is not None:
        agree_on_classes("exact_backward", tables[0], across)
        tables = across(tables)
    tables = tables.detach().requires_grad_()
    value = loss.loss_at(tables, dtype=dtype)
    (slope,) = torch.autograd.grad(value, tables)
    # DistributedDataParallel averages over processes, but the gradient of the whole is their sum.
    slope = slope * (dist.get_world_size(_group(loss)) if across is not None else 1)
    for index, (batch, state) in enumerate(zip(batches, states, strict=True)):
        last = index == len(batches) - 1
        with turn(), torch.random.fork_rng(), _unsynchronised(model, last=last):
            restore_random_state(state)
            part, logits = _tables(loss, model, batch, totals)
            _check_graph(loss, logits, part)
            backward((part * slope).sum().to(dtype))
    return value.detach()


def _summed_tables(
    loss: EASTLoss, model: Any, batches: list[tuple[Any, ...]], totals: Reduce | None
) -> tuple[Tensor, list[Any], torch.dtype]:
    """Run the first pass: the total table, the random state before each micro-batch, the dtype of the loss."""
    states, total, dtype = [], None, torch.float32
    with torch.no_grad(), still_statistics(model):
        for batch in batches:
            with (
                turn()
            ):  # numbers that another thread drew in between would be missing in the second pass
                states.append(random_state())
                part, logits = _tables(loss, model, batch, totals)
            dtype = torch.float64 if logits.dtype == torch.float64 else torch.float32
            total = part if total is None else total + part
    if total is None:
        _checks.fail("exact_backward", "micro_batches", "at least one", "none")
    return total, states, dtype


def _tables(
    loss: EASTLoss, model: Any, batch: tuple[Any, ...], totals: Reduce | None
) -> tuple[Tensor, Tensor]:
    """Compute the tables and the logits of one micro-batch."""
    inputs, targets, *weight = batch
    logits = model(inputs)
    tables = loss.wide_tables((logits, targets, weight[0] if weight else None), reduce=totals)
    return tables, logits


def _class_totals(
    loss: EASTLoss, batches: list[tuple[Any, ...]], across: Reduce | None
) -> Reduce | None:
    """Compute the class totals of all micro-batches, which a prior needs before the first pass.

    The loss obtains them from its sum over processes; here that sum also includes all micro-batches.
    """
    if not isinstance(loss.prior, Tensor):
        return None
    seen: list[Tensor] = []

    def note(table: Tensor) -> Tensor:
        seen.append(table)
        return table

    for _, targets, *weight in batches:
        shape = (len(targets), loss.prior.numel(), *targets.shape[2 if loss.multilabel else 1 :])
        blank = torch.zeros(shape, dtype=torch.float64, device=targets.device)
        loss.wide_tables((blank, targets, weight[0] if weight else None), reduce=note)
    total = torch.stack(seen).sum(0)
    total = across(total) if across is not None else total

    def known(table: Tensor) -> Tensor:
        return total.to(table).reshape(table.shape)

    return known


def _as_batches(micro_batches: object) -> list[tuple[Any, ...]]:
    expected = "pairs (inputs, targets) or triples with sample_weight"
    if not isinstance(micro_batches, Iterable) or isinstance(micro_batches, (str, Tensor)):
        got = _checks.describe(micro_batches)
        _checks.fail("exact_backward", "micro_batches", expected, got, error=TypeError)
    batches = list(micro_batches)
    for batch in batches:
        if not isinstance(batch, (tuple, list)) or len(batch) not in (2, 3):
            got = _checks.describe(batch)
            advice = "Use for example zip(X.split(64), y.split(64))."
            _checks.fail("exact_backward", "micro_batches", expected, got, advice, error=TypeError)
    return [tuple(batch) for batch in batches]


def _check(loss: object, model: object, batches: list[tuple[Any, ...]]) -> None:
    if not isinstance(loss, EASTLoss):
        got = _checks.describe(loss)
        _checks.fail("exact_backward", "loss", "an EASTLoss", got, error=TypeError)
    if loss.running is not None:
        advice = "Leave running=None: two passes need no decayed table."
        _checks.fail("exact_backward", "loss", "without running", f"{loss.running}", advice)
    if not callable(model):
        expected, got = "a module or a function from inputs to logits", _checks.describe(model)
        _checks.fail("exact_backward", "model", expected, got, error=TypeError)
    if isinstance(model, nn.Module) and not any(p.requires_grad for p in model.parameters()):
        _refuse_model("one without trainable parameters")
    if not batches:
        _checks.fail("exact_backward", "micro_batches", "at least one", "none")
    if normalises_batches(model):
        warnings.warn(
            "batch norm in training mode normalises each micro-batch by itself, so that the network differs from one "
            "that sees all rows at once; call .eval() on those layers, or use group norm",
            stacklevel=3,
        )


def _check_graph(loss: EASTLoss, logits: Tensor, tables: Tensor) -> None:
    """Check that a gradient can flow from the tables to the model."""
    if not logits.requires_grad:
        _refuse_model("one whose logits have no gradient")
    if not tables.requires_grad:
        advice = "Train with step='linear'; step='hard' is the metric itself."
        got = f"one with step={loss.step!r}, which has no gradient"
        _checks.fail("exact_backward", "loss", "differentiable", got, advice)


def _refuse_model(got: str) -> None:
    advice = "Nothing would receive a gradient: unfreeze some parameters, or call the loss alone."
    _checks.fail("exact_backward", "model", "trainable", got, advice)


def _group(loss: EASTLoss) -> Any:
    return None if isinstance(loss.process_group, str) else loss.process_group


def _unsynchronised(model: Any, *, last: bool) -> Any:
    no_sync = getattr(model, "no_sync", None)
    return nullcontext() if last or no_sync is None else no_sync()


def _chunks(batches: list[tuple[Any, ...]], rows: int) -> list[tuple[Any, ...]]:
    """Cut micro-batches into pieces of at most ``rows`` rows."""
    _checks.whole_number("exact_backward", "chunk_rows", rows, at_least=1)
    pieces = []
    for inputs, *others in batches:
        for start in range(0, len(others[0]), rows):
            part = slice(start, start + rows)
            cut = (
                {name: value[part] for name, value in inputs.items()}
                if isinstance(inputs, dict)
                else inputs[part]
            )
            pieces.append((cut, *(None if other is None else other[part] for other in others)))
    return pieces


def _batch_norms(model: object) -> list[Any]:
    modules = model.modules() if isinstance(model, nn.Module) else ()
    return [module for module in modules if isinstance(module, BATCH_NORMS) and module.training]


def normalises_batches(model: object) -> bool:
    """Whether the network's output for a row depends on the other rows of its batch."""
    return bool(_batch_norms(model))


@contextmanager
def still_statistics(model: object) -> Iterator[None]:
    """Freeze the running statistics of batch norm; the second pass will update them."""
    norms = _batch_norms(model)
    kept = [(norm.track_running_stats, norm.running_mean, norm.running_var) for norm in norms]
    for norm in norms:
        norm.track_running_stats, norm.running_mean, norm.running_var = False, None, None
    try:
        yield
    finally:
        for norm, (tracks, mean, variance) in zip(norms, kept, strict=True):
            norm.track_running_stats, norm.running_mean, norm.running_var = tracks, mean, variance


def random_state() -> Any:
    """Save the state of torch's random generators."""
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else None
    return torch.get_rng_state(), cuda


def restore_random_state(state: Any) -> None:
    """Restore a saved state of the random generators."""
    torch.set_rng_state(state[0])
    if state[1] is not None:
        torch.cuda.set_rng_state_all(state[1])
