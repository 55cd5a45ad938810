"""The classes of a task: spellings that mean one class, and classes with too few rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from eastward import _messages
from eastward.data.labels import label_names

__all__ = ["ClassRules", "SettledLabels", "renamed", "settled_labels"]

CALLER = "load_task"
# Classes with fewer rows than this are rare by default.
FEW_ROWS = 10


@dataclass(frozen=True)
class ClassRules:
    """Rules for labels that are nearly equal, and for rare classes.

    Attributes
    ----------
    merge_labels : bool
        Merge labels that differ only in case or spaces.
    min_rows : int, optional
        Classes with fewer rows are rare; by default those with a single row, or, for merging, with fewer than ten.
    drop : bool
        Leave out the rows of rare classes, instead of stopping.
    merge_rare : str, optional
        Merge the rare classes into one of this name.
    """

    merge_labels: bool = False
    min_rows: int | None = None
    drop: bool = False
    merge_rare: str | None = None

    @property
    def rare_below(self) -> int:
        """Classes with fewer rows than this are rare."""
        return self.min_rows or (2 if self.merge_rare is None else FEW_ROWS)


@dataclass(frozen=True)
class SettledLabels:
    """Labels, the rows that are left, new names of old labels, and notes on what was done."""

    labels: NDArray[Any]
    kept: NDArray[np.bool_]
    renamed: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def settled_labels(labels: NDArray[Any], target: str, rules: ClassRules) -> SettledLabels:
    """Apply ``rules`` to labels; an error names classes that are too small to learn.

    Examples
    --------
    >>> labels = np.array(["Yes", "yes", "yes", "no", "no", "perhaps"])
    >>> settled = settled_labels(labels, "y", ClassRules(merge_labels=True, drop=True))
    >>> settled.labels.tolist(), settled.renamed["Yes"]
    (['yes', 'yes', 'yes', 'no', 'no'], 'yes')
    """
    if rules.min_rows is not None:
        _messages.whole_number(CALLER, "min_class_rows", rules.min_rows, at_least=2)
    if rules.merge_rare is not None and not rules.merge_rare.strip():
        _messages.fail(
            CALLER, "merge_rare", "the name of a class, such as other", "an empty string"
        )
    labels, names, notes = _one_spelling(labels, rules)
    if rules.merge_rare is not None:
        labels, merged, more = _merged_rare(labels, rules.merge_rare, rules.rare_below)
        names, notes = (
            {**{old: merged.get(new, new) for old, new in names.items()}, **merged},
            notes + more,
        )
    kept, more = _frequent(labels, target, rules)
    return SettledLabels(labels[kept], kept, names, notes + more)


def renamed(column: pd.Series, names: Mapping[str, str]) -> pd.Series:
    """Rename labels as in training; unknown spellings are looked up without regard to case and spaces.

    Examples
    --------
    >>> renamed(pd.Series(["YES", "no"]), {"yes": "yes", "Yes": "yes"}).tolist()
    ['yes', 'no']
    """
    if not names:
        return column
    return column.map(
        lambda label: names.get(str(label), names.get(_folded(str(label)), label)),
        na_action="ignore",
    )


def _folded(label: str) -> str:
    return " ".join(label.split()).casefold()


def _one_spelling(
    labels: NDArray[Any], rules: ClassRules
) -> tuple[NDArray[Any], dict[str, str], tuple[str, ...]]:
    """Report labels that differ only in case or spaces, or merge them under the most frequent name."""
    if labels.dtype.kind != "U":
        return labels, {}, ()
    classes, codes, counts = np.unique(labels, return_inverse=True, return_counts=True)
    alike: dict[str, list[int]] = {}
    for position in np.argsort(-counts, kind="stable"):
        alike.setdefault(_folded(str(classes[position])), []).append(int(position))
    groups = {key: group for key, group in alike.items() if len(group) > 1}
    if not groups:
        return labels, {}, ()
    shown = "; ".join(
        ", ".join(repr(str(classes[k])) for k in group) for group in list(groups.values())[:4]
    )
    if not rules.merge_labels:
        note = f"labels that differ only in case or spaces are different classes: {shown}"
        return labels, {}, (f"{note} (--merge-labels makes them one)",)
    names = {str(classes[k]): str(classes[g[0]]).strip() for g in groups.values() for k in g}
    final = np.array([names.get(str(label), str(label)) for label in classes])
    names |= {key: names[str(classes[group[0]])] for key, group in groups.items()}
    return final[codes], names, (f"labels that differ only in case or spaces were merged: {shown}",)


def _merged_rare(
    labels: NDArray[Any], name: str, below: int
) -> tuple[NDArray[Any], dict[str, str], tuple[str, ...]]:
    classes, codes, counts = np.unique(labels, return_inverse=True, return_counts=True)
    rare = counts < below
    if not rare.any():
        return labels, {}, ()
    names = {label: name for label, few in zip(label_names(classes), rare, strict=True) if few}
    final = np.array([names.get(label, label) for label in label_names(classes)])
    note = f"classes with fewer than {below} rows were merged into {name!r}: {_shown(list(names))}"
    return final[codes], names, (note,)


def _frequent(
    labels: NDArray[Any], target: str, rules: ClassRules
) -> tuple[NDArray[np.bool_], tuple[str, ...]]:
    """Select the rows of classes with enough rows, and describe what was left out."""
    classes, codes, counts = np.unique(labels, return_inverse=True, return_counts=True)
    dropping = rules.drop or (rules.min_rows is not None and rules.merge_rare is None)
    below = rules.rare_below if dropping else 2
    enough = counts >= below
    rare = label_names(classes[~enough])
    if rare and not dropping:
        merging = "merge small classes with merge_rare='other' (--merge-rare other)"
        if (
            rules.merge_rare is not None
        ):  # rare classes were merged, and there is still only one row
            merging = "name a class that has rows in merge_rare (--merge-rare)"
        advice = f"Add rows, leave such rows out with drop_rare_classes=True (--drop-rare-classes), or {merging}."
        expected = "made of classes with at least two rows, one to learn from and one to check"
        _messages.fail(
            CALLER, f"target {target!r}", expected, f"a single row of {_shown(rare)}", advice
        )
    if enough.sum() < 2:
        got = f"{label_names(classes)[0]!r} in every row" if len(classes) == 1 else "one class"
        if len(classes) > 1 and below > 2:
            got = f"{enough.sum()} with at least {below} rows"
        advice = "A classifier needs rows of at least two classes."
        _messages.fail(CALLER, f"target {target!r}", "made of at least two classes", got, advice)
    size = "a single row" if below == 2 else f"fewer than {below} rows"
    notes = (f"classes with {size} were left out: {_shown(rare)}",) if rare else ()
    return enough[codes], notes


def _shown(names: list[str]) -> str:
    shown = ", ".join(repr(name[:30]) for name in names[:8])
    return shown + (f" and {len(names) - 8} more" if len(names) > 8 else "")
