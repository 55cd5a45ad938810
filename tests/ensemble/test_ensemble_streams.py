"""The ensemble of a table on disk: a network that sees all rows, trees that see a sample, one decision."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import f1_score

from eastward import EASTEnsembleClassifier
from eastward.estimators.ensemble.trees import LightBoosting

NETWORK = {"hidden": (16,), "max_epochs": 10, "learning_rate": 1e-2}


@pytest.fixture
def frame():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(3000, 3)), columns=["a", "b", "c"])
    noise = rng.normal(scale=0.3, size=3000)
    table["label"] = np.where(table.a * table.b + noise > 0.7, "rare", "often")
    table["weight"] = rng.integers(1, 3, size=3000)
    return table


@pytest.fixture
def folder(frame, tmp_path):
    (tmp_path / "data").mkdir()
    frame.to_parquet(tmp_path / "data" / "rows.parquet", row_group_size=500)
    return tmp_path / "data"


def test_a_stream_is_fitted_saved_and_loaded(folder, frame, tmp_path, monkeypatch):
    monkeypatch.setattr(LightBoosting, "most_rows", 1500)
    model = EASTEnsembleClassifier("f1_macro", network_options=NETWORK, random_state=0)
    columns = frame.drop(columns="weight")
    columns.to_parquet(folder / "rows.parquet", row_group_size=500)
    model.fit(folder, "label")
    features = columns.drop(columns="label")
    assert list(model.feature_names_in_) == ["a", "b", "c"]
    assert sum(model.votes_.values()) == pytest.approx(1)
    # The trees saw a sample, and all parts were judged by the same rows.
    assert 1000 < (model.folds_ == -1).sum() < 1700
    assert len(model.held_out_.codes) == (model.folds_ == 0).sum()
    predicted = model.predict(features)
    assert f1_score(frame["label"], predicted, average="macro") > 0.7
    model.save(tmp_path / "model")
    again = EASTEnsembleClassifier.load(tmp_path / "model")
    assert np.array_equal(again.predict(features), predicted)
    assert again.votes_ == pytest.approx(model.votes_)


def test_weights_are_a_column_and_trees_do_without_networks(folder):
    model = EASTEnsembleClassifier(parts=("lightgbm",), random_state=0)
    model.fit(folder, "label", "weight")
    assert model.held_out_.weight is not None
    assert list(model.feature_names_in_) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (("label",), {"groups": [1]}, "groups of EASTEnsembleClassifier.fit must be None"),
        (("label", [1.0]), {}, "sample_weight of EASTEnsembleClassifier.fit must be the name"),
        (("nothing",), {}, "nothing"),
    ],
)
def test_what_a_stream_does_not_take_is_refused(folder, arguments, options, message):
    with pytest.raises(ValueError, match=message):
        EASTEnsembleClassifier(random_state=0).fit(folder, *arguments, **options)
