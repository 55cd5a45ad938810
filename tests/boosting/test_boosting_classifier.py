"""EASTBoostingClassifier: what it is made of, what it decides, and what it keeps."""

from __future__ import annotations

import subprocess
import sys

import lightgbm
import numpy as np
import pytest
import xgboost
from sklearn.metrics import f1_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.utils.class_weight import compute_class_weight
from small_boosters import BACKENDS, frame, quick, table

import eastward as ew
from eastward.estimators.boosting import EASTBoostingClassifier


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("classes", [2, 3])
def test_probabilities_are_restored_and_decide(backend, classes):
    X, y = table(classes)
    model = quick(backend, aligned=True).fit(X, y)
    probabilities = model.predict_proba(X)
    assert probabilities.shape == (len(X), classes)
    np.testing.assert_allclose(probabilities.sum(1), 1)
    chosen = (probabilities @ model.decision_.matrix).argmax(1)
    assert (model.predict(X) == model.classes_[chosen]).all()
    assert model.score(X, y) == pytest.approx(f1_score(y, model.predict(X), average="macro"))
    assert model.score(X, y) > 0.75


@pytest.mark.parametrize("classes", [2, 3])
def test_the_start_is_the_librarys_own_model(classes):
    X, y = table(classes)
    ours = quick(balanced=False, aligned=False).fit(X, y).raw_predict_proba(X)
    theirs = lightgbm.LGBMClassifier(n_estimators=15, n_jobs=1, verbose=-1).fit(X, y)
    np.testing.assert_allclose(ours, theirs.predict_proba(X), rtol=1e-9)
    ours = quick("xgboost", balanced=False, aligned=False).fit(X, y).raw_predict_proba(X)
    theirs = xgboost.XGBClassifier(n_estimators=15, learning_rate=0.1, n_jobs=1).fit(X, y)
    np.testing.assert_allclose(ours, theirs.predict_proba(X), rtol=1e-5)


@pytest.mark.parametrize("backend", BACKENDS)
def test_scores_are_cross_entropy_plus_aligned_rounds_from_where_they_began(backend):
    X, y = table()
    model = quick(backend, aligned=True).fit(X, y)
    if backend == "lightgbm":
        parts = [b.predict(X, raw_score=True) for b in (model.booster_, model.aligned_booster_)]
        assert model.aligned_booster_.num_trees() == 3 * model.aligned_rounds_
    else:
        data = xgboost.DMatrix(X)
        parts = [
            b.predict(data, output_margin=True) for b in (model.booster_, model.aligned_booster_)
        ]
        assert model.aligned_booster_.num_boosted_rounds() == model.aligned_rounds_
    odds = np.exp(sum(parts) + model.score_shifts_)
    expected = odds / odds.sum(1, keepdims=True)
    np.testing.assert_allclose(model.raw_predict_proba(X), expected, rtol=1e-5, atol=1e-6)
    assert model.aligned_rounds_ in {1, 2, 3, 6, 8}
    assert model.report_["aligned"]["rounds"] == model.aligned_rounds_


def test_aligned_rounds_stay_only_where_held_out_rows_favour_them():
    X, y = table()
    cautious = quick(guard=1e6, tune_decision=False, balanced=False).fit(X, y)
    assert cautious.aligned_booster_ is None
    assert cautious.aligned_rounds_ == 0
    assert "none are kept" in cautious.summary()
    bold = quick(guard=0, tune_decision=False).fit(X, y)
    assert (bold.aligned_rounds_ > 0) == (bold.report_["aligned"]["favoured"])
    never = quick(aligned=False).fit(X, y)
    assert never.report_["aligned"] == {"tried": False, "rounds": 0}
    # Without aligned rounds and a tuned decision, the library's decision is what is left.
    plain = quick(aligned=False, tune_decision=False, balanced=False, calibrate="none").fit(X, y)
    np.testing.assert_allclose(plain.predict_proba(X), cautious.raw_predict_proba(X))
    assert np.array_equal(plain.predict(X), cautious.raw_predict_proba(X).argmax(1))


