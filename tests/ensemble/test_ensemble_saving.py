"""A saved ensemble: the same predictions, and nothing that executes."""

from __future__ import annotations

import json

import numpy as np
import pytest

from eastward.estimators.ensemble import EASTEnsembleClassifier


@pytest.fixture
def saved(quick, clusters, tmp_path):
    X, y = clusters()
    model = quick().fit(X, np.array(["a", "b", "c"])[y])
    model.save(tmp_path / "model")
    return model, X, tmp_path / "model"


def test_a_loaded_model_predicts_what_the_saved_one_did(saved):
    model, X, folder = saved
    loaded = EASTEnsembleClassifier.load(folder)
    assert loaded.predict_proba(X) == pytest.approx(model.predict_proba(X), abs=1e-12)
    assert (loaded.predict(X) == model.predict(X)).all()
    assert loaded.classes_.tolist() == ["a", "b", "c"]
    assert loaded.report_ == model.report_
    assert loaded.get_params()["parts"] == model.parts


def test_words_and_gaps_survive_saving(quick, tmp_path):
    import pandas as pd

    rng = np.random.default_rng(0)
    X = pd.DataFrame({"k": rng.choice(["x", "y"], 120), "v": rng.normal(size=120)})
    X.loc[::9, "v"] = np.nan
    y = (X["k"] == "x").to_numpy().astype(int)
    model = quick().fit(X, y)
    model.save(tmp_path / "m")
    loaded = EASTEnsembleClassifier.load(tmp_path / "m")
    assert loaded.predict_proba(X) == pytest.approx(model.predict_proba(X), abs=1e-12)
    with pytest.raises(ValueError, match="feature names"):
        loaded.predict(X.rename(columns={"k": "other"}))


def test_there_is_no_pickle_in_the_folder(saved):
    _, _, folder = saved
    endings = {path.suffix for path in folder.rglob("*") if path.is_file()}
    assert endings == {".json", ".safetensors", ".txt", ".skops"}


def test_a_metric_with_options_survives_saving(quick, clusters, tmp_path):
    X, y = clusters(counts=(80, 40))
    model = quick("expected_cost", metric_options={"cost": [[0, 1], [5, 0]]}).fit(X, y)
    model.save(tmp_path / "m")
    loaded = EASTEnsembleClassifier.load(tmp_path / "m")
    assert loaded.score(X, y) == pytest.approx(model.score(X, y))


def test_a_model_may_be_replaced_and_nothing_else(saved, tmp_path):
    model, _, folder = saved
    model.decide_by("accuracy").save(folder)
    assert EASTEnsembleClassifier.load(folder).metric_.name == "accuracy"
    (tmp_path / "letters").mkdir()
    with pytest.raises(ValueError, match="nothing was overwritten"):
        model.save(tmp_path / "letters")
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_a_loaded_model_decides_anew(saved):
    model, X, folder = saved
    loaded = EASTEnsembleClassifier.load(folder).decide_by("accuracy")
    assert loaded.report_["metric"] == "accuracy"
    chosen = (loaded.predict_proba(X) @ loaded.decision_.matrix).argmax(1)
    assert (loaded.predict(X) == model.classes_[chosen]).all()


def test_a_metric_without_a_name_cannot_be_saved(quick, clusters, tmp_path):
    def trace(table):
        return table.diagonal().sum() / table.sum()

    model = quick(trace, parts=("extra_trees",)).fit(*clusters())
    with pytest.raises(ValueError, match="metric of save must be a registered one"):
        model.save(tmp_path / "m")


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (lambda folder: (folder / "ensemble.json").unlink(), "saved ensemble"),
        (lambda folder: (folder / "ensemble.json").write_text("{"), "saved ensemble"),
        (lambda folder: (folder / "extra_trees.skops").write_bytes(b"PK"), "saved ensemble"),
        (lambda folder: (folder / "lightgbm-0.txt").write_text("tree"), "saved ensemble"),
        (lambda folder: (folder / "networks" / "model.json").unlink(), "saved ensemble"),
    ],
)
def test_a_damaged_folder_is_refused(broken, message, saved):
    _, _, folder = saved
    broken(folder)
    with pytest.raises(ValueError, match=message):
        EASTEnsembleClassifier.load(folder)


def test_another_kind_or_a_later_format_is_refused(saved):
    _, _, folder = saved
    document = json.loads((folder / "ensemble.json").read_text())
    (folder / "ensemble.json").write_text(json.dumps({**document, "format": 99}))
    with pytest.raises(ValueError, match=r"Update eastward"):
        EASTEnsembleClassifier.load(folder)
    (folder / "ensemble.json").write_text(json.dumps({**document, "kind": "else"}))
    with pytest.raises(ValueError, match="a saved else"):
        EASTEnsembleClassifier.load(folder)


def test_trees_that_need_foreign_types_are_not_built(saved):
    import skops.io

    from eastward.estimators.ensemble.folds import Fitting

    _, _, folder = saved
    skops.io.dump(Fitting, folder / "extra_trees.skops")
    with pytest.raises(ValueError, match="saved ensemble"):
        EASTEnsembleClassifier.load(folder)


def test_forged_indices_of_nodes_are_found_before_they_are_followed(saved):
    from types import SimpleNamespace

    from eastward.saved_trees import are_sound

    model, _, _ = saved
    nodes = model.parts_["extra_trees"].model.estimators_[0].tree_
    honest = {
        name: getattr(nodes, name).copy()
        for name in ("children_left", "children_right", "feature", "value")
    }

    def sound(**forged):
        parts = SimpleNamespace(node_count=nodes.node_count, **{**honest, **forged})
        forest = SimpleNamespace(n_features_in_=4, estimators_=[SimpleNamespace(tree_=parts)])
        return are_sound(forest, 3)

    assert sound()
    beyond, cycle, feature = (
        honest["children_right"].copy(),
        honest["children_left"].copy(),
        honest["feature"].copy(),
    )
    beyond[0], cycle[0], feature[0] = nodes.node_count, 0, 4
    assert not sound(children_right=beyond)
    assert not sound(children_left=cycle)
    assert not sound(feature=feature)
    assert not sound(value=honest["value"][:, :, :2])
