"""TunedDecisionClassifierCV: a good citizen of scikit-learn whose decisions follow the metric."""

from __future__ import annotations

import json
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score, log_loss
from sklearn.model_selection import (
    FixedThresholdClassifier,
    GridSearchCV,
    StratifiedKFold,
    TunedThresholdClassifierCV,
    cross_val_predict,
    train_test_split,
)
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils._test_common.instance_generator import PER_ESTIMATOR_XFAIL_CHECKS
from sklearn.utils.estimator_checks import parametrize_with_checks

from eastward import metrics
from eastward.decisions import prediction_sets
from eastward.estimators.tuned import TunedDecisionClassifierCV

# scikit-learn names them for its classifiers with thresholds, for the same reason.
WEIGHTS_AND_FOLDS = (
    "Folds are cut by rows: a row of weight two is in one fold, two equal rows may be in two, and a row of weight zero "
    "still takes a place."
)
EXPECTED_FAILURES = {
    "check_sample_weight_equivalence_on_dense_data": WEIGHTS_AND_FOLDS,
    "check_sample_weight_equivalence_on_sparse_data": WEIGHTS_AND_FOLDS,
}


def quick(estimator, metric="f1_macro", **options):
    """Few bags and folds: the tests are about behaviour, not about the last digit."""
    return TunedDecisionClassifierCV(
        estimator, metric, **{"cv": 3, "n_bags": 2, "random_state": 0, **options}
    )


def expected_failures(model):
    return EXPECTED_FAILURES if isinstance(model.estimator, LogisticRegression) else {}


