"""Files as people have them: what is written, what is expected, and what happens."""

from __future__ import annotations

import csv
import gzip
import io
import json
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from eastward.data import conform, describe_task, frame_columns, iter_tables, load_task, read_table

GONE = float("nan")


def day(text: str) -> pd.Timestamp:
    return pd.Timestamp(text)


@dataclass(frozen=True)
class Case:
    """A file, how it is read, and what must come out: values of ``x``, words of a note, or words of an error."""

    name: str
    content: Any
    x: list[Any] | None = None
    note: str = ""
    error: str = ""
    options: dict[str, Any] = field(default_factory=dict)
    part: str = ""


def lines(*cells: str, separator: str = ",") -> str:
    """A column ``x`` of four rows or more beside a target."""
    cells = cells * 2 if len(cells) == 2 else cells
    rows = [f"{cell}{separator}{'ab'[k % 2]}" for k, cell in enumerate(cells)]
    return "\n".join([f"x{separator}y", *rows, ""])


def quoted(*cells: str) -> str:
    return lines(*(f'"{cell}"' for cell in cells))


def semicolons(*cells: str) -> str:
    return lines(*cells, separator=";")


def padded(*cells: str) -> str:
    """A column ``x`` with blanks behind each comma, in names and values."""
    cells = cells * 2 if len(cells) == 2 else cells
    return lines(*(f"{k}, {cell}" for k, cell in enumerate(cells)), separator=", ").replace(
        "x, ", "n, x, ", 1
    )


def zipped(**members: str) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, text in members.items():
            archive.writestr(name.replace("__dot__", "."), text)
    return out.getvalue()


def workbook(**sheets: pd.DataFrame) -> bytes:
    pytest.importorskip("openpyxl")
    out = io.BytesIO()
    with pd.ExcelWriter(out) as writer:
        for name, sheet in sheets.items():
            sheet.to_excel(writer, sheet_name=name, index=False)
    return out.getvalue()


def records(*values: Any) -> list[dict[str, Any]]:
    return [{"x": value, "y": "ab"[k % 2]} for k, value in enumerate(values)]


