"""What was tuned and what it brings: as plain data, and in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from eastward.decisions.gain import DecisionGain
from eastward.decisions.guard import OffsetEvidence
from eastward.metrics import Metric


def offset_report(evidence: OffsetEvidence, labels: Sequence[Any], codes: Any) -> dict[str, Any]:
    """What is known of tuned offsets, class by class."""
    counts = torch.bincount(torch.as_tensor(codes), minlength=len(labels)).tolist()
    spread = evidence.by_fold.std(0).tolist()
    rows = zip(labels, counts, evidence.offsets.tolist(), spread, strict=True)
    keys = ("label", "samples", "offset", "spread")
    return {
        "decision": "offsets",
        "favoured": evidence.favoured,
        "factor": evidence.factor,
        "disagreement": evidence.disagreement,
        "cross_validated_gain": evidence.gain,
        "standard_error": evidence.standard_error,
        "folds": len(evidence.by_fold),
        "classes": [dict(zip(keys, row, strict=True)) for row in rows],
    }


def complete_report(report: dict[str, Any], gain: DecisionGain, metric: Metric) -> dict[str, Any]:
    """The report with values of the metric and a sentence in words."""
    full = {
        **report,
        "metric": metric.name,
        "higher_is_better": metric.higher_is_better,
        "baseline": gain.before,
        "tuned": gain.after,
        "gain": gain.gain,
        "interval": (gain.low, gain.high),
    }
    return full | {"words": _words(full)}


def report_text(report: dict[str, Any]) -> str:
    """The report in words, with a table of the classes."""
    if report["decision"] != "offsets":
        return str(report["words"])
    width = max(len("class"), *(len(str(row["label"])) for row in report["classes"]))
    head = f"{'class':<{width}}  {'samples':>7}  {'offset':>7}  {'± folds':>7}"
    rows = [
        f"{row['label']!s:<{width}}  {row['samples']:>7}  {row['offset']:>+7.3f}  {row['spread']:>7.3f}"
        for row in report["classes"]
    ]
    return "\n".join([report["words"], "", head, *rows])


def _words(report: dict[str, Any]) -> str:
    if report["decision"] == "cost":
        abstained = f"{report['abstained']:.1%} of the samples are not decided"
        return f"Cheapest decisions change {_change(report)}; {abstained}."
    if report["factor"] == 0:
        return f"The plain argmax stays, with {report['metric']} {report['baseline']:.4f}: {_doubt(report)}."
    shrunk = "" if report["factor"] == 1 else f", times {report['factor']:.2g},"
    return f"Offsets{shrunk} change {_change(report)}."


def _doubt(report: dict[str, Any]) -> str:
    if report["favoured"]:
        return "the offsets of different bootstraps have nothing in common"
    gain, error = report["cross_validated_gain"], report["standard_error"]
    return f"offsets would bring {gain:+.4f} ± {error:.4f} in cross-validation"


def _change(report: dict[str, Any]) -> str:
    low, high = report["interval"]
    return (
        f"{report['metric']} from {report['baseline']:.4f} to {report['tuned']:.4f} on cross-fitted predictions "
        f"(gain {report['gain']:+.4f}, 95 % interval {low:+.4f} to {high:+.4f})"
    )
