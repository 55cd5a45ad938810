"""Hugging Face's Trainer: the metric as ``compute_loss_func``, annealing, and ``compute_metrics``.

The Trainer does not divide the loss of ``compute_loss_func`` by the number of accumulation steps or processes. It
expects a *sum* over items, divided by ``num_items_in_batch``, the items of all micro-batches in all processes. A mean
would be too large by the number of steps, and again by the number of processes. Here each micro-batch counts by its
share of items.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from eastward import _checks
from eastward.alignment.batches import logits_in
from eastward.alignment.schedule import AlignmentSchedule, ScheduleRun
from eastward.annealing import PlateauCooling
from eastward.confusion import hard_confusion, multilabel_counts
from eastward.integrations._extras import missing_extra
from eastward.losses import EASTLoss
from eastward.metrics import Metric, as_metric
from eastward.protocols import Schedule

try:
    from transformers import TrainerCallback
except ModuleNotFoundError as error:
    raise missing_extra(__name__, error, "hf") from error

__all__ = ["AlignmentCallback", "AnnealingCallback", "MetricLoss", "compute_metrics", "metric_loss"]


class MetricLoss:
    """A ``compute_loss_func`` that holds an :class:`eastward.EASTLoss`; :func:`metric_loss` makes it.

    Attributes
    ----------
    loss : EASTLoss
        The loss of one micro-batch; assign ``loss.temperature`` to cool.

    Examples
    --------
    >>> loss_function = MetricLoss(EASTLoss("accuracy"))
    >>> loss_function.loss.temperature = 0.05
    >>> outputs = {"logits": torch.tensor([[9.0, 0.0], [0.0, 9.0]])}
    >>> round(float(loss_function(outputs, torch.tensor([0, 1]))), 2)
    0.0
    """

    def __init__(self, loss: EASTLoss) -> None:
        self.loss = loss

    def __call__(
        self, outputs: Any, labels: Tensor, num_items_in_batch: Tensor | int | None = None
    ) -> Tensor:
        """Compute the loss of one micro-batch, times its share of the optimiser step."""
        logits = class_second(_logits(outputs), labels, multilabel=self.loss.multilabel)
        if self.loss.temperature.device != logits.device:
            self.loss.to(logits.device)
        value: Tensor = self.loss(logits, labels)
        if num_items_in_batch is None:
            return value
        ignored = -100 if self.loss.ignore_index is None else self.loss.ignore_index
        items = labels.ne(ignored).sum()
        total = torch.as_tensor(num_items_in_batch, device=value.device).max()
        return value * (items / total.clamp_min(1)).to(value.dtype)


def metric_loss(
    metric: str | Metric | Callable[[Any], Tensor] = "f1_macro", **options: Any
) -> MetricLoss:
    r"""Make the metric a loss for ``Trainer(compute_loss_func=...)``, scaled as the Trainer expects.

    .. math:: \ell = \sum_b \frac{n_b}{N} \ell_b

    :math:`\ell_b` is the loss of micro-batch b over all processes, :math:`n_b` its items (labels that are not -100) and
    N those of the whole optimiser step.

    Parameters
    ----------
    metric : str, Metric or callable, default="f1_macro"
        A name from :func:`eastward.metrics.names`, or a callable from a confusion matrix to a 0-d tensor.
    **options
        Options of :class:`eastward.EASTLoss`; ``running=0.9`` helps if micro-batches are too small for the metric.

    Returns
    -------
    MetricLoss
        ``(outputs, labels, num_items_in_batch=None) -> loss``. Logits ``(N, C)`` of sequences or ``(N, L, C)`` of
        tokens; with ``multilabel=True`` indicators ``(N, L)``.

    Notes
    -----
    With several processes the confusion matrix is summed over them first, so the gradient is that of one process with
    all the data. Labels of -100 are left out.

    Examples
    --------
    >>> loss_function = metric_loss("f1_macro", temperature=0.1)
    >>> outputs = {"logits": torch.tensor([[2.0, 0.0], [0.0, 1.0], [1.0, 0.0]])}
    >>> whole = loss_function(outputs, torch.tensor([0, 1, 1]))
    >>> half = loss_function(outputs, torch.tensor([0, 1, 1]), num_items_in_batch=6)
    >>> bool(half == whole / 2)
    True
    """
    return MetricLoss(EASTLoss(metric, **options))


class AnnealingCallback(TrainerCallback):
    """A callback that sets the temperature of a loss by a schedule, and logs it.

    Parameters
    ----------
    loss : MetricLoss
        The loss that the Trainer trains with.
    schedule : callable or PlateauCooling
        ``step -> temperature``, for example from :mod:`eastward.annealing`, or a
        :class:`eastward.annealing.PlateauCooling`, which sees ``monitor`` after each evaluation and ends training when
        cooling no longer helps.
    every : {"epoch", "step"}, default="epoch"
        What a schedule counts. Epochs and steps are the Trainer's own, so a resumed run continues correctly.
    monitor : str, default="eval_loss"
        Name of the value that a plateau detector watches; lower is better. A resumed run reads it from the Trainer's
        log again.

    Examples
    --------
    Pass both to the Trainer: ``Trainer(..., compute_loss_func=loss, callbacks=[annealing])``.

    >>> from eastward.annealing import geometric_schedule
    >>> loss = metric_loss("f1_macro")
    >>> annealing = AnnealingCallback(loss, geometric_schedule(0.2, 0.9))
    >>> annealing.schedule(1)
    0.18
    """

    def __init__(
        self,
        loss: MetricLoss,
        schedule: Schedule | PlateauCooling,
        *,
        every: str = "epoch",
        monitor: str = "eval_loss",
    ) -> None:
        _checks.one_of("AnnealingCallback", "every", every, ("epoch", "step"))
        self.loss, self.schedule, self.every, self.monitor = loss, schedule, every, monitor
        self._start = schedule.state_dict() if isinstance(schedule, PlateauCooling) else None

    def on_train_begin(self, args: Any, state: Any, control: Any, **_more: Any) -> None:  # noqa: ARG002
        """Reset a plateau detector, or restore its state if the run resumes."""
        if isinstance(self.schedule, PlateauCooling) and self._start is not None:
            self.schedule.load_state_dict(self._start)
            for entry in state.log_history:
                if self.monitor in entry:
                    self.schedule.step(float(entry[self.monitor]))

    def on_step_begin(self, args: Any, state: Any, control: Any, **_more: Any) -> None:  # noqa: ARG002
        """Assign the temperature of this step."""
        if isinstance(self.schedule, PlateauCooling):
            self.loss.loss.temperature = self.schedule.temperature
            return
        step = state.global_step if self.every == "step" else int(state.epoch or 0)
        self.loss.loss.temperature = self.schedule(step)

    def on_evaluate(
        self,
        args: Any,  # noqa: ARG002 - the Trainer's signature
        state: Any,  # noqa: ARG002
        control: Any,
        metrics: dict[str, Any] | None = None,
        **_more: Any,
    ) -> None:
        """Pass the monitored value to a plateau detector; end training when it is finished."""
        if not isinstance(self.schedule, PlateauCooling):
            return
        if self.monitor not in (metrics or {}):
            known = ", ".join(metrics or ()) or "nothing"
            _checks.fail("AnnealingCallback", "monitor", "a result of evaluation", known)
        self.schedule.step(float((metrics or {})[self.monitor]))
        control.should_training_stop = control.should_training_stop or self.schedule.finished

    def on_log(
        self,
        args: Any,  # noqa: ARG002 - the Trainer's signature
        state: Any,
        control: Any,  # noqa: ARG002
        logs: dict[str, Any] | None = None,
        **_more: Any,
    ) -> None:
        """Log the temperature beside the loss, for loggers and in the history."""
        if logs is not None and "loss" in logs:
            logs["temperature"] = float(self.loss.loss.temperature)
            state.log_history[-1]["temperature"] = logs["temperature"]


class AlignmentCallback(TrainerCallback):
    """A callback that runs the aligned stage of :func:`eastward.align` in the Trainer.

    It follows an :class:`eastward.AlignmentSchedule`: it sets the temperature before each optimiser step, freezes the
    statistics of batch norm, averages the weights of the last steps, and loads their mean when training ends. A
    resumed run averages only its own steps.

    Parameters
    ----------
    loss : MetricLoss
        The loss that the Trainer trains with: ``metric_loss(schedule.metric, prior=schedule.prior)``.
    schedule : AlignmentSchedule
        The schedule. Its ``steps`` must be the Trainer's ``max_steps``.

    Examples
    --------
    Pass both to the Trainer: ``Trainer(..., compute_loss_func=loss, callbacks=[aligning])``.

    >>> from eastward import AlignmentSchedule
    >>> schedule = AlignmentSchedule("f1_macro", steps=100)
    >>> loss = metric_loss(schedule.metric, prior=schedule.prior)
    >>> aligning = AlignmentCallback(loss, schedule)
    >>> aligning.schedule(99)
    0.05
    """

    def __init__(self, loss: MetricLoss, schedule: AlignmentSchedule) -> None:
        self.loss, self.schedule = loss, schedule
        self.run: ScheduleRun | None = None

    def on_train_begin(
        self,
        args: Any,  # noqa: ARG002 - the Trainer's signature
        state: Any,  # noqa: ARG002
        control: Any,  # noqa: ARG002
        model: Any = None,
        **_more: Any,
    ) -> None:
        """Start the schedule with the Trainer's model."""
        self.run = self.schedule.follow(model, self.loss.loss)

    def on_step_begin(self, args: Any, state: Any, control: Any, **_more: Any) -> None:  # noqa: ARG002
        """Set the temperature of this step."""
        if self.run is not None:
            self.run.before(state.global_step)

    def on_step_end(self, args: Any, state: Any, control: Any, **_more: Any) -> None:  # noqa: ARG002
        """Add the weights to the mean, if the schedule says so."""
        if self.run is not None:
            self.run.after(state.global_step - 1)

    def on_train_end(self, args: Any, state: Any, control: Any, **_more: Any) -> None:  # noqa: ARG002
        """Load the mean of the weights."""
        if self.run is not None:
            self.run.finish()


