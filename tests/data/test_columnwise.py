"""A vectorizer applied column by column gives skrub's numbers, to the last bit."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sample_tables import claims

from eastward.data import conform, frame_columns, make_vectorizer, read_table
from eastward.data.columnwise import ColumnwiseVectorizer

NUMBERS = pd.DataFrame({"x": [1.0, np.nan, 3.0, 5.0], "n": [1, 2, 3, 4], "b": [True, False] * 2})
WORDS = pd.DataFrame({"c": ["a", "b", None, "N/A"], "d": ["x", "y", "x", "y"]})
TABLES = {
    "every kind of column": (claims(120), claims(120, seed=1)),
    "numbers": (NUMBERS, pd.DataFrame({"x": [np.inf, 1e300], "n": [7, -1], "b": [False, True]})),
    "words": (
        WORDS,
        pd.DataFrame(
            {"c": ["b", "new", None, "  ", "NULL", "a"], "d": ["x"] * 3 + [None, "N/A", "z"]}
        ),
    ),
    "words that no row of training missed": (
        pd.DataFrame({"c": ["a", "b", "a"]}),
        pd.DataFrame({"c": [None, "", "null", "a"]}),
    ),
    "categories": (
        pd.DataFrame({"c": pd.Categorical(["1", "2", None, "2"])}),
        pd.DataFrame({"c": pd.Categorical(["2", "3", None])}),
    ),
    "nullable types": (
        pd.DataFrame(
            {"i": pd.array([1, None, 3], "Int64"), "b": pd.array([True, None, False], "boolean")}
        ),
        pd.DataFrame({"i": pd.array([None, 5], "Int64"), "b": pd.array([None, True], "boolean")}),
    ),
    "a constant column and an empty one": (
        pd.DataFrame({"one": [1, 1, 1], "none": [None, None, None], "x": [1.0, 2.0, 4.0]}),
        pd.DataFrame({"one": [2], "none": [None], "x": [np.nan]}),
    ),
    "numbers that are all missing later": (NUMBERS, NUMBERS.assign(x=None)),
    "dates": (
        pd.DataFrame({"t": pd.to_datetime(["2024-05-01 00:00", None, "2024-06-01 12:30"])}),
        pd.DataFrame({"t": pd.to_datetime([None, "2030-01-01 01:02"])}),
    ),
}


@pytest.mark.parametrize(("training", "later"), TABLES.values(), ids=list(TABLES))
def test_every_row_has_the_numbers_that_skrub_gives_it(training, later):
    training, later = read_table(training), read_table(later)
    vectorizer = make_vectorizer().fit(training)
    table = conform(later, frame_columns(training))
    ours = ColumnwiseVectorizer(vectorizer)
    with np.errstate(over="ignore"):  # skrub's cast says that 1e300 is too large
        expected = vectorizer.transform(table)
    found = ours.transform(table)
    assert found.dtype == np.float32
    assert np.array_equal(found, expected)
    alone = [ours.transform(table.iloc[[row]]) for row in range(len(table))]
    assert np.array_equal(np.concatenate(alone), expected)


def test_a_table_without_rows_has_no_vectors():
    vectorizer = make_vectorizer().fit(NUMBERS)
    assert ColumnwiseVectorizer(vectorizer).transform(NUMBERS.iloc[:0]).shape == (0, 4)
