"""Notebook views of objects, drawn by :mod:`eastward.reporting` on demand.

Reports import the objects that they show, never the other way round. So the renderer is looked up by name, like the
lazy names in ``eastward``, and is not loaded before a notebook shows something.
"""

from __future__ import annotations

import importlib
from typing import Any

__all__ = ["classifier_html", "comparison_html"]

RENDERER = "eastward.reporting.notebook"


def comparison_html(comparison: Any) -> str:
    """Render a comparison: verdict, picture and sorted table."""
    html: str = importlib.import_module(RENDERER).comparison_view(comparison.to_dict())
    return html


def classifier_html(classifier: Any) -> str:
    """Render an estimator: score and decision if it is fitted, otherwise scikit-learn's diagram."""
    if not hasattr(classifier, "report_"):
        diagram: str = importlib.import_module("sklearn.utils").estimator_html_repr(classifier)
        return diagram
    html: str = importlib.import_module(RENDERER).classifier_view(classifier)
    return html
