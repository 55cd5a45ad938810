"""Save a fitted classifier as ``weights.safetensors`` and ``model.json``.

Loading reads numbers and names; nothing in the folder is executed. The folder is written under a temporary name and
then renamed, so that the final name never holds a half-written model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from eastward import _checks
from eastward._random_numbers import seeded
from eastward.estimators.frames import Encoder
from eastward.estimators.network.construction import new_members
from eastward.estimators.network.scaling import Scaler
from eastward.estimators.network.stage_report import StageChoice
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
    restored,
)
from eastward.training.members import Members

if TYPE_CHECKING:
    from eastward.estimators.network.classifier import EASTClassifier

__all__ = ["load", "save"]

FOLDER = SavedFolder("eastward.EASTClassifier", format=2)
NAMED = "Train with a metric that has a name, and compute your own metric after loading."
# Parameters that are objects of the training run, not of the model.
NOT_SAVED = ("module", "checkpoint", "loggers", "callbacks", "random_state")
T = TypeVar("T")


def save(model: EASTClassifier, path: Path) -> None:
    """Write ``model`` to the folder ``path``, replacing a model that is there."""
    FOLDER.write(
        path,
        _description(model),
        lambda folder: _write_weights(_tensors(model), folder / "weights.safetensors"),
    )


def _write_weights(tensors: dict[str, Tensor], path: Path) -> None:
    path.touch()
    mode = (
        path.stat().st_mode
    )  # permissions by the umask; safetensors would let only the owner read
    save_file(tensors, path)
    path.chmod(mode)


def _tensors(model: EASTClassifier) -> dict[str, Tensor]:
    tensors = {f"members.{k}": v.contiguous() for k, v in model.members_.state_dict().items()}
    if model.multilabel_:
        tensors["offsets"] = torch.from_numpy(np.ascontiguousarray(model.offsets_))
    else:
        tensors |= decision_tensors(model)
    if model.scaler_ is not None:
        tensors |= {f"scaler.{name}": value for name, value in model.scaler_.tensors().items()}
    return tensors


def _description(model: EASTClassifier) -> dict[str, Any]:
    shared = shared_document(model, NOT_SAVED, NAMED)
    if not isinstance(model.metric, str):
        # an object; the document stores the metric separately
        shared["parameters"]["metric"] = None
    encoder = model.encoder_
    return {
        **shared,
        "encoder": None if encoder is None else asdict(encoder),
        **({} if model.multilabel_ else decision_document(model)),
        "stage": asdict(model._stage),  # noqa: SLF001 - this file is the other half of the class
        "own_module": model.module is not None,
        "multilabel": model.multilabel_,
        "n_folds": model.n_folds_,
        "history": finite(model.history_),
    }


def load(cls: type[T], path: Path, module: Any) -> T:
    """Load the classifier in the folder ``path``."""
    found: T = FOLDER.load(path, lambda document: _restored(cls, document, path, module))
    return found


def _restored(cls: type[Any], document: dict[str, Any], path: Path, module: Any) -> Any:
    tensors = load_file(path / "weights.safetensors")
    model = _described(cls, document, tensors, module)
    # New networks draw initial weights before the loaded ones replace them, so the generator's state is restored.
    with seeded():
        model.members_ = _members(model, document, tensors)
    return model


def _described(
    cls: type[Any], document: dict[str, Any], tensors: dict[str, Tensor], module: Any
) -> Any:
    """Restore everything but the networks."""
    parameters = {name: restored(value) for name, value in document["parameters"].items()}
    model = cls(**{**parameters, "module": module})
    model.hidden = tuple(model.hidden)
    restore_shared(model, document)
    model.multilabel_, model.n_folds_ = document["multilabel"], document["n_folds"]
    if model.metric is None:
        model.metric, model.metric_options = model.metric_, None
    model.history_ = document["history"]
    model.n_iter_ = len(model.history_)
    scaling = {k.removeprefix("scaler."): v for k, v in tensors.items() if k.startswith("scaler.")}
    model.scaler_ = Scaler.from_tensors(scaling) if scaling else None
    encoder = document.get("encoder")
    model.encoder_ = None if encoder is None else Encoder(**encoder)
    report = model.report_
    stage = document.get("stage") or {
        "name": report["stages"][-1]["name"],
        "stages": report["stages"],
        "sentences": report["sentences"],
    }
    model._stage = StageChoice(**stage)
    model._notes, model._interrupted = report["notes"], report["interrupted"]
    if model.multilabel_:
        model.held_out_, model._label_offsets = None, tensors["offsets"].double().numpy()
    elif document["format"] == 1:
        old_decision(model, tensors["offsets"].double().numpy(), document["version"])
    else:
        restore_decision(model, document, tensors)
    return model


def _members(
    model: EASTClassifier, document: dict[str, Any], tensors: dict[str, Tensor]
) -> Members:
    if document["own_module"] and model.module is None:
        advice = (
            "Call load(path, module=...) with the class, factory or module it was trained with."
        )
        _checks.fail("load", "module", "given for this model", "None", advice)
    inputs = document["n_features_in"]
    if model.scaler_ is not None:
        inputs = model.scaler_.width
    elif model.encoder_ is not None:
        inputs = model.encoder_.width
    state = {k.removeprefix("members."): v for k, v in tensors.items() if k.startswith("members.")}
    if not document["own_module"]:
        _check_widths([*model.hidden, model.n_folds_, inputs], state)
    members = new_members(model, inputs, len(document["classes"]))
    try:
        members.load_state_dict(state)
    except RuntimeError as error:
        message = f"weights of load must fit the network; got {error}. Was the module changed?"
        raise ValueError(message) from error
    return members.eval().requires_grad_(requires_grad=False)


def _check_widths(widths: Sequence[Any], state: Mapping[str, Tensor]) -> None:
    """Refuse layer widths that no tensor of the file has, before allocating memory for them."""
    largest = max((size for tensor in state.values() for size in tensor.shape), default=0)
    odd = [width for width in widths if not isinstance(width, int) or not 0 < width <= largest]
    if odd:
        raise ValueError(f"a network of width {odd[0]!r}, which its weights do not have")
