"""Groups and order in time are kept apart in every split, outside and inside of methods."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression

from eastward import EASTClassifier, EASTEnsembleClassifier, TunedDecisionClassifierCV
from eastward.comparison import compare
from eastward.comparison.splits import grouped_split, ordered_split
from eastward.estimators.network.preparation import encode_labels, fold_rows
from eastward.training.grouped_folds import grouped_folds, periods

RNG = np.random.default_rng(0)
ROWS = 120
GROUPS = RNG.integers(0, 24, ROWS)
LABELS = np.arange(ROWS) % 2
# The first feature names the row, so that an estimator can say which rows it was given.
FEATURES = np.column_stack([np.arange(ROWS), GROUPS, RNG.normal(size=ROWS)]).astype(float)


class Witness(ClassifierMixin, BaseEstimator):
    """Records, in a list of the class, which rows it was fitted on and which it predicted."""

    seen: list[tuple[np.ndarray, np.ndarray]] = []  # noqa: RUF012 - for all copies

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        self.rows_ = X[:, 0].astype(int)
        return self

    def predict_proba(self, X):
        Witness.seen.append((self.rows_, X[:, 0].astype(int)))
        return np.tile([0.6, 0.4], (len(X), 1))

    def predict(self, X):
        return self.classes_[self.predict_proba(X).argmax(1)]


def witnessed(**order) -> list[tuple[np.ndarray, np.ndarray]]:
    Witness.seen.clear()
    tuned = TunedDecisionClassifierCV(Witness())
    methods = {"dummy": DummyClassifier(), "alone": Witness(), "tuned": tuned}
    result = compare(FEATURES, LABELS, methods=methods, baseline="dummy", n_splits=4, **order)
    assert {cell["error"] for cell in result.cells} == {None}
    assert len(Witness.seen) > 20
    return Witness.seen


def test_no_group_is_on_both_sides_of_any_split():
    for trained, asked in witnessed(groups=[f"patient {k}" for k in GROUPS]):
        assert not set(GROUPS[trained]) & set(GROUPS[asked])


def test_test_rows_are_later_than_training_rows_in_every_split():
    days = np.datetime64("2024-01-01") + RNG.permutation(ROWS)
    Witness.seen.clear()
    compare(
        FEATURES,
        LABELS,
        methods={"a": DummyClassifier(), "b": Witness()},
        baseline="a",
        times=days,
        n_splits=4,
    )
    assert len(Witness.seen) >= 4
    for trained, asked in Witness.seen:
        assert days[trained].max() < days[asked].min()


@given(
    st.lists(st.integers(0, 30), min_size=12, max_size=80), st.integers(0, 9), st.floats(0.1, 0.5)
)
def test_ordered_splits_are_ordered_whatever_the_times(times, split, share):
    moments = np.asarray(times)
    try:
        train, test = ordered_split(moments, share, split)
    except ValueError as error:
        assert "spread over time" in str(error)  # noqa: PT017 - some lists hold one time alone
        return
    assert len(train)
    assert len(test)
    assert moments[train].max() < moments[test].min()


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 8)), min_size=10, max_size=60))
def test_grouped_folds_never_tear_a_group_apart(rows):
    codes, groups = np.array(rows).T
    if len(np.unique(groups)) < 2 or np.bincount(codes).max() < 2:
        return
    folds = grouped_folds(codes, groups, 5, seed=0)
    assert all(len(set(folds[groups == group])) == 1 for group in np.unique(groups))
    assert set(folds) == set(range(folds.max() + 1))
    train, test = grouped_split(codes, groups, 0.3, seed=1)
    assert not set(groups[train]) & set(groups[test])


def test_periods_are_consecutive():
    times = RNG.permutation(100)
    found = periods(times, count=5)
    assert [int((found == k).sum()) for k in range(5)] == [20] * 5
    assert all(times[found == k].max() < times[found == k + 1].min() for k in range(4))


@pytest.mark.parametrize("folds", [1, 5])
def test_networks_are_stopped_and_tuned_by_other_groups(folds):
    rows = fold_rows(
        torch.from_numpy(FEATURES),
        encode_labels(LABELS),
        None,
        num_folds=folds,
        validation_fraction=0.2,
        validation_rows=None,
        generator=torch.Generator().manual_seed(0),
        groups=GROUPS,
    )
    assert len(rows.train) == folds
    for train, valid in zip(rows.train, rows.valid, strict=True):
        assert not set(GROUPS[train.numpy()]) & set(GROUPS[valid.numpy()])


def test_estimators_take_groups_and_fewer_groups_mean_fewer_folds():
    small = {"hidden": (4,), "max_epochs": 2, "random_state": 0}
    few = GROUPS % 3
    model = EASTClassifier(n_folds=5, **small).fit(FEATURES, LABELS, groups=few)
    assert model.n_folds_ == 3
    assert model.predict(FEATURES).shape == (ROWS,)
    network = {name: value for name, value in small.items() if name != "random_state"}
    ensemble = EASTEnsembleClassifier(parts=["networks"], network_options=network, random_state=0)
    ensemble.fit(FEATURES, LABELS, groups=GROUPS)
    assert all(len(set(ensemble.folds_[group == GROUPS])) == 1 for group in range(24))


@pytest.mark.parametrize(
    ("estimator", "groups", "sentence"),
    [
        (EASTClassifier(max_epochs=1), np.zeros(ROWS), "must be at least two groups; got 1"),
        (EASTClassifier(max_epochs=1), np.arange(5), r"groups of .* must be of shape"),
        (EASTEnsembleClassifier(), np.zeros(ROWS), "must be at least two groups"),
    ],
)
def test_groups_that_cannot_be_split_are_refused(estimator, groups, sentence):
    with pytest.raises(ValueError, match=sentence):
        estimator.fit(FEATURES, LABELS, groups=groups)


def test_a_side_with_one_class_is_refused_before_anything_is_fitted():
    methods = {"a": DummyClassifier(), "b": LogisticRegression()}
    with pytest.raises(ValueError, match="both sides of a split have two classes"):
        compare(
            FEATURES, np.repeat([0, 1], 60), methods=methods, baseline="a", times=np.arange(ROWS)
        )
