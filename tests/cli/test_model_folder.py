"""The folder of a model: whole or not at all, and nothing in it is executed."""

from __future__ import annotations

import json
import shutil
import zipfile

import numpy as np
import pytest
import skops.io
from command_runs import claims
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer

from eastward import model_folder
from eastward.model_folder import load_model, save_model


@pytest.fixture
def folder(trained, tmp_path):
    return shutil.copytree(trained, tmp_path / "m")


def sealed_again(folder) -> None:
    """Make the digests fit, as somebody with bad intentions would."""
    task = json.loads((folder / "task.json").read_text())
    task["digests"] = {part: model_folder._digest(folder / part) for part in task["digests"]}
    (folder / "task.json").write_text(json.dumps(task))


def test_a_foreign_type_in_the_preprocessing_is_refused_and_not_built(folder, tmp_path):
    import os

    evil = Pipeline([("columns", FunctionTransformer(os.system))])
    skops.io.dump(evil, folder / "preprocessing.skops")
    sealed_again(folder)
    with pytest.raises(
        ValueError, match=r"preprocessing of load_model must be made of parts of skrub.*system"
    ):
        load_model(folder)


def test_the_list_of_types_is_no_wider_than_needed(trained):
    """Some table needs every type on the list; an unneeded one would only be a risk."""
    needed = set(skops.io.get_untrusted_types(file=trained / "preprocessing.skops"))
    assert needed <= set(model_folder.TRUSTED)
    assert (
        set(model_folder.TRUSTED) - needed
        <= {
            "skrub._clean_categories.CleanCategories",
            "skrub._string_encoder.StringEncoder",  # in models that were saved before ours took its place
            "skrub._table_vectorizer.ShortReprDict",
            # as models of release 0.1 call them
            "eastward.tables.strings.DistinctStringEncoder",
            "eastward.tables.vectorizer.finite_float32",
        }
    )


def test_nothing_in_the_folder_is_a_pickle(trained):
    for path in trained.rglob("*"):
        if path.is_file():
            assert not path.read_bytes().startswith(b"\x80"), path
    with zipfile.ZipFile(trained / "preprocessing.skops") as archive:
        assert {name.rpartition(".")[2] for name in archive.namelist()} <= {"json", "npy", "npz"}


def test_every_part_may_be_read_by_whom_the_umask_allows(trained):
    modes = {path.name: path.stat().st_mode for path in trained.rglob("*") if path.is_file()}
    assert len(set(modes.values())) == 1, modes


def test_parts_of_two_runs_are_found_by_their_digests(folder):
    weights = folder / "model" / "weights.safetensors"
    data = weights.read_bytes()
    weights.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(ValueError, match=r"another model/weights\.safetensors"):
        load_model(folder)


@pytest.mark.parametrize("part", ["task.json", "preprocessing.skops", "model/model.json"])
def test_a_missing_part_is_reported(folder, part):
    (folder / part).unlink()
    with pytest.raises(ValueError, match="folder of load_model must be a"):
        load_model(folder)


def test_other_folders_and_later_formats_are_refused(folder, tmp_path):
    with pytest.raises(ValueError, match="must be a model folder"):
        load_model(tmp_path / "nowhere")
    (tmp_path / "new" / "checkpoint").mkdir(parents=True)
    with pytest.raises(ValueError, match="not finished: repeat the command with --resume"):
        load_model(tmp_path / "new")
    task = json.loads((folder / "task.json").read_text())
    (folder / "task.json").write_text(json.dumps({**task, "format": 99}))
    with pytest.raises(ValueError, match="Update eastward"):
        load_model(folder)


def test_a_model_is_replaced_as_a_whole(folder):
    model = load_model(folder)
    expected = model.predict_proba(claims())
    save_model(model, folder)
    assert np.array_equal(load_model(folder).predict_proba(claims()), expected)
    assert not [path for path in folder.iterdir() if path.name.startswith(".")]


def test_a_failed_save_leaves_the_old_model(folder, monkeypatch):
    model = load_model(folder)
    expected = model.predict_proba(claims())
    model.task["oops"] = object()  # cannot be written as JSON
    with pytest.raises(TypeError):
        save_model(model, folder)
    assert np.array_equal(load_model(folder).predict_proba(claims()), expected)
    assert not [path for path in folder.iterdir() if path.name.startswith(".")]


def test_text_columns_do_not_blow_up_the_file(trained):
    size = (trained / "preprocessing.skops").stat().st_size
    assert size < 400_000
