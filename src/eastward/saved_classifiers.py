"""Save and load any classifier that `train` can fit; loading executes nothing.

The library's own estimators write their own folders. Trees and linear models of scikit-learn become a skops file with
a JSON document beside it. Loading builds only types from a short list, and follows only indices that were checked.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import skops.io
from skops.io.exceptions import UntrustedTypesFoundException

import eastward
from eastward.saved_folder import BROKEN, SavedFolder
from eastward.saved_trees import check_types, load_parts

__all__ = ["load_classifier", "save_classifier"]

FOLDER = SavedFolder("eastward.FittedClassifier", "classifier.json", "classifier")
PARTS = "classifier.skops"
HEADERS = ("model.json", "ensemble.json", "tuned.json", FOLDER.header)
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
        A new folder, or one of the same kind, which is replaced.
    """
    if hasattr(classifier, "save"):
        classifier.save(path)
        return

    def fill(folder: Path) -> None:
        skops.io.dump(classifier, folder / PARTS)
        check_types(folder / PARTS, classifier, "save_classifier")

    FOLDER.write(path, {}, fill)


def load_classifier(path: Path) -> Any:
    """Load the classifier in the folder ``path``, of whatever kind."""
    kind = _kind(path)
    name = kind.removeprefix("eastward.")
    if name in OWN:
        return getattr(eastward, name).load(path)
    FOLDER.read(path)
    try:
        return load_parts(path / PARTS)
    except (*BROKEN, AttributeError, BadZipFile, UntrustedTypesFoundException) as error:
        FOLDER.refuse(path, error)


def _kind(path: Path) -> str:
    header = next((name for name in HEADERS if (path / name).is_file()), FOLDER.header)
    try:
        return str(json.loads((path / header).read_text(encoding="utf-8"))["kind"])
    except BROKEN as error:
        FOLDER.refuse(path, error)
