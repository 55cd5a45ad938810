"""What the ensemble promises: honest held-out predictions, one decision, and tables as people have them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from scipy.special import softmax
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.metrics import f1_score, log_loss, matthews_corrcoef

import eastward as ew
from eastward.estimators.ensemble import fitting, folds
from eastward.estimators.ensemble.folds import Fitting
from eastward.estimators.ensemble.votes import learnt_votes

ALL = ("networks", "lightgbm", "extra_trees", "random_forest")


@pytest.fixture
def fitted(quick, clusters):
    X, y = clusters()
    return quick().fit(X, y)


def test_the_ensemble_is_public():
    assert set(ew.EASTEnsembleClassifier().parts) < set(ALL)


def test_probabilities_sum_to_one_and_the_decision_is_applied_to_them(fitted, clusters):
    X, _ = clusters(seed=1)
    probabilities = fitted.predict_proba(X)
    assert probabilities.sum(axis=1) == pytest.approx(np.ones(len(X)))
    chosen = (probabilities @ fitted.decision_.matrix).argmax(axis=1)
    assert (fitted.classes_[chosen] == fitted.predict(X)).all()
    assert (probabilities.argmax(axis=1) != chosen).any()
    names = [stage["name"] for stage in fitted.report_["stages"]]
    assert names == ["networks", "lightgbm", "extra trees", "random forest", "mean of the parts"]


def test_probabilities_are_the_mean_of_the_parts_calibrated(fitted, clusters):
    X, _ = clusters(seed=1)
    raw = fitted.encoder_.raw(X)
    logs = {
        name: part.log_probabilities(raw, fitted.encoder_.filled(raw))
        for name, part in fitted.parts_.items()
    }
    mean = np.exp(fitting.log_mean(logs, fitted.votes_))
    assert fitted.raw_predict_proba(X) == pytest.approx(mean / mean.sum(1, keepdims=True))
    calibrated = fitted.calibration_.apply(fitted.raw_predict_proba(X))
    assert fitted.predict_proba(X) == pytest.approx(calibrated)


@pytest.mark.slow
def test_no_class_is_given_up(quick, clusters):
    """Labels of the rarest classes are noise: offsets that follow their few rows would leave some of them out."""
    X, y = clusters(counts=(120, 60, 12, 9, 7, 5))
    rare = y > 1
    y[rare] = np.random.default_rng(3).permutation(y[rare])
    model = quick().fit(X, y)
    held = model.calibration_.apply(model.held_out_.probabilities).numpy()
    codes = model.held_out_.codes
    counts = np.bincount(codes, minlength=6)
    fewest = np.minimum(counts, np.maximum(3, -(-counts // 2)))

    def is_kept(decision):
        return np.bincount(decision.decide(held), minlength=6) >= fewest

    assert is_kept(model.decision_).all()
    assert not is_kept(model.decide_by("accuracy").decision_).all(), "accuracy may give them up"


def test_networks_have_half_of_the_votes():
    networks, tree = np.log([[0.9, 0.1]]), np.log([[0.3, 0.7]])
    mean = fitting.log_mean({"networks": networks, "lightgbm": tree, "random_forest": tree})
    assert np.exp(mean) == pytest.approx(np.array([[0.6, 0.4]]))


@pytest.mark.parametrize(("rows", "at_least", "at_most"), [(60, 0.5, 0.6), (50_000, 0.9, 1.0)])
def test_votes_follow_the_evidence_of_many_rows(rows, at_least, at_most):
    rng = np.random.default_rng(0)
    codes = rng.integers(2, size=rows)
    sure, unsure = np.where(np.eye(2)[codes] > 0, 0.8, 0.2), rng.dirichlet([5, 5], size=rows)
    votes = learnt_votes({"networks": np.log(sure), "lightgbm": np.log(unsure)}, codes)
    assert sum(votes.values()) == pytest.approx(1)
    assert at_least <= votes["networks"] <= at_most


def test_votes_are_the_maximum_that_scipy_finds():
    rng = np.random.default_rng(1)
    codes = rng.integers(3, size=4000)
    parts = {}
    for name, noise in {"networks": 1.0, "lightgbm": 1.5, "random_forest": 3.0}.items():
        logits = 2 * np.eye(3)[codes] + noise * rng.normal(size=(4000, 3))
        parts[name] = logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)
    seen = np.exp(np.stack([table[np.arange(4000), codes] for table in parts.values()], axis=1))
    equal, weight = np.array([0.5, 0.25, 0.25]), rng.gamma(2, size=4000)

    def surprise(free):
        votes = np.exp(free - np.logaddexp.reduce(free))
        mass = weight / weight.mean()
        return -(mass * np.log(seen @ votes)).sum() - 200 * (equal * np.log(votes)).sum()

    best = minimize(surprise, np.zeros(3)).x
    found = learnt_votes(parts, codes, weight, prior_rows=200)
    assert list(found.values()) == pytest.approx(softmax(best), abs=2e-3)


def _fitting(counts, held=0):
    codes = np.repeat(np.arange(len(counts)), counts)
    folds = np.full(len(codes), -1)
    folds[:held] = 0
    table = np.arange(len(codes), dtype=np.float32)[:, None]
    return Fitting(table, table, codes, None, folds, 1, len(counts), 0, None)


def test_a_sample_keeps_held_out_rows_and_rare_classes_and_weights_restore_frequencies(monkeypatch):
    monkeypatch.setattr(folds, "ROWS_OF_A_CLASS", 50)
    whole = _fitting([10_000, 1_000, 40], held=500)
    part = whole.at_most(2_000)
    assert (part.folds == 0).sum() == 500
    assert (part.codes == 2).sum() == 40
    assert len(part.codes) == pytest.approx(2_000, abs=60)
    assert np.array_equal(whole.codes[part.raw[:, 0].astype(int)], part.codes)
    spare = part.folds < 0
    mass = np.bincount(part.codes[spare], part.weights[spare])
    assert mass / mass.sum() == pytest.approx(np.array([9_500, 1_000, 40]) / 10_540, rel=0.01)
    assert whole.at_most(20_000) is whole


def test_classes_of_one_size_need_no_weights():
    assert _fitting([30_000, 30_000]).at_most(40_000).weights is None


@pytest.mark.parametrize("part", ALL)
def test_many_rows_hold_out_one_share_and_learn_from_a_sample(part, quick, clusters, monkeypatch):
    monkeypatch.setattr(folds, "ROWS_FOR_FOLDS", 200)
    monkeypatch.setattr(folds, "HELD_ROWS", 90)
    monkeypatch.setattr(folds, "ROWS_OF_A_CLASS", 30)
    monkeypatch.setattr(fitting.PARTS[part], "most_rows", 250)
    X, y = clusters(counts=(200, 120, 80))
    model = quick(parts=(part,)).fit(X, y)
    assert np.unique(model.folds_).tolist() == [-1, 0]
    assert len(model.held_out_.codes) == pytest.approx(80, abs=2)
    assert f1_score(y, model.predict(X), average="macro") > 0.35


@pytest.mark.parametrize("part", ALL)
def test_held_out_predictions_do_not_know_their_own_labels(part, quick, clusters):
    # Labels are noise here: who saw a row's label beats chance on it, who did not does not.
    X, _ = clusters(counts=(150, 150))
    y = np.random.default_rng(5).permutation(np.repeat([0, 1], 150))
    options = {"hidden": (64,), "max_epochs": 40, "learning_rate": 1e-2}
    model = quick(parts=(part,), network_options=options).fit(X, y)
    held = (model.held_out_.scores.argmax(1) == model.held_out_.codes).mean()
    assert 0.35 < held < 0.6


@pytest.mark.parametrize("part", ALL)
def test_every_part_alone_learns(part, quick, clusters):
    X, y = clusters()
    model = quick(parts=(part,)).fit(X, y)
    assert list(model.parts_) == [part]
    # LightGBM needs ten rows in a leaf, so it cannot do much here; all beat the majority class.
    assert f1_score(y, model.predict(X), average="macro") > 0.35


def test_score_is_the_metric_of_the_predictions(fitted, clusters):
    X, y = clusters(seed=2)
    assert fitted.score(X, y) == pytest.approx(f1_score(y, fitted.predict(X), average="macro"))


@pytest.mark.slow
def test_the_same_seed_gives_the_same_model(quick, clusters):
    X, y = clusters()
    first, second = quick().fit(X, y), quick().fit(X, y)
    assert np.array_equal(first.predict_proba(X), second.predict_proba(X))
    other = quick(random_state=1).fit(X, y)
    assert not np.array_equal(first.predict_proba(X), other.predict_proba(X))


def test_decide_by_changes_the_decision_and_nothing_else(fitted, clusters):
    X, y = clusters(seed=3)
    before = fitted.raw_predict_proba(X), fitted.decision_.matrix
    fitted.decide_by("matthews_corrcoef")
    assert fitted.raw_predict_proba(X) == pytest.approx(before[0])
    assert not np.array_equal(fitted.decision_.matrix, before[1])
    assert fitted.score(X, y) == pytest.approx(matthews_corrcoef(y, fitted.predict(X)))
    assert fitted.report_["metric"] == "matthews_corrcoef"


def test_costs_move_the_decision(quick, clusters):
    X, y = clusters(counts=(150, 60))
    dear_miss = {"cost": [[0, 1], [20, 0]]}
    model = quick("expected_cost", metric_options=dear_miss).fit(X, y)
    cautious = (model.predict(X) == 1).mean()
    model.decide_by("expected_cost", metric_options={"cost": [[0, 20], [1, 0]]})
    assert cautious > (model.predict(X) == 1).mean()
    assert model.score(X, y) <= 0


def test_without_a_tuned_decision_the_most_probable_class_is_predicted(quick, clusters):
    X, y = clusters()
    model = quick(tune_decision=False).fit(X, y)
    assert not model.offsets_.any()
    assert (model.predict(X) == model.classes_[model.predict_proba(X).argmax(1)]).all()


@pytest.mark.slow
def test_the_label_share_decides_what_offsets_are_tuned_for(quick, clusters):
    X, y = clusters()
    by_labels = quick(label_share=1.0).fit(X, y)
    by_itself = clone(by_labels).set_params(label_share=0.0).fit(X, y)
    assert by_labels.raw_predict_proba(X) == pytest.approx(by_itself.raw_predict_proba(X))
    assert not np.allclose(by_labels.decision_.matrix, by_itself.decision_.matrix)


def words(rows=240, seed=0):
    rng = np.random.default_rng(seed)
    colour = rng.choice(["red", "green", "blue"], rows)
    size = rng.normal(size=rows)
    y = np.where((colour == "red") ^ (rng.random(rows) < 0.05), "yes", "no")
    return pd.DataFrame({"colour": colour, "size": size, "noise": rng.normal(size=rows)}), y


def test_columns_of_words_are_features(quick):
    X, y = words()
    model = quick("f1").fit(X, y)
    fresh, truth = words(seed=1)
    assert f1_score(truth, model.predict(fresh), pos_label="yes") > 0.85
    assert model.feature_names_in_.tolist() == ["colour", "size", "noise"]
    unseen = fresh.assign(colour="violet")
    assert np.isfinite(model.predict_proba(unseen)).all()


def test_categories_and_missing_words_are_welcome(quick):
    X, y = words()
    X["colour"] = X["colour"].astype("category")
    X.loc[::7, "colour"] = None
    X.loc[::5, "size"] = np.nan
    assert np.isfinite(quick().fit(X, y).predict_proba(X)).all()


def test_missing_numbers_are_told_from_the_median(quick):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    y = (rng.random(300) < 0.4).astype(int)
    X[y == 1, 0] = np.nan  # what is missing is all there is to know
    for part in ALL:
        assert quick(parts=(part,)).fit(X, y).score(X, y) > 0.95, part


def test_rows_of_weight_zero_do_not_exist(quick, clusters):
    X, y = clusters()
    strange = np.concatenate([X, 100 + X[:20]]), np.concatenate([y, np.full(20, 7)])
    weight = np.concatenate([np.ones(len(y)), np.zeros(20)])
    model = quick().fit(*strange, sample_weight=weight)
    assert model.classes_.tolist() == [0, 1, 2]
    assert len(model.held_out_.codes) == len(y)


def test_weights_move_the_decision(quick, clusters):
    X, y = clusters()
    heavy = quick("accuracy").fit(X, y, sample_weight=np.where(y == 2, 30.0, 1.0))
    light = quick("accuracy").fit(X, y)
    fresh, _ = clusters(seed=4)
    assert (heavy.predict(fresh) == 2).sum() > (light.predict(fresh) == 2).sum()


def test_a_class_of_one_row_is_trained_on_and_does_not_stop_the_rest(quick, clusters):
    X, y = clusters()
    model = quick().fit(np.concatenate([X, X[:1] + 9]), np.append(y, 3))
    assert model.classes_.tolist() == [0, 1, 2, 3]
    assert (model.folds_ == -1).sum() == 1
    assert len(model.held_out_.codes) == len(y)


def test_the_aligned_stage_is_an_option(quick, clusters):
    X, y = clusters()
    model = quick(parts=("networks",), aligned=True).fit(X, y)
    stages = {record["stage"] for record in model.parts_["networks"].model.history_}
    assert stages == {"cross-entropy", "aligned"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"parts": ()}, "parts of EASTEnsembleClassifier must be a sequence of at least one name"),
        ({"parts": "networks"}, "parts of EASTEnsembleClassifier must be a sequence"),
        ({"parts": ("forest",)}, "parts of EASTEnsembleClassifier must be one of"),
        ({"parts": ("lightgbm", "lightgbm")}, "must be without repetition"),
        ({"n_folds": 1}, "n_folds of EASTEnsembleClassifier must be"),
        ({"n_bags": 0}, "n_bags of EASTEnsembleClassifier must be"),
        ({"label_share": 1.5}, "label_share of EASTEnsembleClassifier must be in"),
        ({"aligned": "yes"}, "aligned of EASTEnsembleClassifier must be True or False"),
        ({"network_options": {"width": 3}}, "network_options of EASTEnsembleClassifier must be"),
        ({"network_options": 5}, "network_options of EASTEnsembleClassifier must be a mapping"),
        ({"metric": "f2_makro"}, "metric"),
    ],
)
def test_parameters_that_make_no_sense_are_refused(changes, message, quick, clusters):
    with pytest.raises((ValueError, TypeError), match=message):
        quick(**changes).fit(*clusters())


def test_several_labels_for_a_row_are_refused(quick, clusters):
    X, y = clusters()
    with pytest.raises(
        ValueError, match=r"y of EASTEnsembleClassifier.fit must be one label per row"
    ):
        quick().fit(X, np.stack([y > 0, y > 1], axis=1).astype(int))


@pytest.mark.slow
def test_boosted_trees_of_many_rows_do_not_diverge_for_a_rare_class():
    # Large leaves of certain rows have next to no curvature: with LightGBM's default, a step is far too long.
    X, y = make_classification(
        30_000, 10, n_informative=6, weights=[0.998], class_sep=1.5, flip_y=0, random_state=0
    )
    train, test = slice(20_000), slice(20_000, None)
    model = ew.EASTEnsembleClassifier("f1", parts=("lightgbm",), random_state=0)
    model.fit(X[train].astype(np.float32), y[train])
    constant = log_loss(y[test], np.full(10_000, y[train].mean()))
    assert log_loss(y[test], model.predict_proba(X[test].astype(np.float32))) < 0.6 * constant
