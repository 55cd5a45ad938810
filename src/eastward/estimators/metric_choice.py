"""Resolve the metric that a user names, with its options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from eastward import _checks, metrics
from eastward.metrics import Metric

__all__ = ["resolve_metric"]


def resolve_metric(caller: str, metric: Any, options: Any, classes: list[Any]) -> Metric:
    """Bind the options of a metric; names such as "f1[fraud]" and beta may use the labels of classes.

    Parameters
    ----------
    caller : str
        Name of the caller, for messages.
    metric : str, Metric or callable
        A metric's name, a Metric, or a function of a confusion matrix.
    options : mapping or None
        Options of the metric.
    classes : list
        Labels, sorted.

    Returns
    -------
    Metric
        The metric with its options.

    Examples
    --------
    >>> resolve_metric("fit", "f_beta", {"beta": {"fraud": 2.0}}, ["fraud", "ok"]).options
    {'beta': {0: 2.0}}
    """
    if options is None:
        return metrics.as_metric(metric, caller, classes)
    if not isinstance(options, Mapping):
        expected, got = "a mapping from options to values, or None", _checks.describe(options)
        _checks.fail(caller, "metric_options", expected, got, error=TypeError)
    bound = dict(options)
    beta = bound.get("beta")
    if isinstance(beta, Mapping):
        positions = {name: index for index, name in enumerate(classes)}
        unknown = [name for name in beta if name not in positions]
        if unknown:
            expected = f"keyed by classes, {classes[:10]}"
            _checks.fail(caller, "metric_options['beta']", expected, unknown)
        bound["beta"] = {positions[name]: value for name, value in beta.items()}
    if not isinstance(metric, str):
        return metrics.as_metric(metric, caller, classes).with_options(**bound)
    found = metrics.as_metric(metric, caller, classes, **bound)
    if "[" not in found.name:
        return found
    return metrics.get(found.name, average=found.options["average"], **bound)
