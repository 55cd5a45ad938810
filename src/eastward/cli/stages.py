"""Progress without a terminal: a line when a stage begins, and another every half minute."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic

from rich.text import Text

from eastward.cli.output import status_console, wants_json

__all__ = ["SECONDS_BETWEEN_LINES", "stage"]

SECONDS_BETWEEN_LINES = 30.0


@contextmanager
def stage(words: str, *, quiet: bool = False) -> Iterator[None]:
    """Report the stage inside this context on standard error, at its start and while it runs.

    A terminal has progress bars and gets only the first line; programs (``--json``) get nothing.

    Parameters
    ----------
    words : str
        A description of the stage, such as "training on 800 rows".
    quiet : bool, default=False
        Print nothing.
    """
    if quiet or wants_json():
        yield
        return
    _say(words)
    if sys.stderr.isatty():
        yield
        return
    latest, ended = _LatestRecord(), threading.Event()
    logger = logging.getLogger("eastward")
    level = logger.level
    logger.addHandler(latest)
    logger.setLevel(min(level or logging.INFO, logging.INFO))
    reporter = threading.Thread(target=_report_progress, args=(words, latest, ended), daemon=True)
    reporter.start()
    try:
        yield
    finally:
        ended.set()
        reporter.join()
        logger.removeHandler(latest)
        logger.setLevel(level)


class _LatestRecord(logging.Handler):
    """A log handler that stores the last record: the epoch and its numbers."""

    message = ""

    def emit(self, record: logging.LogRecord) -> None:
        """Store ``record``."""
        self.message = record.getMessage()


def _report_progress(words: str, latest: _LatestRecord, ended: threading.Event) -> None:
    started = monotonic()
    while not ended.wait(SECONDS_BETWEEN_LINES):
        told = f"; {latest.message}" if latest.message else ""
        _say(f"{words}: {monotonic() - started:.0f} s so far{told}")


def _say(line: str) -> None:
    status_console().print(Text(line, style="dim"), soft_wrap=True)
