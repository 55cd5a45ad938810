"""Write reports to files, completely or not at all."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from eastward import _checks
from eastward._files import write_whole
from eastward.reporting.html import html_page
from eastward.reporting.markdown import markdown_page
from eastward.reporting.summary import read_as_summary

__all__ = ["write_report"]


def _as_json(summary: Mapping[str, Any]) -> str:
    return json.dumps(summary, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


_RENDERINGS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    ".html": html_page,
    ".htm": html_page,
    ".md": markdown_page,
    ".json": _as_json,
}


def write_report(summary: Mapping[str, Any], path: str | os.PathLike[str]) -> Path:
    """Write the report to ``path`` as HTML, Markdown or JSON, according to its suffix.

    The text goes to a neighbouring file, which is then renamed, so that an interrupted write leaves the old file.

    Parameters
    ----------
    summary : mapping
        From :func:`report_summary`.
    path : path
        The file to write, ending in .html, .md or .json; missing folders are created.

    Returns
    -------
    Path
        The file.

    Examples
    --------
    >>> import tempfile
    >>> from eastward.reporting import report_summary
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_report(report_summary("Claims", "f1_macro"), f"{folder}/report.md").name
    'report.md'
    """
    target = _checks.path("write_report", "path", path)
    _checks.one_of("write_report", "the end of path", target.suffix.lower(), tuple(_RENDERINGS))
    with read_as_summary("write_report", summary):
        text = _RENDERINGS[target.suffix.lower()](summary)
    target.parent.mkdir(parents=True, exist_ok=True)
    write_whole(target, text.encode())
    return target
