"""Progress of training: a bar in a terminal, log lines elsewhere."""

from __future__ import annotations

import logging
import sys
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from eastward.training.hooks import Callback
from eastward.training.loop import Run

__all__ = ["LogRecords", "ProgressBar", "progress_callbacks"]

logger = logging.getLogger("eastward")


class ProgressBar(Callback):
    """A bar with epoch, temperature, loss, validation score, best so far and time left."""

    def __init__(self) -> None:
        self.bar: Progress | None = None
        self.task: Any = None
        self.best = float("-inf")

    def stage_start(self, run: Run) -> None:
        """Open a bar for this stage."""
        self._open(run)

    def _open(self, run: Run) -> None:
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[numbers]}"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
        )
        self.bar.start()
        self.task = self.bar.add_task(run.stage.name, total=run.stage.max_epochs, numbers="")

    def epoch_end(self, run: Run) -> None:
        """Advance the bar."""
        if self.bar is None:
            self._open(run)
        self.best = max(self.best, run.record["valid_score"])
        if self.bar is not None:
            self.bar.update(self.task, completed=run.epoch, numbers=numbers(run, self.best))

    def stage_end(self, run: Run) -> None:  # noqa: ARG002 - the signature of the hook
        """Close the bar."""
        if self.bar is not None:
            self.bar.stop()
            self.bar = None


class LogRecords(Callback):
    """A callback that logs one line per epoch, and sends the numbers to Fabric's loggers."""

    def __init__(self, level: int = logging.DEBUG) -> None:
        self.level = level
        self.best = float("-inf")

    def epoch_end(self, run: Run) -> None:
        """Log the numbers of the epoch."""
        self.best = max(self.best, run.record["valid_score"])
        logger.log(
            self.level, "%s epoch %d: %s", run.stage.name, run.epoch, numbers(run, self.best)
        )
        if run.fabric.loggers:
            known = {k: v for k, v in run.record.items() if isinstance(v, (int, float))}
            run.fabric.log_dict(
                {f"{run.stage.name}/{name}": v for name, v in known.items()}, run.epoch
            )


def numbers(run: Run, best: float) -> str:
    """Format the numbers of an epoch as one line."""
    record = run.record
    heat = f"T {record['temperature']:.3g}  " if record["temperature"] else ""
    loss = f"loss {record['train_loss']:.4f}  valid {record['valid_loss']:.4f}"
    # Training negates a cost; readers see its real sign.
    sign = 1 if run.metric.higher_is_better else -1
    score = f"{sign * record['valid_score']:.4f} (best {sign * best:.4f})"
    return f"{heat}{loss}  {run.metric.name} {score}"


def progress_callbacks(verbose: int) -> list[Callback]:
    """Return the callbacks that show progress: a bar in a terminal, log lines elsewhere."""
    level = logging.INFO if verbose else logging.DEBUG
    if verbose and sys.stderr.isatty():
        return [LogRecords(logging.DEBUG), ProgressBar()]
    return [LogRecords(level)]
