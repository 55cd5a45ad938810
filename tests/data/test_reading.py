"""Files and frames come in as the same table, whole or in parts."""

from __future__ import annotations

import gzip

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.feather
import pytest
from sample_tables import claims

from eastward.data import (
    TableWriter,
    count_rows,
    frame_columns,
    iter_tables,
    read_table,
    table_columns,
)

ENDINGS = ["csv", "tsv", "csv.gz", "csv.zst", "jsonl", "jsonl.gz", "parquet", "arrow", "feather"]


def written(frame: pd.DataFrame, path):
    with TableWriter(path) as writer:
        writer.write(frame)
    return path


def same(given: pd.DataFrame, expected: pd.DataFrame) -> None:
    assert list(given.columns) == list(expected.columns)
    for name in expected.columns:
        left, right = given[name], expected[name]
        assert (left.isna().to_numpy() == right.isna().to_numpy()).all(), name
        known = ~left.isna().to_numpy()
        assert list(left[known]) == list(right[known]), name


@pytest.mark.parametrize("ending", ENDINGS)
def test_every_format_gives_back_what_was_written(tmp_path, ending):
    frame = claims(60)
    path = written(frame.assign(seen=frame["seen"].astype(str)), tmp_path / f"claims.{ending}")
    same(read_table(path).assign(seen=0), frame.assign(seen=0))
    kinds = {column.name: column.kind for column in frame_columns(read_table(path))}
    assert (kinds["amount"], kinds["city"], kinds["insured"]) == ("number", "category", "boolean")


@pytest.mark.parametrize("ending", ENDINGS)
def test_parts_are_the_whole_cut_at_exactly_the_wanted_rows(tmp_path, ending):
    frame = claims(103)
    path = written(frame, tmp_path / f"claims.{ending}")
    parts = list(iter_tables(path, 25))
    assert [len(part) for part in parts] == [25, 25, 25, 25, 3]
    same(pd.concat(parts, ignore_index=True), read_table(path))
    assert all(list(part.index) == list(range(len(part))) for part in parts)


@pytest.mark.parametrize("ending", ENDINGS)
def test_parts_have_the_wanted_columns_in_order_and_name_an_unknown_one(tmp_path, ending):
    path = written(claims(60), tmp_path / f"claims.{ending}")
    same(
        next(iter_tables(path, 25, columns=["city", "amount"])),
        read_table(path, ["city", "amount"])[:25],
    )
    wrong = (
        rf"columns of iter_tables must be a column of claims.{ending}; got 'town'\. It has .*city"
    )
    with pytest.raises(ValueError, match=wrong):
        next(iter_tables(path, 25, columns=["city", "town"]))


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_a_file_that_is_read_in_parts_is_never_in_memory_as_a_whole(tmp_path, ending):
    path = tmp_path / f"large.{ending}"
    numbers = np.random.default_rng(0)
    with TableWriter(path) as writer:
        for _ in range(32):
            writer.write(pd.DataFrame(numbers.normal(size=(20_000, 8)), columns=list("abcdefgh")))
    before = pa.total_allocated_bytes()
    held = [pa.total_allocated_bytes() - before for _ in iter_tables(path, 20_000)]
    assert len(held) == 32
    assert max(held) < 0.25 * 32 * 20_000 * 8 * 8, [f"{size / 1e6:.0f} MB" for size in held]


def test_frames_of_pandas_polars_and_arrow_are_tables_too():
    frame = claims(30)
    table = pa.Table.from_pandas(frame)
    same(read_table(table), frame)
    same(read_table(pl.from_arrow(table)), frame)
    same(read_table(frame), frame)
    assert [len(part) for part in iter_tables(frame, 20)] == [20, 10]


def test_arrow_streams_are_read_like_arrow_files(tmp_path):
    table = pa.table({"n": [1, 2, 3]})
    path = tmp_path / "numbers.arrow"
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    assert read_table(path)["n"].tolist() == [1, 2, 3]
    pa.feather.write_feather(table, tmp_path / "numbers.feather", compression="lz4")
    assert read_table(tmp_path / "numbers.feather")["n"].tolist() == [1, 2, 3]


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_the_separator_is_found_in_the_header(tmp_path, separator):
    path = tmp_path / "t.csv"
    path.write_text(f'"a,;|"{separator}b\n1{separator}x\n')
    assert read_table(path).to_dict("list") == {"a,;|": [1], "b": ["x"]}