def test_the_evidence_for_aligned_rounds_is_that_of_models_that_have_not_seen_the_rows():
    from eastward.boosting.objectives import lightgbm_objective, true_score
    from eastward.estimators.boosting.aligning import aligned_evidence
    from eastward.estimators.boosting.backends import Task, make_backend
    from eastward.estimators.boosting.folds import Problem, columns, margins
    from eastward.metrics import get

    X, y = table(2)
    folds = np.arange(len(y)) % 3
    backend = make_backend("lightgbm", Task(2, (), 0.1, 0, 1, {}))
    held_out = np.random.default_rng(0).normal(size=(len(y), 2))
    problem = Problem(backend, X, y, None, folds, get("f1_macro"), 2)
    shifts = np.zeros_like(held_out)
    found = aligned_evidence(problem, held_out, shifts, temperature=0.2, max_rounds=5, guard=None)
    again = held_out.copy()
    for k in range(3):
        data = lightgbm.Dataset(
            X[folds != k], y[folds != k], init_score=margins(held_out[folds != k])
        )
        params = {
            "objective": lightgbm_objective("f1_macro"),
            "verbosity": -1,
            "num_threads": 1,
            "seed": 0,
        }
        trees = lightgbm.train(params | {"deterministic": True}, data, found.rounds)
        again[folds == k] += columns(trees.predict(X[folds == k]))
    np.testing.assert_allclose(found.scores, again, rtol=1e-9)
    # Random scores are easy to beat, and the gain is what it says.
    assert found.favoured
    assert found.gain == pytest.approx(true_score(again, y) - true_score(held_out, y), abs=0.05)
    assert found.gain > 3 * found.standard_error


@pytest.mark.parametrize("classes", [2, 3])
def test_balanced_weights_are_scikit_learns_and_are_taken_back(classes):
    X, y = table(classes)
    options = {"aligned": False, "tune_decision": False, "calibrate": "none"}
    model = quick(balanced=True, **options).fit(X, y)
    theirs = lightgbm.LGBMClassifier(
        n_estimators=15, n_jobs=1, verbose=-1, class_weight="balanced"
    ).fit(X, y)
    expected = compute_class_weight("balanced", classes=np.unique(y), y=y)
    np.testing.assert_allclose(model.class_weights_, expected)
    unweighted = theirs.predict_proba(X) / expected
    unweighted /= unweighted.sum(1, keepdims=True)
    np.testing.assert_allclose(model.raw_predict_proba(X), unweighted, rtol=1e-9)
    # Probabilities that can be read: on average about as frequent as the classes are.
    shares = np.bincount(y) / len(y)
    away = [
        np.abs(p.mean(0) - shares).max() for p in (model.predict_proba(X), theirs.predict_proba(X))
    ]
    assert away[0] < away[1] / 2


@pytest.mark.slow
def test_weights_go_only_where_held_out_rows_favour_none():
    X, y = table()
    kept = quick(guard=1e6).fit(X, y)
    assert kept.report_["weights"]["balanced"]
    assert "Balanced weights bring" in kept.summary()
    gain = kept.report_["weights"]["gain"]
    for guard in (None, 0):
        better = quick(guard=guard, aligned=False).fit(X, y)
        assert better.report_["weights"]["balanced"] == (gain > 0)
    # Accuracy starts without them.
    accuracy = quick(guard=1e6).set_params(metric="accuracy").fit(X, y)
    assert not accuracy.report_["weights"]["balanced"]
    assert accuracy.class_weights_.tolist() == [1, 1, 1]
    assert quick().fit(X[y < 2][-80:], np.arange(80) % 2).report_["weights"]["tried"] is False


def test_the_gain_of_weights_is_that_of_models_that_have_not_seen_the_rows():
    X, y = table(2)
    folds = StratifiedKFold(3)
    model = quick(cv=folds).fit(X, y)
    held_out = []
    for weight in (None, "balanced"):
        theirs = lightgbm.LGBMClassifier(n_estimators=15, n_jobs=1, verbose=-1, class_weight=weight)
        held_out.append(f1_score(y, cross_val_predict(theirs, X, y, cv=folds), average="macro"))
    assert model.report_["weights"]["gain"] == pytest.approx(held_out[1] - held_out[0])


