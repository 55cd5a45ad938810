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

from papers import data
from papers.data.cocktail_party import centred_and_turned, pairs_of_frames
from papers.data.generated import write_generated

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
    table = data.load(name, generated, verify=False)
    assert table.features.dtype == np.float32
    assert np.isfinite(table.features).all()
    assert table.features.shape == (len(table.targets), len(table.columns))
    assert set(np.unique(table.targets)) == {0, 1}


@pytest.mark.parametrize("name", IMAGES)
def test_pictures_are_bytes_in_torch_order_with_a_name_for_each_class(generated, name):
    images = data.load(name, generated, verify=False)
    assert images.pixels.dtype == np.uint8
    assert images.pixels.ndim == 4
    assert images.pixels.shape[1] in {1, 3}
    assert len(images.pixels) == len(images.targets)
    assert set(np.unique(images.targets)) == set(range(len(images.classes)))


def test_adult_has_the_thirteen_columns_of_the_published_code(generated):
    published = data.load("adult", generated, verify=False)
    clean = data.load("adult", generated, verify=False, features="clean")
    every = data.load("adult", generated, verify=False, features="all")
    assert len(published.columns) == 13
    assert "fnlwgt" not in published.columns
    assert published.columns == clean.columns
    assert {"fnlwgt", "sex_Female"} <= set(every.columns)
    assert published.num_test == clean.num_test == 100
    np.testing.assert_array_equal(published.features[:, 1:], clean.features[:, 1:])
    with pytest.raises(ValueError, match="features of read_adult must be one of"):
        data.load("adult", generated, features="some")


def test_published_ages_of_test_rows_lie_above_all_training_ages(generated):
    table = data.load("adult", generated, verify=False)
    ages, train = table.features[:, 0], len(table.features) - table.num_test
    assert ages[train:].min() > ages[:train].max()
    clean = data.load("adult", generated, verify=False, features="clean").features[:, 0]
    # Within each file the order of ages is kept: two-digit texts sort as numbers do.
    for part in (slice(0, train), slice(train, None)):
        assert (
            np.argsort(ages[part], kind="stable") == np.argsort(clean[part], kind="stable")
        ).all()


def test_adult_reads_gzipped_files_as_well(generated, tmp_path):
    (tmp_path / "adult").mkdir()
    for name in ("adult.data", "adult.test"):
        text = (generated / "adult" / name).read_bytes()
        (tmp_path / "adult" / f"{name}.gz").write_bytes(gzip.compress(text))
    plain = data.load("adult", generated, verify=False)
    packed = data.load("adult", tmp_path, verify=False)
    np.testing.assert_array_equal(plain.features, packed.features)


def test_adult_without_its_test_file_says_which_one_is_missing(generated, tmp_path):
    (tmp_path / "adult").mkdir()
    shutil.copy(generated / "adult" / "adult.data", tmp_path / "adult")
    with pytest.raises(FileNotFoundError, match=r"put it at .*adult/adult\.test"):
        data.load("adult", tmp_path)


def test_mammography_is_the_same_from_arff_csv_and_parquet(generated, tmp_path):
    table = data.load("mammography", generated, verify=False)
    text = (generated / "mammography" / "mammography.arff").read_text().partition("@data\n")[2]
    (tmp_path / "mammography").mkdir()
    (tmp_path / "mammography" / "mammography.csv").write_text(text)
    from_csv = data.load("mammography", tmp_path, verify=False)
    frame = pd.DataFrame(table.features, columns=list(table.columns)).assign(**{"class": 0})
    frame["class"] = table.targets
    frame.to_parquet(tmp_path / "mammography" / "mammography.parquet")
    from_parquet = data.load("mammography", tmp_path, verify=False)
    assert table.columns[0] == "attr1"
    assert table.targets.sum() == 24
    for other in (from_csv, from_parquet):
        np.testing.assert_array_equal(table.targets, other.targets)
        np.testing.assert_allclose(table.features, other.features, atol=1e-6)


def test_credit_card_is_the_same_from_csv_and_kaggles_archive(generated, tmp_path):
    (tmp_path / "creditcard").mkdir()
    with zipfile.ZipFile(tmp_path / "creditcard" / "creditcardfraud.zip", "w") as archive:
        archive.write(generated / "creditcard" / "creditcard.csv", "creditcard.csv")
    plain = data.load("credit_card", generated, verify=False)
    packed = data.load("credit_card", tmp_path, verify=False)
    assert plain.columns == (*(f"V{k}" for k in range(1, 29)), "log_amount")
    assert "Class" not in plain.columns
    np.testing.assert_array_equal(plain.features, packed.features)


def test_cifar10_is_the_same_from_files_and_archive(generated, tmp_path):
    with tarfile.open(tmp_path / "cifar-10-binary.tar.gz", "w:gz") as archive:
        archive.add(generated / "cifar-10-batches-bin", "cifar-10-batches-bin")
    plain = data.load("cifar10", generated, verify=False)
    packed = data.load("cifar10", tmp_path, verify=False)
    np.testing.assert_array_equal(plain.pixels, packed.pixels)
    np.testing.assert_array_equal(plain.targets, packed.targets)