def test_missing_values_are_found_however_they_are_written(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("n,s\n1,x\n?,\nNA,NULL\n2.5,y\n")
    table = read_table(path)
    assert table["n"].isna().tolist() == table["s"].isna().tolist() == [False, True, True, False]


def test_columns_are_chosen_and_listed_without_reading_the_rows(tmp_path):
    path = written(claims(20), tmp_path / "claims.parquet")
    assert list(read_table(path, ["fraud", "age"]).columns) == ["fraud", "age"]
    assert table_columns(path) == list(claims(1).columns)
    assert table_columns(written(claims(20), tmp_path / "c.csv")) == list(claims(1).columns)
    assert count_rows(path) == 20
    assert count_rows(tmp_path / "c.csv") is None


def test_unusual_types_become_numbers_dates_and_names(tmp_path):
    table = pa.table(
        {
            "day": pa.array([18000, None], pa.date32()),
            "price": pa.array(["1.50", "2.25"]).cast(pa.decimal128(5, 2)),
            "kind": pa.array(["a", "b"]).dictionary_encode(),
            "nothing": pa.nulls(2),
            "zoned": pa.array([0, 3600], pa.timestamp("s", tz="Europe/Vienna")),
        }
    )
    frame = read_table(table)
    kinds = {column.name: column.kind for column in frame_columns(frame)}
    assert kinds == {
        "day": "date",
        "price": "number",
        "kind": "category",
        "nothing": "number",
        "zoned": "date",
    }
    assert frame["price"].tolist() == [1.5, 2.25]
    assert frame["zoned"].iloc[1] == pd.Timestamp("1970-01-01 01:00")


def test_categories_made_of_numbers_are_names():
    frame = read_table(pd.DataFrame({"c": pd.Categorical([3, 1, None])}))
    assert frame["c"].tolist()[:2] == ["3", "1"]
    assert frame["c"].isna().tolist() == [False, False, True]


def test_columns_of_python_objects_become_what_they_hold():
    frame = pd.DataFrame(
        {
            "flag": pd.Series([True, None, False], dtype=object),
            "count": pd.Series([1, None, 2], dtype=object),
            "both": pd.Series([1, "a", None], dtype=object),
            "length": pd.to_timedelta([1, 2, 3], unit="s"),
        }
    )
    read = read_table(frame)
    assert [c.kind for c in frame_columns(read)] == ["boolean", "number", "category", "number"]
    assert read["both"].tolist()[:2] == ["1", "a"]
    assert read["length"].tolist() == [1, 2, 3]


def test_another_encoding_is_read_when_named(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes("ort,n\nKöln,1\n".encode("cp1252"))
    assert read_table(path, encoding="cp1252")["ort"].tolist() == ["Köln"]
    (tmp_path / "u.csv").write_bytes("ort,n\nKöln,1\n".encode("utf-16"))
    assert read_table(tmp_path / "u.csv", encoding="utf-16")["ort"].tolist() == ["Köln"]


def test_numbers_survive_a_text_file_to_the_last_bit(tmp_path, rng):
    numbers = pd.DataFrame({"p": rng.random(500)})
    for ending in ("csv", "jsonl", "parquet"):
        read = read_table(written(numbers, tmp_path / f"p.{ending}"))
        assert np.array_equal(read["p"], numbers["p"])


def test_a_writer_that_fails_leaves_nothing_and_keeps_what_was_there(tmp_path):
    path = written(pd.DataFrame({"n": [1]}), tmp_path / "n.csv")
    before = path.read_bytes()
    with pytest.raises(ValueError, match="names"), TableWriter(path) as writer:  # noqa: PT012
        writer.write(pd.DataFrame({"n": [2]}))
        writer.write(pd.DataFrame({"other": [2]}))
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["n.csv"]


def test_compressed_text_is_really_compressed(tmp_path):
    path = written(claims(200), tmp_path / "c.csv.gz")
    with gzip.open(path, "rt") as file:
        assert file.readline().startswith("amount,city")
