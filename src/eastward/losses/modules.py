"""The metric as a loss, as a module with the memory that a loss may need."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from eastward import _checks
from eastward.distributed import resolve_reduce
from eastward.losses._batches import prepare_batch
from eastward.losses._definition import Terms
from eastward.losses._fused import loss_of_batch
from eastward.losses._tables import loss_of_tables, prepare_metric, soft_tables
from eastward.losses._temperature import as_temperature
from eastward.metrics import Metric
from eastward.protocols import Logits, Reduce, Scalar, Step, Targets
from eastward.steps import resolve_step

__all__ = ["EASTLoss"]


class EASTLoss(nn.Module):
    r"""Any confusion-matrix metric as a training loss (Evaluation Aligned Surrogate Training).

    The module of :func:`metric_loss`, where the mathematics and the shapes are described. It adds what needs a
    memory: the current temperature, and the decayed table of past batches.

    Parameters
    ----------
    metric, temperature, threshold, step, detach_threshold, prior, absent, multilabel, ignore_index
        As in :func:`metric_loss`.
    running : float, optional
        Decay in [0, 1) of a running table, for batches too small to estimate the metric: the metric and its
        derivative are taken at the decayed sum of past tables (scaled to the mass of one batch), and the gradient
        flows through the current batch. Updated in training mode only.
    process_group : "auto", None or ProcessGroup, default="auto"
        Sum the table over the processes of a ``torch.distributed`` job, so that the averaged gradient is that of
        one process with all the data. None turns it off.
    check_inputs : bool, default=True
        Look at the values too (NaN, labels out of range); False saves the time.

    Attributes
    ----------
    temperature : Tensor
        A 0-d buffer: moves with ``.to()``, is saved in ``state_dict``; assign a number to cool.
    running_tables : Tensor or None
        The decayed tables, with ``running`` only.

    Examples
    --------
    >>> import torch
    >>> loss = EASTLoss("f1_macro")
    >>> logits = torch.randn(8, 3, requires_grad=True)
    >>> loss(logits, torch.randint(3, (8,))).backward()
    >>> loss.temperature = 0.1
    >>> loss
    EASTLoss('f1_macro', temperature=0.1)
    """

    temperature: Any
    running_tables: Tensor | None

    def __init__(
        self,
        metric: str | Metric | Callable[[Any], Tensor] = "f1_macro",
        *,
        temperature: float = 0.2,
        threshold: str | float | Sequence[float] = "top2",
        step: str | Step = "linear",
        detach_threshold: bool = False,
        prior: Any = None,
        running: float | None = None,
        absent: str = "skip",
        multilabel: bool = False,
        ignore_index: int | None = -100,
        process_group: Any = "auto",
        check_inputs: bool = True,
    ) -> None:
        super().__init__()
        caller = "EASTLoss"
        _checks.temperature(caller, temperature)
        self.metric = prepare_metric(caller, metric, absent)
        self.thresholds = _checks.thresholds(caller, threshold)
        resolve_step(step, caller=caller)
        self.step = step
        self.detach_threshold = bool(detach_threshold)
        self.absent = absent
        self.multilabel = bool(multilabel)
        self.ignore_index = _checks.ignore_index(caller, ignore_index)
        self.running = None if running is None else _checks.decay(caller, "running", running)
        self.process_group = process_group
        self.check_inputs = bool(check_inputs)
        resolve_reduce(process_group)
        given = (
            None
            if prior is None
            else _checks.prior(caller, prior, None, sums_to_one=not multilabel)
        )
        self.register_buffer("prior", None if given is None else given.float(), persistent=False)
        self.register_buffer("temperature", torch.tensor(float(temperature)))
        self.register_buffer("running_tables", None if running is None else torch.empty(0))

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, as_temperature(self, name, value))
        self.__dict__.pop("_known_terms", None)

    def forward(
        self, logits: Logits, targets: Targets, sample_weight: Tensor | None = None
    ) -> Scalar:
        """Loss of one batch; see :func:`metric_loss` for shapes."""
        reduce = resolve_reduce(self.process_group)
        anchor = None if self.running is None else self._anchor
        # As an attribute it would be asked for in Python, after a search in vain.
        temperature: Any = self._buffers["temperature"]
        terms, check = self._terms(), self.check_inputs
        given = (logits, targets, sample_weight)
        return loss_of_batch("EASTLoss", *given, terms, temperature, reduce, anchor, check)

    def _terms(self) -> Terms:
        """The options in one object; the same one until an attribute is set, or the prior moves to another device."""
        known: Terms | None = self.__dict__.get("_known_terms")
        prior = self._buffers["prior"]
        if known is not None and known.prior is prior:
            return known
        terms = Terms(
            self.metric,
            self.thresholds,
            resolve_step(self.step),
            self.detach_threshold,
            prior,
            self.absent == "skip",
            self.multilabel,
            self.ignore_index,
        )
        self.__dict__["_known_terms"] = terms
        return terms

    def tables(
        self,
        logits: Logits,
        targets: Targets,
        sample_weight: Tensor | None = None,
        *,
        reduce: Reduce | None = None,
    ) -> Tensor:
        """Soft tables of one batch, ``(G, C, C)`` or ``(G, 4, C)``; they add up over batches."""
        batch = prepare_batch(
            "EASTLoss",
            logits,
            targets,
            sample_weight,
            self.multilabel,
            self.ignore_index,
            self.check_inputs,
        )
        return soft_tables(
            batch,
            self.metric,
            temperature=self.temperature,
            thresholds=self.thresholds,
            step=resolve_step(self.step),
            detach_threshold=self.detach_threshold,
            prior=self.prior,
            multilabel=self.multilabel,
            ignore_index=self.ignore_index,
            reduce=reduce,
        )

    def loss_at(self, tables: Tensor) -> Scalar:
        """The loss as a function of the tables alone."""
        return loss_of_tables(
            tables,
            self.metric,
            virtual=self.absent == "skip",
            multilabel=self.multilabel,
            warn=self.check_inputs,
        )

    def _anchor(self, now: Tensor) -> Tensor:
        """Where value and derivative are taken: at the decayed sum; the gradient flows through ``now`` alone."""
        past = self.running_tables
        if past is None or past.shape != now.shape:
            past = torch.zeros_like(now)
        mixed = (self.running or 0.0) * past.to(now) + now
        if self.training:
            self.running_tables = mixed
        # Scaled to the mass of this batch, the derivative has the size it has without history.
        mass, mixed_mass = now.sum(), mixed.sum()
        return mixed * (mass / torch.where(mixed_mass > 0, mixed_mass, 1.0))

    def reset_running(self) -> None:
        """Forget the tables of past batches."""
        if self.running is not None:
            self.running_tables = torch.empty(0, device=self.temperature.device)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        # The running tables are as large as the number of classes, known only after the first batch.
        saved = state_dict.get(prefix + "running_tables")
        if saved is not None and self.running_tables is not None:
            self.running_tables = torch.empty_like(saved, device=self.running_tables.device)
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def extra_repr(self) -> str:
        """What distinguishes this loss in a printed model."""
        parts = [repr(self.metric.name), f"temperature={float(self.temperature):.3g}"]
        if self.thresholds is not None:
            parts.append(
                f"threshold={self.thresholds[0] if len(self.thresholds) == 1 else self.thresholds}"
            )
        if self.step != "linear":
            parts.append(f"step={self.step!r}")
        if self.running is not None:
            parts.append(f"running={self.running}")
        if self.absent != "skip":
            parts.append(f"absent={self.absent!r}")
        if self.multilabel:
            parts.append("multilabel=True")
        return ", ".join(parts)
