"""A trained model with its preprocessing, as one folder that is safe to open.

The folder contains ``model/`` (written by the classifier), ``preprocessing.skops`` and ``task.json``. Loading reads
numbers and names, and builds only the types listed here. Nothing in the folder is executed.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import skops.io
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline
from skrub import StringEncoder

from eastward import _checks
from eastward._files import remove_leftovers
from eastward._version import __version__
from eastward.data import Column, conform, label_names
from eastward.data.columnwise import ColumnwiseVectorizer
from eastward.decisions import Decision
from eastward.metrics import Metric
from eastward.model_task import FORMAT, KIND, PREPROCESSING, TASK, read_task
from eastward.saved_classifiers import load_classifier, save_classifier
from eastward.saved_folder import metric_of

__all__ = ["TableModel", "load_model", "save_model"]

MODEL = "model"
# Parts of the preprocessing that skops does not trust by default, as it does scikit-learn, numbers and arrays.
TRUSTED = (
    "numpy.dtype",
    "eastward.data.strings.DistinctStringEncoder",
    "eastward.data.vectorizer.finite_float32",
    # their names in models of release 0.1
    "eastward.tables.strings.DistinctStringEncoder",
    "eastward.tables.vectorizer.finite_float32",
    *(
        f"skrub.{name}"
        for name in (
            "_apply_to_each_col.ApplyToEachCol",
            "_check_input.CheckInputDataFrame",
            "_clean_categories.CleanCategories",
            "_clean_null_strings.CleanNullStrings",
            "_dataframe._common.is_any_date",
            "_dataframe._common.is_categorical",
            "_dataframe._common.is_numeric",
            "_datetime_encoder.DatetimeEncoder",
            "_drop_uninformative.DropUninformative",
            "_duration_to_float.DurationToFloat",
            "_string_encoder.StringEncoder",
            "_table_vectorizer.PassThrough",
            "_table_vectorizer.ShortReprDict",
            "_table_vectorizer.TableVectorizer",
            "_table_vectorizer._created_by_predicate",
            "_to_datetime.ToDatetime",
            "_to_float.ToFloat",
            "_to_str.ToStr",
            "selectors._base.All",
            "selectors._base.And",
            "selectors._base.Cols",
            "selectors._base.Filter",
            "selectors._base.Sub",
            "selectors._selectors._cardinality_below",
        )
    ),
)
# About as much memory as one pass of rows through the networks may take.
FORWARD_BYTES = 96 << 20
# Trees need little memory per row, and larger blocks are not faster.
TREE_ROWS = 16_384


class TableModel:
    """A fitted classifier together with its preprocessing.

    Parameters
    ----------
    classifier : classifier
        Fitted on the vectorizer's output: anything that :func:`~eastward.saved_classifiers.save_classifier` can write.
    vectorizer : Pipeline
        Fitted, from :func:`~eastward.data.make_vectorizer`.
    task : dict
        ``target``, ``columns`` (name and kind of each feature), ``judged_by`` (the metric, for classifiers that do not
        store it), and any further facts to store.
    """

    def __init__(self, classifier: Any, vectorizer: Pipeline, task: dict[str, Any]) -> None:
        self.classifier, self.vectorizer, self.task = classifier, vectorizer, task
        self._columnwise = ColumnwiseVectorizer(vectorizer)
        self.columns: Sequence[Column] = [Column(**column) for column in task["columns"]]

    @property
    def classes(self) -> NDArray[Any]:
        """Labels, in the order of the probabilities."""
        labels: NDArray[Any] = self.classifier.classes_
        return labels

    @property
    def metric(self) -> Metric:
        """The metric that the model is judged by."""
        own: Metric | None = getattr(self.classifier, "metric_", None)
        return metric_of(self.task["judged_by"]) if own is None else own

    @property
    def decision(self) -> Decision | None:
        """The decision that turns probabilities into labels; None for the most probable class."""
        own: Decision | None = getattr(self.classifier, "decision_", None)
        return own

    @property
    def block_rows(self) -> int:
        """Number of rows for one pass through the networks, chosen to bound its memory."""
        hidden = getattr(self.classifier, "hidden", None)
        if hidden is None:
            return TREE_ROWS
        widest = max(self.classifier.n_features_in_ or 1, *hidden)
        rows = FORWARD_BYTES // (8 * self.classifier.n_folds_ * widest)
        return int(min(65_536, max(256, rows)))

    @property
    def batch_rows(self) -> int:
        """Number of rows to read at once: whole blocks, so that a file and a frame give identical digits."""
        return self.block_rows * max(1, 65_536 // self.block_rows)

    def vectors(self, frame: pd.DataFrame, *, first_row: int = 0) -> NDArray[np.float32]:
        """Convert ``frame`` to the networks' input: ``(rows, features)`` in float32, without gaps."""
        table = conform(frame, self.columns, first_row=first_row)
        return self._columnwise.transform(table)

    def predict_proba(self, frame: pd.DataFrame, *, first_row: int = 0) -> NDArray[np.float64]:
        """Predict class probabilities."""
        return self._in_blocks(
            self.classifier.predict_proba, self.vectors(frame, first_row=first_row)
        )

    def log_probabilities(self, frame: pd.DataFrame) -> NDArray[np.float64]:
        """Predict logarithms of class probabilities."""
        return _logarithms(self.predict_proba(frame))

    def decided(self, probabilities: NDArray[Any]) -> NDArray[Any]:
        """Decide labels from rows of :meth:`predict_proba`."""
        own = getattr(self.classifier, "labels_of", None)
        labels: NDArray[Any] = (
            self.classes[probabilities.argmax(axis=1)] if own is None else own(probabilities)
        )
        return labels

    def predict(self, frame: pd.DataFrame) -> NDArray[Any]:
        """Predict the labels of ``frame``."""
        return self.decided(self.predict_proba(frame))

    def predictions(self, frame: pd.DataFrame, *, first_row: int = 0) -> pd.DataFrame:
        """Predict a table with ``prediction`` and the probability of each class for every row of ``frame``."""
        probabilities = self.predict_proba(frame, first_row=first_row)
        names = [f"probability_{name}" for name in label_names(self.classes)]
        scores = dict(zip(names, probabilities.T, strict=True))
        return pd.DataFrame({"prediction": self.decided(probabilities), **scores})

    def with_prior(self, prior: Any, probabilities: NDArray[Any] | None = None) -> TableModel:
        """Adapt the model to rows with other class frequencies.

        Parameters
        ----------
        prior : mapping, array-like or "auto"
            The frequencies, as in :meth:`eastward.EASTClassifier.predict`; "auto" estimates them.
        probabilities : ndarray, optional
            ``(N, C)``, :meth:`predict_proba` of those rows; "auto" estimates the frequencies from it.

        Returns
        -------
        TableModel
            A model whose decision and probabilities are adjusted to those frequencies.
        """
        if not hasattr(self.classifier, "with_prior"):
            got = type(self.classifier).__name__
            advice = "Train it with one of eastward's methods, such as --method ensemble."
            expected = "a model whose decision can be adapted"
            _checks.fail("predict", "--prior", expected, got, advice)
        moved = self.classifier.with_prior(prior, probabilities)
        return TableModel(moved, self.vectorizer, self.task)

    def _in_blocks(self, function: Any, vectors: NDArray[np.float32]) -> NDArray[np.float64]:
        size = self.block_rows
        parts = [function(vectors[start : start + size]) for start in range(0, len(vectors), size)]
        return np.concatenate(parts)


