"""A saved folder is whole or not there, and replaces nothing but its own kind."""

from __future__ import annotations

import json
import os

import pytest

from eastward._files import remove_leftovers
from eastward.saved_folder import SavedFolder

KIND = SavedFolder("eastward.Thing", "thing.json", "thing")


def number_written(value):
    return lambda folder: (folder / "number.txt").write_text(str(value))


def test_a_folder_is_written_read_and_replaced(tmp_path):
    for value in (1, 2):
        KIND.write(tmp_path / "a", {"value": value}, number_written(value))
    assert KIND.read(tmp_path / "a")["value"] == 2
    assert (tmp_path / "a" / "number.txt").read_text() == "2"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


@pytest.mark.parametrize("content", [None, "", "[]", '{"kind": "eastward.Other"}'])
def test_what_is_not_of_the_kind_is_not_replaced(tmp_path, content):
    (tmp_path / "a").mkdir()
    if content is not None:
        (tmp_path / "a" / "thing.json").write_text(content)
    before = sorted(path.name for path in (tmp_path / "a").iterdir())
    with pytest.raises(
        ValueError, match="path of save must be new, or a saved thing; got a, which"
    ):
        KIND.write(tmp_path / "a", {}, number_written(1))
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == before
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_parts_that_cannot_be_written_leave_the_old_folder(tmp_path):
    KIND.write(tmp_path / "a", {"value": 1}, number_written(1))

    def fail(folder):
        (folder / "number.txt").write_text("half")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        KIND.write(tmp_path / "a", {"value": 2}, fail)
    assert KIND.read(tmp_path / "a")["value"] == 1
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "eastward.Other"}, r"a saved eastward\.Thing; got a saved eastward\.Other"),
        ({"format": 2}, r"of format 1 or older; got format 2 of eastward .* Update eastward"),
        ({"format": "x"}, r"must be a saved thing; got a \(invalid literal"),
    ],
)
def test_other_kinds_and_formats_are_refused(tmp_path, change, message):
    KIND.write(tmp_path / "a", {}, number_written(1))
    header = tmp_path / "a" / "thing.json"
    header.write_text(json.dumps({**json.loads(header.read_text()), **change}))
    with pytest.raises(ValueError, match=message):
        KIND.read(tmp_path / "a")


def test_what_a_dead_process_left_is_removed_and_what_it_points_to_is_not(tmp_path):
    kept, place = tmp_path / "kept", tmp_path / "place"
    kept.mkdir()
    (kept / "precious.txt").write_text("mine")
    place.mkdir()
    (place / ".999999999.part").symlink_to(kept)
    (place / ".999999999-1.part").mkdir()
    (place / f".{os.getpid()}.part").mkdir()
    remove_leftovers(place)
    assert [path.name for path in place.iterdir()] == [f".{os.getpid()}.part"]
    assert (kept / "precious.txt").read_text() == "mine"
