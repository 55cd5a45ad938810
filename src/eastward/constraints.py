"""Constraints in words, such as ``recall[fraud] >= 0.9``, and what held-out rows prove about them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from eastward import _checks, metrics
from eastward._numerics import safe_divide
from eastward.bounds import one_sided_bound, proves_rate
from eastward.metrics.registry import class_index

__all__ = ["Constraint", "KeptConstraint", "parse_constraints", "split_constraints"]

# predicted_rate[c]: the share of rows decided for c; coverage: the share of rows that are decided at all.
OWN_NAMES = ("predicted_rate", "coverage")
# Shares of independent rows: the bound of Clopper and Pearson is exact for them.
RATES = {"recall", "specificity", "precision"}

N_BOOTSTRAPS = 400

_FORM = re.compile(
    r"\s*(?P<name>[\w.]+)\s*(?:\[(?P<label>.*)\])?\s*(?P<sense>>=|<=|≥|≤)\s*(?P<bound>\S+)\s*"
)
_COMMA_OUTSIDE_BRACKETS = re.compile(r",(?![^\[]*\]\s*(?:>=|<=|≥|≤))")
_EXAMPLE = 'Write for example "recall[fraud] >= 0.9, precision[fraud] >= 0.5".'


class Share(NamedTuple):
    """Successes among rows, both as effective numbers (weighted rows need not be whole)."""

    successes: float
    rows: float


@dataclass(frozen=True)
class Constraint:
    """A bound on one number of the table of decisions.

    Attributes
    ----------
    name : str
        A metric's name, ``"predicted_rate"`` or ``"coverage"``.
    label : int or None
        Index of the class, for a metric of one class.
    at_least : bool
        True for a lower bound, False for an upper one.
    bound : float
        The bound.
    text : str
        The constraint as the user wrote it, with normalised spaces.

    Examples
    --------
    >>> (found,) = parse_constraints("tune_decision", "recall[1] >= 0.9", 2)
    >>> found.name, found.label, found.at_least, found.bound
    ('recall', 1, True, 0.9)
    >>> table = torch.tensor([[80.0, 10.0], [2.0, 8.0]])
    >>> round(float(found.value(table)), 2), round(float(found.slack(table)), 2)
    (0.8, -0.1)
    """

    name: str
    label: int | None
    at_least: bool
    bound: float
    text: str

    def value(self, table: Tensor) -> Tensor:
        """Evaluate the number at a table ``(C, K)``; column C, if there is one, holds undecided rows."""
        decided = table[:, : len(table)]
        if self.name == "coverage":
            return safe_divide(decided.sum(), table.sum())
        if self.name == "predicted_rate":
            return safe_divide(decided[:, self.label].sum(), table.sum())
        if self.label is None:
            return metrics.get(self.name)(decided)
        return metrics.get(self.name, average="none")(decided)[self.label]

    def slack(self, table: Tensor) -> Tensor:
        """Return the margin by which a table satisfies the constraint; negative if it violates the constraint."""
        gap = self.value(table) - self.bound
        return gap if self.at_least else -gap

    def share(self, table: Tensor) -> Share | None:
        """Return the number as a share of rows, or None if it is not one."""
        decided, label = table[:, : len(table)], self.label
        if self.name == "coverage":
            return Share(float(decided.sum()), float(table.sum()))
        if label is None or self.name not in {*RATES, "predicted_rate"}:
            return None
        hits, row, column = decided[label, label], decided[label].sum(), decided[:, label].sum()
        others = decided.sum() - row
        wrong = column - hits
        pairs = {
            "recall": (hits, row),
            "precision": (hits, column),
            "specificity": (others - wrong, others),
            "predicted_rate": (column, table.sum()),
        }
        successes, rows = pairs[self.name]
        return Share(float(successes), float(rows))

    def proven(self, table: Tensor, confidence: float) -> bool:
        """Whether a table of held-out rows, in effective numbers, proves the constraint at ``confidence``."""
        share = self.share(table)
        if share is None:
            return self.proven_margin(table, confidence) >= 0
        if self.at_least:
            return proves_rate(*share, self.bound, confidence=confidence)
        missed = share.rows - share.successes
        return share.rows > 0 and proves_rate(
            missed, share.rows, 1 - self.bound, confidence=confidence
        )

    def proven_value(self, table: Tensor, confidence: float) -> float:
        """Return the one-sided bound: Clopper–Pearson for shares of rows, a bootstrap for other metrics."""
        share = self.share(table)
        if share is not None:
            return one_sided_bound(*share, confidence=confidence, upper=not self.at_least)
        values = self._bootstrapped(table)
        return float(np.quantile(values, 1 - confidence if self.at_least else confidence))

    def proven_margin(self, table: Tensor, confidence: float) -> float:
        """Return the margin by which the bound satisfies the constraint; negative if it does not."""
        gap = self.proven_value(table, confidence) - self.bound
        return gap if self.at_least else -gap

    def judged(self, table: Tensor, confidence: float) -> KeptConstraint:
        """Judge the constraint by a table of held-out rows, in effective numbers."""
        share = self.share(table)
        return KeptConstraint(
            self,
            float(self.value(table)),
            self.proven_value(table, confidence),
            float(table.sum()) if share is None else share.rows,
            confidence,
            self.proven(table, confidence),
        )

    def expected(self, table: Tensor) -> KeptConstraint:
        """Judge the constraint by an expected table, without labels."""
        value = float(self.value(table))
        return KeptConstraint(self, value, value, 0.0, None, float(self.slack(table)) >= 0)

    def _bootstrapped(self, table: Tensor) -> Any:
        # To draw rows with replacement is to draw cells of their table.
        cells = table.flatten().numpy() / float(table.sum())
        generator = np.random.default_rng(0)
        drawn = generator.multinomial(max(1, round(float(table.sum()))), cells, size=N_BOOTSTRAPS)
        tables = torch.from_numpy(drawn).double().reshape(-1, *table.shape)
        return np.array([float(self.value(one)) for one in tables])


@dataclass(frozen=True)
class KeptConstraint:
    """A constraint, and whether held-out rows prove that it holds.

    Attributes
    ----------
    constraint : Constraint
        The constraint.
    value, proven : float
        The number on held-out rows, and its one-sided bound.
    rows : float
        Number of rows behind the value.
    confidence : float or None
        Confidence of the bound. None for an expectation under other class frequencies, where no labels are known.
    holds : bool
        Whether the bound satisfies the constraint.

    Examples
    --------
    >>> (wanted,) = parse_constraints("tune_decision", "recall[1] >= 0.8", 2)
    >>> found = wanted.judged(torch.tensor([[800.0, 100.0], [5.0, 95.0]]), 0.95)
    >>> found.holds, round(found.value, 2), round(found.proven, 2)
    (True, 0.95, 0.9)
    """

    constraint: Constraint
    value: float
    proven: float
    rows: float
    confidence: float | None
    holds: bool

    def __str__(self) -> str:
        constraint = self.constraint
        left = re.split(">=|<=", constraint.text)[0].strip()
        # Two digits, as people write bounds, or all of them: 0.999 is not 1.00.
        bound = max(f"{constraint.bound:.2f}", f"{constraint.bound:g}", key=len)
        claim = f"{left} {'≥' if constraint.at_least else '≤'} {bound}"
        if self.confidence is None:
            return f"{claim} expected: {self.value:.2f}"
        sure = f"{100 * self.confidence:g} % confidence"
        found = f"{self.value:.2f} on {self.rows:.0f} held-out rows"
        if self.holds:
            return f"{claim} with {sure}: {found}"
        return f"{claim} not shown with {sure}: {found} show {self.proven:.2f}"


def split_constraints(caller: str, subject_to: Any) -> list[str]:
    """Split a string at its commas, or several strings, into single constraints.

    Examples
    --------
    >>> split_constraints("f", "recall[1] >= 0.9, coverage >= 0.8")
    ['recall[1] >= 0.9', 'coverage >= 0.8']
    """
    if subject_to is None:
        return []
    texts = [subject_to] if isinstance(subject_to, str) else subject_to
    if not isinstance(texts, Iterable) or not all(isinstance(text, str) for text in texts):
        expected = "a string or a sequence of strings"
        got = _checks.describe(subject_to)
        _checks.fail(caller, "subject_to", expected, got, _EXAMPLE, error=TypeError)
    parts = [part for text in texts for part in _COMMA_OUTSIDE_BRACKETS.split(text)]
    written = [part.strip() for part in parts if part.strip()]
    if isinstance(subject_to, str) and not written:
        _checks.fail(caller, "subject_to", "a constraint, or None", "an empty string", _EXAMPLE)
    return written


def parse_constraints(
    caller: str, subject_to: Any, num_classes: int, classes: Sequence[Any] | None = None
) -> tuple[Constraint, ...]:
    """Parse constraints written in words: a string with commas, or several strings.

    Examples
    --------
    >>> found = parse_constraints("f", "recall[fraud] >= 0.9, coverage >= 0.8", 2, ["no", "fraud"])
    >>> [(one.name, one.label, one.bound) for one in found]
    [('recall', 1, 0.9), ('coverage', None, 0.8)]
    """
    parts = split_constraints(caller, subject_to)
    found = tuple(_parse(caller, part, num_classes, classes) for part in parts)
    _check_contradictions(caller, found)
    return found


def _parse(caller: str, text: str, size: int, classes: Sequence[Any] | None) -> Constraint:
    match = _FORM.fullmatch(text)
    if match is None:
        expected = "of the form name[class] >= bound or name[class] <= bound"
        _checks.fail(caller, "subject_to", expected, repr(text.strip()), _EXAMPLE)
    name, label = match["name"], match["label"]
    at_least = match["sense"] in (">=", "≥")
    index = (
        None if label is None else class_index(caller, "subject_to", label.strip(), classes, size)
    )
    index = _checked_name(caller, name, index, size)
    bound = _checked_bound(caller, name, match["bound"], text)
    place = "" if label is None else f"[{label.strip()}]"
    return Constraint(
        name, index, at_least, bound, f"{name}{place} {'>=' if at_least else '<='} {bound:g}"
    )


def _checked_name(caller: str, name: str, label: int | None, size: int) -> int | None:
    """Find the class index that a constraint names; without one, it means class 1 of a binary problem."""
    known = [*metrics.names(), *OWN_NAMES]
    if name in OWN_NAMES:
        if (name == "coverage") != (label is None):
            form = "'coverage >= 0.8'" if name == "coverage" else "'predicted_rate[class] <= 0.05'"
            _checks.fail(caller, "subject_to", f"written {form}", repr(name))
        return label
    try:
        metric = metrics.get(name)
    except ValueError:
        expected = "about a registered metric, predicted_rate or coverage"
        advice = _checks.near_misses(name, known)
        _checks.fail(caller, "subject_to", expected, repr(name), advice)
    average = metric.options.get("average")
    if label is not None and average != "binary":
        expected = "without a class for a metric of all classes"
        _checks.fail(caller, "subject_to", expected, repr(f"{name}[…]"), _EXAMPLE)
    if label is None and average == "binary":
        if size != 2:
            expected = f"about a class, {name}[class], with {size} classes"
            _checks.fail(caller, "subject_to", expected, repr(name), _EXAMPLE)
        return 1
    return label


def _checked_bound(caller: str, name: str, written: str, text: str) -> float:
    try:
        bound = float(written)
    except ValueError:
        _checks.fail(caller, "subject_to", "bounded by a number", repr(text.strip()), _EXAMPLE)
    low = 0.0 if name in OWN_NAMES else metrics.get(name).low
    high = 1.0 if name in OWN_NAMES else metrics.get(name).high
    if not low <= bound <= high:
        _checks.fail(
            caller, "subject_to", f"bounded by a number in [{low:g}, {high:g}]", repr(text.strip())
        )
    return bound


def _check_contradictions(caller: str, constraints: Sequence[Constraint]) -> None:
    for lower in constraints:
        for upper in constraints:
            same = (lower.name, lower.label) == (upper.name, upper.label)
            if same and lower.at_least and not upper.at_least and lower.bound > upper.bound:
                got = f"'{lower.text}' together with '{upper.text}'"
                _checks.fail(caller, "subject_to", "free of contradictions", got)
