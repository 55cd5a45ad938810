"""Lightning callbacks that anneal, align, and log the surrogate and the true metric.

The module keeps its own ``training_step``; its loss is an :class:`eastward.EASTLoss` in an attribute. Under DDP the
loss sums its table over the processes. ``accumulate_grad_batches`` averages the losses of micro-batches, which is not
the metric of the whole batch. Give the loss ``running=0.9``, or use :func:`exact_training_step` for the gradient of
the full batch, on one device or under DDP.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from eastward import _checks
from eastward.alignment.schedule import AlignmentSchedule, ScheduleRun
from eastward.annealing import PlateauCooling
from eastward.confusion import Counts, hard_confusion, multilabel_counts
from eastward.distributed import resolve_reduce
from eastward.integrations._extras import missing_extra
from eastward.losses import EASTLoss, exact_backward
from eastward.protocols import Schedule

try:
    from lightning.pytorch import Callback, LightningModule, Trainer
except ModuleNotFoundError as error:
    raise missing_extra(__name__, error, "lightning") from error

__all__ = ["AlignmentCallback", "AnnealingCallback", "TrueMetric", "exact_training_step"]


class AnnealingCallback(Callback):
    """A callback that sets the temperature of a loss at every epoch, and logs surrogate and true metric.

    Parameters
    ----------
    schedule : callable or PlateauCooling
        ``epoch -> temperature``, or a :class:`eastward.annealing.PlateauCooling`, which sees ``monitor`` after each
        validation and ends training when cooling no longer helps.
    loss : str, default="loss"
        Name of the module's attribute that holds the loss.
    monitor : str, default="val_loss"
        Name of the value that a plateau detector watches; lower is better.
    log_metric : bool, default=True
        Whether to log the metric of all calls of the loss at the end of an epoch.

    Notes
    -----
    The temperature is set on ``pl_module.<loss>``, kept in checkpoints, and logged as ``temperature``. For
    ``EASTLoss("f1_macro")`` the metric of an epoch is logged as ``train_true_f1_macro`` (of decisions, summed over
    batches and processes) and ``train_soft_f1_macro`` (of the surrogate, averaged over batches). Validation and test
    use the prefixes ``val_`` and ``test_``. A loss that is an attribute of the module is part of its ``state_dict``.

    Examples
    --------
    >>> from eastward.annealing import geometric_schedule
    >>> AnnealingCallback(geometric_schedule(0.2, 0.9)).temperature_at(1)
    0.18
    """

    def __init__(
        self,
        schedule: Schedule | PlateauCooling,
        *,
        loss: str = "loss",
        monitor: str = "val_loss",
        log_metric: bool = True,
    ) -> None:
        self.schedule, self.loss, self.monitor = schedule, loss, monitor
        self.log_metric = log_metric
        self.temperature: float | None = None
        self._watch: _Watch | None = None

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:  # noqa: ARG002
        """Start recording the calls of the loss."""
        loss = _loss_of(pl_module, self.loss)
        if self.log_metric and isinstance(loss, EASTLoss):
            self._watch = _Watch(loss, trainer)

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:  # noqa: ARG002
        """Stop recording."""
        if self._watch is not None:
            self._watch.close()
            self._watch = None

    def temperature_at(self, epoch: int) -> float:
        """Return the temperature of an epoch."""
        if isinstance(self.schedule, PlateauCooling):
            return self.schedule.temperature
        return float(self.schedule(epoch))

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Assign the temperature of this epoch."""
        self.temperature = self.temperature_at(trainer.current_epoch)
        _loss_of(pl_module, self.loss).temperature = self.temperature
        pl_module.log("temperature", self.temperature)

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:  # noqa: ARG002
        """Log surrogate and true metric of the training batches."""
        self._log_metric(pl_module, "train")

    def on_validation_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:  # noqa: ARG002
        """Log surrogate and true metric of the validation batches."""
        self._log_metric(pl_module, "val")

    def on_test_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:  # noqa: ARG002
        """Log surrogate and true metric of the test batches."""
        self._log_metric(pl_module, "test")

    def _log_metric(self, pl_module: LightningModule, stage: str) -> None:
        # In epochs with another loss, such as a warm start with cross-entropy, there is nothing to log.
        found = {} if self._watch is None else self._watch.results(stage)
        for name, value in found.items():
            pl_module.log(name, value, sync_dist=True)

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:  # noqa: ARG002
        """Pass the monitored value to a plateau detector."""
        if not isinstance(self.schedule, PlateauCooling) or trainer.sanity_checking:
            return
        value = trainer.callback_metrics.get(self.monitor)
        if value is None:
            known = ", ".join(map(str, trainer.callback_metrics)) or "nothing"
            advice = f"Log it in validation_step: self.log({self.monitor!r}, loss)."
            _checks.fail("AnnealingCallback", "monitor", "a logged value", known, advice)
        self.schedule.step(float(value))
        trainer.should_stop = trainer.should_stop or self.schedule.finished

    def state_dict(self) -> dict[str, Any]:
        """Return the state for a checkpoint."""
        plateau = isinstance(self.schedule, PlateauCooling)
        cooling = self.schedule.state_dict() if plateau else None  # type: ignore[union-attr]  # just looked
        return {"temperature": self.temperature, "cooling": cooling}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from a checkpoint."""
        self.temperature = state_dict["temperature"]
        if isinstance(self.schedule, PlateauCooling) and state_dict["cooling"] is not None:
            self.schedule.load_state_dict(state_dict["cooling"])

    def on_load_checkpoint(
        self,
        trainer: Trainer,  # noqa: ARG002
        pl_module: LightningModule,
        checkpoint: dict[str, Any],  # noqa: ARG002
    ) -> None:
        """Restore the temperature, for a validation before the next epoch."""
        if self.temperature is not None:
            _loss_of(pl_module, self.loss).temperature = self.temperature


class AlignmentCallback(Callback):
    """A callback that runs the aligned stage of :func:`eastward.align` in Lightning's loop.

    It follows an :class:`eastward.AlignmentSchedule`: it sets the temperature before each optimiser step, freezes the
    statistics of batch norm, averages the weights of the last steps, and loads their mean when training ends.

    Parameters
    ----------
    schedule : AlignmentSchedule
        The schedule. Its ``steps`` must be those of the whole training, ``trainer.estimated_stepping_batches``.
    loss : str, default="loss"
        Name of the module's attribute that holds the loss, such as ``schedule.loss()``.

    Examples
    --------
    >>> callback = AlignmentCallback(AlignmentSchedule("f1_macro", steps=100))
    >>> callback.schedule(99)
    0.05
    """

    def __init__(self, schedule: AlignmentSchedule, *, loss: str = "loss") -> None:
        self.schedule, self.loss = schedule, loss
        self.run: ScheduleRun | None = None
        self._saved: dict[str, Any] = {}

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:  # noqa: ARG002
        """Start the schedule, or continue from a checkpoint."""
        self.run = self.schedule.follow(pl_module, _loss_of(pl_module, self.loss))
        self.run.load_state_dict(self._saved)

    def on_train_batch_start(
        self,
        trainer: Trainer,
        pl_module: LightningModule,  # noqa: ARG002 - Lightning's signature
        batch: Any,  # noqa: ARG002
        batch_idx: int,  # noqa: ARG002
    ) -> None:
        """Set the temperature of the step that this batch belongs to."""
        if self.run is not None:
            self.run.before(trainer.global_step)
            self._step = trainer.global_step

    def on_train_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,  # noqa: ARG002 - Lightning's signature
        outputs: Any,  # noqa: ARG002
        batch: Any,  # noqa: ARG002
        batch_idx: int,  # noqa: ARG002
    ) -> None:
        """Add the weights to the mean, after a batch that ended a step."""
        if self.run is not None and trainer.global_step > self._step:
            self.run.after(self._step)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:  # noqa: ARG002
        """Load the mean of the weights."""
        if self.run is not None:
            self.run.finish()

    def state_dict(self) -> dict[str, Any]:
        """Return the mean of the weights so far, for a checkpoint."""
        return {} if self.run is None else self.run.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from a checkpoint."""
        self._saved = state_dict


