"""Loaders read their owners' formats, check class balance, and say what to do about missing files."""

from __future__ import annotations

import gzip
import os
import shutil
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from eastward import datasets
from eastward.datasets.cocktail_party import pairs_of_frames
from eastward.datasets.generated import write_generated

TABULAR = ["adult", "mammography", "credit_card", "cocktail_party"]
IMAGES = ["cifar10", "fashion_mnist", "caltech256", "omniglot"]


@pytest.fixture(scope="module")
def generated(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("generated")
    write_generated(folder)
    return folder


@pytest.fixture
def real() -> Path:
    named = os.environ.get("EASTWARD_DATA")
    if not named:
        pytest.skip("EASTWARD_DATA names no folder with the real data sets")
    return Path(named)


@pytest.mark.parametrize("name", TABULAR)
def test_tables_have_finite_features_and_two_classes(generated, name):
    table = datasets.load(name, generated, verify=False)
    assert table.features.dtype == np.float32
    assert np.isfinite(table.features).all()
    assert table.features.shape == (len(table.targets), len(table.columns))
    assert set(np.unique(table.targets)) == {0, 1}


@pytest.mark.parametrize("name", IMAGES)
def test_pictures_are_bytes_in_torch_order_with_a_name_for_each_class(generated, name):
    images = datasets.load(name, generated, verify=False)
    assert images.pixels.dtype == np.uint8
    assert images.pixels.ndim == 4
    assert images.pixels.shape[1] in {1, 3}
    assert len(images.pixels) == len(images.targets)
    assert set(np.unique(images.targets)) == set(range(len(images.classes)))


def test_adult_has_six_numeric_columns_or_all(generated):
    numeric = datasets.load("adult", generated, verify=False)
    every = datasets.load("adult", generated, verify=False, features="all")
    assert numeric.columns == (
        *("age", "fnlwgt", "education_num"),
        *("capital_gain", "capital_loss", "hours_per_week"),
    )
    assert {"occupation_?", "occupation_Sales", "age"} <= set(every.columns)
    with pytest.raises(ValueError, match="features of read_adult must be one of"):
        datasets.load("adult", generated, features="some")


def test_adult_reads_gzipped_files_as_well(generated, tmp_path):
    (tmp_path / "adult").mkdir()
    for name in ("adult.data", "adult.test"):
        text = (generated / "adult" / name).read_bytes()
        (tmp_path / "adult" / f"{name}.gz").write_bytes(gzip.compress(text))
    plain = datasets.load("adult", generated, verify=False)
    packed = datasets.load("adult", tmp_path, verify=False)
    np.testing.assert_array_equal(plain.features, packed.features)


def test_adult_without_its_test_file_says_which_one_is_missing(generated, tmp_path):
    (tmp_path / "adult").mkdir()
    shutil.copy(generated / "adult" / "adult.data", tmp_path / "adult")
    with pytest.raises(FileNotFoundError, match=r"put it at .*adult/adult\.test"):
        datasets.load("adult", tmp_path)


def test_mammography_is_the_same_from_arff_csv_and_parquet(generated, tmp_path):
    table = datasets.load("mammography", generated, verify=False)
    text = (generated / "mammography" / "mammography.arff").read_text().partition("@data\n")[2]
    (tmp_path / "mammography").mkdir()
    (tmp_path / "mammography" / "mammography.csv").write_text(text)
    from_csv = datasets.load("mammography", tmp_path, verify=False)
    frame = pd.DataFrame(table.features, columns=list(table.columns)).assign(**{"class": 0})
    frame["class"] = table.targets
    frame.to_parquet(tmp_path / "mammography" / "mammography.parquet")
    from_parquet = datasets.load("mammography", tmp_path, verify=False)
    assert table.columns[0] == "attr1"
    assert table.targets.sum() == 24
    for other in (from_csv, from_parquet):
        np.testing.assert_array_equal(table.targets, other.targets)
        np.testing.assert_allclose(table.features, other.features, atol=1e-6)


def test_credit_card_is_the_same_from_csv_and_kaggles_archive(generated, tmp_path):
    (tmp_path / "creditcard").mkdir()
    with zipfile.ZipFile(tmp_path / "creditcard" / "creditcardfraud.zip", "w") as archive:
        archive.write(generated / "creditcard" / "creditcard.csv", "creditcard.csv")
    plain = datasets.load("credit_card", generated, verify=False)
    packed = datasets.load("credit_card", tmp_path, verify=False)
    assert plain.columns[0] == "Time"
    assert "Class" not in plain.columns
    np.testing.assert_array_equal(plain.features, packed.features)


def test_cifar10_is_the_same_from_files_and_archive(generated, tmp_path):
    with tarfile.open(tmp_path / "cifar-10-binary.tar.gz", "w:gz") as archive:
        archive.add(generated / "cifar-10-batches-bin", "cifar-10-batches-bin")
    plain = datasets.load("cifar10", generated, verify=False)
    packed = datasets.load("cifar10", tmp_path, verify=False)
    np.testing.assert_array_equal(plain.pixels, packed.pixels)
    np.testing.assert_array_equal(plain.targets, packed.targets)


def test_caltech256_is_the_same_from_folder_and_archive_and_skips_strays(generated, tmp_path):
    with tarfile.open(generated / "256_ObjectCategories.tar") as archive:
        archive.extractall(tmp_path, filter="data")
    stray = tmp_path / "256_ObjectCategories" / "056.dog" / "greg"
    stray.mkdir()
    shutil.copy(next(stray.parent.glob("*.jpg")), stray / "renamed.jpg")
    packed = datasets.load("caltech256", generated, verify=False)
    folder = datasets.load("caltech256", tmp_path, verify=False, side=64)
    assert packed.classes == ("001.ak47", "056.dog", "080.frog", "257.clutter")
    np.testing.assert_array_equal(packed.pixels, folder.pixels)


@pytest.mark.parametrize(
    ("name", "share"),
    [
        ("cifar10_transportation", 0.4),
        ("cifar10_frog", 0.1),
        ("cifar10_airplane", 0.1),
        ("fashion_tshirt", 0.1),
    ],
)
def test_binary_tasks_have_the_published_share_of_positives(generated, name, share):
    assert datasets.load(name, generated, verify=False).targets.mean() == pytest.approx(share)


def test_pairs_are_centred_and_their_order_is_random(generated):
    table = datasets.load("cocktail_party", generated, verify=False)
    column = dict(zip(table.columns, table.features.T, strict=True))
    np.testing.assert_allclose(column["dyad1_x"], -column["dyad2_x"], atol=1e-5)
    np.testing.assert_allclose(column["dyad1_cos"] ** 2 + column["dyad1_sin"] ** 2, 1, atol=1e-5)
    other = datasets.load("cocktail_party", generated, verify=False, order_seed=1)
    swapped = np.isclose(other.features[:, 0], table.features[:, 1])
    assert 0.2 < swapped.mean() < 0.8


def test_frames_say_who_stands_together(generated):
    frames = datasets.load_frames(generated)
    assert frames.people.shape == (24, 6, 4)
    assert frames.together[:, range(6), range(6)].all()
    np.testing.assert_array_equal(frames.together, frames.together.transpose(0, 2, 1))
    pairs = pairs_of_frames(frames)
    assert len(pairs) == 24 * 15
    assert pairs["target"].sum() == np.triu(frames.together, 1).sum()


@pytest.mark.parametrize("name", [*TABULAR, *IMAGES])
def test_a_file_with_another_balance_is_refused(generated, name):
    with pytest.raises(ValueError, match=r"the data of .* must be .*, as published; got"):
        datasets.load(name, generated)


@pytest.mark.parametrize("name", [*TABULAR, *IMAGES])
def test_a_missing_file_says_where_to_get_it_and_where_to_put_it(tmp_path, name):
    source = datasets.SOURCES[name]
    with pytest.raises(FileNotFoundError) as caught:
        datasets.load(name, tmp_path)
    message = str(caught.value)
    assert source.home in message
    assert str(tmp_path / source.wanted[0]) in message


def test_without_a_folder_the_message_names_the_variable(monkeypatch):
    monkeypatch.delenv("EASTWARD_DATA", raising=False)
    with pytest.raises(FileNotFoundError, match="EASTWARD_DATA=DIR or give --data-dir DIR"):
        datasets.load("mammography")


def test_a_misspelt_name_is_explained():
    with pytest.raises(ValueError, match="Did you mean 'mammography'"):
        datasets.load("mamography")


@pytest.mark.parametrize("name", [*TABULAR, "omniglot"])
def test_real_files_have_the_published_balance(real, name):
    datasets.load(name, real)


def test_real_pairs_are_the_same_from_the_table_and_from_frames(real):
    from_frames = pairs_of_frames(datasets.load_frames(real))
    table = pd.read_parquet(real / "cocktail_party" / "dyads.parquet")
    np.testing.assert_array_equal(from_frames["target"], table["target"])
    np.testing.assert_allclose(from_frames["context4_y"], table["context4_y"], atol=1e-5)


def test_equitability_of_even_and_uneven_classes():
    assert datasets.shannon_equitability([0, 1] * 10) == pytest.approx(1)
    assert datasets.shannon_equitability([0] * 9 + [1]) == pytest.approx(0.469, abs=1e-3)
    assert datasets.shannon_equitability([0, 0, 1], num_classes=4) < 0.5
