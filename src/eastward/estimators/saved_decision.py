"""Write a fitted decision to a folder and read it again, in one way for all estimators."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from eastward.decisions.calibration import Calibration
from eastward.decisions.matrix import Decision
from eastward.decisions.shifting import Reference
from eastward.decisions.tuning import HeldOut
from eastward.saved_folder import feature_names, finite, metric_document, metric_of, plain

if TYPE_CHECKING:
    from eastward.estimators.base import DecidingClassifier

__all__ = [
    "decision_document",
    "decision_tensors",
    "old_decision",
    "restore_decision",
    "restore_shared",
    "shared_document",
]

# The most held-out numbers saved with a model; beyond that, a random sample of rows.
MAX_NUMBERS = 2_000_000


def shared_document(
    model: DecidingClassifier, left_out: Collection[str], advice: str
) -> dict[str, Any]:
    """Collect what every estimator saves: parameters, metric, classes, columns and report.

    Parameters
    ----------
    model : DecidingClassifier
        The fitted classifier.
    left_out : collection of str
        Parameters that are objects of the training run, or stored in another form.
    advice : str
        Advice for a metric without a name.

    Returns
    -------
    dict
        Plain JSON values.
    """
    parameters = model.get_params(deep=False).items()
    return {
        "parameters": {name: plain(value) for name, value in parameters if name not in left_out},
        "metric": metric_document(model.metric_, advice),
        "classes": model.classes_.tolist(),
        "classes_dtype": str(model.classes_.dtype),
        "n_features_in": getattr(model, "n_features_in_", None),
        "feature_names_in": feature_names(model),
        "report": finite(model.report_),
    }


def restore_shared(model: DecidingClassifier, document: Mapping[str, Any]) -> None:
    """Restore what :func:`shared_document` collected, except the parameters, which create the model."""
    model.metric_ = metric_of(document["metric"])
    model.classes_ = np.asarray(document["classes"], dtype=document["classes_dtype"])
    model.report_ = document["report"]
    model.n_features_in_ = document["n_features_in"]
    if document["feature_names_in"] is not None:
        model.feature_names_in_ = np.asarray(document["feature_names_in"], dtype=object)


def decision_document(model: DecidingClassifier) -> dict[str, Any]:
    """Return calibration and decision as plain JSON values; :func:`decision_tensors` returns the long arrays."""
    return {
        "calibration": model.calibration_.to_dict(),
        "decision": {**model.decision_.to_dict(), "reference": None},
    }


def decision_tensors(model: DecidingClassifier) -> dict[str, Tensor]:
    """Return held-out predictions, and the rows for solving the decision again."""
    tensors: dict[str, Tensor] = {}
    reference = model.decision_.reference
    if reference is not None:
        tensors |= {f"reference.{k}": v.contiguous() for k, v in reference._asdict().items()}
    held = model.held_out_
    if held is not None:
        rows = _kept_rows(*held.scores.shape)
        tensors["held_out.scores"] = torch.from_numpy(held.scores[rows].astype(np.float32))
        tensors["held_out.codes"] = torch.from_numpy(held.codes[rows].astype(np.int32))
        if held.weight is not None:
            tensors["held_out.weight"] = torch.from_numpy(held.weight[rows].astype(np.float64))
    return tensors


def _kept_rows(count: int, classes: int) -> Any:
    most = max(1, MAX_NUMBERS // classes)
    if count <= most:
        return slice(None)
    return np.sort(np.random.default_rng(0).permutation(count)[:most])


def restore_decision(
    model: DecidingClassifier, document: Mapping[str, Any], tensors: Mapping[str, Tensor]
) -> None:
    """Restore calibration, decision and held-out predictions."""
    model.calibration_ = Calibration.from_dict(document["calibration"])
    names = ("probabilities", "weight", "correction")
    parts = [tensors.get(f"reference.{name}") for name in names]
    reference = None if parts[0] is None else Reference(*parts)  # type: ignore[arg-type]  # all or none
    model.decision_ = replace(Decision.from_dict(document["decision"]), reference=reference)
    model.held_out_ = _held_out(tensors)
    _check_sizes(model)


def _check_sizes(model: DecidingClassifier) -> None:
    """Refuse a decision, calibration or predictions with another number of classes than the model."""
    size, held = len(model.classes_), model.held_out_
    curve = model.calibration_.kind == "isotonic"
    scales, shifts = model.calibration_.scales, model.calibration_.shifts
    if scales.shape != shifts.shape or not np.isfinite([scales, shifts]).all():
        raise ValueError("a calibration whose numbers do not fit each other")
    lengths = {
        "decision": len(model.decision_.matrix),
        # An isotonic curve can have any number of points.
        "calibration": size if curve else len(shifts),
        "held-out predictions": size if held is None else held.scores.shape[1],
    }
    for name, length in lengths.items():
        if length != size:
            raise ValueError(f"a {name} for {length} classes, and {size} classes")


def _held_out(tensors: Mapping[str, Tensor]) -> HeldOut | None:
    if "held_out.scores" not in tensors:
        return None
    weight = tensors.get("held_out.weight")
    return HeldOut(
        tensors["held_out.scores"].double().numpy(),
        tensors["held_out.codes"].long().numpy(),
        None if weight is None else weight.numpy(),
    )


def old_decision(model: DecidingClassifier, offsets: Any, version: str) -> None:
    """Restore the decision of a model saved before decisions were matrices, and warn about what has changed."""
    shifts = np.asarray(offsets, dtype=np.float64)
    size = len(shifts)
    model.calibration_ = Calibration("none", np.ones(size), np.zeros(size))
    model.decision_ = Decision(
        np.diag(np.exp(shifts)), classes=model.classes_.tolist(), metric=model.metric_
    )
    model.held_out_ = None
    kind = type(model).__name__
    sentences = model.report_.setdefault("sentences", [])
    said = (
        f"This {kind} was saved by eastward {version}. Its labels are as before, but predict_proba now returns the "
        "model's probabilities without the decision folded in. Fit it again for calibrated ones, for predict_set and "
        "for decide_by."
    )
    sentences.append(said)
    warnings.warn(said, stacklevel=4)
