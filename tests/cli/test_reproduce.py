"""`eastward reproduce` from the command line."""

from __future__ import annotations

from command_runs import run


def test_list_shows_every_name_with_its_time():
    done = run("reproduce", "--list", "--json")
    assert done.code == 0
    assert {"btg-table1", "east-table7", "lee-figure3", "ablation"} <= {
        row["name"] for row in done.json
    }
    assert all(row["minutes"] > 0 for row in done.json)
    assert "btg-table4" in run("reproduce").out


def test_a_smoke_run_writes_page_numbers_picture_and_overview(tmp_path):
    done = run("reproduce", "btg-table4", "--scale", "smoke", "--out", tmp_path)
    assert done.code == 0, done.err
    assert "made-up data" in done.out
    for name in ("README.md", "results.json", "picture.png"):
        assert (tmp_path / "btg-table4" / name).exists()
    text = (tmp_path / "btg-table4" / "README.md").read_text()
    assert "eastward reproduce btg-table4 --scale smoke" in text
    assert "btg-table4" in (tmp_path / "README.md").read_text()


def test_json_is_the_summary(tmp_path):
    words = ("--scale", "smoke", "--out", tmp_path, "--seeds", 2, "--json")
    done = run("reproduce", "btg-table4", *words)
    assert done.json["name"] == "btg-table4"
    assert done.json["panels"][0]["rows"][0]["trials"] == 2


def test_mistakes_are_explained(tmp_path):
    wrong = run("reproduce", "btg-table9")
    assert wrong.code == 2
    assert "Did you mean" in wrong.err
    scale = run("reproduce", "btg-table4", "--scale", "big", "--out", tmp_path)
    assert scale.code == 2
    assert "scale of effort_for must be one of" in scale.err


def test_missing_data_say_where_to_get_them(tmp_path):
    done = run("reproduce", "btg-table4", "--data-dir", tmp_path, "--out", tmp_path / "out")
    assert done.code == 2
    assert "Mammography is not there. Get it from https://www.openml.org/d/310" in done.err


def test_render_without_cells_says_to_run_first(tmp_path):
    done = run("reproduce", "btg-table4", "--render", "--out", tmp_path)
    assert done.code == 2
    assert "Run it first" in done.err
