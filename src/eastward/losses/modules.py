"""The metric as a loss module, which can remember past batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from eastward import _checks
from eastward.distributed import resolve_reduce
from eastward.losses._at_table import prepare_metric
from eastward.losses._batches import prepare_batch
from eastward.losses._definition import Terms
from eastward.losses._loss import Between, Steps, check_length
from eastward.losses._module import LossModule, new_buffer
from eastward.losses.multipliers import Multipliers
from eastward.metrics import Metric
from eastward.protocols import Logits, Reduce, Scalar, Step, Targets
from eastward.steps import resolve_step

__all__ = ["EASTLoss"]


class EASTLoss(LossModule):
    r"""Any confusion-matrix metric as a training loss (Evaluation Aligned Surrogate Training).

    The loss is one minus the metric of a soft confusion matrix, so gradient descent raises that metric. Use it
    instead of ``torch.nn.CrossEntropyLoss()``, preferably on a network that cross-entropy has trained.
    :func:`metric_loss` computes the same loss as a function.

    Parameters
    ----------
    metric : str, Metric or callable, default="f1_macro"
        What to optimise: a name from :func:`eastward.metrics.names`, or any function from a confusion matrix (rows
        true, columns predicted) to a 0-d tensor.
    temperature : float, default=0.2
        Width of the soft step, in (0, 0.4]. A lower temperature is closer to the metric and harder to train on.
    threshold : "top2", float or sequence of float, default="top2"
        Where the soft step lies. "top2": halfway between the two largest probabilities of each sample; 0.5 for a
        single logit and for labels. A number fixes it; the loss averages over a sequence.
    step : {"linear", "sigmoid", "hard"} or callable, default="linear"
        Shape of the soft step. "hard" gives the metric itself, without a gradient.
    detach_threshold : bool, default=False
        Send no gradient through the "top2" threshold.
    prior : sequence of float, optional
        Class frequencies that the metric is meant for, if your batches have others (stratified or resampled ones).
    absent : {"skip", "observed", "zero", "one"}, optional
        How macro averages treat a class without true samples in the batch. "skip" leaves it out; "observed" counts it
        if it was predicted, as scikit-learn does; "zero" and "one" give it that value. None uses the metric's own
        setting, as in ``metrics.get("f1_macro", absent="zero")``, or "skip" if it has none.
    multilabel : bool, default=False
        Columns are labels that do not exclude each other.
    ignore_index : int or None, default=-100
        Samples with this target are left out.
    running : float, optional
        Decay in [0, 1) of a running table, for batches too small to estimate the metric. The metric and its
        derivative are taken at the decayed sum of past tables, scaled to the mass of one batch. The gradient flows
        through the current batch. The running table changes in training mode only.
    process_group : "auto", None or ProcessGroup, default="auto"
        Sum the table over the processes of a ``torch.distributed`` job, so that the averaged gradient is that of
        one process with all the data. None turns it off.
    check_inputs : bool, default=True
        Check values as well as types and shapes: NaN, labels out of range. False saves the time of these checks.
    subject_to : str or sequence of str, optional
        Constraints such as ``"recall[1] >= 0.9"``, with classes by index. You can bound any metric of one class
        (``recall``, ``precision``, ``specificity`` ...), ``predicted_rate``, or a metric of all classes. The loss
        becomes :math:`1 - M - \sum_k \lambda_k (g_k - b_k)`. The multipliers :math:`\lambda_k` grow while the
        decisions of the last batches violate a constraint, and shrink when there is room (Cotter et al. 2019). They
        change with every call in training mode.
    multiplier_rate : float, default=0.05
        How far a multiplier moves in one batch, per unit of violation.

    Attributes
    ----------
    temperature : Tensor
        A 0-d buffer: it moves with ``.to()`` and is saved in ``state_dict``. Assign a number to cool.
    running_tables : Tensor or None
        The decayed tables; None without ``running``.
    asked : Multipliers or None
        The constraints of ``subject_to``; their multipliers are the buffer ``asked.values``.

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
        absent: str | None = None,
        multilabel: bool = False,
        ignore_index: int | None = -100,
        process_group: Any = "auto",
        check_inputs: bool = True,
        subject_to: Any = None,
        multiplier_rate: float = 0.05,
    ) -> None:
        super().__init__(temperature)
        caller = "EASTLoss"
        self.metric, self.absent = prepare_metric(caller, metric, absent)
        self.thresholds = _checks.thresholds(caller, threshold)
        resolve_step(step, caller=caller)
        self.step = step
        self.detach_threshold = _checks.boolean(caller, "detach_threshold", detach_threshold)
        self.multilabel = _checks.boolean(caller, "multilabel", multilabel)
        self.ignore_index = _checks.ignore_index(caller, ignore_index)
        self.running = None if running is None else _checks.decay(caller, "running", running)
        resolve_reduce(process_group, caller=caller)
        self.process_group = process_group
        self.check_inputs = _checks.boolean(caller, "check_inputs", check_inputs)
        self.asked: Multipliers | None = None
        if subject_to is not None:
            if self.multilabel:
                _checks.fail(caller, "subject_to", "None with multilabel=True", repr(subject_to))
            rate = _checks.positive(caller, "multiplier_rate", multiplier_rate)
            self.asked = Multipliers(subject_to, rate)
        if prior is not None:
            prior = _checks.prior(caller, prior, None, sums_to_one=not multilabel).float()
        self.register_buffer("prior", new_buffer(prior), persistent=False)
        self.register_buffer(
            "running_tables", None if running is None else new_buffer(torch.empty(0))
        )

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name != "running_tables":
            self.__dict__.pop("_known_steps", None)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)  # type: ignore[no-untyped-call]  # torch has no types here
        if "asked" not in self.__dict__ and "asked" not in self._modules:
            self.asked = None  # pickled before a loss could have constraints

    def forward(
        self, logits: Logits, targets: Targets, sample_weight: Tensor | None = None
    ) -> Scalar:
        """Compute the loss of one batch.

        Parameters
        ----------
        logits : Tensor
            ``(N, C)`` or ``(N, C, ...)`` for classes, ``(N,)`` or ``(N, 1)`` for a single logit, ``(N, L)`` for
            labels. Logits, never probabilities.
        targets : Tensor
            Class indices ``(N, ...)``; zeros and ones for a single logit or labels.
        sample_weight : Tensor, optional
            Weights ``(N,)``, or of the targets' shape. Weight two counts a sample twice.

        Returns
        -------
        Tensor
            One minus the metric; the value itself for a metric where lower is better. 0-d.
        """
        if self.asked is not None and self.training:
            given = (logits.detach(), targets, sample_weight)
            batch = prepare_batch("EASTLoss", *given, False, self.ignore_index, self.check_inputs)
            if self.prior is not None:
                check_length("EASTLoss", self.prior, batch.logits, multilabel=False)
            self.asked.update(
                batch,
                prior=self.prior,
                ignore_index=self.ignore_index,
                reduce=self.sum_over_processes(logits),
            )
        return self._steps().loss(
            "EASTLoss",
            (logits, targets, sample_weight),
            self.temperature,
            Between(
                self.sum_over_processes(logits), None if self.running is None else self._anchor
            ),
            check_inputs=self.check_inputs,
        )

    def _steps(self) -> Steps:
        """Return the three steps with these options, rebuilt when an attribute is set or the prior moves."""
        known: Steps | None = self.__dict__.get("_known_steps")
        if known is not None and (known.terms.prior is None or known.terms.prior is self.prior):
            return known
        terms = Terms(
            self.metric if self.asked is None else self.asked.added_to(self.metric),
            self.thresholds,
            resolve_step(self.step),
            self.detach_threshold,
            self.prior,
            self.absent == "skip",
            self.multilabel,
            self.ignore_index,
        )
        self.__dict__["_known_steps"] = steps = Steps(terms)
        return steps

    def tables(
        self,
        logits: Logits,
        targets: Targets,
        sample_weight: Tensor | None = None,
        *,
        reduce: Reduce | None = None,
    ) -> Tensor:
        """Compute the soft tables of one batch; they add up over batches.

        Parameters
        ----------
        logits : Tensor
            ``(N, C)`` or ``(N, C, ...)`` for classes, ``(N,)`` or ``(N, 1)`` for a single logit, ``(N, L)`` for labels.
        targets : Tensor
            Class indices ``(N, ...)``; zeros and ones for a single logit or labels.
        sample_weight : Tensor, optional
            Weights ``(N,)``, or of the targets' shape.
        reduce : callable, optional
            Function that sums the masses of classes over processes, which only a prior needs.

        Returns
        -------
        Tensor
            One table for each of G thresholds: matrices ``(G, C, C)`` if the metric needs them, otherwise counts
            ``(G, 4, C)`` (tp, fp, fn, tn).
        """
        tables = self.wide_tables((logits, targets, sample_weight), reduce=reduce)
        return tables.to(torch.float64 if logits.dtype == torch.float64 else torch.float32)

    def wide_tables(self, given: tuple[Any, Any, Any], *, reduce: Reduce | None = None) -> Tensor:
        """Compute :meth:`tables` in float64, where sums of many batches keep their digits.

        Parameters
        ----------
        given : tuple
            Logits, targets, and weights or None.
        reduce : callable, optional
            Function that sums the masses of classes over processes, which only a prior needs.

        Returns
        -------
        Tensor
            ``(G, C, C)`` or ``(G, 4, C)``, on devices that have float64.
        """
        return self._steps().tables(
            "EASTLoss", given, self.temperature, reduce=reduce, check_inputs=self.check_inputs
        )

    def loss_at(self, tables: Tensor, *, dtype: torch.dtype | None = None) -> Scalar:
        """Compute the loss from the tables of a batch, or of many batches together.

        Parameters
        ----------
        tables : Tensor
            Tables as :meth:`tables` returns them.
        dtype : torch.dtype, optional
            Dtype of the computation; by default that of the tables.

        Returns
        -------
        Tensor
            The loss, 0-d.
        """
        wanted = tables.dtype if dtype is None else dtype
        return self._steps().at_table(tables, dtype=wanted, warn=self.check_inputs)

    def _anchor(self, now: Tensor, dtype: torch.dtype) -> Tensor:
        """Return the decayed sum, where value and derivative are taken; the gradient flows through ``now``."""
        past = self.running_tables
        if past is None or past.shape != now.shape:
            past = torch.zeros_like(now)
        mixed = (self.running or 0.0) * past.to(now) + now
        if self.training:
            self.running_tables = new_buffer(mixed.to(dtype))
        # Scaled to the mass of this batch, the derivative is as large as without history.
        return mixed * (now.sum() / mixed.sum().clamp_min(torch.finfo(mixed.dtype).tiny))

    def reset_running(self) -> None:
        """Forget the tables of past batches."""
        if self.running is not None:
            self.running_tables = new_buffer(torch.empty(0, device=self.temperature.device))

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        # The size of the running tables depends on the number of classes, known only after the first batch.
        saved = state_dict.get(prefix + "running_tables")
        if saved is not None and self.running_tables is not None:
            self.running_tables = torch.empty_like(saved, device=self.running_tables.device)
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def extra_repr(self) -> str:
        """Describe the loss in a printed model."""
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
        if self.asked is not None:
            parts.append(f"subject_to={', '.join(self.asked.texts)!r}")
        return ", ".join(parts)