@pytest.mark.slow
@parametrize_with_checks(
    [
        # As users get it: fewer bags and folds would ship a rule that moves one row of two clear blobs.
        TunedDecisionClassifierCV(LogisticRegression(C=1), random_state=0),
        quick(DecisionTreeClassifier(max_depth=4, random_state=0), n_bags=1),
    ],
    expected_failed_checks=expected_failures,
)
def test_scikit_learn_checks(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(estimator)


def test_scikit_learn_excuses_its_own_classifiers_with_thresholds_from_the_same_checks():
    tuned, fixed = TunedThresholdClassifierCV, FixedThresholdClassifier
    excused = {*PER_ESTIMATOR_XFAIL_CHECKS[tuned], *PER_ESTIMATOR_XFAIL_CHECKS[fixed]}
    assert set(EXPECTED_FAILURES) <= excused
    assert len(EXPECTED_FAILURES) <= len(PER_ESTIMATOR_XFAIL_CHECKS[tuned])


@pytest.fixture(scope="module")
def imbalanced():
    X, y = make_classification(
        600, n_informative=4, weights=[0.85], class_sep=0.7, flip_y=0.08, random_state=0
    )
    return train_test_split(X, y, stratify=y, random_state=0)


@pytest.fixture(scope="module")
def four_classes():
    X, y = make_classification(
        600,
        n_classes=4,
        n_informative=6,
        weights=[0.65, 0.2, 0.1],
        class_sep=0.8,
        random_state=0,
    )
    return train_test_split(X, y, stratify=y, random_state=0)


def test_a_forest_gains_on_fresh_data():
    X, y = make_classification(
        2400, n_classes=3, n_informative=6, weights=[0.8, 0.15], class_sep=0.8, random_state=0
    )
    X, X_test, y, y_test = train_test_split(X, y, train_size=600, stratify=y, random_state=0)
    plain = RandomForestClassifier(50, random_state=0).fit(X, y)
    tuned = quick(RandomForestClassifier(50, random_state=0), n_bags=5).fit(X, y)
    before = f1_score(y_test, plain.predict(X_test), average="macro")
    assert tuned.score(X_test, y_test) > before + 0.05
    assert tuned.gain_ > 0
    assert tuned.report_["cross_validated"]
    assert tuned.gain_ > tuned.report_["standard_error"] > 0


def test_score_is_the_metric_and_costs_are_negated(imbalanced):
    X, X_test, y, y_test = imbalanced
    model = quick(GaussianNB(), "f1").fit(X, y)
    weight = np.linspace(0.5, 2, len(y_test))
    expected = f1_score(y_test, model.predict(X_test), sample_weight=weight)
    assert model.score(X_test, y_test, weight) == pytest.approx(expected)
    cost = metrics.get("expected_cost", cost=[[0, 1], [4, 0]])
    priced = quick(GaussianNB(), cost).fit(X, y)
    assert priced.score(X_test, y_test) < 0
    assert priced.tuned_score_ > 0
    assert priced.gain_ == pytest.approx(priced.baseline_score_ - priced.tuned_score_)


def test_probabilities_are_calibrated_and_the_decision_is_applied_to_them(four_classes):
    X, X_test, y, _ = four_classes
    model = quick(RandomForestClassifier(50, random_state=0)).fit(X, y)
    raw = model.raw_predict_proba(X_test)
    np.testing.assert_array_equal(raw, model.estimator_.predict_proba(X_test))
    probabilities = model.predict_proba(X_test)
    np.testing.assert_allclose(probabilities, model.calibration_.apply(np.maximum(raw, 1e-12)))
    worth = probabilities @ model.decision_.matrix
    np.testing.assert_array_equal(model.predict(X_test), model.classes_[worth.argmax(1)])
    np.testing.assert_array_equal(model.decision_.decide(probabilities), worth.argmax(1))
    np.testing.assert_array_equal(model.decision_function(X_test).argmax(1), worth.argmax(1))
    assert not np.array_equal(probabilities.argmax(1), worth.argmax(1))


def test_calibration_lowers_the_loss_of_a_model_that_exaggerates(imbalanced):
    X, X_test, y, y_test = imbalanced
    tree = DecisionTreeClassifier(max_depth=8, random_state=0)
    assert quick(tree, "f1", calibrate="none").fit(X, y).calibration_.kind == "none"
    model = quick(tree, "f1").fit(X, y)
    assert model.calibration_.kind != "none"
    before, after = (
        log_loss(y_test, predict(X_test))
        for predict in (model.raw_predict_proba, model.predict_proba)
    )
    assert after < before - 0.1


@pytest.mark.parametrize("metric", ["f1", "accuracy"])
def test_constraints_are_kept_and_said(imbalanced, metric):
    X, X_test, y, _ = imbalanced
    names = np.array(["legal", "fraud"])
    y = names[y]
    wish = {"subject_to": "recall[fraud] >= 0.5", "confidence": 0.9}
    model = quick(GaussianNB(), metric, **wish).fit(X, y)
    assert model.decision_.constraints[0].proven >= 0.5
    assert "recall[fraud] ≥ 0.50 with 90 % confidence" in model.summary()
    assert set(model.predict(X_test)) <= set(names)
    assert json.loads(json.dumps(model.report_))["constraints"]
    # classes_ are sorted, so fraud comes first
    assert model.classes_[0] == "fraud"


def test_rows_are_left_undecided_by_cost_or_coverage(four_classes):
    X, X_test, y, y_test = four_classes
    by_cost = quick(GaussianNB(), "accuracy", abstain_cost=0.4).fit(X, y)
    unclear = by_cost.predict_proba(X_test).max(1) < 0.6
    decided = by_cost.predict(X_test)
    np.testing.assert_array_equal(decided == -1, unclear)
    right = np.where(unclear, 0.6, decided == y_test).mean()
    assert by_cost.score(X_test, y_test) == pytest.approx(right)
    by_share = quick(GaussianNB(), "accuracy", subject_to="coverage >= 0.7").fit(X, y)
    assert 0 < (by_share.predict(X_test) == -1).mean() < 0.4


def test_other_frequencies_move_the_decisions(four_classes):
    X, X_test, y, _ = four_classes
    model = quick(GaussianNB()).fit(X, y)
    plain = (model.predict(X_test) == 3).sum()
    prior = [0.1, 0.1, 0.1, 0.7]
    np.testing.assert_array_equal(
        model.predict(X_test, prior=prior),
        model.predict(X_test, prior=dict(enumerate(prior))),
    )
    assert (model.predict(X_test, prior=prior) == 3).sum() > plain
    with pytest.warns(UserWarning, match="cannot tell"):
        model.predict(X_test[:10], prior="auto")
    with pytest.raises(ValueError, match="prior of predict must be given for the classes"):
        model.predict(X_test, prior={0: 1.0})
    with pytest.raises(ValueError, match="prior of predict must be one of 'auto'"):
        model.predict(X_test, prior="new")


@pytest.mark.parametrize("by_class", [False, True])
def test_prediction_sets_reach_the_requested_coverage(four_classes, by_class):
    X, X_test, y, y_test = four_classes
    sets = quick(GaussianNB()).fit(X, y).predict_set(X_test, coverage=0.8, by_class=by_class)
    assert sets.shape == (len(X_test), 4)
    # 150 test rows: two standard errors are 0.065.
    assert sets[np.arange(len(y_test)), y_test].mean() >= 0.8 - 0.065


def test_sets_follow_other_frequencies(four_classes):
    X, X_test, y, _ = four_classes
    model = quick(GaussianNB()).fit(X, y)
    same = model.with_prior(model.decision_.prior)
    np.testing.assert_array_equal(same.predict_set(X_test), model.predict_set(X_test))
    moved = model.with_prior([0.1, 0.1, 0.1, 0.7])
    sets = moved.predict_set(X_test)
    assert sets[:, 3].sum() > model.predict_set(X_test)[:, 3].sum()
    frequencies = np.bincount(model.held_out_.codes) / len(model.held_out_.codes)
    expected = prediction_sets(
        moved.calibration_.apply(model.held_out_.probabilities),
        model.held_out_.codes,
        0.9,
        sample_weight=(np.array([0.1, 0.1, 0.1, 0.7]) / frequencies)[model.held_out_.codes],
    )
    np.testing.assert_array_equal(sets, expected.sets(moved.predict_proba(X_test)))


def test_baseline_is_the_score_of_cross_fitted_predictions(four_classes):
    X, _, y, _ = four_classes
    model = quick(GaussianNB(), cv=4, calibrate="none").fit(X, y)
    folds = StratifiedKFold(4, shuffle=True, random_state=model._seed)
    decided = cross_val_predict(GaussianNB(), X, y, cv=folds)
    assert model.baseline_score_ == pytest.approx(f1_score(y, decided, average="macro"))


def test_a_constant_model_is_left_as_it_is(imbalanced):
    X, X_test, y, _ = imbalanced
    model = quick(DummyClassifier(strategy="prior"), "accuracy").fit(X, y)
    np.testing.assert_array_equal(model.offsets_, 0)
    np.testing.assert_array_equal(model.predict(X_test), 0)
    assert model.gain_ == 0
    assert "for the most probable class" in model.summary()


@pytest.mark.parametrize(
    "names", [["a", "b", "long name", "z"], [10, 20, 30, 40], [0.0, 1.0, 2.0, 7.0]]
)
def test_labels_of_any_kind(four_classes, names):
    X, X_test, y, y_test = four_classes
    labels = np.array(names)
    by_code = quick(GaussianNB()).fit(X, y)
    by_name = quick(GaussianNB()).fit(X, labels[y])
    np.testing.assert_array_equal(by_name.predict(X_test), labels[by_code.predict(X_test)])
    assert by_name.score(X_test, labels[y_test]) == pytest.approx(by_code.score(X_test, y_test))
    assert list(by_name.decision_.classes) == names


def test_boolean_labels(imbalanced):
    X, X_test, y, y_test = imbalanced
    model = quick(GaussianNB(), "f1").fit(X, y.astype(bool))
    assert model.predict(X_test).dtype == bool
    assert model.score(X_test, y_test.astype(bool)) == pytest.approx(
        quick(GaussianNB(), "f1").fit(X, y).score(X_test, y_test)
    )


def test_an_estimator_with_decision_values_only(four_classes):
    X, X_test, y, _ = four_classes
    model = quick(LinearSVC()).fit(X, y)
    assert not hasattr(model, "predict_proba")
    expected = model.decision_function(X_test).argmax(1)
    np.testing.assert_array_equal(model.predict(X_test), expected)
    assert model.tuned_score_ >= model.baseline_score_ - 0.02


def test_frames_pipelines_and_names_of_columns(four_classes):
    X, X_test, y, _ = four_classes
    columns = [f"x{k}" for k in range(X.shape[1])]
    pipeline = make_pipeline(StandardScaler(), LogisticRegression())
    model = quick(pipeline).fit(pd.DataFrame(X, columns=columns), pd.Series(y))
    assert list(model.feature_names_in_) == columns
    assert model.n_features_in_ == X.shape[1]
    assert model.predict(pd.DataFrame(X_test, columns=columns)).shape == (len(X_test),)


def test_prefit_models_are_not_fitted_again(four_classes):
    X, X_held, y, y_held = four_classes
    fitted = RandomForestClassifier(50, random_state=0).fit(X, y)
    before = fitted.estimators_
    by_name = quick(fitted, cv="prefit").fit(X_held, y_held)
    frozen = quick(FrozenEstimator(fitted)).fit(X_held, y_held)
    assert by_name.estimator_ is fitted
    assert fitted.estimators_ is before
    np.testing.assert_array_equal(by_name.offsets_, frozen.offsets_)
    most_probable = by_name.predict_proba(X_held).argmax(1)
    plain = f1_score(y_held, most_probable, average="macro")
    assert by_name.baseline_score_ == pytest.approx(plain)


def test_a_prefit_model_may_know_more_classes_than_the_data_show(four_classes):
    X, X_held, y, y_held = four_classes
    fitted = GaussianNB().fit(X, y)
    some = y_held < 3
    model = quick(fitted, cv="prefit").fit(X_held[some], y_held[some])
    assert model.decision_.matrix.shape == (4, 4)
    with pytest.raises(ValueError, match="labels seen in fit"):
        quick(fitted, cv="prefit").fit(X_held, y_held + 1)


@pytest.mark.slow
def test_a_frozen_model_survives_clone_and_grid_search(four_classes):
    X, X_held, y, y_held = four_classes
    frozen = FrozenEstimator(GaussianNB().fit(X, y))
    search = GridSearchCV(quick(frozen), {"guard": [0.0, 9.0]}, cv=2).fit(X_held, y_held)
    assert search.best_params_["guard"] in (0.0, 9.0)


def test_grid_search_reaches_the_inner_estimator_and_scores_the_metric(imbalanced):
    X, X_test, y, y_test = imbalanced
    grid = {"estimator__max_depth": [1, 4], "metric": ["f1"]}
    search = GridSearchCV(quick(DecisionTreeClassifier(random_state=0)), grid, cv=2).fit(X, y)
    best = search.best_estimator_
    assert search.score(X_test, y_test) == pytest.approx(f1_score(y_test, best.predict(X_test)))


def test_clone_and_pickle(four_classes):
    X, X_test, y, _ = four_classes
    model = quick(GaussianNB(), guard=0.5).fit(X, y)
    assert clone(model).get_params()["guard"] == 0.5
    assert not hasattr(clone(model), "offsets_")
    loaded = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(loaded.predict_proba(X_test), model.predict_proba(X_test))


@pytest.mark.slow
def test_the_same_random_state_gives_the_same_model(four_classes):
    X, _, y, _ = four_classes
    fits = [
        quick(GaussianNB(), guard=None, random_state=s).fit(X, y).decision_.matrix
        for s in (1, 1, 2)
    ]
    np.testing.assert_array_equal(fits[0], fits[1])
    assert not np.array_equal(fits[0], fits[2])


def test_weights_reach_the_estimator_and_the_tuning(imbalanced):
    X, _, y, _ = imbalanced
    weight = np.where(y == 1, 5.0, 1.0)
    plain = quick(GaussianNB(), "f1", guard=None).fit(X, y)
    weighted = quick(GaussianNB(), "f1", guard=None).fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(
        weighted.estimator_.class_prior_,
        np.array([(y == 0).sum(), 5 * (y == 1).sum()]) / weight.sum(),
    )
    with pytest.warns(UserWarning, match="KNeighborsClassifier.fit takes no sample_weight"):
        tuned_only = quick(KNeighborsClassifier(), "f1", guard=None).fit(X, y, sample_weight=weight)
    unweighted = quick(KNeighborsClassifier(), "f1", guard=None).fit(X, y)
    assert tuned_only.baseline_score_ > unweighted.baseline_score_
    assert plain.baseline_score_ != weighted.baseline_score_


def test_metadata_are_routed(imbalanced):
    X, _, y, _ = imbalanced
    weight = np.where(y == 1, 5.0, 1.0)
    direct = quick(GaussianNB(), "f1").fit(X, y, sample_weight=weight)
    with sklearn.config_context(enable_metadata_routing=True):
        inner = GaussianNB().set_fit_request(sample_weight=True)
        routed = quick(inner, "f1").fit(X, y, sample_weight=weight)
    np.testing.assert_array_equal(routed.offsets_, direct.offsets_)
    np.testing.assert_array_equal(routed.estimator_.class_prior_, direct.estimator_.class_prior_)


def test_splitters_and_lists_of_splits(four_classes):
    X, _, y, _ = four_classes
    splitter = StratifiedKFold(4, shuffle=True, random_state=1)
    by_object = quick(GaussianNB(), cv=splitter).fit(X, y)
    by_list = quick(GaussianNB(), cv=list(splitter.split(X, y))).fit(X, y)
    np.testing.assert_array_equal(by_object.decision_.matrix, by_list.decision_.matrix)


def test_a_high_guard_keeps_the_argmax(four_classes):
    X, X_test, y, _ = four_classes
    guarded = quick(RandomForestClassifier(30, random_state=0), guard=1e9).fit(X, y)
    np.testing.assert_array_equal(guarded.offsets_, 0)
    most_probable = guarded.classes_[guarded.predict_proba(X_test).argmax(1)]
    np.testing.assert_array_equal(guarded.predict(X_test), most_probable)
    assert guarded.gain_ == 0


def test_the_report_is_plain_data_and_its_summary_names_every_class(four_classes):
    X, _, y, _ = four_classes
    model = quick(RandomForestClassifier(30, random_state=0)).fit(X, np.array(list("abcd"))[y])
    report = json.loads(json.dumps(model.report_))
    assert report["gain"] == pytest.approx(model.gain_)
    assert report["tuned"] - report["baseline"] == pytest.approx(report["gain"])
    assert report["held_out_rows"] == len(y)
    assert report["calibration"]["log_loss"] <= report["calibration"]["log_loss_before"]
    assert report["decision"] == str(model.decision_)
    assert [row.split(":")[0].strip() for row in str(model.decision_).splitlines()[1:5]] == list(
        "abcd"
    )
    assert model.summary() == "\n".join(report["sentences"])


COST = [[0.0, 1.0], [6.0, 0.0]]


def test_costs_give_the_cheapest_decision(imbalanced):
    X, X_test, y, y_test = imbalanced
    model = quick(LogisticRegression(), cost=COST, calibrate="none").fit(X, y)
    probabilities = model.estimator_.predict_proba(X_test)
    np.testing.assert_array_equal(model.predict(X_test), (probabilities @ np.array(COST)).argmin(1))
    np.testing.assert_allclose(model.predict_proba(X_test), probabilities)
    paid = np.array(COST)[y_test, model.predict(X_test)].mean()
    assert model.score(X_test, y_test) == pytest.approx(-paid)
    assert paid < np.array(COST)[y_test, probabilities.argmax(1)].mean()
    assert model.gain_ == pytest.approx(model.baseline_score_ - model.tuned_score_)
    assert model.gain_ > 0


def test_abstention_is_taken_where_it_is_cheapest(imbalanced):
    X, X_test, y, y_test = imbalanced
    model = quick(LogisticRegression(), cost=COST, abstain_cost=0.4).fit(X, y)
    lowest = (model.predict_proba(X_test) @ np.array(COST)).min(1)
    decided = model.predict(X_test)
    np.testing.assert_array_equal(decided == -1, lowest > 0.4)
    costs = np.where(decided == -1, 0.4, np.array(COST)[y_test, decided])
    assert model.score(X_test, y_test) == pytest.approx(-costs.mean())
    assert "not decided" in model.summary()


@pytest.mark.parametrize(
    ("labels", "chosen", "reserved"),
    [
        (["no", "yes"], None, "abstain"),
        ([0, 1], None, -1),
        ([False, True], None, None),
        ([0, 1], "ask a person", "ask a person"),
        (["no", "yes"], 7, 7),
        ([0.0, 1.0], np.nan, np.nan),
    ],
)
def test_the_abstention_label_keeps_its_type(imbalanced, labels, chosen, reserved):
    X, X_test, y, _ = imbalanced
    y = np.array(labels)[y]
    model = quick(LogisticRegression(), cost=COST, abstain_cost=0.3, abstain_label=chosen).fit(X, y)
    decided = model.predict(X_test)
    others = [label for label in decided if label not in model.classes_]
    assert others
    np.testing.assert_equal(others, [reserved] * len(others))
    assert {type(label) for label in others} <= {type(reserved), np.str_, np.int64, np.float64}


def test_a_class_of_one_sample_works_with_a_warning(four_classes):
    X, X_test, y, _ = four_classes
    y = y.copy()
    keep = np.concatenate([np.flatnonzero(y != 3), np.flatnonzero(y == 3)[:1]])
    with pytest.warns(UserWarning, match="only one sample each of class 3"):
        model = quick(GaussianNB()).fit(X[keep], y[keep])
    assert model.decision_.matrix.shape == (4, 4)
    assert set(model.predict(X_test)) <= {0, 1, 2, 3}


def test_a_class_of_fewer_samples_than_folds_works_in_silence(four_classes):
    X, _, y, _ = four_classes
    keep = np.concatenate([np.flatnonzero(y != 3), np.flatnonzero(y == 3)[:2]])
    model = quick(GaussianNB(), cv=5).fit(X[keep], y[keep])
    assert model.predict_proba(X).shape == (len(X), 4)


def test_a_callable_metric(imbalanced):
    X, _, y, _ = imbalanced

    def youden(confusion):
        rates = confusion.diagonal() / confusion.sum(1)
        return rates.sum() - 1

    own = quick(GaussianNB(), youden).fit(X, y)
    named = quick(GaussianNB(), "informedness").fit(X, y)
    np.testing.assert_allclose(own.offsets_, named.offsets_)


def bad(model, message, error=ValueError):
    return pytest.param(model, message, error, id=message)


@pytest.mark.parametrize(
    ("model", "message", "error"),
    [
        bad(quick(GaussianNB(), "f1"), "average .* must be other than 'binary'"),
        bad(quick(GaussianNB(), "f1_makro"), "Did you mean 'f1_macro'"),
        bad(quick(GaussianNB(), guard="yes"), "guard .* must be a real number", TypeError),
        bad(quick(GaussianNB(), coverage=1.5), "coverage .* strictly between 0 and 1"),
        bad(quick(GaussianNB(), confidence=95), "confidence .* strictly between 0 and 1"),
        bad(quick(GaussianNB(), on_infeasible="warn"), "on_infeasible .* must be one of 'raise'"),
        bad(quick(GaussianNB(), calibrate="isotonic"), "calibrate .* for more than two classes"),
        bad(quick(GaussianNB(), n_bags=0), "n_bags .* must be >= 1"),
        bad(quick(GaussianNB(), cost=[[0, 1], [1, 0]]), r"cost .* of shape \(4, 4\)"),
        bad(quick(GaussianNB(), abstain_cost=-1.0), "abstain_cost .* must be >= 0"),
        bad(quick(GaussianNB(), calibrate="platt"), "calibrate .* must be one of 'auto'"),
        bad(
            quick(GaussianNB(), subject_to="recall[9] >= 0.1"), "subject_to .* about known classes"
        ),
        bad(
            quick(GaussianNB(), cost=np.ones((4, 4)), abstain_cost=1.0, abstain_label=2),
            "abstain_label .* must be other than every class",
        ),
        bad(quick(StandardScaler()), "must be a classifier with predict_proba", TypeError),
    ],
)
def test_bad_parameters_are_named(four_classes, model, message, error):
    X, _, y, _ = four_classes
    with pytest.raises(error, match=message):
        model.fit(X, y)


def test_bad_targets_are_named(four_classes):
    X, X_test, y, y_test = four_classes
    with pytest.raises(ValueError, match=r"two or more classes .*got 1 class"):
        quick(GaussianNB()).fit(X, np.zeros(len(X)))
    with pytest.raises(ValueError, match=r"two or more classes .*got 1 class"):
        quick(GaussianNB()).fit(X, y, sample_weight=(y == 0).astype(float))
    with pytest.raises(ValueError, match=r"one label per sample.*multilabel_thresholds"):
        quick(GaussianNB()).fit(X, np.stack([y > 0, y > 1], 1).astype(int))
    model = quick(GaussianNB()).fit(X, y)
    with pytest.raises(ValueError, match="made of the labels seen in fit"):
        model.score(X_test, y_test + 5)
