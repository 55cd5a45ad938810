"""A fitted classifier as a folder: ``weights.safetensors`` and ``model.json``.

Loading reads numbers and names; nothing in the folder is executed. The folder is written under a temporary name
and renamed, so that a half-written model never stands under the final one.
"""

from __future__ import annotations

import json
import math
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from eastward import _checks, metrics
from eastward._version import __version__
from eastward.estimator.construction import build_module
from eastward.estimator.preparation import Scaler
from eastward.training import SoloMember, StackedMLP

__all__ = ["load", "save"]

FORMAT, KIND = 1, "eastward.EASTClassifier"
ADVICE = "Pass the folder that EASTClassifier.save wrote."
# Parameters that are objects of the training run, not of the model.
NOT_SAVED = ("module", "checkpoint", "loggers", "callbacks", "random_state")
T = TypeVar("T")


def save(model: Any, path: Path) -> None:
    """Write ``model`` to the folder ``path``, replacing a model that is there."""
    check_is_fitted(model)
    document = json.dumps(_description(model), indent=1, allow_nan=False)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    try:
        save_file(_tensors(model), temporary / "weights.safetensors")
        (temporary / "model.json").write_text(document, encoding="utf-8")
        _replace(temporary, path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _replace(temporary: Path, path: Path) -> None:
    if not path.exists():
        temporary.rename(path)
        return
    if not _is_model(path):
        advice = "Choose another name; nothing was overwritten."
        _checks.fail(
            "save", "path", "new, or a saved model", f"{path.name}, which is neither", advice
        )
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


def _tensors(model: Any) -> dict[str, Tensor]:
    tensors = {f"members.{k}": v.contiguous() for k, v in model.members_.state_dict().items()}
    tensors["offsets"] = torch.from_numpy(np.ascontiguousarray(model.offsets_))
    if model.scaler_ is not None:
        tensors["scaler.mean"], tensors["scaler.scale"] = model.scaler_.mean, model.scaler_.scale
    return tensors


def _description(model: Any) -> dict[str, Any]:
    parameters = {k: _plain(v) for k, v in model.get_params().items() if k not in NOT_SAVED}
    if not isinstance(model.metric, str):
        parameters["metric"] = None  # an object; the metric below is the same one
    return {
        "kind": KIND,
        "format": FORMAT,
        "version": __version__,
        "parameters": parameters,
        "metric": {"name": model.metric_.name, "options": _metric_options(model.metric_)},
        "own_module": model.module is not None,
        "classes": model.classes_.tolist(),
        "classes_dtype": str(model.classes_.dtype),
        "multilabel": model.multilabel_,
        "n_folds": model.n_folds_,
        "n_features_in": model.n_features_in_,
        "feature_names_in": _names(model),
        "report": _finite(model.report_),
        "history": _finite(model.history_),
    }


def _finite(value: Any) -> Any:
    """The same document with null where a number is NaN or infinite: JSON has no such numbers."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _names(model: Any) -> list[str] | None:
    names = getattr(model, "feature_names_in_", None)
    return None if names is None else [str(name) for name in names]


def _metric_options(metric: metrics.Metric) -> dict[str, Any]:
    try:
        metrics.get(metric.name, **({"cost": [[0]]} if metric.name == "expected_cost" else {}))
    except ValueError:
        advice = "Score with it after loading: save a model trained with a metric that has a name."
        _checks.fail("save", "metric", "a registered one", f"the callable {metric.name}", advice)
    return {name: _plain(value) for name, value in metric.options.items()}


def _plain(value: Any) -> Any:
    """``value`` in JSON's terms; a mapping becomes a list of pairs, because JSON knows only string keys."""
    if isinstance(value, Tensor | np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, Mapping):
        return {"pairs": [[_plain(k), _plain(v)] for k, v in value.items()]}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


def _restored(value: Any) -> Any:
    if isinstance(value, dict) and "pairs" in value:
        return {key: _restored(item) for key, item in value["pairs"]}
    return value


def load(cls: type[T], path: Path, module: Any) -> T:
    """The classifier in the folder ``path``."""
    document, tensors = _read(path)
    try:
        model = _described(cls, document, tensors, module)
    except (KeyError, TypeError, AttributeError) as error:
        _refuse(path, error)
    # New networks draw initial weights, which the loaded ones replace; the user's generator stays as it was.
    with torch.random.fork_rng(devices=[]):
        model.members_ = _members(model, document, tensors)
    return model  # type: ignore[no-any-return]  # an instance of cls


def _described(
    cls: type[Any], document: dict[str, Any], tensors: dict[str, Tensor], module: Any
) -> Any:
    """All of the classifier but its networks."""
    parameters = {name: _restored(value) for name, value in document["parameters"].items()}
    model = cls(**{**parameters, "module": module})
    model.hidden = tuple(model.hidden)
    model.classes_ = np.asarray(document["classes"], dtype=document["classes_dtype"])
    model.multilabel_, model.n_folds_ = document["multilabel"], document["n_folds"]
    model.n_features_in_ = document["n_features_in"]
    if document["feature_names_in"] is not None:
        model.feature_names_in_ = np.asarray(document["feature_names_in"], dtype=object)
    options = {name: _restored(value) for name, value in document["metric"]["options"].items()}
    model.metric_ = metrics.get(document["metric"]["name"], **options)
    if model.metric is None:
        model.metric, model.metric_options = model.metric_, None
    model.report_, model.history_ = document["report"], document["history"]
    model.n_iter_ = len(model.history_)
    model.scaler_ = None
    if "scaler.mean" in tensors:
        model.scaler_ = Scaler(tensors["scaler.mean"], tensors["scaler.scale"])
    model.offsets_ = tensors["offsets"].numpy()
    return model


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    try:
        document = json.loads((path / "model.json").read_text(encoding="utf-8"))
        kind, version, number = document["kind"], document["version"], int(document["format"])
        tensors = load_file(path / "weights.safetensors")
    except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
        _refuse(path, error)
    if kind != KIND:
        _checks.fail("load", "path", f"a saved {KIND}", f"a saved {kind}", ADVICE)
    if number > FORMAT:
        got = f"format {number} of eastward {version}"
        _checks.fail("load", "path", f"of format {FORMAT} or older", got, "Update eastward.")
    return document, tensors


def _refuse(path: Path, error: Exception) -> NoReturn:
    """Say that the folder is no saved model, and what was wrong with it."""
    reason = f"no {error}" if isinstance(error, KeyError) else str(error)
    message = f"path of load must be a saved model; got {path.name} ({reason}). {ADVICE}"
    raise ValueError(message) from error


def _members(model: Any, document: dict[str, Any], tensors: dict[str, Tensor]) -> Any:
    outputs = len(document["classes"])
    if document["own_module"] and model.module is None:
        advice = (
            "Call load(path, module=...) with the class, factory or module it was trained with."
        )
        _checks.fail("load", "module", "given for this model", "None", advice)
    members: StackedMLP | SoloMember
    if document["own_module"]:
        network = build_module(model.module, model.n_features_in_, outputs)
        members = SoloMember(network, outputs, multilabel=document["multilabel"])
    else:
        widths = [document["n_features_in"], *model.hidden, outputs]
        members = StackedMLP(document["n_folds"], widths, model.dropout)
    state = {k.removeprefix("members."): v for k, v in tensors.items() if k.startswith("members.")}
    try:
        members.load_state_dict(state)
    except RuntimeError as error:
        message = f"weights of load must fit the network; got {error}. Was the module changed?"
        raise ValueError(message) from error
    return members.eval().requires_grad_(requires_grad=False)
