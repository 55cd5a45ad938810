"""The outcome of a comparison."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from eastward.comparison import rendering
from eastward.comparison.methods import Method
from eastward.comparison.summary import absolute_margin, method_rows
from eastward.comparison.verdict import verdict
from eastward.metrics import Metric

__all__ = ["Comparison", "Progress"]


@dataclass(frozen=True)
class Comparison:
    """Methods on the same splits: scores, paired differences, calibration, time, and a verdict.

    Attributes
    ----------
    metric : Metric
        What methods were judged by.
    baseline : str
        What they were compared with.
    compared : sequence of Method
        The methods.
    cells : list of dict
        One for each method and split: ``method, split, score, log_loss, brier, ece, seconds, error, warnings, notes``.
    test_ratio : float
        Test rows over training rows.
    tie_margin : float
        Differences up to it count as a tie.

    Notes
    -----
    ``print`` shows the table and the verdict; notebooks show it by themselves.
    """

    metric: Metric
    baseline: str
    compared: Sequence[Method]
    cells: list[dict[str, Any]]
    test_ratio: float
    tie_margin: float

    @cached_property
    def methods(self) -> list[dict[str, Any]]:
        """One row of numbers for each method; see :func:`~eastward.comparison.summary.method_rows`."""
        return method_rows(
            [method.name for method in self.compared],
            [method.label for method in self.compared],
            self.cells,
            metric=self.metric,
            baseline=self.baseline,
            test_ratio=self.test_ratio,
            tie_margin=self.tie_margin,
        )

    @cached_property
    def verdict(self) -> dict[str, Any]:
        """``sentence``, ``detail`` (further sentences) and ``recommended`` (a method's name)."""
        scores = [c["score"] for c in self.cells if c["method"] == self.baseline]
        reference = np.array([np.nan if score is None else score for score in scores])
        return verdict(
            self.methods,
            self.cells,
            metric=self.metric,
            baseline=self.baseline,
            margin=absolute_margin(self.metric, self.tie_margin, reference),
            efforts={method.name: method.effort for method in self.compared},
        )

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain data, ready for JSON.

        Returns
        -------
        dict
            ``metric, higher_is_better, baseline, splits, methods, verdict, cells``.
        """
        return {
            "metric": self.metric.name,
            "higher_is_better": self.metric.higher_is_better,
            "baseline": self.baseline,
            "splits": len({cell["split"] for cell in self.cells}),
            "test_ratio": self.test_ratio,
            "tie_margin": self.tie_margin,
            "methods": self.methods,
            "verdict": self.verdict,
            "cells": self.cells,
        }

    def to_markdown(self) -> str:
        """Verdict and table in Markdown.

        Returns
        -------
        str
        """
        return rendering.to_markdown(self.to_dict())

    def __str__(self) -> str:
        return rendering.to_text(self.to_dict())

    def _repr_html_(self) -> str:
        return rendering.to_html(self.to_dict())


@dataclass(frozen=True)
class Progress:
    """What a ``progress`` callback receives after each finished cell.

    Attributes
    ----------
    done, total : int
        Cells.
    cell : dict or None
        The one just finished; None when the stored ones were read.
    comparison : Comparison
        Of everything that is there so far: print it for a live table.
    """

    done: int
    total: int
    cell: dict[str, Any] | None
    comparison: Comparison
