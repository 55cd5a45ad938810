"""The target column: accepted kinds, and the errors about others."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sample_tables import claims

from eastward import datasets
from eastward.data import describe_task, label_codes, load_task
from eastward.data.classes import renamed
from eastward.datasets import load_embedded


def failing(frame: pd.DataFrame, target: str = "y", **options) -> str:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the sentence is what each test looks at
        load_task(frame, target, **options)
    return str(caught.value)


def table(labels, **columns) -> pd.DataFrame:
    return pd.DataFrame({"x": np.arange(len(labels)) % 7, **columns, "y": labels})


def test_features_and_labels_are_taken_apart():
    frame = claims()
    task = load_task(frame, "fraud", ignore=["words"])
    assert list(task.features.columns) == [c for c in frame.columns if c not in {"fraud", "words"}]
    assert task.labels.tolist() == frame["fraud"].tolist()
    assert task.classes.tolist() == ["no", "yes"]


def test_the_name_of_a_task_is_that_of_its_file(tmp_path):
    claims(40).to_csv(tmp_path / "claims.csv.gz", index=False)
    assert load_task(tmp_path / "claims.csv.gz", "fraud").name == "claims"


@pytest.mark.parametrize(
    ("labels", "kind"),
    [
        ([1, 0] * 10, "i"),
        ([1.0, 0.0] * 10, "i"),
        ([True, False] * 10, "b"),
        (["a", "b"] * 10, "U"),
        ([0.5, 1.5] * 10, "U"),
    ],
)
def test_labels_are_integers_booleans_or_strings(labels, kind):
    assert load_task(table(labels), "y").labels.dtype.kind == kind


def test_a_target_that_is_not_there_comes_with_near_misses():
    sentence = failing(claims(), "frau")
    assert "target of load_task must be a column of the table; got 'frau'" in sentence
    assert "Did you mean 'fraud'?" in sentence
    assert "It has amount, city, age" in failing(claims(), "zzz")
    assert "Did you mean 'fraud'?" in failing(claims(), "FRAUD")
    assert "ignore of load_task must be a column" in failing(claims(), "fraud", ignore=["agee"])


def test_missing_labels_are_counted_and_dropped_on_request():
    frame = table(["a", None, "b", "a", None, "b", None, None])
    sentence = failing(frame)
    assert "filled in for every row; got 4 missing values in 8 rows (row 2, 5, 7, …)" in sentence
    assert "--drop-missing-target" in sentence
    task = load_task(frame, "y", drop_missing_target=True)
    assert task.labels.tolist() == ["a", "b", "a", "b"]
    assert task.features["x"].tolist() == [0, 2, 3, 5]
    assert "4 rows without a value of 'y' were left out" in describe_task(task)["warnings"]
    assert "without any value" in failing(table([None] * 4), drop_missing_target=True)


def test_integers_stay_integers_when_missing_ones_are_dropped():
    task = load_task(table([1, None, 2, 1, 2]), "y", drop_missing_target=True)
    assert task.labels.dtype == np.int64


def test_a_target_of_many_numbers_is_regression():
    sentence = failing(table(np.arange(400)))
    assert "must be made of classes; got 400 different numbers from 0 to 399" in sentence
    assert "regression" in sentence
    assert "regression" in failing(table(np.linspace(0, 1, 50)))
    assert len(load_task(table(np.arange(400) % 100), "y").classes) == 100


def test_dates_and_single_classes_are_no_target():
    assert "which has dates" in failing(table(pd.date_range("2020", periods=10)))
    assert "got 'a' in every row" in failing(table(["a"] * 5))
    assert "columns besides the target" in failing(pd.DataFrame({"y": ["a", "b"] * 3}))


def test_a_class_with_one_row_is_named_and_dropped_on_request():
    frame = table(["a", "a", "b", "b", "rare"])
    sentence = failing(frame)
    assert "at least two rows" in sentence
    assert "got a single row of 'rare'" in sentence
    task = load_task(frame, "y", drop_rare_classes=True)
    assert task.classes.tolist() == ["a", "b"]
    assert any("'rare'" in warning for warning in describe_task(task)["warnings"])


def test_labels_of_mixed_types_are_refused():
    sentence = failing(
        pd.DataFrame({"x": range(4), "y": pd.Series([1, "1", 1, "1"], dtype=object)})
    )
    assert "target 'y' of load_task must be of one type; got 1 (int), '1' (str)" in sentence
    assert "astype(str)" in sentence


def described(frame: pd.DataFrame) -> list[str]:
    return describe_task(load_task(frame, "y"))["warnings"]


def warned(frame: pd.DataFrame, *words: str) -> bool:
    return any(all(word in warning for word in words) for warning in described(frame))


LABELS = ["a", "b", "b", "a"] * 25


def test_facts_of_a_task_are_plain_and_sorted():
    facts = describe_task(load_task(table(["b", "a", "b", "b"] * 25), "y"))
    assert (facts["rows"], facts["features"], facts["imbalance"]) == (100, 1, 3.0)
    assert facts["classes"] == [{"label": "b", "count": 75}, {"label": "a", "count": 25}]
    assert facts["columns"] == [{"name": "x", "kind": "number"}]


def test_ids_and_constants_are_pointed_out():
    ids = [f"K{k}" for k in range(100)]
    assert warned(table(LABELS, key=ids), "'key'", "--ignore")
    assert warned(table(LABELS, number=np.arange(1, 101)), "'number'", "id")
    assert not warned(table(LABELS, amount=np.random.default_rng(0).normal(size=100)), "'amount'")
    assert not warned(table(LABELS, text=[f"some words {k}" for k in range(100)]), "'text'")
    assert warned(table(LABELS, one=[1] * 100), "'one'", "same value")
    assert warned(table(LABELS, none=[None] * 100), "'none'", "no value")
    assert warned(table(LABELS, gap=[1.0, 2.0] + [None] * 98), "'gap'", "98.0%")


def test_a_feature_that_tells_the_target_is_pointed_out():
    copy = [label.upper() for label in LABELS]
    assert warned(table(LABELS, leak=copy), "'leak'", "without a mistake")
    noisy = ["B", *copy[1:]]
    assert not warned(table(LABELS, leak=noisy), "'leak'", "without a mistake")


def test_a_leak_with_one_mistake_in_six_hundred_rows_is_pointed_out():
    labels = ["a", "b", "b"] * 200
    leak = [label.upper() for label in labels]
    leak[5] = "A"
    assert warned(table(labels, leak=leak), "'leak'", "with 1 mistake:")
    honest = [label if k % 20 else "A" for k, label in enumerate(leak)]
    assert not warned(table(labels, honest=honest), "'honest'", "alone tells")


@pytest.mark.parametrize(
    ("wrong", "found"), [(0, "without a mistake"), (1, "with 1 mistake:"), (30, "")]
)
def test_an_amount_that_tells_the_target_by_a_threshold_is_pointed_out(wrong, found):
    labels = ["a", "b", "b"] * 200
    paid = np.random.default_rng(0).random(600) + [5.0 * (label == "b") for label in labels]
    paid[: 3 * wrong : 3] += 5
    assert warned(table(labels, paid=paid), "'paid'", found or "alone tells") == bool(found)


def test_the_largest_class_alone_is_no_leak():
    labels = ["no"] * 590 + ["yes"] * 10
    assert not warned(table(labels, flag=["x", "y"] * 300), "'flag'", "alone tells")


def test_an_id_is_found_although_rows_are_copied():
    frame = table(LABELS, key=[f"K{k}" for k in range(100)])
    copied = pd.concat([frame, frame.head(30)], ignore_index=True)
    assert warned(copied, "'key'", "id")
    assert warned(copied, "rows", "copies of others")


def test_dates_get_a_hint_and_are_no_ids():
    days = pd.date_range("2020-01-01", periods=100).strftime("%d.%m.%Y")
    assert warned(table(LABELS, day=days), "'day'", "--time")
    assert not warned(table(LABELS, day=days), "'day'", "id;")


def test_labels_that_differ_by_case_or_blanks_are_reported_and_merged_on_request():
    frame = table(["Yes", "yes", "yes ", "no"] * 10)
    assert warned(frame, "'Yes', 'yes', 'yes '", "--merge-labels")
    assert len(load_task(frame, "y").classes) == 4
    task = load_task(frame, "y", merge_labels=True)
    assert task.classes.tolist() == ["Yes", "no"]
    again = renamed(pd.Series(["YES", " yes", "no", None]), task.renamed)
    assert again.tolist()[:3] == ["Yes", "Yes", "no"]
    assert again.isna().tolist() == [False, False, False, True]


@pytest.mark.parametrize(
    ("options", "classes", "rows"),
    [
        ({"drop_rare_classes": True}, ["a", "b", "c"], 25),
        ({"min_class_rows": 4}, ["a", "b"], 22),
        ({"merge_rare": "other"}, ["a", "b", "other"], 26),
        ({"merge_rare": "other", "min_class_rows": 4}, ["a", "b", "other"], 26),
    ],
)
def test_rare_classes_are_dropped_or_merged_on_request(options, classes, rows):
    frame = table(["a"] * 12 + ["b"] * 10 + ["c"] * 3 + ["d"])
    task = load_task(frame, "y", **options)
    assert task.classes.tolist() == classes
    assert len(task.features) == len(task.labels) == rows
    assert any("rows" in note or "single row" in note for note in task.notes)
    if "merge_rare" in options:
        assert task.renamed == {"c": "other", "d": "other"}


def test_a_merged_class_needs_two_rows_and_another_class():
    frame = table(["a"] * 12 + ["b"] * 12 + ["c"])
    sentence = failing(frame, merge_rare="other")
    assert "a single row of 'other'" in sentence
    assert "name a class that has rows" in sentence
    assert "--merge-rare other" not in sentence
    assert "at least two classes" in failing(frame, min_class_rows=13)
    assert "merge_rare of load_task must be the name of a class" in failing(frame, merge_rare=" ")
    assert "min_class_rows of load_task must be >= 2" in failing(frame, min_class_rows=1)


def test_copies_are_counted_with_those_that_contradict():
    frame = pd.DataFrame({"x": np.arange(40.0) ** 1.5, "y": ["a", "b"] * 20})
    assert not any("cop" in warning for warning in described(frame))
    more = pd.concat([frame, frame.iloc[:3], frame.iloc[[5]].assign(y="a")])
    assert warned(more, "4 rows (9.1%) are copies of others", "1 of them with another label")


def test_numbers_with_a_few_words_between_are_pointed_out():
    values = [str(k % 50) for k in range(99)] + ["unknown"]
    assert warned(table(LABELS, mixed=values), "'mixed' has mixed types", "'unknown' (row 100)")
    assert not warned(table(LABELS, mixed=[*values[:99], "?"]), "'mixed' has mixed types")
    commas = [f"{k % 50},5" for k in range(99)] + ["unknown"]
    assert warned(table(LABELS, mixed=commas), "'mixed' has mixed types", "'unknown' (row 100)")


def test_rare_classes_are_pointed_out():
    assert warned(table(["a"] * 90 + ["b"] * 10 + ["c"] * 3), "few rows of c (3)")


def test_labels_of_another_file_are_found_however_they_are_written():
    classes = np.array([False, True])
    assert label_codes(pd.Series(["true", "False", None]), classes, "y").tolist() == [1, 0, -1]
    assert label_codes(pd.Series([1.0, 0.0]), np.array([0, 1]), "y").tolist() == [1, 0]
    assert label_codes(pd.Series([2, 1]), np.array(["1", "2"]), "y").tolist() == [1, 0]
    with pytest.raises(
        ValueError, match=r"made of classes of the training data.*unknown \['c'\] in 2 rows"
    ):
        label_codes(pd.Series(["a", "c", "c"]), np.array(["a", "b"]), "y")


def test_each_embedded_digit_is_rarer_than_the_one_before():
    frame, target = load_embedded("digits_long_tail")
    names = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
    counts = frame[target].value_counts()
    assert [counts[name] for name in names[:3]] == [174, 122, 85]
    assert counts[names].is_monotonic_decreasing


def test_a_fifth_of_the_embedded_patients_is_the_class_to_be_found():
    frame, target = load_embedded("diabetes_progression")
    assert 0.15 < (frame[target] == "strong").mean() < 0.25
    with pytest.raises(AttributeError, match=r"papers\.data\.load_frames"):
        _ = datasets.load_frames
