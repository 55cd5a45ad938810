"""Collect the report of a fitted classifier about its training."""

from __future__ import annotations

from typing import Any

__all__ = ["training_words"]


def training_words(classifier: Any) -> dict[str, Any]:
    """Collect stages with held-out scores, sentences, notes and the history of epochs, if there are any.

    Parameters
    ----------
    classifier : classifier
        A fitted classifier; one without ``report_``, such as a plain forest, has nothing to report.

    Returns
    -------
    dict
        ``stages`` (``name``, ``argmax``, ``tuned``), ``sentences``, ``notes``, ``history``.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> parts = {"networks": 0.61, "lightgbm": 0.58, "mean": 0.63}
    >>> ensemble = SimpleNamespace(report_={"parts": parts, "tuned": 0.66})
    >>> training_words(ensemble)["stages"][-1]
    {'name': 'mean of the parts', 'argmax': 0.63, 'tuned': 0.66}
    """
    report = getattr(classifier, "report_", None) or {}
    empty: dict[str, Any] = {"stages": [], "sentences": [], "notes": [], "history": []}
    if "stages" in report:
        return {**empty, **report, "history": getattr(classifier, "history_", [])}
    if "parts" in report:
        parts = dict(report["parts"])
        mean = {"name": "mean of the parts", "argmax": parts.pop("mean"), "tuned": report["tuned"]}
        stages = [
            {"name": name.replace("_", " "), "argmax": score, "tuned": None}
            for name, score in parts.items()
        ]
        return {**empty, "stages": [*stages, mean]}
    if "words" in report:
        stage = {
            "name": "most probable class",
            "argmax": report["baseline"],
            "tuned": report["tuned"],
        }
        return {**empty, "stages": [stage], "sentences": [report["words"]]}
    return empty
