"""The result of a comparison."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from eastward import _checks
from eastward._views import comparison_html
from eastward.comparison import rendering
from eastward.comparison.belief import Belief, Prior
from eastward.comparison.cells import Problem, fit_options, pass_interruption_on
from eastward.comparison.constraints import (
    broken_constraints,
    decided_shares,
    verdict_of_keepers,
)
from eastward.comparison.methods import Method
from eastward.comparison.recommending import pair_belief
from eastward.comparison.splits import split_seed
from eastward.comparison.summary import absolute_margin, method_rows, score_table
from eastward.comparison.verdict import verdict
from eastward.metrics import Metric

__all__ = ["Comparison", "Progress"]


@dataclass(frozen=True)
class Comparison:
    """The result of comparing methods on the same splits, with a verdict.

    Attributes
    ----------
    metric : Metric
        The metric that judged the methods.
    baseline : str
        The method that the others were compared with.
    compared : sequence of Method
        The methods.
    cells : list of dict
        One for each method and split: ``method, split, score, log_loss, brier, ece, seconds, error, warnings, notes``.
    test_ratio : float
        Test rows over training rows.
    tie_margin : float
        Differences up to this count as a tie.
    problem : Problem, optional
        The data, for :meth:`fit_recommended`.
    prior : Prior or None
        Experience that is combined with the splits.

    Notes
    -----
    ``print`` shows the table and the verdict; a notebook displays it directly.

    Examples
    --------
    :func:`eastward.compare` makes one from your data.

    >>> from sklearn.datasets import load_iris
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from eastward import compare
    >>> X, y = load_iris(return_X_y=True)
    >>> bayes = {"bayes": GaussianNB()}
    >>> result = compare(X, y, methods=bayes, baseline="logistic_regression", n_splits=2)
    >>> [row["name"] for row in result.methods]
    ['logistic_regression', 'bayes']
    >>> result.verdict["recommended"] in ("logistic_regression", "bayes")
    True
    """

    metric: Metric
    baseline: str
    compared: Sequence[Method]
    cells: list[dict[str, Any]]
    test_ratio: float
    tie_margin: float
    problem: Problem | None = field(default=None, repr=False, compare=False)
    prior: Prior | None = field(default=None, repr=False)

    @cached_property
    def methods(self) -> list[dict[str, Any]]:
        """One row of numbers for each method; see :func:`~eastward.comparison.summary.method_rows`."""
        rows = method_rows(
            [method.name for method in self.compared],
            [method.label for method in self.compared],
            self.cells,
            metric=self.metric,
            baseline=self.baseline,
            test_ratio=self.test_ratio,
            tie_margin=self.tie_margin,
            prior=self.prior,
        )
        constraints = () if self.problem is None else self.problem.constraints
        broken = broken_constraints(self.cells, constraints) if constraints else {}
        decided = decided_shares(self.cells)
        return [
            {**row, "breaks": broken.get(row["name"], []), "coverage": decided.get(row["name"])}
            for row in rows
        ]

    @cached_property
    def verdict(self) -> dict[str, Any]:
        """The verdict: ``sentence``, ``detail`` (further sentences) and ``recommended`` (a method's name)."""

        def judged(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
            return verdict(
                rows,
                self.cells,
                metric=self.metric,
                baseline=self.baseline,
                margin=self.margin,
                efforts={method.name: method.effort for method in self.compared},
                pairs=self.gain,
                prior=self.prior,
            )

        return verdict_of_keepers(self.methods, judged, metric=self.metric, baseline=self.baseline)

    def gain(self, method: str, other: str) -> Belief | None:
        """Estimate the gain of one method over another.

        Parameters
        ----------
        method, other : str
            Names of two methods.

        Returns
        -------
        Belief or None
            ``expected``, ``low``, ``high``, ``better``, ``equal``; None if they share fewer than two splits.
        """
        names = [entry.name for entry in self.compared]
        return pair_belief(
            self._scores[names.index(method)],
            self._scores[names.index(other)],
            names=(method, other),
            metric=self.metric,
            test_ratio=self.test_ratio,
            margin=self.margin,
            prior=self.prior,
        )

    @cached_property
    def _scores(self) -> Any:
        return score_table([method.name for method in self.compared], self.cells)

    @cached_property
    def margin(self) -> float:
        """Largest difference without practical relevance, in units of the metric."""
        names = [method.name for method in self.compared]
        reference = self._scores[names.index(self.baseline)]
        return absolute_margin(self.metric, self.tie_margin, reference)

    def fit_recommended(self) -> Any:
        """Fit the recommended method on all rows.

        Returns
        -------
        classifier
            The fitted method; with ``preprocess``, a scikit-learn pipeline of the two.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from eastward import compare
        >>> X, y = load_iris(return_X_y=True)
        >>> methods = ["logistic_regression", "random_forest"]
        >>> result = compare(X, y, methods=methods, baseline="random_forest", n_splits=2)
        >>> bool((result.fit_recommended().predict(X) == y).mean() > 0.9)
        True
        """
        name = self.verdict["recommended"]
        if self.problem is None or name is None:
            got = "one without data" if name is not None else "one without a verdict"
            expected = "a comparison that compare returned, with a recommendation"
            _checks.fail("fit_recommended", "self", expected, got)
        problem, seed = self.problem, split_seed(self.problem.random_state, 0)
        method = next(method for method in self.compared if method.name == name)
        model = method.estimator(problem.settings, seed)
        rows = np.arange(len(problem.codes))
        together = problem.kept_together(rows)
        options, _ = fit_options(model, problem.sample_weight, together, problem.codes, seed)
        if problem.preprocess is None:
            model.fit(problem.X, problem.y, **options)
            pass_interruption_on(model)
            return model
        preprocess = clone(problem.preprocess)
        model.fit(preprocess.fit_transform(problem.X, problem.y), problem.y, **options)
        pass_interruption_on(model)
        return make_pipeline(preprocess, model)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data, ready for JSON.

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
        """Render verdict and table in Markdown.

        Returns
        -------
        str
            Markdown text.
        """
        return rendering.to_markdown(self.to_dict())

    def __str__(self) -> str:
        return rendering.to_text(self.to_dict())

    _repr_html_ = comparison_html


@dataclass(frozen=True)
class Progress:
    """The argument of a ``progress`` callback after each finished cell.

    Attributes
    ----------
    done, total : int
        Numbers of finished cells and of all cells.
    cell : dict or None
        The cell that just finished; None after the stored cells were read.
    comparison : Comparison
        The comparison so far; print it for a live table.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from eastward import compare
    >>> lines = []
    >>> result = compare(
    ...     *load_iris(return_X_y=True),
    ...     methods={"bayes": GaussianNB()},
    ...     baseline="logistic_regression",
    ...     n_splits=2,
    ...     progress=lambda now: lines.append(f"{now.done} of {now.total}"),
    ... )
    >>> lines[-1]
    '4 of 4'
    """

    done: int
    total: int
    cell: dict[str, Any] | None
    comparison: Comparison