class TrueMetric:
    """The true metric of an epoch, from decisions summed over batches and processes.

    Parameters
    ----------
    loss : EASTLoss
        The loss whose metric is computed.

    Examples
    --------
    >>> import torch
    >>> true_metric = TrueMetric(EASTLoss("accuracy"))
    >>> true_metric.update(torch.tensor([[2.0, 0.0], [0.0, 1.0]]), torch.tensor([0, 0]))
    >>> true_metric.compute()
    0.5
    """

    def __init__(self, loss: EASTLoss) -> None:
        self.loss = loss
        self.table: Tensor | None = None

    def update(self, logits: Tensor, targets: Tensor, sample_weight: Tensor | None = None) -> None:
        """Count the decisions of one batch."""
        part = _hard_table(self.loss, logits.detach(), targets, sample_weight)
        self.table = part if self.table is None else self.table + part

    def compute(self) -> float:
        """Compute the metric over all batches and processes since the last call, and reset."""
        if self.table is None:
            _checks.fail("TrueMetric.compute", "updates", "at least one", "none")
        reduce = resolve_reduce(self.loss.process_group)
        table = self.table if reduce is None else reduce(self.table)
        self.table = None
        counted = self.loss.multilabel
        metric = self.loss.metric
        observed = metric.with_options(absent="observed") if metric.per_class else metric
        return float(observed(Counts.unstack(table, exclusive=False) if counted else table))


