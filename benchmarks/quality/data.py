"""The data sets of the quality benchmark: which there are, how they are read, and how they are cut.

A task is a table of features and class indices. Two classes: class 1 is the rarer one. Classes of fewer than eight
rows are left out, because a test set would hold one row of them. A split draws its training rows (75 %, at most
``max_rows``) and its test rows (of the rest, at most three times ``max_rows``) anew, stratified by class; features are
prepared by what the training rows say: text becomes indicators, missing numbers the median, long tails stay.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.datasets import load_digits
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder

from eastward.comparison.splits import split_seed, stratified_split

FEWEST_ROWS = 8
TEST_SHARE = 0.25

Array = NDArray[Any]


@dataclass(frozen=True)
class Task:
    """One data set: raw features, and class indices ``(N,)`` with every class present."""

    name: str
    features: Any
    codes: Array
    preprocess: Any

    @property
    def num_classes(self) -> int:
        """How many classes there are."""
        return int(self.codes.max()) + 1


@dataclass(frozen=True)
class Split:
    """Training and test rows of a task, prepared: float32 features and class indices."""

    train: Array
    train_codes: Array
    test: Array
    test_codes: Array
    num_classes: int
    seed: int


def data_folder() -> Path:
    folder = os.environ.get("EASTWARD_DATA")
    if not folder:
        sys.exit("Set EASTWARD_DATA to the data folder, for example EASTWARD_DATA=~/data.")
    return Path(folder)


def tabular(folder: Path) -> dict[str, Callable[[], Task]]:
    """Every parquet file below ``folder``, label column ``target``; small ones first."""
    files = sorted(folder.rglob("*.parquet"), key=lambda path: path.stat().st_size)
    return {path.stem: partial(_parquet, path, "target") for path in files}


def further() -> dict[str, Callable[[], Task]]:
    """The single sets beside the tabular folder, as far as they are there, and long-tailed digits."""
    root = data_folder()
    found = {
        "mammography": partial(_parquet, root / "mammography" / "mammography.parquet", "class"),
        "adult": partial(_adult, root / "adult" / "adult.data.gz"),
        "cocktail_party": partial(_dyads, root / "cocktail_party" / "dyads.parquet"),
        "creditcard": partial(_credit_card, root / "creditcard" / "creditcard.parquet"),
        "sms_spam": partial(_text, root / "text" / "sms_spam.parquet"),
        "trec": partial(_text, root / "text" / "trec.parquet"),
    }
    there = {name: load for name, load in found.items() if load.args[0].exists()}
    return {**there, "digits_long_tailed": _digits}


def task_of(name: str, features: Any, labels: Any, preprocess: Any = None) -> Task:
    """Encode labels; rare classes leave, and of two classes the rarer is number one."""
    values = pd.Series(np.asarray(labels)).astype(str)
    counts = values.value_counts()
    kept = values.isin(counts.index[counts >= FEWEST_ROWS]).to_numpy()
    names = sorted(counts.index[counts >= FEWEST_ROWS])
    if len(names) == 2:
        names.sort(key=lambda label: -counts[label])
    codes = values[kept].map({label: code for code, label in enumerate(names)}).to_numpy()
    rows = features[kept] if isinstance(features, np.ndarray) else features.loc[kept]
    return Task(name, rows, codes.astype(np.int64), preprocess or _columns())


def make_split(task: Task, random_state: int, split: int, max_rows: int) -> Split:
    """Rows of a split, the same for every method."""
    seed = split_seed(random_state, split)
    train, test = stratified_split(task.codes, TEST_SHARE, seed)
    train = _at_most(train, task.codes, max_rows, seed)
    test = _at_most(test, task.codes, 3 * max_rows, seed)
    parts = _rows(task.features, train), _rows(task.features, test)
    fitted = task.preprocess.fit_transform(parts[0])
    tables = [
        np.asarray(table, dtype=np.float32)
        for table in (fitted, task.preprocess.transform(parts[1]))
    ]
    present = np.unique(task.codes[train])
    recoded = np.searchsorted(present, task.codes[train])
    known = np.isin(task.codes[test], present)
    test_codes = np.searchsorted(present, task.codes[test][known])
    return Split(tables[0], recoded, tables[1][known], test_codes, len(present), seed)


def _at_most(rows: Array, codes: Array, limit: int, seed: int) -> Array:
    if len(rows) <= limit:
        return rows
    # Classes are numbered without gaps here, which stratified_split counts on.
    inner = np.unique(codes[rows], return_inverse=True)[1]
    return rows[stratified_split(inner, limit / len(rows), seed)[1]]


def _rows(features: Any, rows: Array) -> Any:
    return features[rows] if isinstance(features, np.ndarray) else features.iloc[rows]


def _columns() -> Any:
    numbers = make_column_selector(dtype_include="number")
    words = make_column_selector(dtype_exclude="number")
    indicators = OneHotEncoder(
        handle_unknown="infrequent_if_exist", max_categories=30, sparse_output=False
    )
    return make_column_transformer((SimpleImputer(strategy="median"), numbers), (indicators, words))


def _parquet(path: Path, label: str) -> Task:
    frame = pd.read_parquet(path)
    return task_of(path.stem, frame, frame.pop(label))


def _adult(path: Path) -> Task:
    frame = pd.read_csv(path, header=None, skipinitialspace=True, na_values="?")
    return task_of("adult", frame, frame.pop(14))


def _dyads(path: Path) -> Task:
    """Positions and angles of two people and the others; who and when they are is left out."""
    frame = pd.read_parquet(path)
    labels = frame.pop("target")
    return task_of("cocktail_party", frame.filter(regex="^(dyad|context)"), labels)


def _credit_card(path: Path, rows: int = 40_000) -> Task:
    """All frauds, and legitimate transactions to make up the rows."""
    frame = pd.read_parquet(path)
    fraud = frame["Class"] == 1
    legitimate = frame[~fraud].sample(rows - int(fraud.sum()), random_state=0)
    frame = pd.concat([frame[fraud], legitimate]).reset_index(drop=True)
    return task_of("creditcard", frame, frame.pop("Class"))


def _text(path: Path) -> Task:
    """Words as TF-IDF weights in 60 dimensions."""
    frame = pd.read_parquet(path)
    words = next(name for name in ("text", "message", "question") if name in frame)
    label = next(name for name in ("label", "coarse", "coarse_label", "target") if name in frame)
    reduced = make_pipeline(
        TfidfVectorizer(min_df=2, sublinear_tf=True),
        TruncatedSVD(60, random_state=0),
        FunctionTransformer(),
    )
    return task_of(path.stem, frame[words].astype(str), frame[label], reduced)


def _digits() -> Task:
    """Scikit-learn's digits, 170 of the first class down to 9 of the last."""
    images, labels = load_digits(return_X_y=True)
    sizes = np.round(np.geomspace(170, 9, 10)).astype(int)
    kept = np.concatenate([np.flatnonzero(labels == c)[:size] for c, size in enumerate(sizes)])
    identity = FunctionTransformer()
    return task_of("digits_long_tailed", images[kept].astype(np.float32), labels[kept], identity)
