"""Metrics under other spellings, and scikit-learn's scorers and functions, in every estimator."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import (
    accuracy_score,
    cohen_kappa_score,
    f1_score,
    get_scorer,
    get_scorer_names,
    make_scorer,
    roc_auc_score,
)

import eastward as ew
from eastward.estimators.metric_choice import resolve_metric
from eastward.metrics.registry import as_metric

ESTIMATORS = {
    "network": ew.EASTClassifier,
    "ensemble": ew.EASTEnsembleClassifier,
    "tuned": partial(ew.TunedDecisionClassifierCV, LogisticRegression()),
    "boosting": ew.EASTBoostingClassifier,
}
FOREIGN = {
    "function": (f1_score, "f1_score. Use metric='f1' for two classes, 'f1_macro' for more."),
    "binary scorer": (get_scorer("f1"), "got scikit-learn's f1_score. Use metric='f1'."),
    "scorer": (make_scorer(f1_score, average="micro"), "Use metric='f1_micro'."),
    "named scorer": (get_scorer("balanced_accuracy"), "Use metric='balanced_accuracy'."),
    "partial": (partial(f1_score, average="weighted"), "Use metric='f1_weighted'."),
    "kappa": (cohen_kappa_score, "Use metric='cohen_kappa'."),
    "accuracy": (accuracy_score, "Use metric='accuracy'."),
    "ranking": (roc_auc_score, "got scikit-learn's roc_auc_score. It judges an order of rows"),
    "probabilities": (get_scorer("neg_log_loss"), "got scikit-learn's log_loss. It judges prob"),
}


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("foreign", FOREIGN)
def test_scikit_learns_metrics_get_one_sentence_in_every_estimator(estimator, foreign):
    metric, sentence = FOREIGN[foreign]
    features, labels = np.arange(40.0)[:, None], np.arange(40) % 2
    model = ESTIMATORS[estimator](metric=metric)
    with pytest.raises(TypeError, match="takes a confusion matrix") as caught:
        model.fit(features, labels)
    assert sentence in str(caught.value)
    assert str(caught.value).startswith(f"metric of {type(model).__name__} must be")


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("F1", "f1"),
        ("F1_Macro", "f1_macro"),
        ("f1-macro", "f1_macro"),
        (" Accuracy ", "accuracy"),
        ("Balanced Accuracy", "balanced_accuracy"),
        ("F2", "f2"),
    ],
)
def test_names_forgive_case_and_hyphens(spelling, name):
    assert ew.metrics.get(spelling).name == name


@pytest.mark.parametrize("name", get_scorer_names())
def test_every_scorer_name_is_known_or_refused_in_one_sentence(name):
    if name in ew.metrics.names():
        assert as_metric(name).name == name
        return
    with pytest.raises(ValueError, match="must be a known name"):
        as_metric(name)


@pytest.mark.parametrize(
    ("metric", "options", "bound"),
    [
        ("expected_cost", {"cost": [[0, 1], [5, 0]]}, {"cost": [[0, 1], [5, 0]]}),
        ("F_Beta", {"beta": {"fraud": 2.0}}, {"beta": {0: 2.0}}),
        ("f2[ok]", {}, {"beta": 2.0, "average": 1}),
        (ew.metrics.get("f_beta"), {"beta": 3.0}, {"beta": 3.0}),
    ],
)
def test_estimators_bind_options_to_any_metric(metric, options, bound):
    assert resolve_metric("fit", metric, options, ["fraud", "ok"]).options == bound
