"""Steps one and three of a loss: tables of the logits, and the gradient back from the tables.

``soft_tables`` is one function of the logits. Its definition in plain PyTorch works everywhere. Where a fast version
of the two passes applies (``kernels``), it is one node of the graph.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd import forward_ad

from eastward import _checks
from eastward._numerics import at_least_float32
from eastward._prior_weights import masked_labels, weights_of_prior, weights_of_rates
from eastward.kernels.choice import kernel_for
from eastward.kernels.problems import BAD_LABEL, FINE, Kernel, Problem, Samples
from eastward.losses._batches import Batch
from eastward.losses._definition import Terms, defined_tables, in_units, unit_of, wide_table
from eastward.protocols import Reduce
from eastward.steps import STEPS

__all__ = ["WHY_DEFINITION", "Passes", "Ways", "soft_tables"]

# If the largest weight is in this range, the weights need not be scaled.
ORDINARY_WEIGHTS = (1e-10, 1e10)

# A value that is never a label.
_NOTHING_IGNORED = -(2**63)


def _learns(value: Any) -> bool:
    return isinstance(value, Tensor) and value.requires_grad


def _is_plain(tensor: Tensor | None) -> bool:
    return tensor is None or (type(tensor) in (Tensor, nn.Parameter) and _checks.has_memory(tensor))


# Cases that the fast versions cannot handle. The first two depend on the options of a loss, the others on the batch
# (never on an ordinary one, see is_ordinary). The fast versions handle everything else.
WHY_DEFINITION: dict[str, Callable[[Any], bool]] = {
    "a step other than the linear one": lambda terms: terms.step is not STEPS["linear"],
    "a prior that requires a gradient": lambda terms: _learns(terms.prior),
    "double precision": lambda batch: batch.logits.dtype == torch.float64,
    "a tensor subclass, or a tensor inside torch.func": lambda batch: (
        not all(_is_plain(part) for part in batch)
    ),
    "forward-mode differentiation": lambda batch: (
        forward_ad.unpack_dual(batch.logits).tangent is not None
    ),
    "weights that require a gradient": lambda batch: _learns(batch.sample_weight),
}
_OF_OPTIONS, _OF_BATCHES = tuple(WHY_DEFINITION.values())[:2], tuple(WHY_DEFINITION.values())[2:]


class Ways:
    """The kernels of one loss, chosen once for each kind of problem and device.

    Parameters
    ----------
    terms : Terms
        The options of the loss.
    """

    def __init__(self, terms: Terms) -> None:
        self.terms = terms
        self._by_definition = any(asked(terms) for asked in _OF_OPTIONS)
        self._pair, self._many = "pair", "top2" if terms.thresholds is None else "fixed"
        if terms.multilabel:
            self._pair = self._many = "labels"
        self._kernels: dict[tuple[str, str], Kernel | None] = {}
        self._problem: Problem | None = None

    def passes(
        self,
        batch: Batch,
        temperature: Tensor | float,
        reduce: Reduce | None = None,
        check: Callable[[], object] | None = None,
        *,
        ordinary: bool = False,
    ) -> Passes | None:
        """Return both passes over a batch by a kernel, or None where the definition is used.

        Parameters
        ----------
        batch : Batch
            Logits ``(N, C)``, targets ``(N,)`` or ``(N, L)``, weights of the targets' shape. Or K groups of them,
            ``(K, N, C)`` and so on.
        temperature : Tensor or float
            Temperature of the step.
        reduce : callable, optional
            Sum over processes of the masses of classes, which a prior needs.
        check : callable, optional
            Checks every value and raises a clear error; called when a pass found something wrong.
        ordinary : bool, default=False
            Whether the batch is known to be ordinary.
        """
        if self._by_definition or not (ordinary or _is_known(batch, temperature)):
            return None
        kind = self._pair if batch.logits.shape[-1] <= 2 else self._many
        place = ("cpu" if ordinary else batch.logits.device.type, kind)
        if place not in self._kernels:
            self._kernels[place] = kernel_for(*place)
        kernel = self._kernels[place]
        if kernel is None:
            return None
        problem, number, check_values = self._problem, float(temperature), check is not None
        if problem is None or (problem.kind, problem.temperature, problem.check_values) != (
            kind,
            number,
            check_values,
        ):
            # The problem stays valid until the temperature changes.
            self._problem = problem = self._new_problem(kind, number, check_values=check_values)
        return Passes(kernel, problem, batch, self.terms, reduce, check)

    def _new_problem(self, kind: str, temperature: float, *, check_values: bool) -> Problem:
        terms = self.terms
        return Problem(
            kind,
            terms.thresholds or (0.5,),
            temperature,
            terms.detach_threshold,
            terms.metric.needs_matrix and kind != "labels",
            _NOTHING_IGNORED if terms.ignore_index is None else terms.ignore_index,
            check_values,
        )


def _is_known(batch: Batch, temperature: Tensor | float) -> bool:
    """Whether the fast versions can handle the batch."""
    if torch.compiler.is_compiling() or _learns(temperature):
        return False
    return not any(asked(batch) for asked in _OF_BATCHES)


def soft_tables(
    passes: Passes | None,
    batch: Batch,
    terms: Terms,
    temperature: Tensor | float,
    reduce: Reduce | None = None,
) -> Tensor:
    """Compute tables ``(G, C, C)`` or ``(G, 4, C)``, differentiable in the logits; ``(K, G, ...)`` for K groups.

    Uses the passes of this batch, or the definition if they are None.
    """
    if passes is None:
        return _defined(batch, terms, temperature, reduce)
    if batch.logits.requires_grad and torch.is_grad_enabled():
        tables: Tensor = _Tables.apply(batch.logits, passes)  # type: ignore[no-untyped-call]  # torch has no types here
        return tables
    return torch.as_tensor(passes.tables())


def _defined(
    batch: Batch, terms: Terms, temperature: Tensor | float, reduce: Reduce | None
) -> Tensor:
    if batch.logits.dim() == 2:
        return defined_tables(batch, terms, temperature, reduce)
    weights = batch.sample_weight
    rows = [None] * len(batch.logits) if weights is None else list(weights)
    groups = zip(batch.logits, batch.targets, rows, strict=True)
    return torch.stack(
        [defined_tables(Batch(*group), terms, temperature, reduce) for group in groups]
    )


class Passes:
    """Both passes over the logits of one batch, computed by a kernel; see :meth:`Ways.passes`."""

    def __init__(
        self,
        kernel: Kernel,
        problem: Problem,
        batch: Batch,
        terms: Terms,
        reduce: Reduce | None,
        check: Callable[[], object] | None,
    ) -> None:
        self.kernel, self.problem, self.check = kernel, problem, check
        self.dtype = batch.logits.dtype
        self._batch = (batch.targets, batch.sample_weight, terms, reduce)
        labels = _labels(batch.targets, problem.ignored)
        weights, self.unit = None, None
        if batch.sample_weight is not None or terms.prior is not None:
            weights, self.unit = _weights(batch, labels, terms, reduce)
        self.samples: Samples | None = Samples(_as_float32(batch.logits.detach()), labels, weights)
        self._kept: Any = None

    def tables(self, *, keep: bool = False) -> Tensor | np.ndarray:
        """Run step one; with ``keep``, also store what step three can reuse."""
        samples: Any = self.samples
        tables, wrong, self._kept = self.kernel.tables(self.problem, samples, keep=keep)
        if wrong != FINE:
            self._complain(wrong)
        if self.unit is None:
            return tables
        return tables * (self.unit if isinstance(tables, Tensor) else self.unit.numpy())

    def _complain(self, wrong: int) -> None:
        if self.check is not None:
            self.check()
        if wrong == BAD_LABEL and self.samples is not None:
            low, high = self.samples.labels.aminmax()
            raise IndexError(f"labels lie in [{int(low)}, {int(high)}], outside the classes")

    def kept(self) -> tuple[Tensor | None, ...]:
        """Return what the backward pass needs besides the logits; autograd notices if it is changed in place.

        These are labels and weights as the passes read them, and those of the user, if they are other tensors.
        """
        samples, self.samples = self.samples, None
        if samples is None:
            return ()
        read = samples.labels, samples.weights
        given = self._batch[:2]
        if given[0] is read[0] and given[1] is None:
            return read
        others = [
            None if one is own or one is None or one.is_inference() else one
            for one, own in zip(given, read, strict=True)
        ]
        return (*read, *others)

    def pullback(
        self, logits: Tensor, kept: tuple[Any, ...], slopes: Any, factors: Tensor | float = 1.0
    ) -> Tensor:
        """Run step three: the gradient at the logits, given the gradient at the tables."""
        if self.unit is not None:
            factors = factors * self.unit.reshape(self.unit.shape[:-3])
        # The kept values may be overwritten by the gradient, so a second backward pass starts from the logits.
        left, self._kept = self._kept, None
        labels, weights = kept[:2]
        # One expression, because this code is cold in a training step (decision 27).
        if not (
            logits.data_ptr()
            and labels.data_ptr()
            and labels.dtype is torch.int64
            and labels.is_contiguous()
            and (
                weights is None
                or (
                    weights.data_ptr()
                    and weights.dtype is torch.float32
                    and weights.is_contiguous()
                )
            )
        ):
            labels, weights = self._found_again(logits, labels, weights)
        samples = Samples(_as_float32(logits), labels, weights)
        found: Tensor = self.kernel.pullback(self.problem, samples, slopes, factors, left)
        return found if found.dtype == self.dtype else found.to(self.dtype)

    def _found_again(
        self, logits: Tensor, labels: Tensor, weights: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        """Check the memory of saved tensors, and bring back the layout that hooks on them may have changed."""
        if not all(one is None or _checks.has_memory(one) for one in (logits, labels, weights)):
            raise RuntimeError(
                "logits, targets and weights must keep their memory until the backward pass; the storage of one of "
                "them was resized to 0. Resize it after the backward pass."
            )
        weights = None if weights is None else _as_float32(weights)
        return _labels(labels, self.problem.ignored), weights

    def again(self, logits: Tensor) -> Tensor:
        """Run step one by the definition, which can be differentiated any number of times."""
        targets, weights, terms, reduce = self._batch
        return _defined(Batch(logits, targets, weights), terms, self.problem.temperature, reduce)


def _as_float32(logits: Tensor) -> Tensor:
    if logits.dtype == torch.float32 and logits.is_contiguous() and not logits.is_neg():
        return logits
    return logits.float().resolve_neg().contiguous()


class _Tables(torch.autograd.Function):
    """Steps one and three as one node of the graph."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, passes: Passes) -> Tensor:
        tables = torch.as_tensor(passes.tables(keep=True))
        ctx.passes = passes
        ctx.save_for_backward(logits, *passes.kept())
        return tables

    @staticmethod
    def backward(ctx: Any, slopes: Tensor) -> tuple[Tensor, None]:
        logits, *kept = ctx.saved_tensors
        if torch.is_grad_enabled():
            # The gradient will be differentiated again, which only the definition supports.
            tables = ctx.passes.again(logits)
            (found,) = torch.autograd.grad(tables, logits, slopes, create_graph=True)
            return found, None
        return ctx.passes.pullback(logits, kept, slopes.contiguous()), None


