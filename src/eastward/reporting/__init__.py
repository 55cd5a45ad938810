"""Turn results into a report: first a plain dictionary, then its rendering.

``evaluation_summary``, ``importance_summary`` and ``report_summary`` make the dictionary; ``render_html``,
``render_markdown`` and ``write_figures`` turn it into something to read. Modules for rendering are loaded on
first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from eastward.reporting.evaluation import evaluation_summary
from eastward.reporting.finding import finding
from eastward.reporting.markdown import render_markdown
from eastward.reporting.summary import report_summary

if TYPE_CHECKING:
    from eastward.reporting.figures import write_figures
    from eastward.reporting.html import render_html
    from eastward.reporting.importance import importance_summary
    from eastward.reporting.writing import write_report

__all__ = [
    "evaluation_summary",
    "finding",
    "importance_summary",
    "render_html",
    "render_markdown",
    "report_summary",
    "write_figures",
    "write_report",
]

_LAZY = {
    "importance_summary": "eastward.reporting.importance",
    "render_html": "eastward.reporting.html",
    "write_figures": "eastward.reporting.figures",
    "write_report": "eastward.reporting.writing",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'eastward.reporting' has no attribute {name!r}")
    try:
        return getattr(importlib.import_module(_LAZY[name]), name)
    except ModuleNotFoundError as error:
        message = f"{name} needs {error.name}: install it with  pip install {error.name}"
        raise ModuleNotFoundError(message, name=error.name) from error


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
