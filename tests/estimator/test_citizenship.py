"""A citizen of scikit-learn: clone, pickle, search, pipelines, routing, frames and labels of every kind."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import sklearn
import torch
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags
from small_models import clusters, quick, same_model

from eastward.estimators.network import EASTClassifier


@pytest.fixture(scope="module")
def table():
    return clusters()


@pytest.fixture(scope="module")
def fitted(table):
    return quick().fit(*table)


def test_parameters_are_stored_untouched():
    hidden, options = [8, 4], {"beta": 2}
    model = EASTClassifier("f_beta", hidden=hidden, metric_options=options, n_folds="auto")
    assert model.hidden is hidden
    assert model.metric_options is options
    assert model.get_params()["n_folds"] == "auto"
    assert not [name for name in vars(model) if name.endswith("_")]


def test_a_clone_has_the_parameters_and_not_the_fit(fitted, table):
    copy = clone(fitted)
    assert copy.get_params() == fitted.get_params()
    assert not hasattr(copy, "members_")
    assert same_model(copy.fit(*table), fitted)


def test_a_pickle_predicts_the_same_bits(fitted, table):
    restored = pickle.loads(pickle.dumps(fitted))
    assert np.array_equal(restored.predict_proba(table[0]), fitted.predict_proba(table[0]))
    assert restored.report_ == fitted.report_


@pytest.mark.slow
def test_fitting_again_forgets_the_first_fit(table):
    X, y = table
    model = quick().fit(X[:, :2], np.where(y == 0, "few", "many"))
    assert same_model(model.fit(X, y), quick().fit(X, y))
    assert model.n_features_in_ == 4
    assert model.classes_.tolist() == [0, 1, 2]


@pytest.mark.slow
def test_a_grid_search_finds_the_better_parameters(table):
    search = GridSearchCV(quick(), {"max_epochs": [1, 12], "aligned": [False]}, cv=2)
    search.fit(*table)
    assert search.best_params_["max_epochs"] == 12
    assert search.best_score_ > 0.5
    assert search.predict(table[0]).shape == table[1].shape


@pytest.mark.slow
def test_it_works_in_a_pipeline_and_in_cross_validation(table):
    X, y = table
    pipeline = make_pipeline(StandardScaler(), quick())
    scores = cross_validate(pipeline, X, y, cv=2, scoring=["f1_macro", "roc_auc_ovr"])
    assert scores["test_f1_macro"].min() > 0.4
    assert scores["test_roc_auc_ovr"].min() > 0.5


@pytest.mark.slow
def test_weights_are_routed_to_fit_and_score(table):
    X, y = table
    weights = np.where(y == 2, 30.0, 1.0)
    with sklearn.config_context(enable_metadata_routing=True):
        model = quick("accuracy").set_fit_request(sample_weight=True)
        model = model.set_score_request(sample_weight=True)
        unweighted = StandardScaler().set_fit_request(sample_weight=False)
        pipeline = make_pipeline(unweighted, model)
        pipeline.fit(X, y, sample_weight=weights)
        routed = cross_validate(pipeline, X, y, params={"sample_weight": weights}, cv=2)
        unrouted = cross_validate(make_pipeline(StandardScaler(), quick("accuracy")), X, y, cv=2)
    direct = quick("accuracy").fit(StandardScaler().fit_transform(X), y, sample_weight=weights)
    assert same_model(pipeline[-1], direct)
    assert not np.allclose(routed["test_score"], unrouted["test_score"])


def test_validation_data_is_routed(table):
    X, y = table
    with sklearn.config_context(enable_metadata_routing=True):
        model = quick().set_fit_request(validation_data=True)
        pipeline = make_pipeline(StandardScaler().set_output(transform="default"), model)
        pipeline.fit(X, y, validation_data=(X[:30], y[:30]))
    assert pipeline[-1].n_folds_ == 1


def test_pandas_frames_keep_their_names(fitted, table):
    X, y = table
    frame = pd.DataFrame(X, columns=list("abcd"))
    model = quick().fit(frame, pd.Series(y, name="kind"))
    assert model.feature_names_in_.tolist() == list("abcd")
    assert model.n_features_in_ == 4
    assert same_model(model, fitted)
    assert np.array_equal(model.predict_proba(frame), fitted.predict_proba(X))


def test_polars_frames_are_tables_too(fitted, table):
    polars = pytest.importorskip("polars")
    X, y = table
    frame = polars.DataFrame({name: X[:, k] for k, name in enumerate("abcd")})
    model = quick().fit(frame, polars.Series(y))
    assert model.feature_names_in_.tolist() == list("abcd")
    assert np.array_equal(model.predict_proba(frame), fitted.predict_proba(X))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_numbers_of_every_type_are_features(table, dtype):
    X, y = table
    X = (10 * X).astype(dtype)
    assert quick(max_epochs=1).fit(X, y).predict(X).shape == y.shape


@pytest.mark.slow
@pytest.mark.parametrize(
    "names",
    [
        np.array(["ant", "bee", "cat"]),
        np.array(["ant", "bee", "cat"], dtype=object),
        np.array([-1, 5, 30]),
        np.array([0.0, 1.0, 7.0]),
        np.array([2, 3, 4], dtype=np.int8),
    ],
    ids=["strings", "objects", "integers", "floats", "bytes"],
)
def test_labels_of_every_type_come_back_as_they_were(fitted, table, names):
    X, y = table
    model = quick().fit(X, names[y])
    assert model.classes_.tolist() == names.tolist()
    assert model.classes_.dtype == names.dtype
    predicted = model.predict(X)
    assert predicted.dtype == names.dtype
    assert np.array_equal(predicted, names[fitted.predict(X)])
    assert model.score(X, names[y]) == fitted.score(X, y)


def test_boolean_labels(table):
    X, y = table
    model = quick("f1").fit(X, y == 0)
    assert model.classes_.tolist() == [False, True]
    assert model.predict(X).dtype == bool


@pytest.mark.slow
def test_pandas_categories_and_lists_are_labels(table):
    X, y = table
    names = np.array(["ant", "bee", "cat"])[y]
    by_list = quick().fit(X.tolist(), names.tolist())
    by_category = quick().fit(X, pd.Series(names, dtype="category"))
    assert same_model(by_list, by_category)


def test_sparse_features_are_refused_clearly(table):
    with pytest.raises(TypeError, match=r"Sparse data was passed.*toarray\(\)"):
        quick().fit(scipy.sparse.csr_matrix(table[0]), table[1])


def test_tags_say_what_is_welcome():
    tags = get_tags(quick())
    assert tags.classifier_tags.multi_label
    assert tags.classifier_tags.multi_class
    assert not tags.input_tags.sparse
    assert not tags.input_tags.three_d_array
    assert get_tags(quick(module=torch.nn.Linear)).input_tags.three_d_array


def test_the_default_settings_are_those_of_the_paper():
    model = EASTClassifier()
    assert model.hidden == (512, 256, 128)
    assert model.dropout == 0.25
    assert model.recipe == "auto"


@pytest.mark.slow
def test_the_number_of_folds_follows_the_data_and_the_module(table):
    assert quick(n_folds="auto", max_epochs=1).fit(*table).n_folds_ == 5
    assert quick(n_folds="auto", max_epochs=1, recipe="paper").fit(*table).n_folds_ == 1
    assert quick(module=torch.nn.Linear, n_folds="auto", max_epochs=1).fit(*table).n_folds_ == 1
