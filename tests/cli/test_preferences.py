"""--metric, --prefer and --cost in the terms of a metric."""

from __future__ import annotations

import numpy as np
import pytest

from eastward.cli.preferences import cost_table, metric_choice, preferred_betas

CLASSES = np.array(["cat", "dog", "no pet"])
COSTS = [[0, 1, 2], [3, 0, 4], [5, 6, 0]]


def test_recall_raises_beta_and_precision_lowers_it():
    assert preferred_betas(["recall:dog=5", "precision:cat=4"], CLASSES) == {"dog": 5, "cat": 0.25}


def test_classes_may_hold_signs_and_other_cases():
    assert preferred_betas(["recall:No Pet=2"], CLASSES) == {"no pet": 2}
    assert preferred_betas(["recall:a=b:c=2"], np.array(["a=b:c", "d"])) == {"a=b:c": 2}


def test_numbers_and_booleans_are_named_as_they_are_written():
    assert preferred_betas(["recall:1=5"], np.array([0, 1])) == {1: 5}
    assert preferred_betas(["recall:true=5"], np.array([False, True])) == {True: 5}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("plain.csv", "0,1,2\n3,0,4\n5,6,0\n"),
        ("semicolons.csv", "0;1;2\n3;0;4\n5;6;0\n"),
        ("named.csv", "true,no pet,cat,dog\ndog,4,3,0\ncat,2,0,1\nno pet,0,5,6\n"),
        ("bars.csv", "true|cat|dog|no pet\ncat|0|1|2\ndog|3|0|4\nno pet|5|6|0\n"),
        ("commas.csv", "0;1,0;2\n3;0;4,0\n5;6;0\n"),
        ("lists.json", "[[0, 1, 2], [3, 0, 4], [5, 6, 0]]"),
        (
            "named.json",
            (
                '{"cat": {"dog": 1, "no pet": 2}, "dog": {"cat": 3, "no pet": 4}, '
                '"no pet": {"cat": 5, "dog": 6}}'
            ),
        ),
    ],
)
def test_costs_are_brought_into_the_order_of_the_classes(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    assert cost_table(tmp_path / name, CLASSES) == COSTS
    assert metric_choice("f1_macro", None, tmp_path / name, CLASSES) == (
        "expected_cost",
        {"cost": COSTS},
    )


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("small.csv", "0,1\n1,0\n", "a table of 3 rows and columns"),
        ("words.csv", "0,1,2\n3,much,4\n5,6,0\n", "a table of numbers"),
        (
            "other.csv",
            "true,cat,bird\ncat,0,1\n",
            "class in --cost of eastward must be one of cat, dog, no pet; got 'bird'",
        ),
        ("cut.json", "[[0, 1", "a .csv or .json table"),
        ("spaces.csv", "0 1 2\n3 0 4\n5 6 0\n", "separated by commas, semicolons, tabs or bars"),
        ("colons.csv", "true:cat:dog\ncat:0:1\n", "got the first line 'true:cat:dog'"),
        ("surplus.csv", "true,cat,dog\ncat,0,1,7\ndog,1,0\n", "3 cells in each row"),
        ("short.csv", "true,cat,dog\ncat,0\ndog,1,0\n", "got 2 in row 2"),
        ("twice.csv", "true,cat,cat\ncat,0,1\ndog,1,0\n", "has each class once; got 'cat'"),
        ("zero.csv", "0,0,0\n0,0,0\n0,0,0\n", "in which decisions differ in cost"),
        ("equal.csv", "1,1,1\n2,2,2\n3,3,3\n", "the decision makes no difference to the cost"),
        ("zero.json", "{}", "in which decisions differ in cost"),
        (
            "gaps.json",
            '{"cat": {"dog": 1}, "no pet": {"dog": 2}}',
            "where deciding 'cat' is the cheapest for all of them",
        ),
        ("infinite.csv", "0,1,2\n3,0,inf\n5,6,0\n", "all finite"),
    ],
)
def test_a_table_of_costs_that_does_not_fit_is_explained(tmp_path, name, text, sentence):
    (tmp_path / name).write_text(text)
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the sentence is looked at
        cost_table(tmp_path / name, CLASSES)
    assert sentence in str(caught.value)


def test_metrics_of_one_class_are_for_two_classes():
    assert metric_choice("f1", None, None, np.array([0, 1])) == ("f1", None)
    assert metric_choice("F1[cat]", None, None, CLASSES) == ("f1[cat]", None)
    with pytest.raises(ValueError, match="Use f1_macro"):
        metric_choice("f1", None, None, CLASSES)
    with pytest.raises(ValueError, match="left out when --cost is given"):
        metric_choice("f1_macro", ["recall:cat=2"], "costs.csv", CLASSES)


def test_a_note_says_which_of_two_classes_counts(capsys):
    metric_choice("recall", None, None, np.array(["fraud", "legal"]))
    told = capsys.readouterr().err
    assert "recall counts the class legal" in told
    assert "--metric 'recall[fraud]'" in told
    metric_choice("recall", None, None, np.array(["no", "yes"]))
    metric_choice("recall[fraud]", None, None, np.array(["fraud", "legal"]))
    assert not capsys.readouterr().err
