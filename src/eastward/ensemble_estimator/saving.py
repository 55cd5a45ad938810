"""A fitted ensemble as a folder: JSON, safetensors, LightGBM's text and skops; nothing in it is executed."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, NoReturn, TypeVar
from zipfile import BadZipFile

import numpy as np
import torch
from lightgbm.basic import LightGBMError
from sklearn.utils.validation import check_is_fitted
from skops.io.exceptions import UntrustedTypesFoundException

from eastward import _checks, metrics
from eastward._version import __version__
from eastward.ensemble_estimator.encoding import Encoder
from eastward.ensemble_estimator.fitting import PARTS

__all__ = ["load", "save"]

FORMAT, KIND = 1, "eastward.EASTEnsembleClassifier"
ADVICE = "Pass the folder that EASTEnsembleClassifier.save wrote."
BROKEN = (OSError, ValueError, KeyError, TypeError, AttributeError)
T = TypeVar("T")


def save(model: Any, path: Path) -> None:
    """Write ``model`` to the folder ``path``, replacing a model that is there."""
    check_is_fitted(model)
    document = json.dumps(_description(model), indent=1, allow_nan=False)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    try:
        for part in model.parts_.values():
            part.save(temporary)
        (temporary / "ensemble.json").write_text(document, encoding="utf-8")
        _replace(temporary, path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _replace(temporary: Path, path: Path) -> None:
    if not path.exists():
        temporary.rename(path)
        return
    if not (path / "ensemble.json").is_file():
        advice = "Choose another name; nothing was overwritten."
        got = f"{path.name}, which is neither"
        _checks.fail("save", "path", "new, or a saved ensemble", got, advice)
    old = path.with_name(f".{path.name}.{os.getpid()}.old")
    path.rename(old)
    temporary.rename(path)
    shutil.rmtree(old, ignore_errors=True)


def _description(model: Any) -> dict[str, Any]:
    _check_metric(model.metric_)
    parameters = {name: _plain(value) for name, value in model.get_params(deep=False).items()}
    names = getattr(model, "feature_names_in_", None)
    return {
        "kind": KIND,
        "format": FORMAT,
        "version": __version__,
        # The metric and the seed are objects at times; the metric is described below, the seed is spent.
        "parameters": {**parameters, "metric": None, "metric_options": None, "random_state": None},
        "metric": {"name": model.metric_.name, "options": _plain(model.metric_.options)},
        "classes": model.classes_.tolist(),
        "classes_dtype": str(model.classes_.dtype),
        "n_features_in": model.n_features_in_,
        "feature_names_in": None if names is None else [str(name) for name in names],
        "encoder": asdict(model.encoder_),
        "offsets": model.offsets_.tolist(),
        "report": model.report_,
    }


def _check_metric(metric: metrics.Metric) -> None:
    try:
        metrics.get(metric.name, **({"cost": [[0]]} if metric.name == "expected_cost" else {}))
    except ValueError:
        advice = "Call decide_by with a metric that has a name before saving."
        _checks.fail("save", "metric", "a registered one", f"the callable {metric.name}", advice)


def _plain(value: Any) -> Any:
    """``value`` in JSON's terms; a mapping becomes a list of pairs, because JSON knows only string keys."""
    if isinstance(value, torch.Tensor | np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, Mapping):
        return {"pairs": [[_plain(key), _plain(item)] for key, item in value.items()]}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


def _restored(value: Any) -> Any:
    if isinstance(value, dict) and "pairs" in value:
        return {key: _restored(item) for key, item in value["pairs"]}
    return value


def load(cls: type[T], path: Path) -> T:
    """The ensemble in the folder ``path``."""
    try:
        document = json.loads((path / "ensemble.json").read_text(encoding="utf-8"))
        kind, version, number = document["kind"], document["version"], int(document["format"])
    except BROKEN as error:
        _refuse(path, error)
    if kind != KIND:
        _checks.fail("load", "path", f"a saved {KIND}", f"a saved {kind}", ADVICE)
    if number > FORMAT:
        got = f"format {number} of eastward {version}"
        _checks.fail("load", "path", f"of format {FORMAT} or older", got, "Update eastward.")
    try:
        return _described(cls, document, path)  # type: ignore[no-any-return]  # an instance of cls
    except (*BROKEN, BadZipFile, LightGBMError, UntrustedTypesFoundException) as error:
        _refuse(path, error)


def _described(cls: type[Any], document: dict[str, Any], path: Path) -> Any:
    parameters = {name: _restored(value) for name, value in document["parameters"].items()}
    model = cls(**parameters)
    model.parts = tuple(model.parts)
    options = _restored(document["metric"]["options"])
    model.metric = model.metric_ = metrics.get(document["metric"]["name"], **options)
    model.classes_ = np.asarray(document["classes"], dtype=document["classes_dtype"])
    model.n_features_in_ = document["n_features_in"]
    if document["feature_names_in"] is not None:
        model.feature_names_in_ = np.asarray(document["feature_names_in"], dtype=object)
    model.encoder_ = Encoder(**document["encoder"])
    model.report_, model.held_out_ = document["report"], None
    size = len(model.classes_)
    model.parts_ = {name: PARTS[name].load(path, size) for name in model.parts}
    model.offsets_ = np.asarray(document["offsets"], dtype=np.float64)
    return model


def _refuse(path: Path, error: Exception) -> NoReturn:
    """Say that the folder is no saved ensemble, and what was wrong with it."""
    reason = f"no {error}" if isinstance(error, KeyError) else str(error)
    message = f"path of load must be a saved ensemble; got {path.name} ({reason}). {ADVICE}"
    raise ValueError(message) from error
