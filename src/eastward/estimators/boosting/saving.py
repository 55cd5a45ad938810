"""A fitted EASTBoostingClassifier as a folder: ``model.json`` and the library's own model files.

Loading reads numbers and names; nothing in the folder is executed. The folder is written under a temporary name
and renamed, so that a half-written model never stands under the final one, and ``model.json`` vouches for the rest.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from eastward import _checks
from eastward.estimators.boosting.backends import Backend
from eastward.estimators.boosting.columns import Columns
from eastward.saved_folder import (
    SavedFolder,
    feature_names,
    finite,
    metric_document,
    metric_of,
    plain,
    restored,
)

__all__ = ["load", "save"]

FOLDER = SavedFolder("eastward.EASTBoostingClassifier")
NAMED = "Save a model trained with a metric that has a name."
# Parameters that are objects of the training run, or kept in another form.
NOT_SAVED = ("metric", "random_state", "cv")
T = TypeVar("T")


def save(model: Any, backend: Backend, path: Path) -> None:
    """Write ``model`` to the folder ``path``, replacing a model that is there."""
    texts = {backend.file_name.format("cross-entropy"): backend.to_text(model.booster_)}
    if model.aligned_booster_ is not None:
        texts[backend.file_name.format("aligned")] = backend.to_text(model.aligned_booster_)
    document = {**_description(model), "files": {k: _digest(v) for k, v in texts.items()}}

    def fill(folder: Path) -> None:
        for name, text in texts.items():
            (folder / name).write_bytes(text.encode("utf-8"))

    FOLDER.write(path, document, fill)


def load(cls: type[T], path: Path) -> T:
    """The classifier in the folder ``path``."""
    document = FOLDER.read(path)
    try:
        return _restored_model(cls, document, path)  # type: ignore[no-any-return]  # an instance of cls
    except (OSError, KeyError, TypeError, AttributeError) as error:
        FOLDER.refuse(path, error)


def _description(model: Any) -> dict[str, Any]:
    parameters = {k: plain(v) for k, v in model.get_params().items() if k not in NOT_SAVED}
    return {
        "parameters": parameters,
        "metric": metric_document(model.metric_, NAMED),
        "named_metric": isinstance(model.metric, str),
        "classes": model.classes_.tolist(),
        "classes_dtype": str(model.classes_.dtype),
        "categories": [[k, v] for k, v in model._columns.categories.items()],  # noqa: SLF001
        "seed": model._seed,  # noqa: SLF001 - this file is the other half of the class
        "n_features_in": model.n_features_in_,
        "feature_names_in": feature_names(model),
        "offsets": model.offsets_.tolist(),
        "class_weights": model.class_weights_.tolist(),
        "aligned_rounds": model.aligned_rounds_,
        "report": finite(model.report_),
    }


def _restored_model(cls: type[Any], document: dict[str, Any], path: Path) -> Any:
    parameters = {name: restored(value) for name, value in document["parameters"].items()}
    metric = metric_of(document["metric"])
    model = cls(**parameters, metric=metric.name if document["named_metric"] else metric)
    model.metric_, model._seed = metric, document["seed"]
    model.classes_ = np.asarray(document["classes"], dtype=document["classes_dtype"])
    model._columns = Columns({int(k): values for k, values in document["categories"]})
    model.n_features_in_ = document["n_features_in"]
    if document["feature_names_in"] is not None:
        model.feature_names_in_ = np.asarray(document["feature_names_in"], dtype=object)
    backend = model._backend()
    base, aligned = (backend.file_name.format(part) for part in ("cross-entropy", "aligned"))
    model.booster_ = _booster(backend, path, base, document["files"][base])
    has_aligned = document["aligned_rounds"] > 0
    model.aligned_booster_ = (
        _booster(backend, path, aligned, document["files"][aligned]) if has_aligned else None
    )
    model.aligned_rounds_, model.report_ = document["aligned_rounds"], document["report"]
    model.class_weights_ = np.asarray(document["class_weights"], dtype=np.float64)
    model.offsets_ = np.asarray(document["offsets"], dtype=np.float64)
    return model


def _booster(backend: Backend, path: Path, name: str, digest: str) -> Any:
    # Checked before it is parsed: the libraries' parsers trust their files.
    text = (path / name).read_bytes().decode("utf-8", errors="replace")
    if _digest(text) != digest:
        expected = "a folder whose parts belong together"
        _checks.fail("load", "path", expected, f"another {name} in {path.name}", FOLDER.advice)
    return backend.from_text(text)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()
