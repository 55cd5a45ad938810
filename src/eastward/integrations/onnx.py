"""ONNX: export a fitted classifier as one graph, from features to probabilities and tuned decisions."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from eastward import _checks
from eastward.data import feature_origins
from eastward.decisions.calibration import SMALLEST
from eastward.estimators.base import DecidingClassifier
from eastward.estimators.network import EASTClassifier
from eastward.estimators.tuned import TunedDecisionClassifierCV
from eastward.integrations._extras import missing_extra
from eastward.model_folder import TableModel, load_model
from eastward.training import SeparateMembers, SoloMember, StackedMLP

try:
    import onnx
    import onnxscript  # noqa: F401 - torch's exporter needs it
except ModuleNotFoundError as error:
    raise missing_extra(__name__, error, "onnx") from error

__all__ = ["export_onnx"]

OUTSIDE = (
    "The graph takes the numbers that the folder's preprocessing makes of a table: words, dates and gaps become "
    "numbers outside, by eastward.model_folder.load_model(folder).vectors(frame)."
)


class _Graph(nn.Module):
    """``predict_proba`` and ``predict`` with only torch operations."""

    def __init__(self, model: Any, outer: TunedDecisionClassifierCV | None) -> None:
        super().__init__()
        self.members = model.members_
        self.single = False
        self.multilabel = bool(model.multilabel_)
        # Independent labels only have offsets; otherwise each model calibrates and decides in turn.
        offsets = torch.as_tensor(model.offsets_).float() if self.multilabel else None
        self.register_buffer("offsets", offsets)
        self.maps = nn.ModuleList()
        if not self.multilabel:
            self.maps.extend(_Decided(each) for each in (model, outer) if each is not None)
        self.scaler = model.scaler_

    def forward(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Compute probabilities and class indices (indicators for independent labels)."""
        if self.scaler is not None:
            features = self.scaler(features)
        logits = self._logits(features)
        if self.multilabel:
            offsets: Any = self.offsets
            probabilities = torch.sigmoid(logits).mean(0)
            scores = torch.logit(probabilities, eps=1e-7) + offsets
            return probabilities, (scores > 0).long()
        probabilities = torch.softmax(torch.log_softmax(logits, dim=2).logsumexp(dim=0), dim=1)
        for each in self.maps:
            probabilities = each(probabilities)
        last: Any = self.maps[-1]
        return probabilities, (probabilities @ last.matrix).argmax(dim=1)

    def _logits(self, features: Tensor) -> Tensor:
        """Compute logits ``(K, n, C)``; a user's modules are called without the wrapper that counts rows in Python."""
        if isinstance(self.members, StackedMLP):
            return self.members(features)  # type: ignore[no-any-return]  # a module
        return torch.stack([self._own_logits(module(features)) for module in _own(self.members)])

    def _own_logits(self, output: Tensor) -> Tensor:
        if not self.single:
            return output
        positive = output.reshape(-1, 1)
        return torch.cat([torch.zeros_like(positive), positive], dim=1)


class _Decided(nn.Module):
    """The calibration of a model (a scale and a shift for each class) and its decision matrix."""

    def __init__(self, model: DecidingClassifier) -> None:
        super().__init__()
        found = model.calibration_
        if found.kind == "isotonic":
            advice = "Fit it with calibrate='vector'."
            _checks.fail(
                "export_onnx", "model", "calibrated by scales", "an isotonic curve", advice
            )
        self.is_plain = found.kind == "none"
        parts = {"scales": found.scales, "shifts": found.shifts, "matrix": model.decision_.matrix}
        for name, part in parts.items():
            self.register_buffer(name, torch.tensor(part).float())

    def forward(self, probabilities: Tensor) -> Tensor:
        """Calibrate probabilities."""
        if self.is_plain:
            return probabilities
        scales: Any = self.scales
        shifts: Any = self.shifts
        return torch.softmax(scales * probabilities.clamp_min(SMALLEST).log() + shifts, dim=1)


def _own(members: SoloMember | SeparateMembers) -> list[nn.Module]:
    """Return the user's modules."""
    if isinstance(members, SoloMember):
        return [members.module]
    return [network.module for network in members.networks]  # type: ignore[misc]  # solo members


