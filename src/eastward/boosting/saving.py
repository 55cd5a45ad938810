"""A fitted EASTBoostingClassifier as a folder: ``model.json`` and the library's own model files.

Loading reads numbers and names; nothing in the folder is executed. The folder is written under a temporary name
and renamed, so that a half-written model never stands under the final one, and ``model.json`` vouches for the rest.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import numpy as np

from eastward import _checks, metrics
from eastward._version import __version__
from eastward.boosting.backends import Backend
from eastward.boosting.columns import Columns

__all__ = ["load", "save"]

FORMAT, KIND = 1, "eastward.EASTBoostingClassifier"
ADVICE = "Pass the folder that EASTBoostingClassifier.save wrote."
# Parameters that are objects of the training run, or kept in another form.
NOT_SAVED = ("metric", "random_state", "cv")
T = TypeVar("T")


def save(model: Any, backend: Backend, path: Path) -> None:
    """Write ``model`` to the folder ``path``, replacing a model that is there."""
    texts = {backend.file_name.format("cross-entropy"): backend.to_text(model.booster_)}
    if model.aligned_booster_ is not None:
        texts[backend.file_name.format("aligned")] = backend.to_text(model.aligned_booster_)
    document = {**_description(model), "files": {k: _digest(v) for k, v in texts.items()}}
    texts["model.json"] = json.dumps(document, indent=1, allow_nan=False)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    try:
        for name, text in texts.items():
            (temporary / name).write_bytes(text.encode("utf-8"))
        _replace(temporary, path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def load(cls: type[T], path: Path) -> T:
    """The classifier in the folder ``path``."""
    try:
        document = json.loads((path / "model.json").read_text(encoding="utf-8"))
        kind, number, version = document["kind"], int(document["format"]), document["version"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        _refuse(path, error)
    if kind != KIND:
        _checks.fail("load", "path", f"a saved {KIND}", f"a saved {kind}", ADVICE)
    if number > FORMAT:
        got = f"format {number} of eastward {version}"
        _checks.fail("load", "path", f"of format {FORMAT} or older", got, "Update eastward.")
    try:
        return _restored_model(cls, document, path)  # type: ignore[no-any-return]  # an instance of cls
    except (OSError, KeyError, TypeError, AttributeError) as error:
        _refuse(path, error)


def _description(model: Any) -> dict[str, Any]:
    parameters = {k: _plain(v) for k, v in model.get_params().items() if k not in NOT_SAVED}
    return {
        "kind": KIND,
        "format": FORMAT,
        "version": __version__,
        "parameters": parameters,
        "metric": {"name": model.metric_.name, "options": _metric_options(model.metric_)},
        "named_metric": isinstance(model.metric, str),
        "classes": model.classes_.tolist(),
        "classes_dtype": str(model.classes_.dtype),
        "categories": [[k, v] for k, v in model._columns.categories.items()],  # noqa: SLF001
        "seed": model._seed,  # noqa: SLF001 - this file is the other half of the class
        "n_features_in": model.n_features_in_,
        "feature_names_in": _names(model),
        "offsets": model.offsets_.tolist(),
        "aligned_rounds": model.aligned_rounds_,
        "report": model.report_,
    }


def _names(model: Any) -> list[str] | None:
    names = getattr(model, "feature_names_in_", None)
    return None if names is None else [str(name) for name in names]


def _metric_options(metric: metrics.Metric) -> dict[str, Any]:
    try:
        metrics.get(metric.name, **({"cost": [[0]]} if metric.name == "expected_cost" else {}))
    except ValueError:
        advice = "Save a model trained with a metric that has a name."
        _checks.fail("save", "metric", "a registered one", f"the callable {metric.name}", advice)
    return {name: _plain(value) for name, value in metric.options.items()}


def _plain(value: Any) -> Any:
    """``value`` in JSON's terms; a mapping becomes a list of pairs, because JSON knows only string keys."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, Mapping):
        return {"pairs": [[_plain(k), _plain(v)] for k, v in value.items()]}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


def _restored(value: Any) -> Any:
    if isinstance(value, dict) and "pairs" in value:
        return {key: _restored(item) for key, item in value["pairs"]}
    return value


def _restored_model(cls: type[Any], document: dict[str, Any], path: Path) -> Any:
    parameters = {name: _restored(value) for name, value in document["parameters"].items()}
    options = {name: _restored(value) for name, value in document["metric"]["options"].items()}
    metric = metrics.get(document["metric"]["name"], **options)
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
    model.offsets_ = np.asarray(document["offsets"], dtype=np.float64)
    return model


def _booster(backend: Backend, path: Path, name: str, digest: str) -> Any:
    # Checked before it is parsed: the libraries' parsers trust their files.
    text = (path / name).read_bytes().decode("utf-8", errors="replace")
    if _digest(text) != digest:
        expected = "a folder whose parts belong together"
        _checks.fail("load", "path", expected, f"another {name} in {path.name}", ADVICE)
    return backend.from_text(text)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def _refuse(path: Path, error: Exception) -> NoReturn:
    """Say that the folder is no saved model, and what was wrong with it."""
    reason = f"no {error}" if isinstance(error, KeyError) else str(error)
    message = f"path of load must be a saved model; got {path.name} ({reason}). {ADVICE}"
    raise ValueError(message) from error


def _replace(temporary: Path, path: Path) -> None:
    if not path.exists():
        temporary.rename(path)
        return
    if not _is_model(path):
        advice = "Choose another name; nothing was overwritten."
        got = f"{path.name}, which is neither"
        _checks.fail("save", "path", "new, or a saved model", got, advice)
    old = path.with_name(f".{path.name}.{os.getpid()}.old")
    path.rename(old)
    temporary.rename(path)
    shutil.rmtree(old, ignore_errors=True)


def _is_model(path: Path) -> bool:
    try:
        document = json.loads((path / "model.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(document, dict) and document.get("kind") == KIND
