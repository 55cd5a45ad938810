"""Save a fitted TunedDecisionClassifierCV as JSON and safetensors, and its estimator in its own format or skops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from safetensors.torch import load_file, save_file

from eastward.estimators.frames import Encoder
from eastward.estimators.saved_decision import (
    decision_document,
    decision_tensors,
    restore_decision,
    restore_shared,
    shared_document,
)
from eastward.saved_folder import (
    SavedFolder,
    metric_of,
    restored,
)
from eastward.saved_trees import check_types, load_parts, skops_io

if TYPE_CHECKING:
    from eastward.estimators.tuned import TunedDecisionClassifierCV

__all__ = ["load", "save"]

FOLDER = SavedFolder("eastward.TunedDecisionClassifierCV", "tuned.json")
NAMED = "Call decide_by with a metric that has a name before saving."
ESTIMATOR, TENSORS = "estimator.skops", "decision.safetensors"
# The estimator is saved separately; the others are objects of the training run.
NOT_SAVED = ("estimator", "metric", "cv", "random_state")
T = TypeVar("T")


def save(model: TunedDecisionClassifierCV, path: Path, trusted: Sequence[str] = ()) -> None:
    """Write ``model`` to the folder ``path``, replacing a model that is there."""
    document = {**shared_document(model, NOT_SAVED, NAMED), **decision_document(model)}
    document["encoder"] = None if model.encoder_ is None else asdict(model.encoder_)

    def fill(folder: Path) -> None:
        skops_io().dump(model.estimator_, folder / ESTIMATOR)
        check_types(folder / ESTIMATOR, model.estimator_, "save", trusted)
        save_file(decision_tensors(model), folder / TENSORS)

    FOLDER.write(path, document, fill)


def load(cls: type[T], path: Path, trusted: Sequence[str]) -> T:
    """Load the classifier in the folder ``path``."""
    found: T = FOLDER.load(path, lambda document: _restored(cls, document, path, trusted))
    return found


def _restored(cls: type[Any], document: dict[str, Any], path: Path, trusted: Sequence[str]) -> Any:
    estimator = load_parts(path / ESTIMATOR, trusted)
    parameters = {name: restored(value) for name, value in document["parameters"].items()}
    metric = metric_of(document["metric"])
    model = cls(estimator, metric=metric, **parameters)
    model.estimator_ = estimator
    # The estimator knows its columns; older files do not name them.
    restore_shared(model, {"n_features_in": None, "feature_names_in": None, **document})
    encoder = document.get("encoder")
    model.encoder_ = None if encoder is None else Encoder(**encoder)
    if encoder is None:
        for name in ("n_features_in_", "feature_names_in_"):
            vars(model).pop(name, None)
            if hasattr(estimator, name):
                setattr(model, name, getattr(estimator, name))
    restore_decision(model, document, load_file(path / TENSORS))
    return model