def compute_metrics(
    metric: str | Metric | Sequence[str | Metric] = "f1_macro",
    *,
    multilabel: bool = False,
    ignore_index: int = -100,
) -> Callable[[Any], dict[str, float]]:
    """Make a function of the true metric for ``Trainer(compute_metrics=...)``, named like the loss.

    Parameters
    ----------
    metric : str, Metric or sequence of them, default="f1_macro"
        The metrics to report; ``metric_for_best_model`` takes the same names.
    multilabel : bool, default=False
        Labels are indicators, decided at logit zero.
    ignore_index : int, default=-100
        Labels with this value are left out.

    Returns
    -------
    callable
        ``EvalPrediction -> {name: value}``.

    Examples
    --------
    >>> class Prediction:
    ...     predictions, label_ids = np.eye(3)[[0, 1, 1]], np.array([0, 1, 2])
    >>> compute_metrics("accuracy")(Prediction())
    {'accuracy': 0.6667}
    """
    several = [metric] if isinstance(metric, str | Metric) else metric
    chosen = [as_metric(one) for one in several]

    def evaluate(prediction: Any) -> dict[str, float]:
        logits = prediction.predictions
        logits = torch.as_tensor(np.asarray(logits[0] if isinstance(logits, tuple) else logits))
        labels = torch.as_tensor(np.asarray(prediction.label_ids))
        if multilabel:
            degrees = (logits > 0).double()
            table: Any = multilabel_counts(degrees, labels.long(), ignore_index=ignore_index)
        else:
            table = hard_confusion(
                logits.argmax(-1), labels, num_classes=logits.shape[-1], ignore_index=ignore_index
            )
        return {one.name: float(one(table)) for one in chosen}

    return evaluate


def class_second(logits: Tensor, labels: Tensor, *, multilabel: bool) -> Tensor:
    """Transpose token logits ``(N, L, C)`` to ``(N, C, L)``, as torch's losses expect; others are unchanged."""
    tokens = not multilabel and logits.dim() == labels.dim() + 1 and logits.dim() > 2
    return logits.movedim(-1, 1) if tokens else logits


def _logits(outputs: Any) -> Tensor:
    return logits_in(outputs, caller="metric_loss", argument="outputs")
