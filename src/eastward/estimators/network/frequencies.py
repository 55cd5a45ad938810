"""Class frequencies that a network is meant for, if they differ from those of training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from eastward import _checks
from eastward.estimators.network.preparation import CALLER
from eastward.training.batches import Frequencies, Rows

if TYPE_CHECKING:
    from eastward.estimators.network.classifier import EASTClassifier
    from eastward.estimators.network.fitting import Prepared

__all__ = ["frequency_sentence", "with_frequencies"]


def with_frequencies(model: EASTClassifier, ready: Prepared) -> Prepared:
    """Attach the frequencies of ``model.prior`` to the prepared rows; unchanged if it is None."""
    if model.prior is None:
        return ready
    labels = ready.labels.classes.tolist()
    _check_usable(model, ready)
    judged = _judged(model.prior, labels)
    frequencies = Frequencies(_trained(ready), judged)
    return replace(ready, rows=replace(ready.rows, frequencies=frequencies))


def frequency_sentence(rows: Rows, classes: list[Any]) -> list[str]:
    """Describe in words which frequencies the model is meant for; "" if they are those of training."""
    if rows.frequencies is None:
        return []
    shares = rows.frequencies.judged.tolist()
    if max(shares) - min(shares) < 1e-9:
        return ["judged by equal class frequencies, to which held-out rows are weighted"]
    few = ", ".join(f"{name} {share:.3g}" for name, share in zip(classes[:6], shares, strict=False))
    more = ", …" if len(classes) > 6 else ""
    return [f"judged by the class frequencies {few}{more}, to which held-out rows are weighted"]


def _check_usable(model: EASTClassifier, ready: Prepared) -> None:
    if ready.labels.multilabel:
        expected = "None for labels that do not exclude each other"
        _checks.fail(CALLER, "prior", expected, _checks.describe(model.prior))
    if ready.source is not None and model.class_weight is not None:
        advice = "The prior alone says which classes count."
        expected = "None beside prior= for rows that are not in memory"
        _checks.fail(CALLER, "class_weight", expected, _checks.describe(model.class_weight), advice)


def _judged(prior: Any, labels: list[Any]) -> Tensor:
    """Return frequencies in the order of the classes."""
    if isinstance(prior, str):
        words = "None, frequencies or a mapping of labels to them"
        _checks.one_of(CALLER, "prior", prior, ("balanced",), otherwise=words)
        return torch.full((len(labels),), 1 / len(labels), dtype=torch.float64)
    if isinstance(prior, Mapping):
        if set(prior) != set(labels):
            _checks.fail(CALLER, "prior", f"given for the classes {labels[:10]}", list(prior)[:10])
        prior = [prior[label] for label in labels]
    given = _checks.prior(CALLER, prior, len(labels)).double()
    return given / given.sum()


def _trained(ready: Prepared) -> Tensor:
    """Compute the weighted class frequencies of the training rows."""
    if ready.supply is not None:
        counts = ready.supply.of_class.double()
        return counts / counts.sum()
    rows = ready.rows
    chosen = torch.cat(rows.train)
    weights = None if rows.weights is None else rows.weights[chosen]
    return replace(rows, targets=rows.targets[chosen], weights=weights).class_mass.double()
