"""save and load: the same bits in another process, and nothing but what was saved."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.exceptions import NotFittedError
from small_models import clusters, quick, same_model

from eastward.estimators.network import EASTClassifier
from eastward.metrics import get


@pytest.fixture(scope="module")
def table():
    return clusters()


@pytest.fixture(scope="module")
def fitted(table):
    X, y = table
    frame = pd.DataFrame(X, columns=["age", "income", "height", "weight"])
    return quick().fit(frame, np.array(["ant", "bee", "cat"])[y])


@pytest.fixture
def saved(fitted, tmp_path):
    path = tmp_path / "model"
    fitted.save(path)
    return path


def frame_of(X):
    return pd.DataFrame(X, columns=["age", "income", "height", "weight"])


def test_a_saved_model_is_the_model(fitted, saved, table):
    loaded = EASTClassifier.load(saved)
    assert same_model(loaded, fitted)
    X = frame_of(table[0])
    assert np.array_equal(loaded.predict_proba(X), fitted.predict_proba(X))
    assert np.array_equal(loaded.predict(X), fitted.predict(X))
    assert loaded.classes_.dtype == fitted.classes_.dtype
    assert loaded.feature_names_in_.tolist() == ["age", "income", "height", "weight"]
    assert loaded.report_ == fitted.report_
    assert loaded.history_ == fitted.history_
    assert loaded.score(X, fitted.predict(X)) == 1


def test_a_saved_model_keeps_its_parameters(fitted, saved):
    ours, theirs = fitted.get_params(), EASTClassifier.load(saved).get_params()
    assert {**ours, "random_state": None} == {**theirs, "random_state": None}


@pytest.mark.slow
def test_another_process_gives_the_same_bits(fitted, saved, table, tmp_path):
    program = """
