"""A file that cannot be read: the sentence names the place and what to do."""

from __future__ import annotations

import gzip
import re

import pandas as pd
import pytest
from sample_tables import claims

from eastward.data import iter_tables, read_table


def failing(path, content: bytes | str, **options) -> str:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the sentence is what each test looks at
        read_table(path, **options)
    return str(caught.value)


def test_a_file_that_is_not_there_lists_its_neighbours(tmp_path):
    (tmp_path / "claims.csv").write_text("a\n1\n")
    with pytest.raises(
        FileNotFoundError,
        match=r"must be a file that exists; got .*clams.csv. Did you mean 'claims",
    ):
        read_table(tmp_path / "clams.csv")
    with pytest.raises(FileNotFoundError, match="is not there, or has no such file"):
        read_table(tmp_path / "nowhere" / "claims.csv")
    with pytest.raises(ValueError, match=r"must be a file; got .*, a folder"):
        read_table(tmp_path)


def test_an_unknown_kind_of_file_lists_the_known_ones(tmp_path):
    sentence = failing(tmp_path / "claims.xls", "x")
    assert "must be a file that ends in .csv, .tsv, .jsonl" in sentence
    assert "got 'claims.xls'" in sentence
    assert "without outer compression" in failing(tmp_path / "claims.parquet.gz", "x")


def test_empty_files_and_tables_without_rows_are_told(tmp_path):
    assert "got a.csv, an empty file" in failing(tmp_path / "a.csv", "")
    assert "must be a table with rows; got a.csv, which has none" in failing(
        tmp_path / "a.csv", "a,b\n"
    )
    assert "an empty file" in failing(tmp_path / "a.parquet", b"")


def test_a_cut_off_line_is_named_by_its_number(tmp_path):
    lines = "a,b,c\n" + "1,2,3\n" * 41 + "1,2"
    sentence = failing(tmp_path / "a.csv", lines)
    assert "must be a table with 3 fields in each line" in sentence
    assert "got a.csv, whose line 43 has 2" in sentence
    assert "cut off" in sentence


def test_lines_are_counted_through_quoted_line_breaks(tmp_path):
    sentence = failing(tmp_path / "a.csv", 'a,b\n"x\ny",2\n1\n')
    assert "whose line 4 has 1" in sentence


def test_a_quote_that_is_never_closed_is_found(tmp_path):
    sentence = failing(tmp_path / "a.csv", 'a,b\n1,x\n2,"cut o')
    assert "must be a table whose quotes are all closed; got a.csv with 1 quotes" in sentence
    assert "line 3" in sentence


@pytest.mark.parametrize("padding", [0, 3_000_000])
def test_undecodable_bytes_are_named_by_position_line_and_a_guess(tmp_path, padding):
    start = "id,city\n" + "1,Linz\n" * (padding // 7)
    content = start.encode() + "2,Köln\n3,Graz\n".encode("cp1252")
    sentence = failing(tmp_path / "a.csv", content)
    line = start.count("\n") + 1
    assert f"with byte 0xF6 at position {len(start) + 3:,} (line {line:,})" in sentence
    assert "Köln" in sentence
    assert "Try encoding='cp1252' (--encoding cp1252)" in sentence
    assert read_table(tmp_path / "a.csv", encoding="cp1252")["city"].iloc[-2] == "Köln"


def test_undecodable_headers_and_json_are_named_as_well(tmp_path):
    assert "at position 1 (line 1)" in failing(tmp_path / "a.csv", "aö,b\n1,2\n".encode("cp1252"))
    assert "at position 7 (line 1)" in failing(tmp_path / "a.jsonl", b'{"a":"x\xf6"}\n')


def test_an_unknown_encoding_is_a_mistake_of_the_caller(tmp_path):
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    expected = r"encoding of \w+ must be a text encoding; got 'klingon'. Common ones are utf-8"
    with pytest.raises(ValueError, match=expected):
        read_table(tmp_path / "a.csv", encoding="klingon")
    with pytest.raises(ValueError, match=expected):
        list(iter_tables(tmp_path / "a.csv", encoding="klingon"))


def test_text_of_sixteen_bits_is_recognised(tmp_path):
    sentence = failing(tmp_path / "a.csv", "a,b\n1,2\n".encode("utf-16"))
    assert "Try encoding='utf-16'" in sentence


def test_json_lines_name_the_line_and_what_changed(tmp_path):
    path = tmp_path / "a.jsonl"
    assert "whose line 3 is not complete JSON" in failing(path, '{"a":1}\n\n{"a":')
    assert "whose line 2 holds a list" in failing(path, '{"a":1}\n[1]\n')
    sentence = failing(path, '{"a":1,"b":"x"}\n{"a":"one","b":"y"}\n')
    assert "column 'a' of read_table must be of one type" in sentence
    assert "got text ('one') after a number in line 2 of a.jsonl" in sentence


def test_truncated_compression_and_parquet_are_told_apart_from_bad_tables(tmp_path):
    whole = gzip.compress(("a,b\n" + "1,2\n" * 100_000).encode())
    sentence = failing(tmp_path / "a.csv.gz", whole[: len(whole) // 2])
    assert "must be a complete gzip file; got a.csv.gz, which breaks off after" in sentence
    found = re.search(r"after ([\d,]+) decompressed bytes, in line ([\d,]+)", sentence)
    read, line = (int(number.replace(",", "")) for number in found.groups())
    assert 0 < read < 400_000
    assert line == 1 + read // 4  # each line has four bytes
    claims(50).to_parquet(tmp_path / "b.parquet")
    content = (tmp_path / "b.parquet").read_bytes()
    assert "must be a complete Parquet file" in failing(tmp_path / "b.parquet", content[:-100])
    assert "must be a complete Arrow file" in failing(tmp_path / "c.arrow", content)


def test_nested_columns_are_refused_by_name(tmp_path):
    assert "column 'a' of type list" in failing(tmp_path / "a.jsonl", '{"a":[1,2]}\n')
    with pytest.raises(ValueError, match="must be a flat table; got a dict in column 'd'"):
        read_table(pd.DataFrame({"d": [{"x": 1}]}))


def test_columns_of_one_name_are_refused():
    frame = pd.DataFrame([[1, 2]], columns=["a", "a"])
    with pytest.raises(ValueError, match=r"whose columns differ in name; got \['a'\]"):
        read_table(frame)


@pytest.mark.slow
def test_a_column_that_changes_its_mind_while_streaming_is_named(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("n,s\n" + "1,x\n" * 3_000_000 + "oops,y\n")
    with pytest.raises(
        ValueError, match=r"column 'n' of read_table must be made of numbers.*got 'oops'"
    ):
        list(iter_tables(path, 100_000))


def test_a_source_that_is_no_table_is_a_type_error():
    with pytest.raises(
        TypeError, match="must be a path, or a pandas, polars or Arrow table; got int"
    ):
        read_table(3)
    with pytest.raises(
        ValueError, match="columns of read_table must be a column of the table; got 'b'"
    ):
        read_table(pd.DataFrame({"a": [1]}), ["b"])
