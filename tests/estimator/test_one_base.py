"""What all four estimators share: decisions, constraints, abstention, other priors, sets, frames, saving."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import eastward as ew
from eastward.decisions.rules import ABSTAIN

NETWORK = {"hidden": (8,), "max_epochs": 10, "learning_rate": 1e-2}
KINDS = {
    "network": lambda **options: ew.EASTClassifier(
        "f1", **NETWORK, n_folds=2, random_state=0, **options
    ),
    "ensemble": lambda **options: ew.EASTEnsembleClassifier(
        "f1", parts=("networks",), network_options=NETWORK, random_state=0, **options
    ),
    "boosting": lambda **options: ew.EASTBoostingClassifier(
        "f1", n_estimators=15, aligned=False, random_state=0, **options
    ),
    "tuned": lambda **options: ew.TunedDecisionClassifierCV(
        LogisticRegression(), "f1", random_state=0, **options
    ),
}


def rows(count=600, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(count, 4))
    y = np.where(X[:, 0] + 0.7 * rng.normal(size=count) > 1.1, "fraud", "legal")
    return X, y


@pytest.fixture(scope="module", params=KINDS)
def fitted(request):
    X, y = rows()
    return KINDS[request.param]().fit(X, y), *rows(seed=1)


def test_the_decision_is_applied_to_probabilities(fitted):
    model, X, y = fitted
    p = model.predict_proba(X)
    np.testing.assert_allclose(p.sum(1), 1)
    assert np.array_equal(model.predict(X), model.classes_[model.decision_.decide(p)])
    assert np.array_equal(model.labels_of(p), model.predict(X))
    np.testing.assert_allclose(p, model.calibration_.apply(model.raw_predict_proba(X)), atol=1e-9)
    assert abs(p[:, 0].mean() - (y == "fraud").mean()) < 0.08


def test_reports_have_one_shape(fitted):
    model, _, _ = fitted
    report = json.loads(json.dumps(model.report_))
    numbers = {"held_out_rows", "baseline", "tuned", "gain", "standard_error", "abstained"}
    assert numbers | {"metric", "decision", "calibration", "stages", "notes"} <= set(report)
    assert report["held_out_rows"] == 600
    assert report["stages"][-1].keys() >= {"name", "argmax", "tuned"}
    assert model.summary().endswith(str(model.decision_))


def test_decide_by_keeps_constraints_and_leaves_the_model_alone(fitted, tmp_path):
    model, X, _ = fitted
    raw = model.raw_predict_proba(X)
    model.save(tmp_path / "m")
    other = type(model).load(tmp_path / "m")
    assert np.array_equal(other.predict(X), model.predict(X))
    other.decide_by("f1", subject_to="recall[fraud] >= 0.8", confidence=0.8)
    (kept,) = other.decision_.constraints
    assert kept.holds
    assert "recall[fraud] ≥ 0.80 with 80 % confidence" in other.summary()
    assert (other.predict(X) == "fraud").mean() > (model.predict(X) == "fraud").mean()
    np.testing.assert_allclose(other.raw_predict_proba(X), raw, atol=1e-9)
    curve = other.report_["constraint_curves"][0]
    assert curve["bound"] == 0.8
    assert curve["values"] == sorted(curve["values"], reverse=True)


def test_a_decision_that_cannot_be_made_changes_nothing(fitted):
    model, _, _ = fitted
    before = model.decision_.matrix.copy(), model.report_, model.get_params(deep=False)
    with pytest.raises(ValueError, match=r"subject_to .* provable on the held-out rows"):
        model.decide_by("f1", subject_to="precision[fraud] >= 0.999, recall[fraud] >= 0.999")
    with pytest.raises(ValueError, match="about known classes"):
        model.decide_by("f1", subject_to="recall[theft] >= 0.9")
    assert np.array_equal(model.decision_.matrix, before[0])
    assert model.report_ is before[1]
    assert model.get_params(deep=False) == before[2]


def test_undecided_rows_get_the_abstain_label(fitted, tmp_path):
    model, X, y = fitted
    model.save(tmp_path / "m")
    other = type(model).load(tmp_path / "m").decide_by("accuracy", coverage=0.8, confidence=0.8)
    labels = other.predict(X)
    decided = labels != "abstain"
    assert 0.7 < decided.mean() < 1
    assert (labels[decided] == y[decided]).mean() > (model.predict(X) == y).mean()
    assert (other.decision_.decide(other.predict_proba(X)) == ABSTAIN).sum() == (~decided).sum()
    curve = other.report_["coverage_curve"]
    assert curve["coverage"][-1] == pytest.approx(1)


def test_other_frequencies_move_decisions_and_probabilities(fitted):
    model, X, _ = fitted
    rare = {"fraud": 0.02, "legal": 0.98}
    assert (model.predict(X, prior=rare) == "fraud").sum() < (model.predict(X) == "fraud").sum()
    moved = model.with_prior(rare)
    assert np.array_equal(moved.predict(X), model.predict(X, prior=rare))
    assert moved.predict_proba(X)[:, 0].mean() < model.predict_proba(X)[:, 0].mean()
    with pytest.raises(ValueError, match="prior of predict must be given for the classes"):
        model.predict(X, prior={"fraud": 1.0})


@pytest.mark.parametrize("by_class", [False, True])
def test_prediction_sets_reach_the_requested_coverage(fitted, by_class):
    model, X, y = fitted
    sets = model.predict_set(X, coverage=0.9, by_class=by_class)
    held = sets[np.arange(len(y)), np.searchsorted(model.classes_, y)]
    # 600 test rows: three standard errors are 0.037.
    assert held.mean() > 0.9 - 0.037


def messy(count=300, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "city": rng.choice(["Graz", "Linz", "Wels"], count),
            "opened": pd.Timestamp("2024-01-01")
            + pd.to_timedelta(rng.integers(0, 300, count), "D"),
            "amount": np.where(rng.random(count) < 0.2, np.nan, rng.normal(size=count)),
        }
    )
    old = frame["opened"] < pd.Timestamp("2024-05-01")
    y = np.where((frame["city"] == "Graz") ^ old, "fraud", "legal")
    frame.loc[::17, "city"] = None
    frame.loc[::19, "opened"] = pd.NaT
    return frame, y


@pytest.mark.parametrize("kind", KINDS)
def test_words_dates_and_gaps_are_features(kind, tmp_path):
    (frame, y), (fresh, truth) = messy(), messy(seed=1)
    if kind == "tuned":  # no linear model learns an exclusive or
        y, truth = (np.where(part["city"] == "Graz", "fraud", "legal") for part in (frame, fresh))
    model = KINDS[kind]().fit(frame, y)
    assert (model.predict(fresh) == truth).mean() > 0.8
    model.save(tmp_path / "m")
    loaded = type(model).load(tmp_path / "m")
    np.testing.assert_allclose(loaded.predict_proba(fresh), model.predict_proba(fresh), atol=1e-9)
    unseen = fresh.assign(city="Paris", opened=pd.NaT)
    assert np.isfinite(model.predict_proba(unseen)).all()
    assert model.feature_names_in_.tolist() == ["city", "opened", "amount"]


BAD = {
    "an unknown class": (
        {"subject_to": "recall[theft] >= 0.9"},
        "about known classes, fraud, legal",
    ),
    "a bound beyond one": ({"subject_to": "recall[fraud] >= 1.2"}, r"a number in \[0, 1\]"),
    "no bound": ({"subject_to": "recall[fraud]"}, "of the form name"),
    "a contradiction": (
        {"subject_to": "recall[fraud] >= 0.9, recall[fraud] <= 0.5"},
        "free of contradictions",
    ),
    "a metric that nobody knows": ({"subject_to": "recal[fraud] >= 0.9"}, "subject_to"),
    "too much coverage": ({"coverage": 1.5}, "strictly between 0 and 1"),
    "a negative cost": ({"abstain_cost": -1}, "abstain_cost .* must be >= 0"),
    "no confidence": ({"confidence": 0}, "strictly between 0 and 1"),
    "a word": ({"on_infeasible": "warn"}, "one of 'raise', 'best'"),
    "a calibration of nobody's": ({"calibrate": "platt"}, "calibrate .* must be one of 'auto'"),
    "a class as label of nothing": (
        {"abstain_cost": 0.1, "abstain_label": "fraud"},
        "other than every class",
    ),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case", BAD)
def test_bad_options_are_refused_before_anything_is_fitted(kind, case):
    options, message = BAD[case]
    with pytest.raises(ValueError, match=message):
        KINDS[kind](**options).fit(*rows(80))


def test_probabilities_and_priors_of_the_wrong_shape_are_named(fitted):
    model, X, _ = fitted
    for prior in ([0.5, 0.2, 0.3], [0.5, 0.2], [1.5, -0.5]):
        with pytest.raises(ValueError, match="prior of predict must be"):
            model.predict(X, prior=prior)
    with pytest.raises(ValueError, match="rows that sum to one"):
        model.labels_of(np.full((3, 2), 0.2))
