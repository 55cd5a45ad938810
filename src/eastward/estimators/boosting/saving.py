"""Save a fitted EASTBoostingClassifier as ``model.json`` and the library's own model files.

Loading reads numbers and names; nothing in the folder is executed. The folder is written under a temporary name and
then renamed, so that the final name never holds a half-written model. ``model.json`` has digests of the other files.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from safetensors.torch import load_file, save_file

from eastward import _checks
from eastward.estimators.boosting.backends import Backend
from eastward.estimators.boosting.columns import Columns
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
    finite,
    metric_of,
    restored,
)

if TYPE_CHECKING:
    from eastward.estimators.boosting.classifier import EASTBoostingClassifier

__all__ = ["load", "save"]

FOLDER = SavedFolder("eastward.EASTBoostingClassifier", format=2)
TENSORS = "decision.safetensors"
NAMED = "Save a model trained with a metric that has a name."
# Parameters that are objects of the training run, or stored in another form.
NOT_SAVED = ("metric", "random_state", "cv")
T = TypeVar("T")


def save(model: EASTBoostingClassifier, backend: Backend, path: Path) -> None:
    """Write ``model`` to the folder ``path``, replacing a model that is there."""
    texts = {backend.file_name.format("cross-entropy"): backend.to_text(model.booster_)}
    if model.aligned_booster_ is not None:
        texts[backend.file_name.format("aligned")] = backend.to_text(model.aligned_booster_)
    document = {**_description(model), "files": {k: _digest(v) for k, v in texts.items()}}

    def fill(folder: Path) -> None:
        for name, text in texts.items():
            (folder / name).write_bytes(text.encode("utf-8"))
        save_file(decision_tensors(model), folder / TENSORS)

    FOLDER.write(path, document, fill)


def load(cls: type[T], path: Path) -> T:
    """Load the classifier in the folder ``path``."""
    found: T = FOLDER.load(path, lambda document: _restored_model(cls, document, path))
    return found


def _description(model: EASTBoostingClassifier) -> dict[str, Any]:
    return {
        **shared_document(model, NOT_SAVED, NAMED),
        "named_metric": isinstance(model.metric, str),
        "categories": [[k, v] for k, v in model._columns.categories.items()],  # noqa: SLF001
        "seed": model._seed,  # noqa: SLF001 - this file is the other half of the class
        "score_shifts": model.score_shifts_.tolist(),
        "class_weights": model.class_weights_.tolist(),
        "steps": finite(model._steps),  # noqa: SLF001
        **decision_document(model),
        "aligned_rounds": model.aligned_rounds_,
    }


def _restored_model(cls: type[Any], document: dict[str, Any], path: Path) -> Any:
    parameters = {name: restored(value) for name, value in document["parameters"].items()}
    metric = metric_of(document["metric"])
    model = cls(**parameters, metric=metric.name if document["named_metric"] else metric)
    restore_shared(model, document)
    model._seed = document["seed"]
    model._columns = Columns({int(k): values for k, values in document["categories"]})
    backend = model._backend()
    base, aligned = (backend.file_name.format(part) for part in ("cross-entropy", "aligned"))
    model.booster_ = _booster(backend, path, base, document["files"][base])
    has_aligned = document["aligned_rounds"] > 0
    model.aligned_booster_ = (
        _booster(backend, path, aligned, document["files"][aligned]) if has_aligned else None
    )
    model.aligned_rounds_ = document["aligned_rounds"]
    model.class_weights_ = np.asarray(document["class_weights"], dtype=np.float64)
    if document["format"] == 1:
        _restore_old(model, document)
        return model
    model.score_shifts_ = np.asarray(document["score_shifts"], dtype=np.float64)
    if (
        model.score_shifts_.shape != model.classes_.shape
        or not np.isfinite(model.score_shifts_).all()
    ):
        raise ValueError("shifts of scores that do not fit the classes")
    model._steps = document["steps"]
    restore_decision(model, document, load_file(path / TENSORS))
    return model


def _restore_old(model: EASTBoostingClassifier, document: dict[str, Any]) -> None:
    """Recover the offsets of a decision that was folded into the probabilities, and undo class weights if possible."""
    weights = np.log(model.class_weights_)
    taken_back = np.zeros_like(weights) if model.aligned_booster_ is not None else weights
    model.score_shifts_ = -taken_back
    model._steps = {"sentences": [document["report"]["words"]]}  # noqa: SLF001
    model.report_ = {**document["report"], "sentences": [document["report"]["words"]]}
    old_decision(model, np.asarray(document["offsets"]) + taken_back, document["version"])


def _booster(backend: Backend, path: Path, name: str, digest: str) -> Any:
    # Checked before parsing, because the libraries' parsers trust their files.
    text = (path / name).read_bytes().decode("utf-8", errors="replace")
    if _digest(text) != digest:
        expected = "a folder whose parts belong together"
        _checks.fail("load", "path", expected, f"another {name} in {path.name}", FOLDER.advice)
    return backend.from_text(text)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()
