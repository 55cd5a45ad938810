"""skorch: the loss as a criterion, with the matching nonlinearity, and annealing.

``predict_proba`` of skorch returns raw logits for unknown criteria, so the preset also sets the nonlinearity.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from eastward import _checks
from eastward.alignment.schedule import AlignmentSchedule, ScheduleRun
from eastward.annealing import PlateauCooling
from eastward.integrations._extras import missing_extra
from eastward.losses import EASTLoss
from eastward.metrics import Metric
from eastward.protocols import Schedule

try:
    from skorch.callbacks import Callback  # type: ignore[import-untyped]  # skorch has no types
except ModuleNotFoundError as error:
    raise missing_extra(__name__, error, "skorch") from error

__all__ = ["Aligning", "Annealing", "metric_criterion"]


def metric_criterion(
    metric: str | Metric | Callable[[Any], Tensor] = "f1_macro", **options: Any
) -> dict[str, Any]:
    """Make keyword arguments for a skorch classifier with the metric as its criterion.

    Parameters
    ----------
    metric : str, Metric or callable, default="f1_macro"
        A name from :func:`eastward.metrics.names`, or a function from a confusion matrix to a 0-d tensor.
    **options
        Further options of :class:`eastward.EASTLoss`.

    Returns
    -------
    dict
        ``criterion``, its options, and ``predict_nonlinearity``: softmax for several logits, sigmoid (as two columns)
            for a single one, sigmoid for each with ``multilabel=True``.

    Examples
    --------
    >>> preset = metric_criterion("f1_macro", temperature=0.1)
    >>> preset["criterion"].__name__, preset["criterion__metric"], preset["criterion__temperature"]
    ('EASTLoss', 'f1_macro', 0.1)
    """
    EASTLoss(metric, **options)  # so that a mistake is reported here, not inside fit
    multilabel = bool(options.get("multilabel", False))
    return {
        "criterion": EASTLoss,
        "criterion__metric": metric,
        **{f"criterion__{name}": value for name, value in options.items()},
        "predict_nonlinearity": torch.sigmoid if multilabel else _class_probabilities,
    }


def _class_probabilities(logits: Tensor) -> Tensor:
    if logits.dim() < 2 or logits.shape[1] == 1:
        positive = torch.sigmoid(logits.reshape(-1))
        return torch.stack([1 - positive, positive], dim=1)
    return torch.softmax(logits, dim=1)


class Annealing(Callback):  # type: ignore[misc]  # skorch is untyped
    """A callback that sets the temperature of the criterion at every epoch.

    Parameters
    ----------
    schedule : callable or PlateauCooling
        ``epoch -> temperature``, or a :class:`eastward.annealing.PlateauCooling`, which sees ``monitor`` after each
        epoch and ends training when cooling no longer helps.
    monitor : str, default="valid_loss"
        Entry of the history that a plateau detector watches.

    Notes
    -----
    The history records the temperature as ``temperature``. ``save_params(f_criterion=...)`` saves the criterion's
    temperature.

    Examples
    --------
    >>> import numpy as np
    >>> import torch
    >>> from skorch import NeuralNetClassifier
    >>> from eastward.annealing import geometric_schedule
    >>> annealing = Annealing(geometric_schedule(0.2, 0.5))
    >>> net = NeuralNetClassifier(
    ...     torch.nn.Linear,
    ...     module__in_features=2,
    ...     module__out_features=2,
    ...     max_epochs=3,
    ...     train_split=None,
    ...     verbose=0,
    ...     callbacks=[annealing],
    ...     **metric_criterion("f1_macro"),
    ... )
    >>> X, y = np.eye(2, dtype=np.float32).repeat(4, 0), np.repeat([0, 1], 4)
    >>> net.fit(X, y).history[:, "temperature"]
    [0.2, 0.1, 0.05]
    """

    def __init__(self, schedule: Schedule | PlateauCooling, *, monitor: str = "valid_loss") -> None:
        self.schedule, self.monitor = schedule, monitor

    def on_epoch_begin(self, net: Any, **_more: Any) -> None:
        """Assign the temperature of this epoch."""
        check_criterion("Annealing", net)
        plateau = isinstance(self.schedule, PlateauCooling)
        epoch = len(net.history) - 1
        temperature = self.schedule.temperature if plateau else self.schedule(epoch)  # type: ignore[operator,union-attr]
        net.criterion_.temperature = temperature
        net.history.record("temperature", float(temperature))

    def on_epoch_end(self, net: Any, **_more: Any) -> None:
        """Pass the monitored value to a plateau detector; end training when it is finished."""
        if not isinstance(self.schedule, PlateauCooling):
            return
        self.schedule.step(float(net.history[-1, self.monitor]))
        if self.schedule.finished:
            raise KeyboardInterrupt  # skorch's way to end training


class Aligning(Callback):  # type: ignore[misc]  # skorch is untyped
    """A callback that runs the aligned stage of :func:`eastward.align` in skorch's loop.

    It follows an :class:`eastward.AlignmentSchedule`: it sets the temperature before each optimiser step, freezes the
    statistics of batch norm, averages the weights of the last steps, and loads their mean when training ends.

    Parameters
    ----------
    schedule : AlignmentSchedule
        The schedule. Its ``steps`` must be those of one call of ``fit``: epochs times training batches.

    Examples
    --------
    >>> from eastward import AlignmentSchedule
    >>> Aligning(AlignmentSchedule("f1_macro", steps=100)).schedule(99)
    0.05
    """

    def __init__(self, schedule: AlignmentSchedule) -> None:
        self.schedule = schedule

    def on_train_begin(self, net: Any, **_more: Any) -> None:
        """Start the schedule with the net's module and criterion."""
        check_criterion("Aligning", net)
        self.run_: ScheduleRun = self.schedule.follow(net.module_, net.criterion_)
        self.step_ = 0

    def on_batch_begin(self, net: Any, *, training: bool = False, **_more: Any) -> None:  # noqa: ARG002
        """Set the temperature of this step."""
        if training:
            self.run_.before(self.step_)

    def on_batch_end(self, net: Any, *, training: bool = False, **_more: Any) -> None:  # noqa: ARG002
        """Add the weights to the mean, if the schedule says so."""
        if training:
            self.run_.after(self.step_)
            self.step_ += 1

    def on_train_end(self, net: Any, **_more: Any) -> None:  # noqa: ARG002
        """Load the mean of the weights."""
        self.run_.finish()


def check_criterion(caller: str, net: Any) -> None:
    """Check that the criterion has a temperature."""
    if not hasattr(net.criterion_, "temperature"):
        got, advice = type(net.criterion_).__name__, "Pass **metric_criterion(...) to the net."
        _checks.fail(caller, "criterion", "an EASTLoss", got, advice)
