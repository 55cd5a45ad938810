"""Save a fitted ensemble as JSON, safetensors, LightGBM's text and skops; loading executes nothing."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from safetensors.torch import load_file, save_file

from eastward.estimators.ensemble.fitting import PARTS
from eastward.estimators.ensemble.votes import equal_votes
from eastward.estimators.frames import Encoder
from eastward.estimators.saved_decision import (
    decision_document,
    decision_tensors,
    old_decision,
    restore_decision,
    restore_shared,
    shared_document,
)
from eastward.saved_folder import (
    SavedFolder,
    restored,
)

if TYPE_CHECKING:
    from eastward.estimators.ensemble.classifier import EASTEnsembleClassifier

__all__ = ["load", "save"]

FOLDER = SavedFolder("eastward.EASTEnsembleClassifier", "ensemble.json", "ensemble", format=2)
TENSORS = "decision.safetensors"
NAMED = "Call decide_by with a metric that has a name before saving."
T = TypeVar("T")


def save(model: EASTEnsembleClassifier, path: Path) -> None:
    """Write ``model`` to the folder ``path``, replacing a model that is there."""

    def fill(folder: Path) -> None:
        for part in model.parts_.values():
            part.save(folder)
        save_file(decision_tensors(model), folder / TENSORS)

    FOLDER.write(path, _description(model), fill)


def _description(model: EASTEnsembleClassifier) -> dict[str, Any]:
    shared = shared_document(model, (), NAMED)
    # Metric and seed may be objects; the metric is stored separately, and the seed is no longer needed.
    shared["parameters"] |= {"metric": None, "metric_options": None, "random_state": None}
    own = {"encoder": asdict(model.encoder_), "votes": model.votes_}
    return {**shared, **own, **decision_document(model)}


def load(cls: type[T], path: Path) -> T:
    """Load the ensemble in the folder ``path``."""
    found: T = FOLDER.load(path, lambda document: _described(cls, document, path))
    return found


def _described(cls: type[Any], document: dict[str, Any], path: Path) -> Any:
    parameters = {name: restored(value) for name, value in document["parameters"].items()}
    model = cls(**parameters)
    model.parts = tuple(model.parts)
    restore_shared(model, document)
    model.metric = model.metric_
    model.encoder_ = Encoder(**document["encoder"])
    # Older ensembles had equal votes and did not store them.
    model.votes_ = document.get("votes") or equal_votes(model.parts)
    model._parts_held_out = None
    size = len(model.classes_)
    model.parts_ = {name: PARTS[name].load(path, size) for name in model.parts}
    if document["format"] == 1:
        old_decision(model, document["offsets"], document["version"])
    else:
        restore_decision(model, document, load_file(path / TENSORS))
    return model
