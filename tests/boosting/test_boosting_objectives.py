"""The objectives inside both libraries: shapes, weights, early stopping, and the metric they raise."""

from __future__ import annotations

import lightgbm
import numpy as np
import pytest
import xgboost
from sklearn.datasets import make_classification
from sklearn.metrics import f1_score

import eastward as ew
from eastward import boosting

ROUNDS = 40


def table(classes: int):
    X, y = make_classification(
        600,
        10,
        n_informative=6,
        n_classes=classes,
        weights=[0.85, 0.15] if classes == 2 else [0.75, 0.15, 0.1],
        class_sep=0.8,
        flip_y=0.05,
        random_state=0,
    )
    return X[:400], y[:400], X[400:], y[400:]


def lightgbm_params(classes: int, **more):
    number = {} if classes == 2 else {"num_class": classes}
    return {"verbose": -1, "num_threads": 1, "seed": 0, **number, **more}


def xgboost_params(classes: int):
    own = {"objective": "binary:logistic"}
    if classes > 2:
        own = {"objective": "multi:softprob", "num_class": classes}
    # Nothing that weighs data against a constant: the scale of weights must not matter.
    return {
        "base_score": 0.5,
        "nthread": 1,
        "lambda": 0,
        "min_child_weight": 0,
        "disable_default_eval_metric": True,
        **own,
    }


def train_lightgbm(X, y, classes, metric="f1_macro", rounds=ROUNDS, weight=None):
    params = lightgbm_params(classes, objective=boosting.lightgbm_objective(metric))
    return lightgbm.train(params, lightgbm.Dataset(X, y, weight=weight), rounds)


def train_xgboost(X, y, classes, metric="f1_macro", rounds=ROUNDS, weight=None):
    objective = boosting.xgboost_objective(metric)
    data = xgboost.DMatrix(X, y, weight=weight)
    return xgboost.train(xgboost_params(classes), data, rounds, obj=objective)


def scores_of(booster, X):
    if isinstance(booster, lightgbm.Booster):
        return booster.predict(X)
    return booster.predict(xgboost.DMatrix(X), output_margin=True)


@pytest.mark.parametrize("train", [train_lightgbm, train_xgboost])
@pytest.mark.parametrize("classes", [2, 3])
def test_rounds_raise_the_metric_of_the_training_rows(train, classes):
    X, y, *_ = table(classes)
    few, many = (scores_of(train(X, y, classes, rounds=r), X) for r in (1, ROUNDS))
    assert many.shape == ((len(X),) if classes == 2 else (len(X), classes))
    first, last = (boosting.true_score(scores, y) for scores in (few, many))
    assert last > first + 0.02
    assert last > 0.85


@pytest.mark.parametrize("train", [train_lightgbm, train_xgboost])
def test_a_preference_for_recall_shows_in_the_decisions(train):
    X, y, *_ = table(2)
    found = {
        beta: (
            scores_of(train(X, y, 2, ew.metrics.get("f_beta", beta=beta, average="binary"), 5), X)
            > 0
        ).sum()
        for beta in (0.2, 5)
    }
    assert found[5] > found[0.2]


@pytest.mark.parametrize("train", [train_lightgbm, train_xgboost])
@pytest.mark.parametrize("classes", [2, 3])
def test_the_weights_of_the_data_reach_the_confusion_matrix(train, classes):
    X, y, *_ = table(classes)
    plain = scores_of(train(X, y, classes, rounds=3), X)
    weighted = scores_of(train(X, y, classes, rounds=3, weight=np.where(y == 0, 20.0, 1.0)), X)
    doubled = scores_of(train(X, y, classes, rounds=3, weight=np.full(len(y), 2.0)), X)
    assert not np.allclose(plain, weighted)
    # A factor common to all rows cancels in the metric.
    np.testing.assert_allclose(plain, doubled, atol=1e-3)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("library", ["lightgbm", "xgboost"])
def test_the_scikit_learn_signature_trains_the_same_model(library, classes):
    X, y, *_ = table(classes)
    weight = np.random.default_rng(0).uniform(0.5, 2, len(y))
    objective = boosting.sklearn_objective("f1_macro")
    if library == "lightgbm":
        model = lightgbm.LGBMClassifier(
            n_estimators=5,
            objective=objective,
            num_class=classes if classes > 2 else 1,
            verbose=-1,
            n_jobs=1,
        )
        ours = model.fit(X, y, sample_weight=weight).booster_.predict(X, raw_score=True)
        native = train_lightgbm(X, y, classes, rounds=5, weight=weight)
    else:
        model = xgboost.XGBClassifier(
            n_estimators=5,
            objective=objective,
            base_score=0.5,
            reg_lambda=0,
            min_child_weight=0,
            disable_default_eval_metric=True,
            n_jobs=1,
        )
        model.fit(X, y, sample_weight=weight)
        ours = model.get_booster().predict(xgboost.DMatrix(X), output_margin=True)
        native = train_xgboost(X, y, classes, rounds=5, weight=weight)
    np.testing.assert_allclose(ours, scores_of(native, X), rtol=1e-5, atol=1e-6)