@pytest.mark.parametrize("backend", BACKENDS)
def test_categories_text_and_missing_values_are_used(backend):
    X, y = frame()
    model = quick(backend, n_estimators=40).fit(X, y)
    assert model.score(*frame(seed=1)) > 0.85
    assert model._columns.categories == {0: ["blue", "green", "red"], 1: [1, 2, 3]}
    scrambled = X.assign(colour="green")
    assert (model.predict(scrambled) != model.predict(X)).any()
    # A category that training has not seen is a missing value.
    unknown, missing = X.assign(colour="mauve"), X.assign(colour=None)
    assert np.array_equal(model.predict_proba(unknown), model.predict_proba(missing))


def test_categories_of_an_array_are_named_by_position():
    rng = np.random.default_rng(0)
    X = np.stack([rng.choice([-7.0, 3.0, 1000.0], 300), rng.normal(size=300)], axis=1)
    y = (X[:, 0] == 3).astype(int)
    model = quick(categorical_features=[0]).fit(X, y)
    assert model._columns.categories == {0: [-7.0, 3.0, 1000.0]}
    assert model.score(X, y) == 1
    dump = model.booster_.dump_model()["tree_info"][0]["tree_structure"]
    assert dump["decision_type"] == "=="


def test_a_row_of_weight_zero_does_not_exist():
    X, y = table()
    weight = np.where(np.arange(len(y)) % 5 == 0, 0.0, 1.5)
    one = quick().fit(X, y, weight)
    other = quick().fit(X[weight > 0], y[weight > 0], weight[weight > 0])
    assert np.array_equal(one.predict_proba(X), other.predict_proba(X))
    assert not np.array_equal(one.predict_proba(X), quick().fit(X, y).predict_proba(X))


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_same_seed_gives_the_same_model(backend):
    X, y = table()
    first, second = (quick(backend).fit(X, y).predict_proba(X) for _ in range(2))
    assert np.array_equal(first, second)


def test_a_cost_is_minimised():
    X, y = table(2)
    cost = ew.metrics.get("expected_cost", cost=[[0, 1], [20, 0]])
    model = EASTBoostingClassifier(cost, n_estimators=15, cv=3, n_bags=2, random_state=0).fit(X, y)
    plain = quick(aligned=False, tune_decision=False).fit(X, y)
    assert (model.predict(X) == 1).sum() > (plain.predict(X) == 1).sum()
    assert model.score(X, y) < 0


def test_parameters_reach_the_library():
    X, y = table()
    stumps = quick(backend_params={"num_leaves": 2}).fit(X, y)
    assert {tree["num_leaves"] for tree in stumps.booster_.dump_model()["tree_info"]} == {2}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"backend": "catboost"}, "backend of EASTBoostingClassifier must be one of 'lightgbm'"),
        ({"balanced": "never"}, "balanced of EASTBoostingClassifier must be one of 'auto'"),
        ({"aligned": "always"}, "aligned of EASTBoostingClassifier must be one of 'auto'"),
        ({"temperature": 0.9}, "temperature of EASTBoostingClassifier must be in"),
        ({"n_estimators": 0}, "n_estimators of EASTBoostingClassifier must be >= 1"),
        ({"metric": "f1_makro"}, "Did you mean 'f1_macro'"),
        ({"categorical_features": ["colour"]}, "categorical_features of EASTBoostingClassifier"),
        ({"categorical_features": "all"}, "must be one of 'from_dtype'"),
        ({"cv": [(np.arange(5), np.arange(5, 9))]}, "cv of EASTBoostingClassifier.fit must be a"),
    ],
)
def test_mistakes_are_named(changes, message):
    X, y = table()
    with pytest.raises(ValueError, match=message):
        quick().set_params(**changes).fit(X, y)


@pytest.mark.slow
def test_a_missing_library_is_named_with_its_extra():
    code = (
        "import sys; sys.modules['lightgbm'] = None\n"
        "import eastward as ew\n"
        "ew.EASTBoostingClassifier().fit([[0.0], [1.0]] * 10, [0, 1] * 10)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.strip().splitlines()[-1] == (
        "ModuleNotFoundError: backend 'lightgbm' needs lightgbm: "
        "install it with  pip install 'eastward[boost]'"
    )
