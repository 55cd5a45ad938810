"""Progress of a stage: a bar in a terminal, log lines elsewhere."""

from __future__ import annotations

import logging
import sys
from types import TracebackType
from typing import Any, Self

__all__ = ["Progress"]

logger = logging.getLogger("eastward")


class Progress:
    """A bar for the steps of one stage.

    Parameters
    ----------
    name : str
        Name of the stage.
    total : int
        Number of steps.
    verbose : int
        0 writes log lines at level DEBUG. 1 shows a bar in a terminal, and writes log lines at level INFO elsewhere.
    done : int, default=0
        Number of steps that are already finished.

    Examples
    --------
    >>> with Progress("counting", 2, verbose=0) as progress:
    ...     progress.advance("one")
    """

    def __init__(self, name: str, total: int, verbose: int, *, done: int = 0) -> None:
        self.name, self.total, self.verbose, self.done = name, total, verbose, done
        self.bar: Any = None
        self.task: Any = None

    def __enter__(self) -> Self:
        if self.verbose and sys.stderr.isatty():
            from rich.console import Console  # noqa: PLC0415 - a bar is for terminals alone
            from rich.progress import Progress as Bar  # noqa: PLC0415

            self.bar = Bar(console=Console(stderr=True))
            self.bar.start()
            self.task = self.bar.add_task(self.name, total=self.total, completed=self.done)
        return self

    def advance(self, numbers: str) -> None:
        """Advance by one step."""
        self.done += 1
        level = logging.INFO if self.verbose and self.bar is None else logging.DEBUG
        logger.log(level, "%s %d/%d: %s", self.name, self.done, self.total, numbers)
        if self.bar is not None:
            self.bar.update(self.task, completed=self.done, description=f"{self.name}  {numbers}")

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.bar is not None:
            self.bar.stop()