def test_lightgbm_stops_early_by_the_true_metric():
    X, y, X_valid, y_valid = table(3)
    train = lightgbm.Dataset(X, y)
    params = lightgbm_params(
        3, objective=boosting.lightgbm_objective("f1_macro"), metric="none", learning_rate=0.3
    )
    seen: dict = {}
    booster = lightgbm.train(
        params,
        train,
        200,
        valid_sets=[lightgbm.Dataset(X_valid, y_valid, reference=train)],
        feval=boosting.lightgbm_metric("f1_macro"),
        callbacks=[lightgbm.early_stopping(10, verbose=False), lightgbm.record_evaluation(seen)],
    )
    curve = seen["valid_0"]["f1_macro"]
    assert booster.best_iteration == int(np.argmax(curve)) + 1 < 200
    predicted = booster.predict(X_valid).argmax(1)
    assert max(curve) == pytest.approx(f1_score(y_valid, predicted, average="macro"))


def test_xgboost_stops_early_by_the_true_metric():
    X, y, X_valid, y_valid = table(2)
    seen: dict = {}
    booster = xgboost.train(
        xgboost_params(2),
        xgboost.DMatrix(X, y),
        200,
        obj=boosting.xgboost_objective("f1"),
        custom_metric=boosting.xgboost_metric("f1"),
        evals=[(xgboost.DMatrix(X_valid, y_valid), "valid")],
        evals_result=seen,
        verbose_eval=False,
        callbacks=[xgboost.callback.EarlyStopping(rounds=10, maximize=True)],
    )
    curve = seen["valid"]["f1"]
    assert booster.best_iteration == int(np.argmax(curve)) < 199
    margins = booster.predict(
        xgboost.DMatrix(X_valid),
        iteration_range=(0, booster.best_iteration + 1),
        output_margin=True,
    )
    assert max(curve) == pytest.approx(f1_score(y_valid, margins > 0))


def test_scikit_learn_classifiers_stop_early_by_the_true_metric():
    X, y, X_valid, y_valid = table(2)
    model = lightgbm.LGBMClassifier(
        n_estimators=100,
        objective=boosting.sklearn_objective("f1"),
        metric="none",
        verbose=-1,
        n_jobs=1,
    )
    model.fit(
        X,
        y,
        eval_X=X_valid,
        eval_y=y_valid,
        eval_metric=boosting.sklearn_metric("f1"),
        callbacks=[lightgbm.early_stopping(5, verbose=False)],
    )
    assert list(model.evals_result_["valid_0"]) == ["f1"]
    assert model.best_iteration_ < 100
    other = xgboost.XGBClassifier(
        n_estimators=100,
        objective=boosting.sklearn_objective("f1"),
        eval_metric=boosting.sklearn_loss("f1"),
        base_score=0.5,
        reg_lambda=0,
        min_child_weight=0,
        disable_default_eval_metric=True,
        early_stopping_rounds=5,
        n_jobs=1,
    )
    other.fit(X, y, eval_set=[(X_valid, y_valid)], verbose=False)
    curve = other.evals_result()["validation_0"]["f1_loss"]
    assert other.best_iteration == int(np.argmin(curve)) < 99


def test_the_librarys_own_objective_hands_out_probabilities():
    X, y, X_valid, y_valid = table(2)
    train = lightgbm.Dataset(X, y)
    seen: dict = {}
    lightgbm.train(
        lightgbm_params(2, objective="binary", metric="none"),
        train,
        5,
        valid_sets=[lightgbm.Dataset(X_valid, y_valid, reference=train)],
        feval=boosting.lightgbm_metric("accuracy", probabilities=True),
        callbacks=[lightgbm.record_evaluation(seen)],
    )
    assert seen["valid_0"]["accuracy"][-1] > 0.5


@pytest.mark.parametrize(
    "factory", [boosting.lightgbm_objective, boosting.xgboost_objective, boosting.sklearn_objective]
)
def test_a_misspelt_metric_is_found_before_training(factory):
    with pytest.raises(ValueError, match="Did you mean 'f1_macro'"):
        factory("f1_makro")
    with pytest.raises(ValueError, match=f"temperature of {factory.__name__} must be in"):
        factory("f1_macro", temperature=0.7)


def test_xgboost_gives_probabilities_when_its_own_objective_is_named():
    X, y, *_ = table(3)
    booster = train_xgboost(X, y, 3)
    scores = scores_of(booster, X)
    softmax = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    np.testing.assert_allclose(booster.predict(xgboost.DMatrix(X)), softmax, rtol=1e-4)