def _logarithms(probabilities: NDArray[Any]) -> NDArray[np.float64]:
    smallest = np.finfo(np.float64).tiny
    logs: NDArray[np.float64] = np.log(np.maximum(probabilities.astype(np.float64), smallest))
    return logs


def save_model(model: TableModel, folder: Any) -> None:
    """Write ``model`` into ``folder``, replacing a model that is there.

    All parts are written under temporary names first and then renamed, ``task.json`` last. A full disk or a killed
    process leaves either the old model or the new one. Loading compares digests, so it notices mixed parts.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    remove_leftovers(folder)
    staging = folder / f".{os.getpid()}.part"
    shutil.rmtree(staging, ignore_errors=True)
    staging.mkdir()
    try:
        save_classifier(model.classifier, staging / MODEL)
        _write_preprocessing(model.vectorizer, staging / PREPROCESSING)
        digests = {part: _digest(staging / part) for part in _parts(staging)}
        document = {"kind": KIND, "format": FORMAT, "version": __version__, **model.task}
        document["digests"] = digests
        text = json.dumps(document, indent=1, allow_nan=False, ensure_ascii=False)
        (staging / TASK).write_text(text, encoding="utf-8")
        shutil.rmtree(folder / MODEL, ignore_errors=True)
        for part in (MODEL, PREPROCESSING, TASK):
            (staging / part).replace(folder / part)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def load_model(folder: Any) -> TableModel:
    """Load the model in ``folder``. All parts are checked, and nothing is executed."""
    folder = _checks.path("load_model", "folder", folder)
    task = read_task(folder)
    if "judged_by" in task and not _is_metric(task["judged_by"]):
        got = f"{folder} with an unusable entry 'judged_by' in {TASK}"
        _checks.fail("load_model", "folder", "a model folder", got, "Train again.")
    there = _parts(folder)
    for part in sorted({*there, *task["digests"]}):
        if part not in there or _digest(folder / part) != task["digests"].get(part):
            advice = (
                "It was changed, or a run was stopped while it replaced the model: train again."
            )
            expected = "a folder whose parts belong together"
            _checks.fail("load_model", "folder", expected, f"another {part} in {folder}", advice)
    vectorizer = _read_preprocessing(folder / PREPROCESSING)
    return TableModel(load_classifier(folder / MODEL), vectorizer, task)


def _parts(folder: Path) -> list[str]:
    """List the files that task.json has digests of: the preprocessing, and all files of the classifier."""
    files = [path for path in (folder / MODEL).rglob("*") if path.is_file()]
    files += [folder / PREPROCESSING] if (folder / PREPROCESSING).is_file() else []
    return sorted(path.relative_to(folder).as_posix() for path in files)


def _is_metric(entry: Any) -> bool:
    try:
        return metric_of(entry) is not None
    except (ValueError, TypeError, KeyError, AttributeError):
        return False


def _digest(path: Path) -> str:
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def _write_preprocessing(vectorizer: Pipeline, path: Path) -> None:
    with _vocabularies_as_arrays(vectorizer):
        skops.io.dump(vectorizer, path, compression=zipfile.ZIP_DEFLATED)
    _check_types(path, "save_model")


def _read_preprocessing(path: Path) -> Pipeline:
    _check_types(path, "load_model")
    try:
        vectorizer = skops.io.load(path, trusted=list(TRUSTED))
    except Exception as error:
        message = (
            f"preprocessing of load_model must be readable; got {path} ({error}). Train again."
        )
        raise ValueError(message) from error
    if not isinstance(vectorizer, Pipeline):
        got = type(vectorizer).__name__
        _checks.fail("load_model", "preprocessing", "a scikit-learn pipeline", got)
    for terms in _term_weights(vectorizer):
        terms.vocabulary_ = {term: k for k, term in enumerate(terms.vocabulary_.tolist())}
    return vectorizer


def _check_types(path: Path, caller: str) -> None:
    """Refuse a file that contains a type outside the list, before anything is built."""
    try:
        foreign = sorted(set(skops.io.get_untrusted_types(file=path)) - set(TRUSTED))
    except Exception as error:
        message = (
            f"preprocessing of {caller} must be a skops file; got {path} ({error}). Train again."
        )
        raise ValueError(message) from error
    if foreign:
        expected = "made of parts of skrub, scikit-learn and eastward"
        advice = "The file could run foreign code, so it is not opened."
        _checks.fail(caller, "preprocessing", expected, ", ".join(foreign[:5]), advice)


def _term_weights(vectorizer: Pipeline) -> list[Any]:
    """Collect the TF-IDF vectorizers of text columns."""
    encoders = vectorizer.named_steps["columns"].transformers_.values()
    return [e.vectorizer_ for e in encoders if isinstance(e, StringEncoder)]


@contextmanager
def _vocabularies_as_arrays(vectorizer: Pipeline) -> Iterator[None]:
    """Store the terms of text columns as arrays while skops writes them.

    skops writes kilobytes for each entry of a dictionary; an array costs only the letters of the terms.
    """
    owners = _term_weights(vectorizer)
    kept = [owner.vocabulary_ for owner in owners]
    for owner, vocabulary in zip(owners, kept, strict=True):
        owner.vocabulary_ = np.array(sorted(vocabulary, key=vocabulary.__getitem__), dtype=str)
    try:
        yield
    finally:
        for owner, vocabulary in zip(owners, kept, strict=True):
            owner.vocabulary_ = vocabulary
