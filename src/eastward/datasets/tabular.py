"""Adult, Mammography and credit-card fraud, in their owners' formats or as Parquet."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from eastward import _checks
from eastward.datasets.sources import find, missing
from eastward.datasets.values import Table

__all__ = ["read_adult", "read_credit_card", "read_mammography"]

ADULT_NUMBERS = ("age", "fnlwgt", "education_num", "capital_gain", "capital_loss", "hours_per_week")
ADULT_COLUMNS = (
    *("age", "workclass", "fnlwgt", "education", "education_num", "marital_status", "occupation"),
    *("relationship", "race", "sex", "capital_gain", "capital_loss", "hours_per_week"),
    *("native_country", "income"),
)


def _as_table(features: pd.DataFrame, targets: Any) -> Table:
    values = features.to_numpy(dtype=np.float32)
    return Table(values, np.asarray(targets, dtype=np.int64), tuple(map(str, features.columns)))


def read_adult(folder: Path | None, *, features: str = "numeric") -> Table:
    """UCI Adult: both official files, positive where income is above 50 K.

    Parameters
    ----------
    folder : Path or None
        The data folder.
    features : {"numeric", "all"}, default="numeric"
        The six numeric columns, which the papers' low scores suggest; or also the eight categorical ones, one
        column for each value (a missing value is a value of its own).

    Returns
    -------
    Table
        48 842 rows.
    """
    _checks.one_of("read_adult", "features", features, ("numeric", "all"))
    first = find("adult", folder)
    second = first.with_name(first.name.replace("adult.data", "adult.test"))
    if not second.exists():
        missing("adult", folder, f"adult/{second.name}")
    table = pd.concat([_adult_file(first), _adult_file(second)], ignore_index=True)
    positive = table["income"].str.startswith(">50K")
    if features == "numeric":
        return _as_table(table[list(ADULT_NUMBERS)], positive)
    return _as_table(pd.get_dummies(table.drop(columns="income"), dtype=np.float32), positive)


def _adult_file(path: Path) -> pd.DataFrame:
    return pd.read_csv(
        path,
        names=list(ADULT_COLUMNS),
        skipinitialspace=True,
        comment="|",  # the first line of the test file
    )


def read_mammography(folder: Path | None) -> Table:
    """Woods' microcalcifications: OpenML's ARFF, the CSV without a header, or Parquet.

    Returns
    -------
    Table
        11 183 rows, six features.
    """
    path = find("mammography", folder)
    if path.suffix == ".parquet":
        table = pd.read_parquet(path)
        return _as_table(table.drop(columns="class"), table["class"] == 1)
    text = path.read_text(encoding="utf-8")
    names = None
    if path.suffix == ".arff":
        header, _, text = text.partition(_data_line(text))
        lines = [line.split() for line in header.splitlines()]
        names = [words[1].strip("'\"") for words in lines if words[:1] and _declares(words[0])]
    table = pd.read_csv(io.StringIO(text), header=None, names=names, quotechar="'", comment="%")
    labels = table.iloc[:, -1].astype(str).str.strip("' ")
    return _as_table(table.iloc[:, :-1], labels == "1")


def _data_line(text: str) -> str:
    return next(line for line in text.splitlines() if line.strip().lower() == "@data")


def _declares(word: str) -> bool:
    return word.lower() == "@attribute"


def read_credit_card(folder: Path | None) -> Table:
    """ULB's credit-card fraud: Kaggle's CSV, its archive, or Parquet.

    Returns
    -------
    Table
        284 807 rows, thirty features (time and amount included).
    """
    path = find("credit_card", folder)
    if path.suffix == ".parquet":
        table = pd.read_parquet(path)
    elif path.suffix == ".zip":
        with zipfile.ZipFile(path) as archive, archive.open("creditcard.csv") as file:
            table = pd.read_csv(file)
    else:
        table = pd.read_csv(path)
    return _as_table(table.drop(columns="Class"), table["Class"] == 1)
