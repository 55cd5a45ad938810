"""Give a verdict on one model: whether to use it, what it gains, and how certain that is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from eastward.metrics import Metric
from eastward.reporting import wording

__all__ = ["finding"]

# Longer class names would make the first sentence too long.
LONGEST_NAME = 24


def finding(
    evaluation: Mapping[str, Any] | None,
    training: Mapping[str, Any],
    metric: Metric,
    *,
    compared: bool = False,
) -> dict[str, Any]:
    """Give a verdict on one model without a comparison.

    The model is compared with the best constant answer, which needs no model.

    Parameters
    ----------
    evaluation : mapping or None
        The result of :func:`evaluation_summary`; None if no rows were held out.
    training : mapping
        ``stages`` and ``sentences`` of a fitted classifier's ``report_``.
    metric : Metric
        The metric that judges the model.
    compared : bool, default=False
        Whether a comparison recommended the method, so that there is no need to suggest one.

    Returns
    -------
    dict
        ``sentence`` (at most twenty words), ``detail`` (further sentences), ``recommended`` (None) and ``next``, the
        next command.

    Examples
    --------
    >>> from eastward.metrics import get
    >>> evaluation = {
    ...     "rows": 90,
    ...     "only_class": None,
    ...     "constant": {"label": "no", "value": 0.4},
    ...     "metrics": [{"name": "f1_macro", "value": 0.7, "interval": [0.6, 0.8]}],
    ... }
    >>> finding(evaluation, {}, get("f1_macro"))["sentence"]
    'Use this model: macro F1 0.700 on new rows, clearly better than 0.400 for always answering “no”.'
    """
    title = wording.metric_title(metric.name)
    if evaluation is None:
        return _unjudged(training, title)
    score, constant = evaluation["metrics"][0], evaluation["constant"]
    always = f"always answering {_quoted(constant['label'])}"
    reached, without = wording.number(score["value"]), wording.number(constant["value"])
    judgement = _judgement(score, constant["value"], metric)
    sentences = {
        "better": f"Use this model: {title} {reached} on new rows, clearly better than {without} for {always}.",
        "unclear": f"Not proven: {title} {reached} on new rows, against {without} for {always}; perhaps by chance.",
        "worse": f"Do not use this model: {title} {reached} on new rows, while {always} reaches {without}.",
    }
    sentence = sentences[judgement]
    if evaluation["only_class"] is not None:
        judgement = "worse"
        sentence = f"Do not use this model: every new row is decided as {_quoted(evaluation['only_class'])}."
    return {
        "sentence": sentence,
        "detail": [_certainty(evaluation["rows"], score, title), *([] if compared else [COMPARE])],
        "recommended": None,
        "next": "predict" if judgement == "better" else "compare",
    }


COMPARE = "To see whether another method does better on these data, run `eastward compare`."


def _judgement(score: Mapping[str, Any], without: float, metric: Metric) -> str:
    direction = 1 if metric.higher_is_better else -1
    ends: Sequence[float] = score["interval"] or [score["value"]]
    if min(direction * end for end in ends) > direction * without:
        return "better"
    return "unclear" if direction * score["value"] > direction * without else "worse"


def _certainty(rows: int, score: Mapping[str, Any], title: str) -> str:
    seen = f"Judged on {wording.count(rows)} rows that the model has not seen"
    if wording.interval(score["interval"]) == wording.MISSING:
        return f"{seen}."
    low, high = (wording.number(end) for end in score["interval"])
    return f"{seen}: the true {title} is between {low} and {high} with 95 % confidence."


def _unjudged(training: Mapping[str, Any], title: str) -> dict[str, Any]:
    known = [stage["tuned"] for stage in training.get("stages") or [] if stage["tuned"] is not None]
    sentence = "No rows were held out, so nothing is known about new rows."
    if known:
        reached = wording.number(known[-1])
        sentence = f"Cross-validated while training, the model reaches {title} {reached}."
    return {
        "sentence": sentence,
        "detail": [*(training.get("sentences") or [])],
        "recommended": None,
    }


def _quoted(label: str) -> str:
    return f"“{label}”" if len(label) <= LONGEST_NAME else "one class"