def _labels(targets: Tensor, ignored: int) -> Tensor:
    """Convert targets to int64; indicators may have another dtype."""
    if targets.dtype == torch.int64 and targets.is_contiguous() and not targets.is_neg():
        return targets
    targets = targets.detach().resolve_neg()
    if targets.is_floating_point():
        return torch.where(targets == ignored, ignored, (targets == 1).long())
    return targets.long().contiguous()


def _are_ordinary(weights: Tensor) -> bool:
    """Whether sums of these weights neither overflow nor vanish; reading them is cheap on a CPU only."""
    low, high = ORDINARY_WEIGHTS
    return weights.is_cpu and weights.numel() > 0 and low <= float(weights.max()) <= high


def _weights(
    batch: Batch, labels: Tensor, terms: Terms, reduce: Reduce | None
) -> tuple[Tensor | None, Tensor | None]:
    """Return float32 weights that include the prior, and their unit ``([K,] 1, 1, 1)``."""
    weights, unit = batch.sample_weight, None
    # Each group of samples has its own unit.
    groups = batch.logits.dim() - 2
    if weights is not None and terms.prior is None and not groups and _are_ordinary(weights):
        return weights.detach().resolve_neg().float().contiguous(), None
    if weights is not None:
        weights = at_least_float32(weights.detach().resolve_neg())
        unit = unit_of(weights, tuple(range(groups, weights.dim())))
        unit = unit.reshape(*unit.shape, *[1] * (weights.dim() - groups))
        weights = (weights / unit).float()
    if terms.prior is None and weights is not None and unit is not None:
        return weights.contiguous(), wide_table(unit).reshape(*weights.shape[:groups], 1, 1, 1)
    if weights is None:
        weights = torch.ones_like(labels, dtype=torch.float32)
    labels, weights = masked_labels(labels, weights, terms.ignore_index)
    if terms.multilabel:
        sums = in_units(reduce, None if unit is None else unit.unsqueeze(-1))
        return weights_of_rates(labels.to(weights.dtype), weights, terms.prior, sums), None
    sums = in_units(reduce, unit)
    size = max(batch.logits.shape[-1], 2)
    # A tensor is the prior of a loss object, which has checked it; anything else comes from a caller.
    check_values = not isinstance(terms.prior, Tensor)
    return weights_of_prior(
        labels, weights, terms.prior, size, sums, check_values=check_values
    ), None