def export_onnx(model: Any, path: Any, *, example: Tensor | None = None) -> None:
    """Write a fitted classifier to an ONNX file.

    Parameters
    ----------
    model : EASTClassifier, TunedDecisionClassifierCV of one, TableModel or path
        A classifier fitted on numbers without missing values, because text, dates and missing values are handled
        outside the graph. For a model folder, the graph begins after the preprocessing. Its metadata name the
        ``features`` and the columns behind them.
    path : path
        The file to write; an existing one is replaced.
    example : Tensor, optional
        At least two rows of input, needed for a module of your own. The default network takes ``(n, n_features_in_)``.

    Notes
    -----
    The input is ``features``, float32, with any number of rows. The outputs are ``probabilities``, ``(n, n_classes)``
    as from ``predict_proba``, and ``classes``. These are positions in ``classes_``, or the number of classes where
    nothing is decided; independent labels give indicators. The metadata hold the labels under ``classes``. The graph
    computes in float32, but :class:`eastward.EASTClassifier` computes its default network in float64. So numbers agree
    to about 1e-6.

    Trees cannot be exported: ensembles, boosting and forests raise an error that says so.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> model = EASTClassifier(hidden=(8,), max_epochs=5, random_state=0).fit(
    ...     *load_iris(return_X_y=True)
    ... )
    >>> export_onnx(model, "iris.onnx")  # doctest: +SKIP
    """
    if isinstance(model, str | Path):
        model = load_model(model)
    described = _described(model) if isinstance(model, TableModel) else {}
    if isinstance(model, TableModel):
        model = model.classifier
    inner, outer = _parts(model)
    graph = _Graph(inner, outer).eval()
    if example is None:
        if inner.module is not None:
            advice = "Pass two rows of its input."
            _checks.fail("export_onnx", "example", "given for a module of your own", "None", advice)
        example = torch.zeros(2, inner.n_features_in_)
    if not isinstance(inner.members_, StackedMLP) and not inner.multilabel_:
        with torch.no_grad():
            graph.single = _own(inner.members_)[0](example).numel() == len(example)
    target = Path(path)
    temporary = target.with_name(f".{target.name}.part")
    try:
        _write(graph, example, temporary)
        proto = onnx.load(str(temporary))
        onnx.helper.set_model_props(proto, {"classes": _labels(model), **described})
        onnx.checker.check_model(proto)
        onnx.save(proto, str(temporary))
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def _parts(model: Any) -> tuple[Any, TunedDecisionClassifierCV | None]:
    check_is_fitted(model)
    if isinstance(model, TunedDecisionClassifierCV):
        inner, outer = model.estimator_, model
    else:
        inner, outer = model, None
    if not isinstance(inner, EASTClassifier):
        got = type(inner).__name__
        expected = "an EASTClassifier, a TunedDecisionClassifierCV of one, or a folder with one"
        advice = "Trees are not exported; train it with --method network, or serve the folder with mlflow."
        _checks.fail("export_onnx", "model", expected, got, advice, error=TypeError)
    if inner.encoder_ is not None:
        advice = "Turn the columns into numbers first, and fit on those."
        got = "one that was fitted on text, dates or missing values"
        _checks.fail("export_onnx", "model", "fitted on numbers only", got, advice)
    return inner, outer


def _described(model: TableModel) -> dict[str, str]:
    """Describe the features of a folder's graph, and the columns that they are made of."""
    names = [str(name) for name in model.vectorizer.get_feature_names_out()]
    found = {"features": names, "columns": feature_origins(model.vectorizer)}
    return {"preprocessing": OUTSIDE, **{key: json.dumps(value) for key, value in found.items()}}


def _write(graph: nn.Module, example: Tensor, path: Path) -> None:
    with warnings.catch_warnings():
        # the exporter warns about torch itself
        warnings.simplefilter("ignore")
        torch.onnx.export(
            graph,
            (example,),
            str(path),
            input_names=["features"],
            output_names=["probabilities", "classes"],
            dynamic_shapes=({0: torch.export.Dim("rows")},),
            dynamo=True,
            external_data=False,
            verbose=False,
        )


def _labels(model: Any) -> str:
    return json.dumps(model.classes_.tolist())