class _Watch:
    """Records every call of a loss: tables and sums of the current epoch of each stage."""

    def __init__(self, loss: EASTLoss, trainer: Trainer) -> None:
        self.loss, self.trainer = loss, trainer
        self.true: dict[str, TrueMetric] = {}
        self.values: dict[str, list[Tensor]] = {}
        self.handle = loss.register_forward_hook(self._see, with_kwargs=True)

    def _see(self, _loss: Any, given: Any, named: dict[str, Any], value: Tensor) -> None:
        stage = self.trainer.state.stage
        if stage is None or self.trainer.sanity_checking:
            return
        name = str(stage.dataloader_prefix)
        batch = dict(zip(("logits", "targets", "sample_weight"), given, strict=False)) | named
        self.true.setdefault(name, TrueMetric(self.loss)).update(**batch)
        self.values.setdefault(name, []).append(value.detach())

    def results(self, stage: str) -> dict[str, float]:
        """Return name and value of the epoch's metrics; nothing if the loss was not called."""
        values = self.values.pop(stage, [])
        if not values:
            return {}
        metric, mean = self.loss.metric, float(torch.stack(values).mean())
        soft = 1 - mean if metric.higher_is_better else mean
        true = self.true.pop(stage).compute()
        return {f"{stage}_true_{metric.name}": true, f"{stage}_soft_{metric.name}": soft}

    def close(self) -> None:
        """Stop recording."""
        self.handle.remove()


def exact_training_step(
    module: LightningModule, loss: EASTLoss, micro_batches: Sequence[Any]
) -> Tensor:
    """Take one optimiser step with the full-batch gradient of several micro-batches.

    Parameters
    ----------
    module : LightningModule
        The module, with ``automatic_optimization = False``. Its forward pass returns logits.
    loss : EASTLoss
        The loss, without ``running``.
    micro_batches : sequence of (inputs, targets) or (inputs, targets, sample_weight)
        The parts of one batch.

    Returns
    -------
    Tensor
        The loss of the full batch, detached.

    Notes
    -----
    Under DDP the full batch is that of all processes, and gradients are synchronised once, with the last micro-batch.
    The loss itself is not called, so :class:`AnnealingCallback` has no training metric to log.

    Examples
    --------
    Call it in the ``training_step`` of a module that optimises manually:

    >>> class Classifier(LightningModule):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.automatic_optimization = False
    ...         self.network, self.loss = nn.Linear(4, 3), EASTLoss("f1_macro")
    ...
    ...     def forward(self, inputs):
    ...         return self.network(inputs)
    ...
    ...     def training_step(self, batch, index):
    ...         inputs, targets = batch
    ...         return exact_training_step(
    ...             self, self.loss, list(zip(inputs.split(8), targets.split(8)))
    ...         )
    ...
    ...     def configure_optimizers(self):
    ...         return torch.optim.SGD(self.parameters(), lr=0.1)
    >>> Classifier().automatic_optimization
    False
    """
    if module.automatic_optimization:
        advice = "Set self.automatic_optimization = False in its __init__."
        _checks.fail("exact_training_step", "module", "optimised manually", "automatic", advice)
    strategy = module.trainer.strategy
    if module.trainer.world_size > 1 and not isinstance(strategy.model, DistributedDataParallel):
        advice = "Use an ordinary training_step: the loss sums over processes; running=0.9 bridges micro-batches."
        got = type(strategy).__name__
        _checks.fail("exact_training_step", "strategy", "DDP, or one device", got, advice)
    optimizer: Any = module.optimizers()
    optimizer.zero_grad()
    network = _InsideTrainingStep(module)
    value = exact_backward(loss, network, micro_batches, backward=module.manual_backward)
    optimizer.step()
    return value


class _InsideTrainingStep(nn.Module):
    """Wraps the module as a network for ``exact_backward``, with the ``no_sync`` of Lightning's DDP wrapper."""

    def __init__(self, module: LightningModule) -> None:
        super().__init__()
        self.module = module

    def forward(self, inputs: Any) -> Any:
        return self.module(inputs)

    def no_sync(self) -> Any:
        """Return a context in which gradients are not synchronised."""
        wrapper: Any = self.module.trainer.strategy.model
        return wrapper.no_sync() if isinstance(wrapper, DistributedDataParallel) else nullcontext()


def _loss_of(module: LightningModule, name: str) -> Any:
    loss = getattr(module, name, None)
    if not hasattr(loss, "temperature"):
        got = "no such attribute" if loss is None else type(loss).__name__
        advice = f"Let self.{name} be an EASTLoss, or name the attribute that is one."
        _checks.fail("AnnealingCallback", "loss", "the name of a loss of the module", got, advice)
    return loss


def _hard_table(
    loss: EASTLoss, logits: Tensor, targets: Tensor, sample_weight: Tensor | None
) -> Tensor:
    given: Any = {"sample_weight": sample_weight, "ignore_index": loss.ignore_index}
    if loss.multilabel:
        return multilabel_counts((logits > 0).double(), targets.long(), **given).stack()
    if logits.dim() < 2 or logits.shape[1] == 1:
        decisions, size = (logits.reshape(targets.shape) > 0).long(), 2
    else:
        decisions, size = logits.argmax(1), logits.shape[1]
    return hard_confusion(decisions, targets.long(), num_classes=size, **given)
