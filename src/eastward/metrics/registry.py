"""The table of names: every metric, its direction, range and formula.

Adding a metric means one function in this package and one row here.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import numpy as np
from torch import Tensor

from eastward import _checks
from eastward.confusion import Counts
from eastward.metrics import agreement, rates
from eastward.metrics.foreign import advice_for_name, check_takes_a_matrix

__all__ = ["Metric", "as_metric", "get", "names"]


@dataclass(frozen=True)
class Metric:
    """A metric of the confusion matrix, with the properties that a loss needs to know.

    Attributes
    ----------
    name : str
        Its name in messages and reports.
    function : callable
        ``confusion -> 0-d tensor``.
    options : dict
        Keyword arguments bound to the function.
    higher_is_better : bool
        If True, a loss is ``1 - value``; otherwise it is the value.
    low, high : float
        Range of the value; infinite where it depends on the options.
    needs_matrix : bool
        Whether the d x d matrix is needed, or the one-vs-rest counts suffice.
    per_class : bool
        Whether the function takes ``absent``, the policy for classes without true samples.
    needs_two_classes : bool
        Whether it is undefined, and without a gradient, when all samples belong to one class.
    formula : str
        The formula for readers.

    Examples
    --------
    >>> import torch
    >>> get("f1_macro")(torch.tensor([[8.0, 2.0], [2.0, 4.0]]))
    tensor(0.7333)
    """

    name: str
    function: Callable[..., Tensor]
    options: Mapping[str, Any] = field(default_factory=dict)
    higher_is_better: bool = True
    low: float = 0.0
    high: float = 1.0
    needs_matrix: bool = True
    per_class: bool = False
    needs_two_classes: bool = False
    formula: str = ""

    def __call__(self, confusion: Tensor | Counts) -> Tensor:
        """Evaluate the metric at ``confusion``."""
        value: Any = self.function(confusion, **self.options)
        if value is None:
            advice = "A function that ends without return gives None."
            _checks.fail(self.name, "the result", "a number", None, advice, error=TypeError)
        found: Tensor = value
        return found

    def with_options(self, **options: Any) -> Metric:
        """Return a copy of the metric with more options bound."""
        return replace(self, options={**self.options, **options})


def _family(
    stem: str, function: Callable[..., Tensor], formula: str, *, needs_others: bool = False
) -> dict[str, Metric]:
    """Make the rows of a per-class metric: plain (class 1 of two), macro, micro and weighted.

    ``needs_others`` means that the value of a class is constant or undefined without samples of another class.
    """
    rows = {}
    for average in ("binary", "macro", "micro", "weighted"):
        name = stem if average == "binary" else f"{stem}_{average}"
        rows[name] = Metric(
            name,
            function,
            {"average": average},
            needs_matrix=False,
            per_class=True,
            needs_two_classes=average == "binary" or (needs_others and average != "micro"),
            formula=formula + ("" if average == "binary" else f", {average} average"),
        )
    return rows


def _whole(
    name: str, function: Callable[..., Tensor], formula: str, **facts: Any
) -> dict[str, Metric]:
    return {name: Metric(name, function, formula=formula, **{"needs_matrix": False, **facts})}


_CHANCE_CORRECTED = {"low": -1.0, "needs_two_classes": True}

_TABLE: Mapping[str, Metric] = MappingProxyType(
    _whole("accuracy", agreement.accuracy, "sum(tp) / n")
    | _whole(
        "balanced_accuracy", agreement.balanced_accuracy, "mean of tp / (tp + fn)", per_class=True
    )
    | _family("f1", rates.f1, "2 tp / (2 tp + fp + fn)")
    | _whole(
        "f_beta",
        rates.f_beta,
        "(1 + b^2) tp / ((1 + b^2) tp + b^2 fn + fp), macro average; options beta, average",
        per_class=True,
    )
    | _family("precision", rates.precision, "tp / (tp + fp)", needs_others=True)
    | _family("recall", rates.recall, "tp / (tp + fn)")
    | _family("specificity", rates.specificity, "tn / (tn + fp)", needs_others=True)
    | _family("jaccard", rates.jaccard, "tp / (tp + fp + fn)")
    | _family("fowlkes_mallows", rates.fowlkes_mallows, "tp / sqrt((tp + fp)(tp + fn))")
    | _whole(
        "matthews_corrcoef",
        agreement.matthews_corrcoef,
        "sum(tp tn - fp fn) / sqrt(sum((tp + fn)(fp + tn)) sum((tp + fp)(fn + tn)))",
        **_CHANCE_CORRECTED,
    )
    | _whole(
        "cohen_kappa",
        agreement.cohen_kappa,
        "1 - sum(W C) / sum(W E), W = 1 off the diagonal",
        **_CHANCE_CORRECTED,
    )
    | {
        f"cohen_kappa_{kind}": Metric(
            f"cohen_kappa_{kind}",
            agreement.cohen_kappa,
            {"weights": kind},
            formula=f"1 - sum(W C) / sum(W E), W = {weight}",
            low=-1.0,
            needs_two_classes=True,
        )
        for kind, weight in (("linear", "|i - j|"), ("quadratic", "(i - j)^2"))
    }
    | _whole(
        "geometric_mean",
        agreement.geometric_mean,
        "(product of tp / (tp + fn))^(1/K)",
        per_class=True,
    )
    | _whole(
        "informedness",
        rates.informedness,
        "tp / (tp + fn) + tn / (tn + fp) - 1",
        per_class=True,
        **_CHANCE_CORRECTED,
    )
    | _whole(
        "markedness",
        rates.markedness,
        "tp / (tp + fp) + tn / (tn + fn) - 1",
        per_class=True,
        **_CHANCE_CORRECTED,
    )
    | _whole(
        "expected_cost",
        agreement.expected_cost,
        "sum(C cost) / n; option cost",
        higher_is_better=False,
        low=float("-inf"),
        high=float("inf"),
        needs_matrix=True,
    )
)

# Names used elsewhere; an error points to the name used here.
_HINTS = {
    "mcc": "matthews_corrcoef",
    "kappa": "cohen_kappa",
    "qwk": "cohen_kappa_quadratic",
    "dice": "f1_macro",
    "iou": "jaccard_macro",
    "miou": "jaccard_macro",
    "acc": "accuracy",
    "bacc": "balanced_accuracy",
    "gmean": "geometric_mean",
    "g_mean": "geometric_mean",
    "youden": "informedness",
    "cost": "expected_cost",
    "sensitivity": "recall",
    "fbeta": "f_beta",
    "macro_f1": "f1_macro",
}

# "f1[fraud]": the value of one class.
_ONE_CLASS = re.compile(r"(?P<stem>[^\[\]]+)\[(?P<label>.+)\]")
# "f2", "f0.5_macro": the F-score of any beta, as people write it.
_F_NAME = re.compile(r"f(?P<beta>\d+(?:\.\d+)?)(?:_(?P<average>macro|micro|weighted))?")


def names() -> list[str]:
    """List all metric names; they are scikit-learn's scorer names where one exists.

    Returns
    -------
    list of str
        The names, in alphabetical order.

    Examples
    --------
    >>> "f1_macro" in names()
    True
    """
    return sorted(_TABLE)


def get(name: str, **options: Any) -> Metric:
    """Return the metric called ``name``, with ``options`` bound.

    Parameters
    ----------
    name : str
        One of :func:`names`, in upper or lower case. ``f<beta>`` also takes any number and average, such as ``"f2"``
        or ``"f0.5_macro"``. An index in brackets selects the value of one class: ``"f1[0]"``, ``"recall[2]"``.
    **options
        Keyword arguments of the metric's function, for example ``beta=2`` or ``cost=table``.

    Returns
    -------
    Metric
        A callable ``confusion -> 0-d tensor``.

    Examples
    --------
    >>> import torch
    >>> get("expected_cost", cost=[[0, 1], [5, 0]])(torch.tensor([[3.0, 1.0], [2.0, 4.0]]))
    tensor(1.1000)
    >>> get("f2_macro").options["beta"]
    2.0
    """
    metric = _named(name, "metrics.get", "name", average=options.get("average"))
    known = _option_names(metric.function)
    for option in options:
        if option not in known:
            expected = f"without the option {option!r}"
            advice = _checks.near_misses(option, known) or f"It takes {', '.join(known) or 'none'}."
            _checks.fail("metrics.get", repr(name), expected, option, advice, error=TypeError)
    if metric.name == "expected_cost" and "cost" not in options:
        advice = (
            "Use metrics.get('expected_cost', cost=[[0, 1], [5, 0]]): rows true, columns predicted."
        )
        _checks.fail("metrics.get", "cost", "given for 'expected_cost'", "nothing", advice)
    bound = metric.with_options(**options)
    if isinstance(options.get("average"), str) and options["average"] == "binary":
        bound = replace(bound, needs_two_classes=True)
    if options.get("weights") is not None:
        bound = replace(bound, needs_matrix=True)
    return bound


def as_metric(
    metric: object,
    caller: str = "EASTLoss",
    classes: Sequence[Any] | None = None,
    **options: Any,
) -> Metric:
    """Turn a name or a callable ``confusion -> 0-d tensor`` into a :class:`Metric`.

    For a plain callable, higher is assumed to be better, and it receives the whole matrix. Wrap it in :class:`Metric`
    to change that.

    Parameters
    ----------
    metric : str, Metric or callable
        A metric's name, a :class:`Metric`, or a function of a confusion matrix.
    caller : str, default="EASTLoss"
        Function name to show in error messages.
    classes : sequence, optional
        Labels in the order of the classes, so that a name such as ``"f1[fraud]"`` can use one. Without them, use its
        index.
    **options
        Options of a metric that is given by its name.

    Returns
    -------
    Metric
        The metric, with its options bound.

    Examples
    --------
    >>> as_metric(lambda confusion: confusion.diagonal().sum() / confusion.sum()).needs_matrix
    True
    """
    if isinstance(metric, Metric):
        return metric
    if isinstance(metric, str):
        found = _named(metric, caller, "metric", None if classes is None else list(classes))
        return found if _ONE_CLASS.fullmatch(found.name) else get(found.name, **options)
    if callable(metric):
        check_takes_a_matrix(metric, caller)
        name = getattr(metric, "__name__", type(metric).__name__)
        return Metric(name, metric, low=float("-inf"), high=float("inf"))
    expected = "a name, or a callable that takes a confusion matrix and returns a 0-d tensor"
    return _checks.fail(caller, "metric", expected, _checks.describe(metric), error=TypeError)


def _named(
    name: object,
    caller: str,
    argument: str,
    classes: Sequence[Any] | None = None,
    average: Any = None,
) -> Metric:
    match = _ONE_CLASS.fullmatch(name.strip()) if isinstance(name, str) else None
    plain = _plain_name(name if match is None else match["stem"])
    found = _TABLE.get(plain) if isinstance(plain, str) else None
    metric = found or _f_score(plain, caller, argument)
    if match is None:
        return metric
    if metric.options.get("average") != "binary":
        expected = "without a class for a metric of all classes"
        _checks.fail(caller, argument, expected, repr(name), "Write for example f1[fraud].")
    label = match["label"].strip()
    if not isinstance(average, int):
        average = class_index(caller, argument, label, classes)
    options = {**metric.options, "average": average}
    return replace(metric, name=f"{metric.name}[{label}]", options=options)


def class_index(
    caller: str,
    argument: str,
    label: str,
    classes: Sequence[Any] | None,
    size: int | None = None,
) -> int:
    """Find the index of the class written as ``label``: a label, or an index if the labels are not numbers.

    Examples
    --------
    >>> class_index("f", "metric", "fraud", ["fraud", "ok"]), class_index("f", "metric", "1", None)
    (0, 1)
    """
    count = size if classes is None else len(classes)
    names = [str(known) for known in (range(count or 0) if classes is None else classes)]
    if label in names:
        return names.index(label)
    numbered = not any(isinstance(known, int | float | np.number) for known in classes or ())
    if numbered and label.isdecimal() and (count is None or int(label) < count):
        return int(label)
    if classes is None and count is None:
        advice = "Labels are known to estimators, compare, and tune_decision(classes=)."
        return _checks.fail(caller, argument, "about a class by its index", repr(label), advice)
    expected = "about known classes, " + ", ".join(names[:10]) + ("" if len(names) <= 10 else ", …")
    advice = _checks.near_misses(label, names)
    if classes is None and not label.isdecimal():
        advice = "Pass classes=, the labels in the order of the columns."
    return _checks.fail(caller, argument, expected, repr(label), advice)


def _plain_name(name: Any) -> Any:
    """Normalise a name: lower case, with underscores for hyphens and spaces."""
    return re.sub(r"[-\s]+", "_", name.strip().lower()) if isinstance(name, str) else name


def _f_score(name: object, caller: str, argument: str) -> Metric:
    match = _F_NAME.fullmatch(name) if isinstance(name, str) else None
    if match is None:
        expected = "a known name (`eastward metrics`, or eastward.metrics.names())"
        advice = advice_for_name(name) or _checks.near_misses(name, _TABLE, _HINTS)
        _checks.fail(caller, argument, expected, _checks.describe(name), advice)
    beta, average = float(match["beta"]), match["average"] or "binary"
    _checks.beta(caller, beta, 1)
    return replace(
        _TABLE["f_beta"],
        name=match[0],
        options={"beta": beta, "average": average},
        needs_two_classes=average == "binary",
    )


def _option_names(function: Callable[..., Tensor]) -> list[str]:
    return [name for name in inspect.signature(function).parameters if name != "confusion"]
