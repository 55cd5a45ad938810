"""Give every network equal time: a callback that stops training when its time is used up."""

from __future__ import annotations

import time

from eastward.training import Callback, Run

__all__ = ["TimeBudget"]


class TimeBudget(Callback):
    """A callback that stops each stage of training at its share of the time.

    Parameters
    ----------
    seconds : float
        Time for the whole training.
    stages : int, default=1
        Number of stages that share the time equally; a stage leaves time that it does not need to the next one.

    Examples
    --------
    >>> from eastward import EASTClassifier
    >>> model = EASTClassifier(recipe="cross_entropy", callbacks=[TimeBudget(30.0)])
    """

    def __init__(self, seconds: float, stages: int = 1) -> None:
        self.seconds, self.stages = seconds, stages
        self._started: float | None = None
        self._stage = 0

    def stage_start(self, run: Run) -> None:  # noqa: ARG002  # a hook of the loop
        """Start the clock with the first stage."""
        self._stage += 1
        if self._started is None:
            self._started = time.perf_counter()

    def epoch_end(self, run: Run) -> None:
        """End the stage when its share is used up."""
        if self._started is None:
            return
        used = time.perf_counter() - self._started
        run.stop = run.stop or used >= self.seconds * self._stage / self.stages
