"""What a fitted classifier says: predictions, probabilities, scores and the report."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn import metrics as reference
from sklearn.linear_model import LogisticRegression
from sklearn.utils import check_random_state
from small_models import clusters, quick

from eastward import decisions, metrics
from eastward.decisions import tune_offsets
from eastward.training import Rows, assign_folds
from eastward.training.runner import HeldOut, start_offsets


@pytest.fixture(scope="module")
def table():
    return clusters()


@pytest.fixture(scope="module")
def fitted(table):
    return quick(n_folds=3, max_epochs=10, tune_decision=True).fit(*table)


@pytest.fixture(scope="module")
def fresh():
    return clusters(seed=0, counts=(200, 100, 40))[0] * 1.1


def test_predictions_are_the_decision_applied_to_probabilities(fitted, fresh):
    probabilities = fitted.predict_proba(fresh)
    assert probabilities.shape == (340, 3)
    np.testing.assert_allclose(probabilities.sum(1), 1)
    worth = probabilities @ fitted.decision_.matrix
    assert np.array_equal(fitted.predict(fresh), worth.argmax(1))
    assert not np.array_equal(fitted.predict(fresh), probabilities.argmax(1))
    np.testing.assert_allclose(fitted.decision_function(fresh), worth)


def test_of_two_classes_the_decision_function_is_one_number(table):
    X, y = table
    model = quick("f1").fit(X, y > 0)
    scores = model.decision_function(X)
    assert scores.shape == y.shape
    assert np.array_equal(scores > 0, model.predict(X))
    worth = model.decision_.worth(model.predict_proba(X))
    np.testing.assert_allclose(scores, worth[:, 1] - worth[:, 0])


def test_raw_probabilities_are_the_mean_of_the_networks_before_calibration(fitted, fresh):
    scaled = (fresh.astype(np.float32) - fitted.scaler_.mean.numpy()) / fitted.scaler_.scale.numpy()
    pieces = fitted.scaler_.pieces(torch.from_numpy(fresh.astype(np.float32)))
    inputs = torch.cat([torch.from_numpy(scaled.clip(-10, 10)), pieces], dim=1)
    each = [fitted.members_.member(k)(inputs).softmax(1) for k in range(3)]
    mean = torch.stack(each).mean(0).detach().numpy()
    np.testing.assert_allclose(fitted.raw_predict_proba(fresh), mean, atol=1e-6)
    calibrated = fitted.calibration_.apply(fitted.raw_predict_proba(fresh))
    np.testing.assert_allclose(fitted.predict_proba(fresh), calibrated, atol=1e-6)


def test_a_row_has_its_probabilities_whatever_rows_are_beside_it(fitted, fresh):
    together = fitted.predict_proba(fresh)
    for row in (0, 100, 339):
        alone = fitted.predict_proba(fresh[row : row + 1])
        np.testing.assert_allclose(alone[0], together[row], rtol=1e-12)


def test_large_tables_are_predicted_in_parts(fitted, fresh, monkeypatch):
    expected = fitted.predict_proba(fresh)
    monkeypatch.setattr("eastward.estimators.network.classifier.PREDICTION_ROWS", 100)
    np.testing.assert_allclose(fitted.predict_proba(fresh), expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        ("f1_macro", lambda y, p: reference.f1_score(y, p, average="macro")),
        ("accuracy", reference.accuracy_score),
        ("matthews_corrcoef", reference.matthews_corrcoef),
        ("balanced_accuracy", reference.balanced_accuracy_score),
        ("f2_macro", lambda y, p: reference.fbeta_score(y, p, beta=2, average="macro")),
        (
            "cohen_kappa_quadratic",
            lambda y, p: reference.cohen_kappa_score(y, p, weights="quadratic"),
        ),
    ],
)
def test_the_score_is_the_metric(table, metric, expected):
    X, y = table
    model = quick(metric, max_epochs=3).fit(X, y)
    assert model.score(X, y) == pytest.approx(expected(y, model.predict(X)))


def test_the_score_takes_weights(fitted, table):
    X, y = table
    weights = np.random.default_rng(0).random(len(y))
    expected = reference.f1_score(y, fitted.predict(X), average="macro", sample_weight=weights)
    assert fitted.score(X, y, sample_weight=weights) == pytest.approx(expected)


def test_a_cost_scores_negative(table):
    X, y = table
    cost = [[0, 1, 1], [1, 0, 1], [20, 20, 0]]
    model = quick("expected_cost", metric_options={"cost": cost}).fit(X, y)
    table_of_errors = reference.confusion_matrix(y, model.predict(X))
    expected = (table_of_errors * np.array(cost)).sum() / len(y)
    assert model.score(X, y) == pytest.approx(-expected)
    plain = quick("accuracy").fit(X, y)
    assert (model.predict(X) == 2).sum() > (plain.predict(X) == 2).sum()


@pytest.mark.slow
def test_without_a_tuned_decision_there_are_no_offsets(table, fresh):
    for model in (quick(tune_decision=False), quick(recipe="cross_entropy"), quick(recipe="paper")):
        model.fit(*table)
        assert not model.offsets_.any()
        assert np.array_equal(model.predict(fresh), model.predict_proba(fresh).argmax(1))
    tuned = quick(recipe="cross_entropy", tune_decision=True).fit(*table)
    assert not np.array_equal(tuned.decision_.matrix, np.eye(3))


def held_out(model, X, y):
    """Rows and log-probabilities of each fold, by the network that did not see it, and the folds."""
    seed = int(check_random_state(model.random_state).randint(2**31 - 1))
    folds = assign_folds(torch.from_numpy(y), 3, torch.Generator().manual_seed(seed))
    scores = torch.zeros(len(y), len(model.classes_), dtype=torch.float64)
    inputs = model.scaler_(torch.from_numpy(X.astype(np.float32)))
    for k in range(3):
        logits = model.members_.member(k)(inputs[folds == k]).detach()
        scores[folds == k] = torch.log_softmax(logits.double(), dim=1)
    return scores, folds


def test_the_report_holds_recomputable_held_out_scores(fitted, table):
    X, y = table
    scores, folds = held_out(fitted, X, y)
    report = fitted.report_
    assert report["metric"] == "f1_macro"
    assert report["held_out_rows"] == len(y)
    assert [stage["name"] for stage in report["stages"]] == ["cross-entropy", "aligned"]
    last = next(stage for stage in report["stages"] if stage["name"] == report["shipped"])
    plain = reference.f1_score(y, scores.argmax(1), average="macro")
    assert last["argmax"] == pytest.approx(plain)

    targets, shifted = torch.from_numpy(y), scores.clone()
    for k in range(3):
        others = folds != k
        shifted[~others] += tune_offsets(scores[others], targets[others], "f1_macro")
    tuned = reference.f1_score(y, shifted.argmax(1), average="macro")
    assert last["tuned"] == pytest.approx(tuned), "offsets of a fold come from untouched others"


def test_the_report_speaks_in_sentences_with_its_own_numbers(fitted):
    report = fitted.report_
    first, second = report["stages"]
    expected = [
        f"{stage['name']}: held-out f1_macro {stage['argmax']:.4f} by arg max, {stage['tuned']:.4f} "
        f"({stage['tuned'] - stage['argmax']:+.4f}) with a tuned decision"
        for stage in (first, second)
    ]
    kept = "kept" if second["kept"] else "not kept"
    gain = f"aligned gains {second['gain']:+.4f} ± {second['standard_error']:.4f}: {kept}"
    ships = f"the networks are those after the stage {report['shipped']!r}"
    assert report["sentences"][:4] == [*expected, gain, ships]
    assert report["sentences"][-1] == str(fitted.decision_)
    assert report["notes"] == []
    assert report["interrupted"] is False
    assert fitted.summary().splitlines()[0] == expected[0]


@pytest.mark.parametrize("seed", range(4))
def test_a_stage_is_kept_only_where_held_out_rows_prefer_it(seed):
    X, y = clusters(counts=(40, 25, 15), spread=1.2, seed=seed)
    model = quick(random_state=seed, max_epochs=3, n_folds=2).fit(X, y)
    before = quick(random_state=seed, max_epochs=3, n_folds=2, aligned=False).fit(X, y)
    stage = model.report_["stages"][-1]
    assert stage["kept"] == (stage["gain"] > 0.5 * stage["standard_error"])
    assert model.report_["shipped"] == ("aligned" if stage["kept"] else "cross-entropy")
    same = np.allclose(model.raw_predict_proba(X), before.raw_predict_proba(X))
    assert same == (not stage["kept"])


def test_a_stage_that_gains_is_shipped():
    # A sixth of the rows have a wrong label, and one class is rare: here the metric as a loss pays.
    for seed in range(6):
        X, y = clusters(counts=(60, 25, 15), spread=1.4, seed=seed)
        model = quick("balanced_accuracy", random_state=seed, n_folds=2, max_epochs=12).fit(X, y)
        if model.report_["shipped"] == "aligned":
            assert model.report_["stages"][-1]["gain"] > 0
            return
    pytest.fail("no stage was ever kept")


@pytest.mark.parametrize(
    ("recipe", "tune", "tuned"),
    [
        ("auto", "auto", True),
        ("auto", False, False),
        ("paper", "auto", False),
        ("paper", True, True),
    ],
)
def test_decisions_are_tuned_by_default_under_the_default_recipe_alone(recipe, tune, tuned):
    X, y = clusters(counts=(60, 25, 15), spread=1.2)
    model = quick(recipe=recipe, tune_decision=tune, max_epochs=3).fit(X, y)
    # A decision that was tuned and not favoured says so.
    tried = bool(model.decision_.note) or not np.array_equal(model.decision_.matrix, np.eye(3))
    assert tried == tuned


def test_starts_of_few_rows_follow_expectations_and_those_of_weighted_rows_labels_alone():
    logits = torch.randn(60, 2, generator=torch.Generator().manual_seed(0))
    held, targets = HeldOut(torch.arange(60), logits, torch.zeros(60)), torch.arange(60) % 2
    weights, halves = torch.arange(1.0, 61.0), list(torch.arange(60).chunk(2))
    plain = Rows(None, targets, None, [], halves, 2)
    single = Rows(None, targets, None, [], halves[:1], 2)
    weighted = Rows(None, targets, weights, [], halves, 2)
    alike = Rows(None, targets, torch.full((60,), 3.0), [], halves, 2)
    scores, metric = held.logits.double().log_softmax(1), metrics.get("f1")
    assert torch.equal(
        start_offsets(held, plain, metric),
        decisions.smoothed_offsets(scores, targets, metric).float(),
    )
    bags = {"n_bags": 5}
    by_weights = decisions.bagged_offsets(scores, targets, metric, sample_weight=weights, **bags)
    assert torch.equal(start_offsets(held, weighted, metric), by_weights.float())
    assert torch.equal(start_offsets(held, alike, metric), start_offsets(held, plain, metric))
    by_labels = decisions.bagged_offsets(scores, targets, metric, **bags).float()
    assert torch.equal(start_offsets(held, single, metric), by_labels)


def test_a_final_decision_gives_up_no_class():
    X, y = clusters(counts=(90, 45, 12, 9, 6), spread=1.5)
    rare = y > 1
    y[rare] = np.random.default_rng(3).permutation(y[rare])
    model = quick(n_folds=3, max_epochs=15).fit(X, y)
    held = model.calibration_.apply(model.held_out_.probabilities).numpy()
    counts = np.bincount(y)
    given = np.bincount(model.decision_.decide(held), minlength=5)
    assert model.decision_.note == ""
    assert (given >= np.minimum(counts, np.maximum(3, -(-counts // 2)))).all()


@pytest.mark.parametrize("recipe", ["auto", "paper", "cross_entropy"])
def test_every_recipe_reports_its_stages_and_epochs(table, recipe):
    model = quick(recipe=recipe, max_epochs=4, n_folds=1).fit(*table)
    names = list(dict.fromkeys(record["stage"] for record in model.history_))
    assert [stage["name"] for stage in model.report_["stages"]] == names
    assert model.n_iter_ == len(model.history_) > 0


def test_training_helps():
    X, y = clusters(counts=(300, 150, 50), spread=0.5)
    model = quick(max_epochs=20, n_folds=3).fit(X[::2], y[::2])
    linear = LogisticRegression().fit(X[::2], y[::2]).predict(X[1::2])
    # The clouds are round and equal, so that a linear classifier is as good as any.
    assert (
        model.score(X[1::2], y[1::2]) > reference.f1_score(y[1::2], linear, average="macro") - 0.03
    )
