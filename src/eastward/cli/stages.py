"""Progress without a terminal: a line when a stage begins, and one every half minute while it goes on."""

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
    """Say on standard error what goes on inside, and that it still does.

    A terminal has bars of its own and gets the first line alone; programs (``--json``) get nothing.

    Parameters
    ----------
    words : str
        What is done, such as "training on 800 rows".
    quiet : bool, default=False
        Say nothing at all.
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
    reporter = threading.Thread(target=_keep_saying, args=(words, latest, ended), daemon=True)
    reporter.start()
    try:
        yield
    finally:
        ended.set()
        reporter.join()
        logger.removeHandler(latest)
        logger.setLevel(level)


class _LatestRecord(logging.Handler):
    """Remembers what the library logged last: the epoch and its numbers."""

    message = ""

    def emit(self, record: logging.LogRecord) -> None:
        """Remember ``record``."""
        self.message = record.getMessage()


def _keep_saying(words: str, latest: _LatestRecord, ended: threading.Event) -> None:
    started = monotonic()
    while not ended.wait(SECONDS_BETWEEN_LINES):
        told = f"; {latest.message}" if latest.message else ""
        _say(f"{words}: {monotonic() - started:.0f} s so far{told}")


def _say(line: str) -> None:
    status_console().print(Text(line, style="dim"), soft_wrap=True)