FOUR = ("1", "2", "3", "5")
CASES = {
    # numbers
    "decimal commas": Case("a.csv", semicolons("12,8", "3,5", "0,25", "7"), [12.8, 3.5, 0.25, 7]),
    "decimal commas in quotes": Case(
        "a.csv", quoted("12,8", "3,5", "0,25", "7"), [12.8, 3.5, 0.25, 7]
    ),
    "decimal commas between tabs": Case(
        "a.tsv", lines("12,8", "3,5", "1,0", "7", separator="\t"), [12.8, 3.5, 1, 7]
    ),
    "German thousands": Case(
        "a.csv", semicolons("1.234,5", "3,5", "2.000.000", "7"), [1234.5, 3.5, 2e6, 7]
    ),
    "English thousands": Case(
        "a.csv", quoted("1,234.5", "3.5", "2,000,000", "7"), [1234.5, 3.5, 2e6, 7]
    ),
    "French thousands": Case(
        "a.csv", semicolons("1\u202f234,5", "3,5", "1\u00a0000", "7"), [1234.5, 3.5, 1000, 7]
    ),
    "Swiss thousands": Case("a.csv", lines("1'234.5", "3.5", "1'000", "7"), [1234.5, 3.5, 1000, 7]),
    "a comma that may be either": Case(
        "a.csv", quoted("1,234", "5,678", "1,000", "7"), [1234, 5678, 1000, 7], note="--decimal ,"
    ),
    "a comma that may be either, told": Case(
        "a.csv",
        quoted("1,234", "5,678", "1,000", "7"),
        [1.234, 5.678, 1, 7],
        options={"decimal": ","},
    ),
    "a comma that may be either, with semicolons": Case(
        "a.csv",
        semicolons("1,234", "5,678", "1,000", "7"),
        [1.234, 5.678, 1, 7],
        note="--decimal .",
    ),
    "a point that may be either, with semicolons": Case(
        "a.csv",
        semicolons("1.234", "2.500", "3.125", "999"),
        [1.234, 2.5, 3.125, 999],
        note="'x' could also have the decimal sign , (--decimal ,)",
    ),
    "a point that may be either, told": Case(
        "a.csv",
        semicolons("1.234", "2.500", "3.125", "999"),
        [1234, 2500, 3125, 999],
        options={"decimal": ","},
    ),
    "dollars": Case("a.csv", quoted("$5.20", "$1,200.00", "-$3.00", "$7"), [5.2, 1200, -3, 7]),
    "euros": Case("a.csv", semicolons("5,20 €", "1.200,00 €", "-3 €", "7 €"), [5.2, 1200, -3, 7]),
    "currency codes": Case("a.csv", lines("CHF 5.20", "CHF 3", "4.5", "CHF 7"), [5.2, 3, 4.5, 7]),
    "several currencies": Case("a.csv", lines("€5", "$3", "€4", "$7"), ["€5", "$3", "€4", "$7"]),
    "percent": Case("a.csv", lines("12.5%", "3 %", "100%", "0%"), [0.125, 0.03, 1, 0]),
    "parentheses": Case("a.csv", lines("(3.50)", "4", "(1)", "7"), [-3.5, 4, -1, 7]),
    "minus behind": Case("a.csv", semicolons("3,50-", "4,00", "1,00-", "7,00"), [-3.5, 4, -1, 7]),
    "minus of a typesetter": Case(
        "a.csv", semicolons("−3,5", "4,0", "−1,0", "7,0"), [-3.5, 4, -1, 7]
    ),
    "dashes for missing": Case("a.csv", semicolons("2,5", "-", "–", "1,5"), [2.5, GONE, GONE, 1.5]),
    "words for missing": Case(
        "a.csv", semicolons("2,5", "n/a", "?", "1,5"), [2.5, GONE, GONE, 1.5]
    ),
    "codes that look like numbers": Case(
        "a.csv",
        lines("007", "010", "099", "100"),
        ["007", "010", "099", "100"],
        options={"text": ["x"]},
    ),
    "numbers with units": Case(
        "a.csv", lines("5 kg", "6 kg", "7 kg", "8 kg"), ["5 kg", "6 kg", "7 kg", "8 kg"]
    ),
    "addresses": Case(
        "a.csv", lines(*(f"10.0.0.{k}" for k in FOUR)), [f"10.0.0.{k}" for k in FOUR]
    ),
    "percent in some cells": Case(
        "a.csv", lines("12%", "3", "5%", "7"), [0.12, 3, 0.05, 7], note="with and without %"
    ),
    "Indian thousands": Case(
        "a.csv", quoted("₹1,23,456", "₹300", "₹15,000", "₹2"), [123456, 300, 15000, 2]
    ),
    "parentheses of accountants": Case(
        "a.csv", quoted("$(3.10)", "$7.00", "$(1,000.00)", "$2.00"), [-3.1, 7, -1000, 2]
    ),
    "prices without cents": Case("a.csv", semicolons("5,- €", "6,50 €"), [5, 6.5] * 2),
    "plain numbers and dashes": Case("a.csv", lines("1.5", "-", "2.5", "7"), [1.5, GONE, 2.5, 7]),
    "plain numbers and German gaps": Case(
        "a.csv", lines("1.5", "k.A.", "2.5", "."), [1.5, GONE, 2.5, GONE]
    ),
    "errors of a spreadsheet": Case(
        "a.csv", semicolons("1,5", "#DIV/0!", "#N/A", "7"), [1.5, GONE, GONE, 7]
    ),
    "both decimal signs": Case(
        "a.csv",
        semicolons("1,5", "2.5", "3,5", "4.25"),
        ["1,5", "2.5", "3,5", "4.25"],
        note="numbers written in several ways, such as '1,5' and '2.5'",
    ),
    "times of day": Case(
        "a.csv",
        lines("12:30", "08:15", "23:45", "00:00"),
        [12.5, 8.25, 23.75, 0],
        note="read as hours written like 18:05: 'x'",
    ),
    "times in halves of a day": Case("a.csv", lines("6:30 PM", "12:15 AM"), [18.5, 0.25] * 2),
    "durations": Case(
        "a.csv", lines("1:30:00", "0:15:00", "100:45:00", "-"), [1.5, 0.25, 100.75, GONE]
    ),
    "results of matches": Case("a.csv", lines("3:1", "0:2"), ["3:1", "0:2"] * 2),
    "postcodes": Case(
        "a.csv",
        lines("01067", "10115", "80331", "04109"),
        [1067, 10115, 80331, 4109],
        note="leading zeros of 'x' were dropped: 01067 was read as 1067 (--text x",
    ),
    "postcodes behind semicolons, in quotes": Case(
        "a.csv",
        semicolons('"80331"', '"01067"', '"10115"', '"04109"'),
        note="leading zeros of 'x' were dropped: 01067 was read as 1067 (--text x",
    ),
    "postcodes kept as text": Case(
        "a.csv", lines("01067", "10115"), ["01067", "10115"] * 2, options={"text": ["x"]}
    ),
    "times kept as text": Case(
        "a.csv", lines("12:30", "08:15"), ["12:30", "08:15"] * 2, options={"text": ["x"]}
    ),
    "words among decimal commas": Case(
        "a.csv", semicolons(*(f"{k},5" for k in range(29)), "unknown"), note="'unknown' (row 30)"
    ),
    # dates
    "German dates": Case(
        "a.csv",
        lines("31.12.2023", "01.02.2024", "02.02.2024", "03.02.2024"),
        [day("2023-12-31"), day("2024-02-01"), day("2024-02-02"), day("2024-02-03")],
        note="dates written like 31.12.2023: 'x'",
    ),
    "American dates": Case(
        "a.csv", lines("12/31/2023", "02/01/2024"), [day("2023-12-31"), day("2024-02-01")] * 2
    ),
    "British dates": Case(
        "a.csv", lines("31/12/2023", "01/02/2024"), [day("2023-12-31"), day("2024-02-01")] * 2
    ),
    "dates with times": Case(
        "a.csv",
        lines("31.12.2023 18:05", "01.02.2024 07:00"),
        [day("2023-12-31 18:05"), day("2024-02-01 07:00")] * 2,
    ),
    "dates in words": Case(
        "a.csv", quoted("31 Dec 2023", "1 Feb 2024"), [day("2023-12-31"), day("2024-02-01")] * 2
    ),
    "dates with gaps": Case(
        "a.csv",
        lines("31.12.2023", "-", "01.02.2024", "-"),
        [day("2023-12-31"), pd.NaT, day("2024-02-01"), pd.NaT],
    ),
    "dates kept as text": Case(
        "a.csv",
        lines("31.12.2023", "01.02.2024"),
        ["31.12.2023", "01.02.2024"] * 2,
        options={"text": ["x"]},
    ),
    "dates of databases": Case(
        "a.csv",
        lines("2023-12-31", "0000-00-00", "2024-02-01", "2024-02-02"),
        [day("2023-12-31"), pd.NaT, day("2024-02-01"), day("2024-02-02")],
    ),
    "dates as digits": Case(
        "a.csv",
        lines("20231231", "20240201"),
        [day("2023-12-31"), day("2024-02-01")] * 2,
        note="dates written like 20231231",
    ),
    "dates that may be either": Case(
        "a.csv",
        lines("03/04/2023", "05/06/2023"),
        [day("2023-03-04"), day("2023-05-06")] * 2,
        note="could also be the day",
    ),
    "dates in several formats": Case(
        "a.csv",
        lines("31.12.2023", "2024-02-01", "03.02.2024", "2024-02-04"),
        ["31.12.2023", "2024-02-01", "03.02.2024", "2024-02-04"],
        note="dates written in several ways",
    ),
    "years are numbers": Case(
        "a.csv", lines("2021", "2022", "2023", "2024"), [2021, 2022, 2023, 2024]
    ),
    # files
    "a text file": Case("a.txt", semicolons(*FOUR), [1, 2, 3, 5]),
    "bars": Case("a.csv", lines(*FOUR, separator="|"), [1, 2, 3, 5]),
    "blanks behind commas": Case("a.csv", padded(*FOUR), [1, 2, 3, 5]),
    "blanks around names": Case(
        "a.csv",
        padded("Graz", " Linz", "Wien ", "Bad  Ischl"),
        ["Graz", "Linz", "Wien", "Bad  Ischl"],
    ),
    "blanks before quotes": Case(
        "a.csv",
        padded('"Graz, west"', '" Linz"', 'a 5 "inch" pipe', '"said ""a, b"""'),
        ["Graz, west", " Linz", 'a 5 "inch" pipe', 'said "a, b"'],
    ),
    "blanks alone": Case("a.csv", padded("1.5", " ", "?", "2"), [1.5, GONE, GONE, 2]),
    "blanks behind semicolons": Case(
        "a.csv",
        padded("1#5", "2", "3#25", "5").replace(", ", "; ").replace("#", ","),
        [1.5, 2, 3.25, 5],
    ),
    "blanks behind commas, dates": Case(
        "a.csv", padded("31.12.2023", "01.02.2024"), [day("2023-12-31"), day("2024-02-01")] * 2
    ),
    "blanks behind tabs": Case("a.tsv", padded(*FOUR).replace(", ", "\t "), [1, 2, 3, 5]),
    "blanks behind commas, compressed, of Windows": Case(
        "a.csv.gz",
        gzip.compress(padded(*FOUR).replace("\n", " \r\n").encode("cp1252")),
        [1, 2, 3, 5],
    ),
    "blanks in quotes": Case("a.csv", quoted(" 1,5", "2,5 ", "3", "5"), [1.5, 2.5, 3, 5]),
    "a byte-order mark": Case("a.csv", ("\ufeff" + lines(*FOUR)).encode(), [1, 2, 3, 5]),
    "a separator named above the header": Case(
        "a.csv", "sep=;\r\n" + semicolons("1,5", "2,5", "3", "5"), [1.5, 2.5, 3, 5]
    ),
    "a title above the header": Case(
        "a.csv", "Report 2024\n" + semicolons("1,5", "2,5"), error="if it is a title"
    ),
    "lines of Windows": Case("a.csv", lines(*FOUR).replace("\n", "\r\n").encode(), [1, 2, 3, 5]),
    "Latin letters": Case(
        "a.csv", lines("Köln", "Łódź"[1:2], "Köln", "ó").encode("cp1252"), error="--encoding cp1252"
    ),
    "gzip": Case(
        "a.csv.gz", gzip.compress(semicolons("1,5", "2,5", "3", "5").encode()), [1.5, 2.5, 3, 5]
    ),
    "a zip of one table": Case("a.csv.zip", zipped(a__dot__csv=lines(*FOUR)), [1, 2, 3, 5]),
    "a zip made by a Mac": Case(
        "a.zip",
        zipped(**{"a__dot__csv": lines(*FOUR), "__MACOSX/._a__dot__csv": "?"}),
        [1, 2, 3, 5],
    ),
    "a zip of two tables": Case(
        "a.zip",
        zipped(a__dot__csv="", b__dot__csv=""),
        error="which has 'a.csv', 'b.csv'. Name one: 'a.zip#a.csv'",
    ),
    "a zip of two tables, one named": Case(
        "a.zip",
        zipped(a__dot__csv="", b__dot__tsv=lines(*FOUR, separator="\t")),
        [1, 2, 3, 5],
        part="#b.tsv",
    ),
    "a zip without a table": Case("a.zip", zipped(a__dot__png=""), error="with one table of text"),
    "a zip that is cut off": Case(
        "a.zip", zipped(a__dot__csv="x")[:20], error="a complete zip file"
    ),
    "JSON rows": Case("a.json", json.dumps(records(1, 2, 3, 5)), [1, 2, 3, 5]),
    "JSON rows with decimal commas": Case(
        "a.json", json.dumps(records("1,5", "2,5", "3", None)), [1.5, 2.5, 3, GONE]
    ),
    "JSON rows in an envelope": Case(
        "a.json", json.dumps({"status": "ok", "data": records(1, 2, 3, 5)}), [1, 2, 3, 5]
    ),
    "JSON columns": Case(
        "a.json", json.dumps({"x": [1, 2, 3, 5], "y": list("abab")}), [1, 2, 3, 5]
    ),
    "JSON of pandas": Case("a.json", pd.DataFrame(records(1, 2, 3, 5)).to_json(), [1, 2, 3, 5]),
    "JSON of pandas, split": Case(
        "a.json", pd.DataFrame(records(1, 2, 3, 5)).to_json(orient="split"), [1, 2, 3, 5]
    ),
    "JSON of pandas by index": Case(
        "a.json", pd.DataFrame(records(1, 2, 3, 5)).to_json(orient="index"), [1, 2, 3, 5]
    ),
    "JSON, compressed": Case(
        "a.json.gz", gzip.compress(json.dumps(records(1, 2, 3, 5)).encode()), [1, 2, 3, 5]
    ),
    "JSON in a zip": Case(
        "a.zip", zipped(a__dot__json=json.dumps(records(1, 2, 3, 5))), [1, 2, 3, 5]
    ),
    "JSON with two tables": Case(
        "a.json",
        json.dumps({"may": records(1, 2), "june": records(3, 4)}),
        error="which has 'may', 'june'. Name one: 'a.json#may'",
    ),
    "JSON with two tables, one named": Case(
        "a.json",
        json.dumps({"may": records(1, 2), "june": records(1, 2, 3, 5)}),
        [1, 2, 3, 5],
        part="#june",
    ),
    "JSON of no rows": Case("a.json", "[]", error="a table with rows; got a.json, which has none"),
    "JSON lines under the wrong name": Case(
        "a.json", "\n".join(json.dumps(row) for row in records(1, 2, 3, 5)), [1, 2, 3, 5]
    ),
    "JSON that is cut off": Case(
        "a.json", json.dumps(records(1, 2))[:-4], error="not complete JSON"
    ),
    "JSON without rows": Case("a.json", "3", error="got a.json with a int"),
    "JSON with lists inside": Case(
        "a.json", json.dumps(records([1], [2])), error="a list in column 'x'"
    ),
    "an Excel sheet": Case(
        "a.xlsx", lambda: workbook(A=pd.DataFrame(records(1, 2.5, 3, 5))), [1, 2.5, 3, 5]
    ),
    "an Excel sheet of text": Case(
        "a.xlsx",
        lambda: workbook(A=pd.DataFrame(records("1,5", "2,5", "3,0", "5"))),
        [1.5, 2.5, 3, 5],
    ),
    "an Excel sheet of dates": Case(
        "a.xlsx",
        lambda: workbook(A=pd.DataFrame(records(day("2024-02-01"), day("2024-02-03")) * 2)),
        [day("2024-02-01"), day("2024-02-03")] * 2,
    ),
    "two Excel sheets": Case(
        "a.xlsx",
        lambda: workbook(**{"May": pd.DataFrame(records(1)), "June 1": pd.DataFrame(records(2))}),
        error="which has 'May', 'June 1'. Name one: 'a.xlsx#May'",
    ),
    "two Excel sheets, one named": Case(
        "a.xlsx",
        lambda: workbook(
            **{"May": pd.DataFrame(records(1)), "June 1": pd.DataFrame(records(1, 2, 3, 5))}
        ),
        [1, 2, 3, 5],
        part="#June 1",
    ),
    "an Excel sheet and an empty one": Case(
        "a.xlsx",
        lambda: workbook(A=pd.DataFrame(records(1, 2, 3, 5)), B=pd.DataFrame()),
        [1, 2, 3, 5],
    ),
    "a title above the header of an Excel sheet": Case(
        "a.xlsx",
        lambda: workbook(A=pd.DataFrame({"Report": ["x", 1, 2], "": ["y", "a", "b"]})),
        error="The names of the columns must be in the first row",
    ),
    "a damaged Excel file": Case(
        "a.xlsx", lambda: workbook(A=pd.DataFrame())[:90], error="a complete Excel file"
    ),
    "an old Excel file": Case("a.xls", "?", error="must be a file that ends in .csv"),
    # targets
    "labels alike": Case(
        "a.csv", "x,y\n" + "1,Yes\n2,yes\n3,no\n" * 3, note="'Yes', 'yes' (--merge-labels"
    ),
    "a class of one row": Case("a.csv", lines(*FOUR) + "9,c\n", error="--merge-rare other"),
    "a header alone": Case("a.csv", "x,y\n", error="a table with rows; got a.csv, which has none"),
    "nothing": Case("a.csv", "", error="an empty file"),
    "constant features": Case("a.csv", lines("1", "1", "1", "1"), error="nothing to learn from"),
}


