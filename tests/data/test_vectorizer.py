"""Raw columns to numbers, and new tables to the columns of the training data."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sample_tables import claims
from sklearn.base import clone
from skrub import StringEncoder

from eastward.data import Column, conform, frame_columns, make_vectorizer, read_table
from eastward.data.strings import DistinctStringEncoder


def features(rows: int = 240) -> pd.DataFrame:
    return claims(rows).drop(columns="fraud")


def test_every_kind_of_column_becomes_finite_float32():
    vectors = make_vectorizer().fit_transform(features())
    assert vectors.dtype == np.float32
    assert np.isfinite(vectors).all()
    assert len(vectors) == 240


def test_the_vectorizer_is_fitted_only_on_the_given_rows():
    frame = features()
    vectorizer = make_vectorizer().fit(frame.iloc[:100])
    alone = vectorizer.transform(frame.iloc[100:101])
    assert np.array_equal(vectorizer.transform(frame.iloc[100:])[:1], alone)


def test_two_fits_give_the_same_bits():
    first, second = (make_vectorizer().fit_transform(features()) for _ in range(2))
    assert np.array_equal(first, second)
    assert np.array_equal(clone(make_vectorizer()).fit_transform(features()), first)


def test_texts_that_repeat_are_encoded_as_skrub_does_to_the_last_bit():
    texts = pd.Series([f"shop number {k % 70}" for k in range(500)], name="shop").astype("str")
    texts[::9] = None
    ours = DistinctStringEncoder(random_state=0).fit(texts)
    skrubs = StringEncoder(random_state=0).fit(texts)
    later = texts.sample(frac=1, random_state=1)  # another order, and an index to keep
    later.iloc[3] = "somewhere else"
    pd.testing.assert_frame_equal(ours.transform(later), skrubs.transform(later), check_exact=True)


def test_each_distinct_text_is_encoded_once(monkeypatch):
    frame = pd.DataFrame({"shop": [f"shop number {k % 70}" for k in range(500)]})
    vectorizer = make_vectorizer().fit(frame)
    seen = []
    encode = StringEncoder.transform
    monkeypatch.setattr(
        StringEncoder,
        "transform",
        lambda self, column: seen.append(len(column)) or encode(self, column),
    )
    assert vectorizer.transform(frame).shape == (500, 30)
    assert seen == [70]


def test_infinite_and_huge_numbers_count_as_missing():
    frame = pd.DataFrame({"x": [1.0, 2.0, np.inf, -np.inf, 1e300]})
    vectors = make_vectorizer().fit_transform(frame)
    assert np.isfinite(vectors).all()
    assert vectors[2, 0] == vectors[3, 0] == 1.5


def test_unknown_categories_look_like_none_of_the_known_ones():
    vectorizer = make_vectorizer().fit(pd.DataFrame({"c": ["a", "b", "a"]}))
    assert vectorizer.transform(pd.DataFrame({"c": ["z"]})).tolist() == [[0, 0]]


def test_a_column_that_was_never_missing_may_be_missing_later():
    vectorizer = make_vectorizer().fit(pd.DataFrame({"x": [1.0, 2.0, 3.0], "c": ["a", "b", "a"]}))
    vectors = vectorizer.transform(pd.DataFrame({"x": [np.nan], "c": [None]}))
    assert vectors[0, 0] == 2.0
    assert np.isfinite(vectors).all()


def test_order_and_further_columns_do_not_matter():
    frame = features(30)
    columns = frame_columns(frame)
    shuffled = frame[frame.columns[::-1]].assign(extra=1)
    pd.testing.assert_frame_equal(conform(shuffled, columns), frame)


def test_missing_columns_are_named_with_near_misses():
    columns = frame_columns(features(30))
    frame = features(30).rename(columns={"amount": "ammount"})
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the sentence is looked at below
        conform(frame.drop(columns="city"), columns)
    sentence = str(caught.value)
    assert "must be a table with the 6 columns of the training data" in sentence
    assert "got none called 'amount', 'city'" in sentence
    assert "Did you mean 'ammount'?" in sentence


@pytest.mark.parametrize(
    ("kind", "given", "expected"),
    [
        ("number", ["1.5", None, "2"], [1.5, None, 2.0]),
        ("number", [True, False, None], [1.0, 0.0, None]),
        ("boolean", ["true", "False", None], [True, False, None]),
        ("boolean", [1, 0, None], [True, False, None]),
        ("date", ["2023-01-01", "2023-01-02T03:00:00", None], None),
        ("category", [3, 1, 2], ["3", "1", "2"]),
        ("category", [3.0, 1.0, None], ["3", "1", None]),
    ],
)
def test_columns_take_the_kind_that_they_had_in_training(kind, given, expected):
    frame = read_table(pd.DataFrame({"c": given}))
    column = conform(frame, [Column("c", kind)])["c"]
    if kind == "date":
        assert column.iloc[1] == pd.Timestamp("2023-01-02 03:00")
        assert column.isna().tolist() == [False, False, True]
    else:
        known = [value for value in expected if value is not None]
        assert column.dropna().tolist() == known
        assert column.isna().tolist() == [value is None for value in expected]


def test_values_of_another_kind_are_named_by_row():
    frame = pd.DataFrame({"age": ["31", "unknown", "?", "40", "old"]})
    with pytest.raises(
        ValueError,
        match="column 'age' of predict must be made of numbers as in training; "
        "got 'unknown' in row 1002 and 1 more",
    ):
        conform(frame, [Column("age", "number")], first_row=1000)
