"""What the default network sees: scaled features, and the pieces that few rows do not teach."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import make_classification

import eastward as ew
from eastward.estimators.network.scaling import Pieces, Scaler


def table(rows: int = 200, columns: int = 3, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(rows, columns)).astype(np.float32)


def test_without_bins_features_are_centred_and_scaled():
    X = table() * 5 + 3
    scaled = Scaler.of(X)(torch.from_numpy(X)).numpy()
    assert scaled.shape == X.shape
    assert scaled.mean(0) == pytest.approx(0, abs=1e-5)
    assert scaled.std(0) == pytest.approx(1, abs=1e-4)


def test_pieces_are_numpys_interpolation_between_quantiles():
    X = table(columns=1)
    edges = np.quantile(X[:, 0].astype(np.float64), np.linspace(0, 1, 5))
    come = Pieces.of(X, 4)(torch.from_numpy(X)).numpy()
    for piece in range(4):
        wanted = np.interp(X[:, 0], edges[piece : piece + 2], [0, 1])
        assert come[:, piece] == pytest.approx(wanted, abs=1e-5)


@given(st.integers(1, 30), st.integers(3, 40), st.integers(0, 5))
def test_the_sum_of_pieces_grows_with_the_feature(bins, rows, seed):
    X = np.sort(table(rows, 1, seed), axis=0)
    pieces = Pieces.of(X, bins)
    if pieces is None:
        assert bins == 1
        return
    total = pieces(torch.from_numpy(X)).sum(1)
    assert bool((total.diff() >= -1e-5).all())
    assert float(total[0]) == pytest.approx(0, abs=1e-5)
    assert float(total[-1]) == pytest.approx(len(pieces.column), rel=1e-5)


def test_features_of_two_values_or_one_are_not_cut():
    X = np.stack([np.zeros(50), np.arange(50) % 2], axis=1).astype(np.float32)
    scaler = Scaler.of(X, bins=8)
    assert scaler.pieces is None
    assert scaler.width == 2


def test_values_far_beyond_those_of_training_stay_within_bounds():
    X = table()
    far = np.full((1, 3), 1e30, dtype=np.float32)
    seen = Scaler.of(X, bins=4)(torch.from_numpy(np.vstack([far, -far])))
    assert bool(seen.isfinite().all())
    assert float(seen.abs().max()) <= 10


def test_values_that_differ_by_rounding_make_no_piece():
    X = (1e6 + table(columns=1) * 1e-3).astype(np.float32)
    scaler = Scaler.of(X, bins=8)
    assert bool(scaler(torch.from_numpy(X)).isfinite().all())


def test_a_scaler_survives_a_file():
    scaler = Scaler.of(table(), bins=4)
    again = Scaler.from_tensors(scaler.tensors())
    assert torch.equal(
        again(torch.from_numpy(table(seed=1))), scaler(torch.from_numpy(table(seed=1)))
    )


@pytest.mark.parametrize(("bins", "width"), [(0, 4), (3, 4 + 12), ("auto", 4 + 32)])
def test_bins_decide_how_wide_the_first_layer_is(bins, width, tmp_path):
    X, y = make_classification(120, 4, n_informative=3, n_redundant=0, random_state=0)
    model = ew.EASTClassifier(hidden=(8,), bins=bins, max_epochs=3, n_folds=2, random_state=0)
    model.fit(X, y).save(tmp_path / "model")
    assert model.scaler_.width == width
    again = ew.EASTClassifier.load(tmp_path / "model")
    assert np.array_equal(again.predict_proba(X), model.predict_proba(X))


@pytest.mark.slow
def test_auto_leaves_large_tables_alone():
    X = table(6000)
    model = ew.EASTClassifier(hidden=(4,), max_epochs=1, n_folds=1, random_state=0)
    assert model.fit(X, X[:, 0] > 0).scaler_.pieces is None


@pytest.mark.slow
def test_a_network_learns_a_narrow_band_better_with_pieces():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(600, 6)).astype(np.float32)
    y = (np.abs(X[:, 0] - 0.5) < 0.1).astype(int)
    options = {"hidden": (16,), "max_epochs": 40, "n_folds": 2, "random_state": 0}
    scores = [
        ew.EASTClassifier("f1", bins=bins, **options).fit(X[:300], y[:300]).score(X[300:], y[300:])
        for bins in (0, 8)
    ]
    assert scores[1] > scores[0]


@pytest.mark.parametrize("bins", [-1, 2.5, "many", True])
def test_bins_that_make_no_sense_are_refused(bins):
    with pytest.raises((ValueError, TypeError), match="bins of EASTClassifier must be"):
        ew.EASTClassifier(bins=bins).fit(table(), np.arange(200) % 2)
