"""Views of objects in a notebook, drawn by :mod:`eastward.reporting` when a notebook asks for them.

Reports stand above the objects that they show and know them; the objects know no reports. So the renderer is looked
up by its name, as lazy names in ``eastward`` are, and nothing of it is loaded before somebody looks.
"""

from __future__ import annotations

import importlib
from typing import Any

__all__ = ["classifier_html", "comparison_html"]

RENDERER = "eastward.reporting.notebook"


def comparison_html(comparison: Any) -> str:
    """``Comparison._repr_html_``: verdict, picture and sorted table."""
    html: str = importlib.import_module(RENDERER).comparison_view(comparison.to_dict())
    return html


def classifier_html(classifier: Any) -> str:
    """``_html_repr`` of the estimators: what a fitted one reaches and decides; scikit-learn's diagram before that."""
    if not hasattr(classifier, "report_"):
        diagram: str = importlib.import_module("sklearn.utils").estimator_html_repr(classifier)
        return diagram
    html: str = importlib.import_module(RENDERER).classifier_view(classifier)
    return html