def test_caltech256_is_the_same_from_folder_and_archive_and_skips_strays(generated, tmp_path):
    with tarfile.open(generated / "256_ObjectCategories.tar") as archive:
        archive.extractall(tmp_path, filter="data")
    stray = tmp_path / "256_ObjectCategories" / "056.dog" / "greg"
    stray.mkdir()
    shutil.copy(next(stray.parent.glob("*.jpg")), stray / "renamed.jpg")
    packed = data.load("caltech256", generated, verify=False)
    folder = data.load("caltech256", tmp_path, verify=False, side=64)
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
    assert data.load(name, generated, verify=False).targets.mean() == pytest.approx(share)


def test_the_order_within_pairs_is_random(generated):
    first, other = (
        data.load("cocktail_party", generated, verify=False, order_seed=seed) for seed in (0, 1)
    )
    columns = {name: k for k, name in enumerate(first.columns)}
    # The pair's own axis points to the first of the two: turned round, its angles swap and change sign.
    swapped = np.isclose(
        first.features[:, columns["dyad1_cos"]], -other.features[:, columns["dyad2_cos"]], atol=1e-5
    )
    assert 0.2 < swapped.mean() < 0.8
    np.testing.assert_allclose(first.features[:, 0], other.features[:, 0], atol=1e-5)


def test_a_pair_is_turned_onto_its_own_axis(generated):
    raw = pairs_of_frames(data.load_frames(generated))
    turned = centred_and_turned(raw)
    np.testing.assert_allclose(turned[["dyad1_y", "dyad2_y"]], 0, atol=1e-6)
    np.testing.assert_allclose(turned["dyad1_x"], -turned["dyad2_x"], atol=1e-6)
    # A rotation keeps distances: twice the pair's x is how far the two stand from each other.
    apart = np.hypot(raw["dyad1_x"] - raw["dyad2_x"], raw["dyad1_y"] - raw["dyad2_y"])
    np.testing.assert_allclose(2 * turned["dyad1_x"], apart, atol=1e-6)
    for person in ("context1", "context4"):
        before = np.hypot(raw[f"{person}_x"] - raw["dyad1_x"], raw[f"{person}_y"] - raw["dyad1_y"])
        after = np.hypot(turned[f"{person}_x"] - turned["dyad1_x"], turned[f"{person}_y"])
        np.testing.assert_allclose(after, before, atol=1e-6)
    assert len(data.load("cocktail_party", generated, verify=False).columns) == 22


def test_frames_say_who_stands_together(generated):
    frames = data.load_frames(generated)
    assert frames.people.shape == (24, 6, 4)
    assert frames.together[:, range(6), range(6)].all()
    np.testing.assert_array_equal(frames.together, frames.together.transpose(0, 2, 1))
    pairs = pairs_of_frames(frames)
    assert len(pairs) == 24 * 15
    assert pairs["target"].sum() == np.triu(frames.together, 1).sum()


@pytest.mark.parametrize("name", [*TABULAR, *IMAGES])
def test_a_file_with_another_balance_is_refused(generated, name):
    with pytest.raises(ValueError, match=r"the data of .* must be .*, as published; got"):
        data.load(name, generated)


@pytest.mark.parametrize("name", [*TABULAR, *IMAGES])
def test_a_missing_file_says_where_to_get_it_and_where_to_put_it(tmp_path, name):
    source = data.SOURCES[name]
    with pytest.raises(FileNotFoundError) as caught:
        data.load(name, tmp_path)
    message = str(caught.value)
    assert source.home in message
    assert str(tmp_path / source.wanted[0]) in message


def test_without_a_folder_the_message_names_the_variable(monkeypatch):
    monkeypatch.delenv("EASTWARD_DATA", raising=False)
    with pytest.raises(FileNotFoundError, match="EASTWARD_DATA=DIR or give --data-dir DIR"):
        data.load("mammography")


def test_a_misspelt_name_is_explained():
    with pytest.raises(ValueError, match="Did you mean 'mammography'"):
        data.load("mamography")


@pytest.mark.parametrize("name", [*TABULAR, "omniglot"])
def test_real_files_have_the_published_balance(real, name):
    data.load(name, real)


def test_real_pairs_are_the_same_from_the_table_and_from_frames(real):
    from_frames = pairs_of_frames(data.load_frames(real))
    table = pd.read_parquet(real / "cocktail_party" / "dyads.parquet")
    np.testing.assert_array_equal(from_frames["target"], table["target"])
    np.testing.assert_allclose(from_frames["context4_y"], table["context4_y"], atol=1e-5)


def test_equitability_of_even_and_uneven_classes():
    assert data.shannon_equitability([0, 1] * 10) == pytest.approx(1)
    assert data.shannon_equitability([0] * 9 + [1]) == pytest.approx(0.469, abs=1e-3)
    assert data.shannon_equitability([0, 0, 1], num_classes=4) < 0.5
