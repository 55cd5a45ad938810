"""Columns at a glance: numbers that a person could check by hand."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from eastward.data import load_task, profile_task


def table(rows: int = 200) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    amount = rng.normal(size=rows)
    amount[0] = 1e9
    return pd.DataFrame(
        {
            "amount": amount,
            "copy": amount,
            "gaps": np.where(np.arange(rows) % 4 == 0, np.nan, 1.0 * np.arange(rows)),
            "city": rng.choice(["Graz", "Linz"], rows, p=[0.8, 0.2]),
            "seen": pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(rows), "D"),
            "flag": np.arange(rows) % 2 == 0,
            "empty": None,
            "y": np.where(amount > 0, "yes", "no"),
        }
    )


@pytest.fixture(scope="module")
def profile():
    found = profile_task(load_task(table(), "y"))
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    return {**found, "columns": {column["name"]: column for column in found["columns"]}}


@pytest.mark.parametrize(
    ("name", "facts"),
    [
        ("amount", {"kind": "number", "missing": 0.0, "distinct": 200}),
        ("gaps", {"kind": "number", "missing": 0.25, "distinct": 150}),
        ("city", {"kind": "category", "missing": 0.0, "distinct": 2}),
        ("seen", {"kind": "date", "missing": 0.0, "distinct": 200}),
        ("flag", {"kind": "boolean", "distinct": 2}),
        ("empty", {"missing": 1.0, "distinct": 0}),
    ],
)
def test_kinds_gaps_and_values_are_counted(profile, name, facts):
    assert {key: profile["columns"][name][key] for key in facts} == facts


def test_numbers_have_ends_and_bars_that_one_outlier_does_not_flatten(profile):
    amount = profile["columns"]["amount"]["numbers"]
    assert amount["high"] == 1e9
    assert sum(count > 0 for count in amount["bars"]) > 6
    seen = profile["columns"]["seen"]["numbers"]
    assert (seen["low"], seen["high"]) == ("2024-01-01", "2024-07-18")
    assert profile["columns"]["city"]["values"][0]["label"] == "Graz"


def test_the_bars_do_not_depend_on_the_unit():
    y = np.where(np.arange(200) % 3 == 0, "yes", "no")
    metres = np.random.default_rng(1).standard_t(2, size=200)
    frame = pd.DataFrame({"metres": metres, "millimetres": 1000 * metres, "y": y})
    first, second = profile_task(load_task(frame, "y"))["columns"]
    assert first["numbers"]["bars"] == second["numbers"]["bars"]
    assert 0 < 200 - sum(first["numbers"]["bars"]) < 20  # a few outliers lie outside


def test_associations_with_the_target_and_redundant_columns_are_found(profile):
    told = {name: column["target"] for name, column in profile["columns"].items()}
    assert told["amount"] > 0.9
    assert told["city"] < 0.3
    assert {(pair["first"], pair["second"]) for pair in profile["alike"]} == {("amount", "copy")}


def test_a_long_value_is_shortened():
    frame = pd.DataFrame({"x": ["word " * 50, "b", "word " * 50, "b"], "y": list("abab")})
    [column] = profile_task(load_task(frame, "y"))["columns"]
    assert max(len(value["label"]) for value in column["values"]) == 40