def written(case: Case, folder: Path) -> str:
    content = case.content() if callable(case.content) else case.content
    path = folder / case.name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return f"{path}{case.part}"


@pytest.mark.parametrize("name", CASES)
def test_a_messy_file_is_read_or_explained(name, tmp_path):
    case = CASES[name]
    source = written(case, tmp_path)
    if case.error:
        with pytest.raises(ValueError) as caught:  # noqa: PT011 - the sentence is what the table holds
            load_task(source, "y", **case.options)
        assert case.error in str(caught.value)
        return
    task = load_task(source, "y", **case.options)
    if case.note:
        assert any(case.note in warning for warning in describe_task(task)["warnings"])
    if case.x is None:
        return
    assert_cells(task.features["x"], case.x)
    # What training saw is what prediction sees of the same file, which it reads part by part.
    columns = frame_columns(task.features, task.formats)
    parts = [conform(part, columns) for part in iter_tables(source, 3, kinds=columns)]
    assert_cells(pd.concat(parts, ignore_index=True)["x"], case.x)


def assert_cells(column: pd.Series, expected: list[Any]) -> None:
    if isinstance(expected[0], str):
        assert column.astype(str).tolist() == expected
    elif isinstance(expected[0], pd.Timestamp):
        assert column.astype("datetime64[s]").tolist() == expected
    else:
        np.testing.assert_array_equal(column.to_numpy(dtype=float), expected)


def test_the_table_is_as_long_as_was_promised():
    assert len(CASES) >= 40


@pytest.mark.parametrize("chunk", [1, 7, 1 << 20])
def test_spaces_are_stripped_as_by_pythons_csv_reader(chunk, tmp_path, monkeypatch):
    text = (
        "x, note, y\n"
        + '1, "two\n , lines", a\n 2, one  line, b\n3, "quoted ""twice"", here", a\n' * 9
    )
    (tmp_path / "a.csv").write_text(text, encoding="utf-8")
    monkeypatch.setattr("eastward.data.padding.CHUNK", chunk)
    expected = list(csv.DictReader(io.StringIO(text), skipinitialspace=True))
    table = read_table(tmp_path / "a.csv", as_text=["x"])
    assert table.to_dict("records") == expected


def test_an_excel_file_without_openpyxl_says_what_to_install(tmp_path, monkeypatch):
    (tmp_path / "a.xlsx").write_bytes(b"?")
    monkeypatch.setattr("eastward.data.whole_files.find_spec", lambda name: None)
    with pytest.raises(
        ModuleNotFoundError, match=r"needs openpyxl: pip install 'eastward\[excel\]'"
    ):
        read_table(tmp_path / "a.xlsx")
