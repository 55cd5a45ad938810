"""The linear classifier for the F-measure of label sets, and the forest on principal components."""

from __future__ import annotations

import itertools
import sys

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits, make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import fbeta_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

from eastward import baselines
from eastward.baselines import ConvexCalibratedFBeta, image_forest, on_principal_components
from eastward.baselines.convex_calibrated import best_label_sets


def f_beta(predicted, true, beta):
    if not predicted.any() and not true.any():
        return 1.0
    return (1 + beta**2) * (predicted * true).sum() / (beta**2 * true.sum() + predicted.sum())


@pytest.mark.parametrize("size", [1, 2, 3, 4])
@pytest.mark.parametrize("beta", [0.5, 1.0, 2.0])
def test_the_chosen_set_has_the_highest_expected_score_of_all_sets(size, beta, rng):
    sets = np.array(list(itertools.product((0, 1), repeat=size)))
    for _ in range(20):
        chances = rng.dirichlet(np.full(len(sets), 0.5))
        expected = [
            sum(
                chance * f_beta(chosen, true, beta)
                for chance, true in zip(chances, sets, strict=True)
            )
            for chosen in sets
        ]
        joint = np.zeros((1, size, size))
        for chance, true in zip(chances, sets, strict=True):
            if true.any():
                joint[0, true == 1, true.sum() - 1] += chance
        found = best_label_sets(chances[:1], joint, beta)[0]
        index = int(np.flatnonzero((sets == found).all(1))[0])
        assert expected[index] == pytest.approx(max(expected), abs=1e-12)


def label_sets(rng, rows=1500):
    """Three labels that exclude each other more often than not, with probabilities linear in the logits."""
    X = rng.normal(size=(rows, 3))
    chosen = np.array([rng.choice(3, p=np.exp(x) / np.exp(x).sum()) for x in X])
    Y = np.eye(3, dtype=int)[chosen]
    Y[rng.random(rows) < 0.3] = 0
    return X, Y


def test_it_beats_labels_by_themselves_on_the_measure_it_is_made_for(rng):
    X, Y = label_sets(rng)
    model = ConvexCalibratedFBeta(beta=2.0).fit(X[:1000], Y[:1000])
    alone = OneVsRestClassifier(LogisticRegression()).fit(X[:1000], Y[:1000])

    def score(predicted):
        return np.mean([f_beta(p, t, 2.0) for p, t in zip(predicted, Y[1000:], strict=True)])

    assert score(model.predict(X[1000:])) > score(alone.predict(X[1000:])) + 0.05


def test_a_larger_beta_chooses_more_labels(rng):
    X, Y = label_sets(rng)
    sizes = [
        ConvexCalibratedFBeta(beta=beta).fit(X, Y).predict(X).sum(1).mean() for beta in (0.3, 1, 3)
    ]
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[2] - 0.2


def test_estimated_probabilities_are_those_of_the_data(rng):
    X, Y = label_sets(rng, rows=3000)
    model = ConvexCalibratedFBeta().fit(X, Y)
    none, joint = model.joint_probabilities(X)
    assert none.mean() == pytest.approx((Y.sum(1) == 0).mean(), abs=0.01)
    np.testing.assert_allclose(joint.mean(0)[:, 0], Y.mean(0), atol=0.01)
    assert (joint[:, :, 1:] == 0).all()  # no sample has two labels
    assert len(model.problems_) == 4


@pytest.mark.parametrize("classes", [2, 3])
def test_with_one_class_per_sample_it_is_logistic_regression(classes):
    X, y = make_classification(400, 6, n_informative=4, n_classes=classes, random_state=0)
    names = np.array(["ant", "bee", "cow"])[y]
    model = ConvexCalibratedFBeta(regularization=1e-4).fit(X, names)
    reference = OneVsRestClassifier(LogisticRegression(C=1 / (2e-4 * 400))).fit(X, names)
    assert (model.predict(X) == reference.predict(X)).mean() > 0.99
    assert model.score(X, names) > 0.6


def test_weights_are_used():
    X, y = make_classification(300, 4, flip_y=0.4, weights=[0.8], random_state=0)
    plain = ConvexCalibratedFBeta().fit(X, y).predict(X)
    weighted = ConvexCalibratedFBeta().fit(X, y, sample_weight=1 + 9.0 * y).predict(X)
    assert weighted.mean() > plain.mean() + 0.1


def test_regularization_shrinks_towards_the_majority():
    X, y = make_classification(300, 4, weights=[0.7], random_state=0)
    assert ConvexCalibratedFBeta(regularization=1e4).fit(X, y).predict(X).mean() == 0
    assert ConvexCalibratedFBeta().fit(X, y).predict(X).mean() > 0.1


@parametrize_with_checks([ConvexCalibratedFBeta()])
def test_it_is_a_citizen_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.parametrize(
    ("options", "y", "message"),
    [
        ({"beta": 0}, [0, 1], "beta of ConvexCalibratedFBeta must be > 0; got 0"),
        ({"regularization": -1}, [0, 1], "regularization of ConvexCalibratedFBeta must be > 0"),
        ({"max_iter": 0}, [0, 1], "max_iter of ConvexCalibratedFBeta must be >= 1"),
        ({}, [1, 1], "y of ConvexCalibratedFBeta must be of two or more classes; got one class"),
        ({}, [[0, 2], [1, 0]], "y of ConvexCalibratedFBeta must be zeros and ones"),
    ],
)
def test_wrong_options_and_labels(options, y, message):
    with pytest.raises(ValueError, match=message):
        ConvexCalibratedFBeta(**options).fit([[0.0], [1.0]], y)


# --- images


def test_the_forest_sees_the_components_that_explain_the_share():
    images, labels = load_digits(return_X_y=True)
    images = images.reshape(-1, 8, 8).astype(np.uint8)
    model = image_forest(n_estimators=20, random_state=0).fit(images[:1000], labels[:1000])
    explained = model[1].explained_variance_ratio_
    assert explained.sum() >= 0.8
    assert explained[:-1].sum() < 0.8
    assert model.score(images[1000:], labels[1000:]) > 0.8
    assert fbeta_score(labels[1000:], model.predict(images[1000:]), beta=1, average="macro") > 0.8


def test_the_share_and_the_number_of_trees_are_options():
    images = load_digits().images
    wide = image_forest(variance=0.95, n_estimators=3).fit(images, np.arange(len(images)) % 2)
    narrow = image_forest(variance=0.5, n_estimators=2).fit(images, np.arange(len(images)) % 2)
    assert wide[1].n_components_ > narrow[1].n_components_
    assert (len(wide[2].estimators_), len(narrow[2].estimators_)) == (3, 2)


def test_any_classifier_may_follow_the_components():
    images, labels = load_digits(return_X_y=True)
    linear = on_principal_components(ConvexCalibratedFBeta(regularization=1e-3))
    assert clone(linear).fit(images[:900], labels[:900]).score(images[900:], labels[900:]) > 0.8


def test_wrong_shares_and_trees():
    with pytest.raises(ValueError, match="variance of on_principal_components must be strictly"):
        image_forest(variance=1.0)
    with pytest.raises(ValueError, match="n_estimators of image_forest must be >= 1; got 0"):
        image_forest(n_estimators=0)


@pytest.mark.parametrize("name", ["ConvexCalibratedFBeta", "image_forest"])
def test_without_scikit_learn_one_line_names_the_extra(name, monkeypatch):
    for module in [m for m in sys.modules if m.startswith(("sklearn", "eastward.baselines."))]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(ModuleNotFoundError, match=rf"{name} needs sklearn.*'eastward\[tabular\]'"):
        getattr(baselines, name)
