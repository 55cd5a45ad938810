"""Adult, Mammography and credit-card fraud, in their owners' formats or as Parquet."""

from __future__ import annotations

import io
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from eastward import _checks
from papers.data.sources import find, missing
from papers.data.values import Table

__all__ = ["read_adult", "read_credit_card", "read_mammography"]

SMALLEST_AMOUNT = 0.001  # a tenth of a cent: some amounts are 0
ADULT_COLUMNS = (
    *("age", "workclass", "fnlwgt", "education", "education_num", "marital_status", "occupation"),
    *("relationship", "race", "sex", "capital_gain", "capital_loss", "hours_per_week"),
    *("native_country", "income"),
)


def _as_table(features: pd.DataFrame, targets: Any) -> Table:
    values = features.to_numpy(dtype=np.float32)
    return Table(values, np.asarray(targets, dtype=np.int64), tuple(map(str, features.columns)))


def read_adult(folder: Path | None, *, features: str = "published") -> Table:
    """UCI Adult: both official files, the test file last; positive where income is above 50 K.

    Parameters
    ----------
    folder : Path or None
        The data folder.
    features : {"published", "clean", "all"}, default="published"
        ``"published"``: the thirteen columns that the published code of *Bridging the Gap* uses (no ``fnlwgt``), a
        whole number for each category, **with its fault**: the first line of the test file turns its ages into
        text, so that ages of training rows get the numbers 0 to 72 and ages of test rows 73 to 145.
        ``"clean"``: these columns with ages as they are. ``"all"``: also ``fnlwgt``, and a column of its own for each
        category.

    Returns
    -------
    Table
        48 842 rows, of which the last 16 281 are the official test set.
    """
    _checks.one_of("read_adult", "features", features, ("published", "clean", "all"))
    first = find("adult", folder)
    second = first.with_name(first.name.replace("adult.data", "adult.test"))
    if not second.exists():
        missing("adult", folder, f"adult/{second.name}")
    files = [_adult_file(path) for path in (first, second)]
    table = pd.concat(files, ignore_index=True)
    positive = table.pop("income").str.startswith(">50K")
    make = {"published": _with_ages_of_two_kinds, "clean": _coded, "all": _one_column_each}
    return replace(
        _as_table(make[features](table, len(files[0])), positive), num_test=len(files[1])
    )


def _coded(table: pd.DataFrame, _: int) -> pd.DataFrame:
    coded = table.drop(columns="fnlwgt")
    texts = coded.select_dtypes(exclude="number").columns
    return coded.assign(**{name: coded[name].astype("category").cat.codes for name in texts})


def _with_ages_of_two_kinds(table: pd.DataFrame, num_train: int) -> pd.DataFrame:
    """The published fault: numbers of training ages come before texts of test ages when both are sorted."""
    ages = table["age"].to_numpy()
    train, test = ages[:num_train], ages[num_train:]
    kinds = np.unique(train)
    texts, codes = np.unique(test.astype(str), return_inverse=True)
    shifted = np.concatenate([np.searchsorted(kinds, train), len(kinds) + codes])
    if len(texts) != len(np.unique(test)):
        raise RuntimeError("two ages have one text")
    return _coded(table, num_train).assign(age=shifted)


def _one_column_each(table: pd.DataFrame, _: int) -> pd.DataFrame:
    return pd.get_dummies(table, dtype=np.float32)


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

    As in the published code of *Bridging the Gap*: without the time, and with the logarithm of the amount.

    Returns
    -------
    Table
        284 807 rows, 29 features.
    """
    path = find("credit_card", folder)
    if path.suffix == ".parquet":
        table = pd.read_parquet(path)
    elif path.suffix == ".zip":
        with zipfile.ZipFile(path) as archive, archive.open("creditcard.csv") as file:
            table = pd.read_csv(file)
    else:
        table = pd.read_csv(path)
    features = table.drop(columns=["Class", "Time", "Amount"])
    features["log_amount"] = np.log(table["Amount"] + SMALLEST_AMOUNT)
    return _as_table(features, table["Class"] == 1)
