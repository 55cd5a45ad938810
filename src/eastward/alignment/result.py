"""The result of `align`, and how it is printed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from eastward.alignment.heads import Layout

__all__ = ["Alignment"]


@dataclass(frozen=True, eq=False)
class Alignment:
    """A network aligned with a metric, with its decision and the gain of each stage.

    Attributes
    ----------
    model : Module
        The aligned network, in evaluation mode. Unless ``decision`` says otherwise, its largest logit is the decision.
        A single logit, and the logit of a label, decide at zero.
    decision : Decision or LabelThresholds
        The rule that turns probabilities of ``model`` (softmax or sigmoid) into decisions.
    report : dict
        Plain values, such as ``metric``, ``prior``, ``head``, ``notes`` and ``stages``. Each stage has a ``value``, a
        ``gain`` with its ``error``, ``kept`` and ``seconds``; ``over`` names the stage that the gain is measured
        against, and ``counts`` tells whether decisions were counted whole ("hard") or in part ("soft").
    layout : Layout
        How outputs of the network become rows.
    """

    model: nn.Module
    decision: Any
    report: dict[str, Any]
    layout: Layout

    def decide(self, logits: Tensor) -> Tensor:
        """Turn logits of ``model`` into decisions, in the shape of the targets; -1 means undecided."""
        rows = self.layout.rows(logits.detach()).double()
        if self.layout.labels:
            flat = self.decision.decide(torch.sigmoid(rows))
            shape = logits.movedim(self.layout.class_axis, -1).shape
            return torch.as_tensor(flat).reshape(shape).movedim(-1, self.layout.class_axis)
        flat = self.decision.decide(torch.softmax(rows, dim=1))
        if self.layout.single:
            found = torch.as_tensor(flat).reshape(logits.shape)
            return found.squeeze(self.layout.class_axis) if self.layout.squeezed else found
        return torch.as_tensor(flat).reshape(logits.movedim(self.layout.class_axis, -1).shape[:-1])

    def __str__(self) -> str:
        report = self.report
        lines = [
            f"{report['metric']} on {report['valid_rows']} validation rows, {report['judged']}:"
        ]
        width = max(len(stage["stage"]) for stage in report["stages"])
        lines.append(f"  {'':{width}}   value  gain, by which it is judged")
        lines += [f"  {_words(stage, width)}" for stage in report["stages"]]
        if any(stage.get("counts") == "soft" for stage in report["stages"]):
            lines.append("Soft gains count rows near the boundary in part; values count decisions.")
        lines += [f"{note}." for note in report["notes"]]
        lines.append(f"Decision: {self.decision}")
        return "\n".join(lines)


def _words(stage: dict[str, Any], width: int) -> str:
    """Format one line for a stage."""
    name = stage["stage"].ljust(width)
    if stage["gain"] is None:
        return (
            f"{name}  {stage['value']:.4f}" if stage["value"] is not None else f"{name}  not judged"
        )
    kept = "kept" if stage["kept"] else "not kept"
    gain = f"{stage['gain']:+.4f} ± {stage['error']:.4f}"
    over = f"{stage['counts']}, over {stage['over']}"
    return f"{name}  {stage['value']:.4f}  {gain}  {kept:8}  ({over})"