import sys, numpy as np, pandas as pd, torch
from eastward.estimators.network import EASTClassifier
torch.set_num_threads(1)
X = pd.DataFrame(np.load(sys.argv[2]), columns=["age", "income", "height", "weight"])
np.save(sys.argv[3], EASTClassifier.load(sys.argv[1]).predict_proba(X))
"""
    np.save(tmp_path / "X.npy", table[0])
    result = tmp_path / "probabilities.npy"
    arguments = [str(saved), str(tmp_path / "X.npy"), str(result)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run([sys.executable, "-c", program, *arguments], check=True, env=environment)
    assert np.array_equal(np.load(result), fitted.predict_proba(frame_of(table[0])))


@pytest.mark.parametrize(
    "labels",
    [
        np.array([False, True, True]),
        np.array([-3, 5, 9], dtype=np.int16),
        np.array(["ä", "β", "猫"], dtype=object),
        np.array([0.0, 1.0, 2.0]),
    ],
    ids=["booleans", "integers", "words", "floats"],
)
def test_classes_of_every_type_come_back(table, tmp_path, labels):
    X, y = table
    model = quick(max_epochs=1).fit(X, labels[y])
    model.save(tmp_path / "model")
    loaded = EASTClassifier.load(tmp_path / "model")
    assert loaded.classes_.tolist() == model.classes_.tolist()
    assert loaded.predict(X).dtype == model.predict(X).dtype
    assert np.array_equal(loaded.predict(X), model.predict(X))


def test_several_labels_are_saved(table, tmp_path):
    X, _ = table
    model = quick(max_epochs=2).fit(X, (X[:, :3] > 0).astype(int))
    model.save(tmp_path / "model")
    loaded = EASTClassifier.load(tmp_path / "model")
    assert np.array_equal(loaded.predict_proba(X), model.predict_proba(X))
    assert loaded.multilabel_


@pytest.mark.parametrize(
    ("metric", "options"),
    [
        ("expected_cost", {"cost": np.array([[0, 1, 1], [2, 0, 1], [9, 9, 0]])}),
        ("f_beta", {"beta": {0: 2.0, 2: 0.5}}),
        ("f2_macro", None),
        ("cohen_kappa_quadratic", None),
    ],
)
def test_metrics_with_options_are_saved(table, tmp_path, metric, options):
    X, y = table
    model = quick(metric, metric_options=options, max_epochs=1).fit(X, y)
    model.save(tmp_path / "model")
    loaded = EASTClassifier.load(tmp_path / "model")
    assert loaded.score(X, y) == model.score(X, y)
    assert same_model(loaded.set_params(random_state=0).fit(X, y), model), "it can be fitted again"


def test_a_metric_given_as_an_object_is_saved(table, tmp_path):
    X, y = table
    model = quick(get("f_beta", beta=3.0), max_epochs=1).fit(X, y)
    model.save(tmp_path / "model")
    loaded = EASTClassifier.load(tmp_path / "model")
    assert loaded.score(X, y) == model.score(X, y)
    assert same_model(loaded.set_params(random_state=0).fit(X, y), model), "it can be fitted again"


def test_parameters_that_json_does_not_know_are_saved(table, tmp_path):
    X, y = table
    model = quick(
        hidden=np.array([8, 4]),
        max_epochs=np.int64(1),
        learning_rate=np.float32(0.01),
        class_weight={0: 1.0, np.int64(2): 5.0},
        aligned=np.bool_(False),
    ).fit(X, y)
    model.save(tmp_path / "model")
    loaded = EASTClassifier.load(tmp_path / "model")
    assert np.array_equal(loaded.predict_proba(X), model.predict_proba(X))
    assert loaded.class_weight == {0: 1.0, 2: 5.0}
    assert same_model(loaded.set_params(random_state=0).fit(X, y), model), "it can be fitted again"


def small_network(n_features, n_classes):
    return torch.nn.Sequential(
        torch.nn.Linear(n_features, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, n_classes)
    )


def test_a_module_of_ones_own_is_given_again(table, tmp_path):
    X, y = table
    model = quick(module=small_network).fit(X, y)
    model.save(tmp_path / "model")
    with pytest.raises(ValueError, match=r"module of load must be given for this model; got None"):
        EASTClassifier.load(tmp_path / "model")
    for module in (small_network, small_network(4, 3)):
        loaded = EASTClassifier.load(tmp_path / "model", module=module)
        assert np.array_equal(loaded.predict_proba(X), model.predict_proba(X))
    with pytest.raises(
        ValueError, match=r"(?s)weights of load must fit the network.*module changed"
    ):
        EASTClassifier.load(tmp_path / "model", module=torch.nn.Linear)


def test_loading_leaves_the_random_state_alone(saved):
    before = torch.random.get_rng_state()
    EASTClassifier.load(saved)
    assert torch.random.get_rng_state().equal(before)


def test_a_history_with_nan_is_saved_without(table, tmp_path):
    model = quick().fit(*table)
    model.history_[0]["valid_loss"] = float("nan")
    model.save(tmp_path / "model")
    loaded = type(model).load(tmp_path / "model")
    assert loaded.history_[0]["valid_loss"] is None
    assert loaded.history_[1] == model.history_[1]


def test_an_unfitted_model_is_not_saved(tmp_path):
    with pytest.raises(NotFittedError):
        quick().save(tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def own_metric(confusion):
    return confusion.diagonal().sum() / confusion.sum()


def test_a_callable_metric_is_refused(table, tmp_path):
    model = quick(own_metric, max_epochs=1).fit(*table)
    with pytest.raises(
        ValueError, match=r"metric of save must be a registered one; got .*own_metric"
    ):
        model.save(tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def test_saving_again_replaces_the_model(saved, table):
    X, y = table
    other = quick(max_epochs=1, random_state=5).fit(X, y)
    other.save(saved)
    assert same_model(EASTClassifier.load(saved), other)
    assert [path.name for path in saved.parent.iterdir()] == ["model"]


@pytest.mark.parametrize("content", ["notes.txt", "model.json"])
def test_a_folder_of_something_else_is_not_overwritten(fitted, tmp_path, content):
    folder = tmp_path / "precious"
    folder.mkdir()
    (folder / content).write_text('{"layers": 3}')
    with pytest.raises(
        ValueError, match="path of save must be new, or a saved model; got precious"
    ):
        fitted.save(folder)
    assert (folder / content).read_text() == '{"layers": 3}'
    assert [path.name for path in tmp_path.iterdir()] == ["precious"]


def test_a_file_is_not_overwritten(fitted, tmp_path):
    (tmp_path / "model").write_text("mine")
    with pytest.raises(ValueError, match="path of save must be new, or a saved model"):
        fitted.save(tmp_path / "model")
    assert (tmp_path / "model").read_text() == "mine"


def test_a_failed_save_leaves_nothing(fitted, tmp_path, monkeypatch):
    def full(*_arguments, **_options):
        message = "disk full"
        raise OSError(message)

    monkeypatch.setattr("eastward.estimators.network.saving.save_file", full)
    with pytest.raises(OSError, match="disk full"):
        fitted.save(tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def rewritten(saved, **changes):
    document = json.loads((saved / "model.json").read_text())
    (saved / "model.json").write_text(json.dumps({**document, **changes}))


def test_a_foreign_folder_is_refused(tmp_path):
    message = (
        r"path of load must be a saved model; got .*Pass the folder that EASTClassifier\.save wrote"
    )
    with pytest.raises(ValueError, match=message):
        EASTClassifier.load(tmp_path)
    with pytest.raises(ValueError, match=message):
        EASTClassifier.load(tmp_path / "nothing")
    (tmp_path / "model.json").write_text("[1, 2]")
    with pytest.raises(ValueError, match=message):
        EASTClassifier.load(tmp_path)


@pytest.mark.parametrize("name", ["weights.safetensors", "model.json"])
@pytest.mark.parametrize("share", [0.0, 0.5, 0.99])
def test_a_truncated_file_is_refused(saved, name, share):
    path = saved / name
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(ValueError, match="path of load must be a saved model; got model"):
        EASTClassifier.load(saved)


def test_another_kind_of_model_is_refused(saved):
    rewritten(saved, kind="eastward.Something")
    with pytest.raises(ValueError, match=r"must be a saved eastward\.EASTClassifier; got a saved"):
        EASTClassifier.load(saved)


def test_a_newer_format_is_refused(saved):
    rewritten(saved, format=99, version="9.9")
    message = r"path of load must be of format 2 or older; got format 99 of eastward 9\.9\. Update"
    with pytest.raises(ValueError, match=message):
        EASTClassifier.load(saved)


@pytest.mark.parametrize("key", ["format", "classes", "parameters", "metric"])
def test_an_incomplete_description_is_refused(saved, key):
    document = json.loads((saved / "model.json").read_text())
    del document[key]
    (saved / "model.json").write_text(json.dumps(document))
    with pytest.raises(ValueError, match="path of load must be a saved model"):
        EASTClassifier.load(saved)


def test_weights_of_another_model_are_refused(saved, table, tmp_path):
    quick(hidden=(5,), max_epochs=1).fit(*table).save(tmp_path / "other")
    (tmp_path / "other" / "weights.safetensors").replace(saved / "weights.safetensors")
    with pytest.raises(ValueError, match="weights of load must fit the network"):
        EASTClassifier.load(saved)


def test_loading_executes_nothing(saved):
    text = (saved / "model.json").read_text()
    assert "module" not in json.loads(text)["parameters"]
    rewritten(saved, classes_dtype="os.system")
    with pytest.raises(ValueError, match="path of load must be a saved model"):
        EASTClassifier.load(saved)
