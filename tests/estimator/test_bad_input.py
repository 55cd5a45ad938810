"""Each mistake has its own sentence."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.exceptions import NotFittedError
from small_models import clusters, quick


@pytest.fixture(scope="module")
def table():
    return clusters()


@pytest.fixture(scope="module")
def fitted(table):
    return quick(max_epochs=1).fit(*table)


def refused(message, error=ValueError):
    return pytest.raises(error, match=re.compile(message, re.DOTALL))


@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_features_that_are_not_finite_are_named(table, value):
    X, y = table
    frame = pd.DataFrame(X, columns=["age", "income", "height", "weight"])
    frame.loc[3, "income"] = frame.loc[5, "weight"] = value
    with refused(r"X of EASTClassifier must be finite; got inf in income, weight\. Put NaN"):
        quick().fit(frame, y)
    with refused(r"got inf in column 1, column 3\."):
        quick().fit(frame.to_numpy(), y)


def test_gaps_are_refused_for_a_module_of_ones_own(table):
    X, y = table
    X = np.where(np.arange(X.size).reshape(X.shape) == 3, np.nan, X)
    with refused(r"must be finite; got NaN or inf in column 3\. Impute"):
        quick(module=torch.nn.Linear).fit(X, y)


def test_of_many_bad_columns_five_are_named(table):
    X = np.full((150, 8), np.inf)
    with refused("column 0, column 1, column 2, column 3, column 4 and 3 more"):
        quick().fit(X, table[1])


def test_bad_features_in_predict_are_named(fitted, table):
    X = table[0].copy()
    X[0, 2] = np.nan
    with refused("got NaN or inf in column 2"):
        fitted.predict(X)


def test_a_single_class_is_refused(table):
    with refused(
        r"y of EASTClassifier.fit must be made of at least two classes; got one class, .*7"
    ):
        quick().fit(table[0], np.full(150, 7))


def test_one_class_with_positive_weight(table):
    X, y = table
    with refused("at least two classes; got one class"):
        quick().fit(X, y, sample_weight=(y == 1).astype(float))


@pytest.mark.filterwarnings("ignore:The number of unique classes:UserWarning")
def test_fewer_rows_than_it_takes_to_hold_some_out():
    X = np.arange(8.0).reshape(4, 2)
    with (
        pytest.warns(UserWarning, match="classes with a single row"),
        refused(r"y of EASTClassifier.fit must be large enough to hold rows out; got 4 rows for 4"),
    ):
        quick().fit(X, ["a", "b", "c", "d"])


@pytest.mark.slow
def test_a_class_with_one_row_works_with_a_warning(table):
    X, y = table
    y = y.copy()
    y[0] = 9
    for changes in ({}, {"n_folds": 1}, {"recipe": "paper"}):
        with pytest.warns(UserWarning, match=r"single row cannot be validated.*\[.*9.*\]"):
            model = quick(**changes).fit(X, y)
        assert model.classes_.tolist() == [0, 1, 2, 9]
        assert model.predict_proba(X).shape == (150, 4)


def test_columns_in_predict_must_be_those_of_fit(table):
    X, y = table
    frame = pd.DataFrame(X, columns=list("abcd"))
    model = quick(max_epochs=1).fit(frame, y)
    with refused("feature names.*unseen.*x"):
        model.predict(frame.rename(columns={"d": "x"}))
    with refused("feature names.*order"):
        model.predict(frame[list("dcba")])
    with refused("feature names.*missing.*d"):
        model.predict(frame[list("abc")])
    with pytest.warns(UserWarning, match="X does not have valid feature names"):
        model.predict(X)


def test_features_in_predict_must_be_as_many_as_in_fit(fitted, table):
    with refused("X has 3 features, but EASTClassifier is expecting 4"):
        fitted.predict(table[0][:, :3])


@pytest.mark.parametrize("width", [2, 5])
def test_a_module_of_the_wrong_width(table, width):
    def network(n_features, _n_classes):
        return torch.nn.Linear(n_features, width)

    message = rf"module of EASTClassifier must be a network with 3 outputs.*; got .*{width}\)"
    with refused(message):
        quick(module=network).fit(*table)


@pytest.mark.parametrize("module", ["mlp", 7, lambda n_features, n_classes: "network"])
def test_a_module_that_is_none(table, module):
    with refused("module of EASTClassifier must be a torch module, or a class", TypeError):
        quick(module=module).fit(*table)


def test_validation_labels_must_be_known(table):
    X, y = table
    with refused(
        r"validation_data of EASTClassifier.fit must be made of classes that occur in y.*\[7\]"
    ):
        quick().fit(X, y, validation_data=(X[:2], [0, 7]))


def test_validation_labels_of_another_type(table):
    X, y = table
    names = np.array(["ant", "bee", "cat"], dtype=object)[y]
    with refused("validation_data of EASTClassifier.fit must be made of classes that occur in y"):
        quick().fit(X, names, validation_data=(X[:2], [0, 1]))


def test_validation_features_must_fit(table):
    X, y = table
    with refused("X has 2 features, but EASTClassifier is expecting 4"):
        quick().fit(X, y, validation_data=(X[:, :2], y))
    with refused("validation_data of EASTClassifier.fit must be as long as X; got 5 labels for 10"):
        quick().fit(X, y, validation_data=(X[:10], y[:5]))


def test_labels_to_score_must_be_known(fitted, table):
    with refused(
        r"y of .* must be made of the labels seen in fit \(0, 1, 2\); got 1 others, for example 5"
    ):
        fitted.score(table[0][:2], [0, 5])


def test_x_and_y_of_different_lengths(table):
    with refused(r"y of EASTClassifier.fit must be as long as X; got 100 labels for 150 rows"):
        quick().fit(table[0], table[1][:100])


def test_numbers_to_regress_are_no_labels(table):
    with refused("Unknown label type: continuous"):
        quick().fit(table[0], table[0][:, 0])


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.zeros(150), "Sample weights must contain at least one non-zero number"),
        (np.full(150, -1.0), "sample_weight of EASTClassifier.fit must be finite and >= 0"),
        (np.ones(10), r"sample_weight\.shape == \(10,\), expected \(150,\)"),
    ],
)
def test_bad_weights(table, weights, message):
    with refused(message):
        quick().fit(*table, sample_weight=weights)


def test_bad_class_weights(table):
    X, y = table
    with refused("class_weight of EASTClassifier.fit must be one of 'balanced', a mapping"):
        quick(class_weight="balance").fit(X, y)
    with refused("sample_weight of EASTClassifier.fit must be positive for some rows; got zero"):
        quick(class_weight={0: 0, 1: 0, 2: 0}).fit(X, y)
    with refused("class_weight of EASTClassifier.fit must be None for multilabel targets"):
        quick(class_weight="balanced").fit(X, (X[:, :2] > 0).astype(int))


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        (
            {"recipe": "papers"},
            ValueError,
            "recipe of EASTClassifier must be one of .*Did you mean",
        ),
        ({"recipe": None}, TypeError, "recipe of EASTClassifier must be one of"),
        (
            {"n_folds": 0},
            ValueError,
            "n_folds of EASTClassifier must be 'auto' or at least 1, a whole number; got 0",
        ),
        ({"n_folds": "five"}, TypeError, "n_folds of EASTClassifier must be"),
        (
            {"batch_size": 0},
            ValueError,
            "batch_size of EASTClassifier must be 'auto' or at least 1",
        ),
        ({"max_epochs": 0}, ValueError, "max_epochs of EASTClassifier must be >= 1; got 0"),
        ({"patience": 0}, ValueError, "patience of EASTClassifier must be >= 1; got 0"),
        ({"max_cold_steps": 0}, ValueError, "max_cold_steps of EASTClassifier must be >= 1"),
        ({"learning_rate": 0.0}, ValueError, "learning_rate of EASTClassifier must be positive"),
        ({"learning_rate": "fast"}, TypeError, "learning_rate of EASTClassifier must be a real"),
        ({"dropout": 1.0}, ValueError, r"dropout of EASTClassifier must be in \[0, 1\); got 1.0"),
        ({"temperature": 0.5}, ValueError, r"temperature of EASTClassifier must be in \(0, 0.4\]"),
        ({"cooling_rate": 1.0}, ValueError, "cooling_rate of EASTClassifier must be strictly"),
        ({"validation_fraction": 0}, ValueError, "validation_fraction of EASTClassifier must be"),
        ({"hidden": 16}, TypeError, "hidden of EASTClassifier must be"),
        ({"hidden": (16, 0)}, ValueError, "hidden of EASTClassifier must be"),
        ({"standardize": "no"}, ValueError, "standardize of EASTClassifier must be"),
        ({"tune_decision": "no"}, ValueError, "tune_decision of EASTClassifier must be"),
        ({"metric": "f1_marco"}, ValueError, "f1_macro"),
        ({"metric": 3}, TypeError, "metric of .* must be a name, or a callable"),
        ({"metric": "expected_cost"}, ValueError, "cost of metrics.get must be given"),
        ({"metric": "f1", "metric_options": {"gamma": 1}}, TypeError, "without the option 'gamma'"),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_a_bad_parameter_is_named(table, changes, error, message):
    with refused(message, error):
        quick(**changes).fit(*table)


def test_btg_is_for_two_classes(table):
    with refused("recipe of EASTClassifier must be .*btg.*3 classes"):
        quick(recipe="btg").fit(*table)


def test_a_cost_matrix_of_the_wrong_size(table):
    with refused("cost of .* must be"):
        quick("expected_cost", metric_options={"cost": [[0, 1], [1, 0]]}).fit(*table)


@pytest.mark.parametrize(
    "method", ["predict", "predict_proba", "decision_function", "raw_predict_proba"]
)
def test_nothing_is_predicted_before_fit(table, method):
    with pytest.raises(NotFittedError):
        getattr(quick(), method)(table[0])


def test_dictionaries_need_a_module(table):
    X, y = table
    with pytest.raises((TypeError, ValueError)):
        quick().fit({"a": X}, y)


def test_a_failed_fit_leaves_the_random_state_of_torch_alone(table):
    before = torch.random.get_rng_state()
    with refused("3 outputs"):
        quick(module=lambda n_features, n_classes: torch.nn.Linear(n_features, 7)).fit(*table)
    assert torch.random.get_rng_state().equal(before)


@pytest.mark.slow
def test_good_input_warns_of_nothing(table):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        quick().fit(*table).predict(table[0])
