"""Exported classifiers: onnxruntime gives the same probabilities and decisions."""

from __future__ import annotations

import json

import numpy as np
import onnx
import onnxruntime
import pandas as pd
import pytest
import torch
from sklearn.datasets import make_classification
from sklearn.naive_bayes import GaussianNB

import eastward as ew
from eastward.data import frame_columns, make_vectorizer, read_table
from eastward.integrations.onnx import export_onnx
from eastward.model_folder import TableModel, save_model

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


@pytest.fixture(scope="module")
def table():
    X, y = make_classification(
        240, 6, n_informative=4, n_classes=3, weights=[0.7, 0.2, 0.1], class_sep=0.6, random_state=0
    )
    X[:, 0] *= 1000  # scaling is part of the graph
    return X.astype(np.float32), np.array(["ant", "bee", "cat"])[y]


def quick(**changes):
    options = {"hidden": (8,), "max_epochs": 8, "n_folds": 2, "random_state": 0}
    return ew.EASTClassifier("f1_macro", **{**options, **changes})


def run(path, X):
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return session.run(["probabilities", "classes"], {"features": X})


@pytest.mark.slow
def test_probabilities_and_decisions_are_the_models(table, tmp_path):
    X, y = table
    model = quick().fit(X, y)
    # A decision that matters, whatever was tuned.
    model.decision_ = ew.Decision(np.diag([0.4, 1.6, 1.3]), classes=model.classes_)
    export_onnx(model, tmp_path / "model.onnx")
    probabilities, classes = run(tmp_path / "model.onnx", X)
    np.testing.assert_allclose(probabilities, model.predict_proba(X), atol=1e-5)
    assert (model.classes_[classes] == model.predict(X)).mean() > 0.99
    assert (model.predict(X) != model.classes_[model.raw_predict_proba(X).argmax(1)]).any()
    few, _ = run(tmp_path / "model.onnx", X[:1])
    np.testing.assert_allclose(few, model.predict_proba(X[:1]), atol=1e-5)
    properties = {p.key: p.value for p in onnx.load(tmp_path / "model.onnx").metadata_props}
    assert json.loads(properties["classes"]) == ["ant", "bee", "cat"]
    assert [path.name for path in tmp_path.iterdir()] == ["model.onnx"]


@pytest.mark.slow
def test_a_tuned_decision_is_part_of_the_graph(table, tmp_path):
    X, y = table
    model = ew.TunedDecisionClassifierCV(
        quick(tune_decision=False), cv=2, n_bags=2, guard=None, random_state=0
    ).fit(X, y)
    model.decision_ = ew.Decision([[0.2, 0.1, 0], [0, 1.0, 0], [0, 0, 1.5]], classes=model.classes_)
    export_onnx(model, tmp_path / "model.onnx")
    probabilities, classes = run(tmp_path / "model.onnx", X)
    np.testing.assert_allclose(probabilities, model.predict_proba(X), atol=1e-5)
    assert (model.classes_[classes] == model.predict(X)).mean() > 0.99
    assert not np.array_equal(classes, probabilities.argmax(1))


@pytest.mark.slow
@pytest.mark.parametrize("n_folds", [1, 2])
def test_a_module_of_ones_own_and_two_classes(table, tmp_path, n_folds):
    X, y = table
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(6, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
    model = quick(module=module, n_folds=n_folds).fit(X / [1000, 1, 1, 1, 1, 1], y == "ant")
    with pytest.raises(ValueError, match="example of export_onnx must be given"):
        export_onnx(model, tmp_path / "model.onnx")
    export_onnx(model, tmp_path / "model.onnx", example=torch.zeros(2, 6))
    rows = (X / np.float32([1000, 1, 1, 1, 1, 1])).astype(np.float32)
    probabilities, classes = run(tmp_path / "model.onnx", rows)
    np.testing.assert_allclose(probabilities, model.predict_proba(rows), atol=1e-5)
    assert (classes.astype(bool) == model.predict(rows)).mean() > 0.99


@pytest.mark.slow
def test_independent_labels(table, tmp_path):
    X, y = table
    model = quick().fit(X, np.stack([y == "ant", y == "bee"], axis=1).astype(int))
    export_onnx(model, tmp_path / "model.onnx")
    probabilities, decisions = run(tmp_path / "model.onnx", X)
    np.testing.assert_allclose(probabilities, model.predict_proba(X), atol=1e-5)
    assert decisions.shape == probabilities.shape


def test_what_cannot_be_exported_is_named(table, tmp_path):
    X, y = table
    with pytest.raises(TypeError, match="model of export_onnx must be an EASTClassifier"):
        export_onnx(GaussianNB().fit(X, y), tmp_path / "model.onnx")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_the_numeric_part_of_a_folder_is_exported_with_the_names_of_its_features(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.normal(size=160), "city": rng.choice(["Graz", "Wien"], 160)})
    frame.loc[::7, "age"] = np.nan
    labels = np.where(frame["age"].fillna(0) + (frame["city"] == "Wien") > 0.5, "yes", "no")
    frame = read_table(frame)
    vectorizer = make_vectorizer()
    classifier = quick(tune_decision=True).fit(vectorizer.fit_transform(frame), labels)
    columns = [column.to_dict() for column in frame_columns(frame)]
    model = TableModel(classifier, vectorizer, {"target": "y", "columns": columns})
    save_model(model, tmp_path / "folder")
    export_onnx(tmp_path / "folder", tmp_path / "folder.onnx")
    probabilities, classes = run(tmp_path / "folder.onnx", model.vectors(frame))
    np.testing.assert_allclose(probabilities, model.predict_proba(frame), atol=1e-5)
    assert (classifier.classes_[classes] == model.predict(frame)).mean() > 0.99
    told = {p.key: p.value for p in onnx.load(tmp_path / "folder.onnx").metadata_props}
    assert json.loads(told["features"]) == ["age", "city_Graz", "city_Wien", "missingindicator_age"]
    assert json.loads(told["columns"]) == ["age", "city", "city", "age"]
    assert "words, dates and gaps become numbers outside" in told["preprocessing"]


def test_trees_are_refused_with_a_way_out(tmp_path):
    X, y = np.arange(40.0).reshape(20, 2), np.arange(20) % 2
    model = ew.TunedDecisionClassifierCV(GaussianNB(), cv=2, random_state=0).fit(X, y)
    with pytest.raises(TypeError, match="Trees are not exported; train it with --method network"):
        export_onnx(model, tmp_path / "model.onnx")
