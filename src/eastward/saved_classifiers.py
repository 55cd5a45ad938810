"""Any classifier that `train` can fit, as a folder: nothing in it is executed when it is loaded.

The library's own estimators write their own folders. Trees and linear models of scikit-learn, alone or behind a tuned
decision, become a skops file beside a JSON document. Loading builds only types from a short list and follows no index
that was not checked.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import skops.io
from skops.io.exceptions import UntrustedTypesFoundException

import eastward
from eastward import _checks
from eastward.decisions.calibration import Calibration
from eastward.decisions.matrix import Decision
from eastward.estimators.tuned import TunedDecisionClassifierCV
from eastward.metrics import as_metric
from eastward.saved_folder import BROKEN, SavedFolder, finite, metric_document, metric_of
from eastward.saved_trees import NODE_TYPES, are_sound

__all__ = ["load_classifier", "save_classifier"]

FOLDER = SavedFolder("eastward.FittedClassifier", "classifier.json", "classifier")
PARTS, HELD_OUT = "classifier.skops", "held_out.npz"
HEADERS = ("model.json", "ensemble.json", FOLDER.header)
OWN = (
    "EASTClassifier",
    "EASTEnsembleClassifier",
    "EASTBoostingClassifier",
    "TunedDecisionClassifierCV",
)


def save_classifier(classifier: Any, path: Path) -> None:
    """Write a fitted classifier into the folder ``path``.

    Parameters
    ----------
    classifier : classifier
        One of this library, a tree ensemble or linear model of scikit-learn, or a
        :class:`~eastward.TunedDecisionClassifierCV` around one of those.
    path : Path
        New, or a folder of the same kind, which is replaced.
    """
    if hasattr(classifier, "save"):
        classifier.save(path)
        return
    tuned = isinstance(classifier, TunedDecisionClassifierCV)
    inner = classifier.estimator_ if tuned else classifier
    document = {"decision": _decision_document(classifier) if tuned else None}

    def fill(folder: Path) -> None:
        skops.io.dump(inner, folder / PARTS)
        _check_types(folder / PARTS, inner)
        if tuned:
            # As long as the data, which is too long for JSON; prediction sets need it.
            probabilities, codes = classifier.held_out_
            np.savez_compressed(folder / HELD_OUT, probabilities=probabilities, codes=codes)

    FOLDER.write(path, document, fill)


def load_classifier(path: Path) -> Any:
    """The classifier in the folder ``path``, whichever it is."""
    kind = _kind(path)
    name = kind.removeprefix("eastward.")
    if name in OWN:
        return getattr(eastward, name).load(path)
    document = FOLDER.read(path)
    try:
        return _restored(document, path / PARTS)
    except (*BROKEN, AttributeError, BadZipFile, UntrustedTypesFoundException) as error:
        FOLDER.refuse(path, error)


def _kind(path: Path) -> str:
    header = next((name for name in HEADERS if (path / name).is_file()), FOLDER.header)
    try:
        return str(json.loads((path / header).read_text(encoding="utf-8"))["kind"])
    except BROKEN as error:
        FOLDER.refuse(path, error)


def _check_types(path: Path, classifier: Any) -> None:
    foreign = sorted(set(skops.io.get_untrusted_types(file=path)) - set(NODE_TYPES))
    if foreign:
        expected = "made of parts of eastward and scikit-learn"
        got = f"a {type(classifier).__name__} with {', '.join(foreign[:3])}"
        advice = (
            "A folder must open without running anybody's code; keep this one with your own tools."
        )
        _checks.fail("save_classifier", "classifier", expected, got, advice)


def _decision_document(classifier: TunedDecisionClassifierCV) -> dict[str, Any]:
    return {
        "matrix": classifier.decision_.to_dict(),
        "metric": metric_document(as_metric(classifier.metric), "Take a metric that has a name."),
        "offsets": None if classifier.offsets_ is None else classifier.offsets_.tolist(),
        "calibration": classifier.calibration_.to_dict(),
        "abstain_label": classifier.abstain_label,
        "has_costs": classifier.cost is not None,
        "report": finite(classifier.report_),
    }


def _restored(document: dict[str, Any], parts: Path) -> Any:
    inner = skops.io.load(parts, trusted=list(NODE_TYPES))
    if not are_sound(inner, len(inner.classes_)):
        raise ValueError("its trees have branches that lead nowhere")
    said = document["decision"]
    if said is None:
        return inner
    decision = Decision.from_dict(said["matrix"])
    model = TunedDecisionClassifierCV(
        inner,
        metric_of(said["metric"]),
        cv="prefit",
        # The costs are in the matrix of the decision; what is asked for here is only whether there were any.
        cost=(-decision.matrix[:, : len(inner.classes_)]).tolist() if said["has_costs"] else None,
        abstain_cost=decision.abstain_cost,
        abstain_label=said["abstain_label"],
    )
    model.estimator_, model.classes_, model.n_features_in_ = (
        inner,
        inner.classes_,
        inner.n_features_in_,
    )
    model.decision_, model.calibration_ = decision, Calibration.from_dict(said["calibration"])
    model.offsets_ = None if said["offsets"] is None else np.asarray(said["offsets"])
    with np.load(parts.with_name(HELD_OUT), allow_pickle=False) as held:
        model.held_out_ = held["probabilities"], held["codes"]
    model.report_ = said["report"]
    return model
