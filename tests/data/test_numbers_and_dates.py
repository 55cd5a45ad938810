"""Formatted numbers and dates are parsed, in the same way in training and in prediction."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eastward.data import Column, conform, frame_columns, load_task, read_table
from eastward.data.dates import date_formats
from eastward.data.numbers import NumberFormat, number_formats, possible_formats

NONE = float("nan")


def words(*cells: str | None) -> pd.Series:
    return pd.Series(cells, dtype="str", name="x")


@pytest.mark.parametrize(
    ("cells", "style", "numbers"),
    [
        (["12,8", "3"], "1.234,5", [12.8, 3]),
        (["1.234,5", "7"], "1.234,5", [1234.5, 7]),
        (["1,234.5", "7"], "1,234.5", [1234.5, 7]),
        (["1.234.567", "7"], "1.234,5", [1234567, 7]),
        (["1 234,5", "7"], "1 234,5", [1234.5, 7]),
        (["1\u202f234,5", "7"], "1 234,5", [1234.5, 7]),
        (["1'234.50", "7"], "1'234.5", [1234.5, 7]),
        (["1’234.50", "7"], "1'234.5", [1234.5, 7]),
        (["$5.20", "-$3.00"], "1,234.5 $", [5.2, -3]),
        (["5,20 €", "3,00 €"], "1.234,5 €", [5.2, 3]),
        (["EUR 5.20", "3.00"], "1,234.5 EUR", [5.2, 3]),
        (["(3.5)", "4"], "1,234.5", [-3.5, 4]),
        (["($1,200.00)", "$4.00"], "1,234.5 $", [-1200, 4]),
        (["12.5%", "3 %"], "1,234.5", [0.125, 0.03]),
        (["−5,2", "3,1"], "1.234,5", [-5.2, 3.1]),
        (["1.234,00-", "3,1"], "1.234,5", [-1234, 3.1]),
        (["2,5", "-", "n/a", None], "1.234,5", [2.5, NONE, NONE, NONE]),
        (["2,5e3", "1,0E-2"], "1.234,5", [2500, 0.01]),
        (["12,34,567", "1"], "1,234.5", [1234567, 1]),
        (["5,- €", "6,50 €"], "1.234,5 €", [5, 6.5]),
        (["$(3.10)", "$ 7"], "1,234.5 $", [-3.1, 7]),
        (["1.5", "2.", "-"], "1,234.5", [1.5, 2, NONE]),
    ],
)
def test_a_column_of_formatted_numbers_becomes_numbers(cells, style, numbers):
    found = number_formats(pd.DataFrame({"x": words(*cells)}), ["x"])["x"]
    assert found.text == style
    assert NumberFormat.from_text(found.text) == found
    np.testing.assert_array_equal(found.parse(words(*cells)), numbers)


@pytest.mark.parametrize(
    "cells",
    [
        ["12", "13.5", "1e3"],  # plain: nothing to undress
        ["Graz", "Linz"],
        ["12,8", "unknown"],
        ["€5", "$5"],  # not comparable
        ["10.0.0.1", "10.0.0.2"],
        ["1-2", "3-4"],
        ["(5", "6)"],
        ["1,2,3", "4,5,6"],
        ["12,34,56", "1"],
        ["5 kg", "6 kg"],
        [None, None],
    ],
)
def test_other_text_stays_text(cells):
    assert possible_formats(words(*cells)) == []


@given(
    st.lists(st.integers(-(10**9), 10**9), min_size=1), st.sampled_from([(",", "."), (".", ",")])
)
def test_what_is_written_is_read(cents, signs):
    decimal, thousands = signs
    swap = str.maketrans({",": thousands, ".": decimal})
    cells = words(*(f"{cent / 100:,.2f}".translate(swap) for cent in cents))
    numbers = NumberFormat(decimal, thousands).parse(cells)
    assert numbers.tolist() == [float(f"{cent / 100:.2f}") for cent in cents]


@pytest.mark.parametrize(
    ("others", "decimal", "first"),
    [
        ({}, None, 1234.0),
        ({}, ",", 1.234),
        ({"b": ["0,5", "12,8"]}, None, 1.234),
        ({"b": ["0.5 $", "12.8 $"]}, None, 1234.0),
        ({"b": ["0,5", "12,8"]}, ".", 1234.0),
    ],
)
def test_a_comma_that_may_be_either_is_read_as_elsewhere_in_the_table(others, decimal, first):
    frame = pd.DataFrame({"x": words("1,234", "5"), **others, "y": ["a", "b"]})
    frame = pd.concat([frame, frame], ignore_index=True)
    task = load_task(frame, "y", decimal=decimal)
    assert task.features["x"][0] == first
    doubted = any("'x' could also have" in note for note in task.notes)
    assert doubted == (decimal is None and not others)


def test_semicolons_between_cells_speak_for_decimal_commas(tmp_path):
    (tmp_path / "a.csv").write_text("x;y\n1,234;a\n5;b\n1,234;b\n5;a\n")
    assert load_task(tmp_path / "a.csv", "y").features["x"].tolist() == [1.234, 5, 1.234, 5]


def test_points_separate_thousands_where_commas_separate_decimals(tmp_path):
    lines = ["visits;rain;share;y", "12.500;0,2;0.5;a", "999;12,8;0.25;b"] + [
        "1.000;1,0;0.75;a"
    ] * 2
    (tmp_path / "a.csv").write_text("\n".join([*lines, "7;1,5;0.1;b"]))
    features = load_task(tmp_path / "a.csv", "y").features
    assert features["visits"].tolist() == [12500, 999, 1000, 1000, 7]
    assert features["share"].tolist() == [0.5, 0.25, 0.75, 0.75, 0.1]


def test_columns_on_request_keep_their_letters(tmp_path):
    rows = [f"{k:03d},{k / 4},{'ab'[k % 2]}" for k in range(50)]
    (tmp_path / "a.csv").write_text("\n".join(["code,x,y", *rows]))
    task = load_task(tmp_path / "a.csv", "y", text=["code"])
    assert task.features["code"].astype(str).tolist() == [f"{k:03d}" for k in range(50)]
    column = frame_columns(task.features, task.formats)[0]
    assert column == Column("code", "text", "text")
    again = conform(read_table(tmp_path / "a.csv", as_text=["code"]), [column])
    assert again["code"].astype(str).tolist() == task.features["code"].astype(str).tolist()
    assert "kept as text: 'code'" in task.notes


@pytest.mark.parametrize(
    ("cells", "style"),
    [
        (["31.12.2023", "01.02.2024"], "%d.%m.%Y"),
        (["31.12.2023 18:05", "01.02.2024 07:00"], "%d.%m.%Y %H:%M"),
        (["12/31/2023", "02/01/2024"], "%m/%d/%Y"),
        (["31/12/2023", "01/02/2024"], "%d/%m/%Y"),
        (["01/02/2024", "03/04/2024"], "%m/%d/%Y"),
        (["2023/12/31", "2024/02/01"], "ISO8601"),
        (["31 Dec 2023", "1 Feb 2024"], "%d %b %Y"),
        (["December 31, 2023", "February 1, 2024"], "%B %d, %Y"),
        (["2023-12-31", "2024-02-01"], "ISO8601"),
        (["31-Dec-23", "1-Feb-24"], "%d-%b-%y"),
        (["Sun, 31 Dec 2023", "Thu, 1 Feb 2024"], "%a, %d %b %Y"),
        (["12/31/2023 6:05:10 PM", "2/1/2024 7:00:00 AM"], "%m/%d/%Y %I:%M:%S %p"),
        (["31.12.2023", "-", None], "%d.%m.%Y"),
        (["31.12.2023", "soon"], None),
        (["2023", "2024"], None),
        (["1-2-3", "4-5-6"], None),
    ],
)
def test_dates_are_found_by_the_format_that_all_cells_follow(cells, style):
    assert date_formats(pd.DataFrame({"x": words(*cells)}), ["x"]).get("x") == style


def test_dates_are_days_first_where_decimals_have_commas():
    frame = pd.DataFrame({"x": words("01/02/2024", "03/04/2024"), "rain": ["0,5", "1,5"]})
    task = load_task(pd.concat([frame, frame]).assign(y=list("abab")), "y")
    assert task.formats["x"] == "%d/%m/%Y"


def test_prediction_reads_a_column_as_training_did():
    columns = [Column("x", "number", "1.234,5 €"), Column("d", "date", "%d.%m.%Y")]
    frame = pd.DataFrame({"x": ["1.234,5 €", "7", None], "d": ["01.02.2024", None, "-"]})
    read = conform(frame.astype("str"), columns)
    np.testing.assert_array_equal(read["x"], [1234.5, 7, NONE])
    assert read["d"][0] == pd.Timestamp("2024-02-01")
    with pytest.raises(
        ValueError, match=r"numbers such as 1.234,5 € as in training; got '\$7' in row 1"
    ):
        conform(pd.DataFrame({"x": ["$7"], "d": ["01.02.2024"]}), columns)
    with pytest.raises(ValueError, match=r"dates such as 31.12.2023 as in training; got '2024'"):
        conform(pd.DataFrame({"x": ["7"], "d": ["2024"]}), columns)
