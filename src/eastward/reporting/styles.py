"""Style sheets of the page and of notebook views, which share colours, tables and pictures."""

from __future__ import annotations

import re
from functools import cache
from importlib import resources

__all__ = ["asset", "style_sheet"]


@cache
def style_sheet(name: str) -> str:
    """Return a style sheet with its colours and shared rules inserted.

    Examples
    --------
    >>> "@light;" in style_sheet("report.css"), "--card" in style_sheet("notebook.css")
    (False, True)
    """
    _, light, dark = re.split(r"^@(?:light|dark)$", asset("colours.css"), flags=re.MULTILINE)
    parts = {"@light;": light.strip(), "@dark;": dark.strip(), "@parts;": asset("parts.css")}
    return re.sub(r"@(?:light|dark|parts);", lambda found: parts[found[0]], asset(name))


@cache
def asset(name: str) -> str:
    """Read a file beside the templates."""
    return resources.files("eastward.reporting").joinpath("templates", name).read_text("utf-8")
