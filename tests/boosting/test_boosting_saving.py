"""save and load of boosted trees: the same numbers elsewhere, and nothing that executes."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from small_boosters import BACKENDS, frame, quick, table

import eastward as ew
from eastward.estimators.boosting import EASTBoostingClassifier


@pytest.fixture(scope="module", params=BACKENDS)
def fitted(request):
    X, y = frame()
    return quick(request.param, aligned=True).fit(X, y)


def test_a_saved_model_is_the_model(fitted, tmp_path):
    fitted.save(tmp_path / "model")
    loaded = EASTBoostingClassifier.load(tmp_path / "model")
    X, y = frame(seed=2)
    assert np.array_equal(loaded.predict_proba(X), fitted.predict_proba(X))
    assert np.array_equal(loaded.raw_predict_proba(X), fitted.raw_predict_proba(X))
    assert loaded.score(X, y) == fitted.score(X, y)
    assert loaded.report_ == fitted.report_
    assert loaded.feature_names_in_.tolist() == ["colour", "size", "weight", "flag"]
    ours = {**fitted.get_params(), "random_state": None, "cv": 5}
    assert loaded.get_params() == ours


@pytest.mark.slow
def test_another_process_gives_the_same_numbers(fitted, tmp_path):
    X, _ = frame(seed=3)
    fitted.save(tmp_path / "model")
    X.to_pickle(tmp_path / "rows")
    code = (
        "import sys, pandas, numpy, eastward as ew\n"
        "model = ew.EASTBoostingClassifier.load(sys.argv[1] + '/model')\n"
        "rows = pandas.read_pickle(sys.argv[1] + '/rows')\n"
        "numpy.save(sys.argv[1] + '/found.npy', model.predict_proba(rows))"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)
    assert np.array_equal(np.load(tmp_path / "found.npy"), fitted.predict_proba(X))


def test_the_folder_holds_text_and_numbers_only(fitted, tmp_path):
    fitted.save(tmp_path / "model")
    names = {path.name for path in (tmp_path / "model").iterdir()}
    kind = fitted.backend
    ending = "txt" if kind == "lightgbm" else "json"
    trees = {f"{kind}-{part}.{ending}" for part in ("cross-entropy", "aligned")}
    assert names == {"model.json", "decision.safetensors"} | trees
    for name in {"model.json"} | trees:
        (tmp_path / "model" / name).read_text(encoding="utf-8")
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_a_changed_file_is_refused(fitted, tmp_path):
    fitted.save(tmp_path / "model")
    trees = next((tmp_path / "model").glob("*cross-entropy*"))
    trees.write_text(trees.read_text() + " ")
    with pytest.raises(ValueError, match="path of load must be a folder whose parts belong"):
        EASTBoostingClassifier.load(tmp_path / "model")
    trees.unlink()
    with pytest.raises(ValueError, match="path of load must be a saved model"):
        EASTBoostingClassifier.load(tmp_path / "model")


def test_what_is_no_model_is_neither_loaded_nor_overwritten(fitted, tmp_path):
    other = tmp_path / "thesis"
    other.mkdir()
    (other / "chapter.txt").write_text("all of it")
    with pytest.raises(ValueError, match="path of save must be new, or a saved model"):
        fitted.save(other)
    assert (other / "chapter.txt").read_text() == "all of it"
    with pytest.raises(ValueError, match="path of load must be a saved model"):
        EASTBoostingClassifier.load(other)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis"]


def test_a_later_format_asks_for_an_update(fitted, tmp_path):
    fitted.save(tmp_path / "model")
    path = tmp_path / "model" / "model.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"format": 99}))
    with pytest.raises(ValueError, match="Update eastward"):
        EASTBoostingClassifier.load(tmp_path / "model")


def test_saving_replaces_a_saved_model(fitted, tmp_path):
    X, y = table()
    first = quick(aligned=False).fit(X, y)
    first.save(tmp_path / "model")
    fitted.save(tmp_path / "model")
    loaded = EASTBoostingClassifier.load(tmp_path / "model")
    assert loaded.classes_.tolist() == ["bad", "good"]


def test_a_metric_with_options_comes_back(tmp_path):
    X, y = table(2)
    metric = ew.metrics.get("f_beta", beta={1: 3.0}, average="binary")
    model = EASTBoostingClassifier(metric, n_estimators=5, cv=2, n_bags=1, aligned=False).fit(X, y)
    model.save(tmp_path / "model")
    loaded = EASTBoostingClassifier.load(tmp_path / "model")
    assert loaded.metric_.options == model.metric_.options
    assert loaded.score(X, y) == model.score(X, y)


def test_a_callable_of_ones_own_cannot_be_saved(tmp_path):
    X, y = table(2)

    def hits(confusion):
        return confusion.diagonal().sum() / confusion.sum()

    model = EASTBoostingClassifier(hits, n_estimators=5, cv=2, n_bags=1, aligned=False).fit(X, y)
    with pytest.raises(ValueError, match="metric of save must be a registered one"):
        model.save(tmp_path / "model")
    with pytest.raises(NotFittedError):
        EASTBoostingClassifier().save(tmp_path / "model")
