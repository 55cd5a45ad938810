"""Constraints in words: read right, kept by a bound, honest when they cannot be."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from made_up import assert_sentence, made_up, table_of
from scipy.stats import beta
from sklearn.metrics import precision_score, recall_score

import eastward as ew
from eastward.bounds import proves_rate
from eastward.constraints import parse_constraints
from eastward.decisions import rate_bound

NAMES = ["legal", "fraud"]


@given(st.integers(0, 3000), st.integers(1, 3000), st.floats(0.5, 0.999))
def test_bounds_are_clopper_and_pearsons(successes, rows, confidence):
    successes = min(successes, rows)
    low = rate_bound(successes, rows, confidence=confidence)
    high = rate_bound(successes, rows, confidence=confidence, upper=True)
    expected_low = beta.ppf(1 - confidence, successes, rows - successes + 1) if successes else 0
    expected_high = beta.ppf(confidence, successes + 1, rows - successes) if successes < rows else 1
    assert low == pytest.approx(expected_low, abs=1e-9)
    assert high == pytest.approx(expected_high, abs=1e-9)
    assert proves_rate(successes, rows, low - 1e-6, confidence=confidence)
    assert not proves_rate(successes, rows, low + 1e-6, confidence=confidence)


def test_bounds_of_many_rows_are_scipys():
    assert rate_bound(950_000, 1_000_000) == pytest.approx(
        beta.ppf(0.05, 950_000, 50_001), abs=1e-9
    )


TEXTS = {
    "recall[fraud] >= 0.9": [("recall", 1, True, 0.9)],
    "recall[1]>=.9 , coverage ≥ 0.8": [("recall", 1, True, 0.9), ("coverage", None, True, 0.8)],
    "predicted_rate[legal] <= 0.05": [("predicted_rate", 0, False, 0.05)],
    "recall >= 0.9": [("recall", 1, True, 0.9)],
    "f1_macro >= 0.5, f2[fraud] >= 0.4": [("f1_macro", None, True, 0.5), ("f2", 1, True, 0.4)],
    "matthews_corrcoef >= -0.2": [("matthews_corrcoef", None, True, -0.2)],
}


@pytest.mark.parametrize("text", TEXTS)
def test_constraints_are_read_as_they_are_written(text):
    found = parse_constraints("f", text, 2, NAMES)
    assert [(one.name, one.label, one.at_least, one.bound) for one in found] == TEXTS[text]


def test_several_strings_and_labels_with_commas_are_read():
    found = parse_constraints("f", ["recall[a, b] >= 0.9, recall[c] >= 0.1"], 2, ["a, b", "c"])
    assert [one.label for one in found] == [0, 1]
    numbers = parse_constraints("f", ("recall[3] >= 0.9", "recall[1] >= 0.1"), 2, [1, 3])
    assert [one.label for one in numbers] == [1, 0]


P = torch.full((30, 2), 0.5)
Y = torch.arange(30) % 2
BAD = {
    "known classes": {"subject_to": "recall[theft] >= 0.9", "classes": NAMES},
    "Pass classes=": {"subject_to": "recall[fraud] >= 0.9"},
    r"bounded by a number in \[0, 1\]": {"subject_to": "recall[1] >= 1.5"},
    "bounded by a number; got": {"subject_to": "recall[1] >= much"},
    "free of contradictions": {"subject_to": "recall[1] >= 0.9, recall[1] <= 0.5"},
    r"of the form name\[class\] >= bound": {"subject_to": "recall[1] = 0.9"},
    "Did you mean 'recall'": {"subject_to": "recalls[1] >= 0.9"},
    "written 'coverage >= 0.8'": {"subject_to": "coverage[1] >= 0.9"},
    "without a class": {"subject_to": "f1_macro[1] >= 0.9"},
    "a string or a sequence": {"subject_to": 3},
    "strictly between 0 and 1": {"confidence": 1.0},
    "abstain_cost of tune_decision must be >= 0": {"abstain_cost": -1},
    "on_infeasible of tune_decision": {"on_infeasible": "ignore"},
    "2 different labels": {"classes": ["a", "a"]},
    r"label_share of tune_decision must be in \[0, 1\]": {"label_share": 2},
    "rows that sum to one": {"probabilities": P / 2},
    r"probabilities of tune_decision must be in \[0, 1\]": {
        "probabilities": P + torch.tensor([1.0, -1.0])
    },
    "of shape": {"probabilities": P[:, 0]},
    r"targets of tune_decision must be in \[0, 2\)": {"targets": Y + 1},
}


@pytest.mark.parametrize("message", BAD)
def test_bad_input_gets_one_clear_sentence(message):

    given = {"probabilities": P, "targets": Y, "metric": "f1", **BAD[message]}
    error = TypeError if message == "a string or a sequence" else ValueError
    assert_sentence(lambda: ew.tune_decision(**given), error, message)


@pytest.mark.parametrize("num_classes", [2, 4])
@pytest.mark.slow
def test_a_decision_keeps_its_constraints_and_says_so(num_classes):
    probabilities, targets = made_up(2000, num_classes)
    wish = "recall[1] >= 0.8, precision[1] >= 0.2"
    decision = ew.tune_decision(probabilities, targets, subject_to=wish, confidence=0.9)
    recall, precision = decision.constraints
    decided = decision.decide(probabilities)
    expected = recall_score(targets, decided, labels=[1], average=None)[0]
    assert recall.value == pytest.approx(expected)
    assert precision.value == pytest.approx(
        precision_score(targets, decided, labels=[1], average=None)[0]
    )
    hits, rows = int((decided[targets == 1] == 1).sum()), int((targets == 1).sum())
    assert recall.proven == pytest.approx(beta.ppf(0.1, hits, rows - hits + 1))
    assert recall.proven >= 0.8
    assert precision.proven >= 0.2
    line = f"recall[1] ≥ 0.80 with 90 % confidence: {expected:.2f} on {rows} held-out rows."
    assert line in str(decision)


def best_threshold(probabilities, targets, wanted: float, confidence: float) -> float:
    """The best F1 of all thresholds whose recall is proven, one by one."""
    best, positive = 0.0, (targets == 1).numpy()
    for cut in np.unique(probabilities[:, 1].numpy()):
        chosen = probabilities[:, 1].numpy() >= cut
        hits, rows = (chosen & positive).sum(), positive.sum()
        if hits and beta.ppf(1 - confidence, hits, rows - hits + 1) >= wanted:
            best = max(best, 2 * hits / (chosen.sum() + rows))
    return best


@pytest.mark.parametrize("wanted", [0.5, 0.8, 0.95])
def test_two_classes_get_the_best_threshold_that_keeps_the_constraint(wanted):
    probabilities, targets = made_up(600, 2, tail=1.5)
    wish = f"recall[1] >= {wanted}"
    decision = ew.tune_decision(probabilities, targets, "f1", subject_to=wish, label_share=1.0)
    table = table_of(targets, decision.decide(probabilities), 2)
    best = best_threshold(probabilities, targets, wanted, 0.95)
    # Where the constraint does not bind, the threshold is that of the bootstraps.
    assert best - 0.03 <= float(ew.metrics.f1(table, "binary")) <= best + 1e-9


WISHES = [
    ("recall[2] >= 0.6", "recall_macro"),
    ("predicted_rate[0] <= 0.4", "f1_macro"),
    ("specificity[1] >= 0.9, recall[2] >= 0.5", "accuracy"),
    ("f1[2] >= 0.3, balanced_accuracy >= 0.5", "accuracy"),
    ("coverage >= 0.7, precision[2] >= 0.5", "f1_macro"),
]


@pytest.mark.parametrize(("wish", "metric"), WISHES)
def test_every_kind_of_constraint_is_kept_on_new_rows(wish, metric):
    probabilities, targets = made_up(1500, 3)
    new_rows, truth = made_up(50_000, 3, seed=7)
    decision = ew.tune_decision(probabilities, targets, metric, subject_to=wish)
    assert all(kept.holds for kept in decision.constraints)
    table = table_of(truth, decision.decide(new_rows), 3, decision.matrix.shape[1])
    for kept in decision.constraints:
        assert float(kept.constraint.slack(table)) > -0.02, str(kept)


def test_coverage_leaves_the_unclear_rows_and_no_more():
    probabilities, targets = made_up(3000, 3)
    decision = ew.tune_decision(probabilities, targets, "accuracy", subject_to="coverage >= 0.8")
    decided = decision.decide(probabilities)
    left = decided == -1
    assert 0.1 < float(left.double().mean()) < 0.2
    clearest_left = probabilities.max(1).values[left].max()
    assert float(clearest_left) <= float(probabilities.max(1).values[~left].min()) + 1e-9


def test_a_constraint_that_cannot_be_proven_is_an_error_with_the_best_value():
    probabilities, targets = made_up(200, 2, tail=2.0)
    rows = int((targets == 1).sum())
    reachable = 0.05 ** (1 / rows)
    wish = {"subject_to": "recall[1] >= 0.99"}
    with pytest.raises(ValueError, match=f"prove {reachable:.3f} at best .1.000 on {rows} rows"):
        ew.tune_decision(probabilities, targets, "f1", **wish)
    with pytest.warns(UserWarning, match="The closest rule is used"):
        decision = ew.tune_decision(probabilities, targets, "f1", on_infeasible="best", **wish)
    assert not decision.constraints[0].holds
    assert "recall[1] ≥ 0.99 not shown with 95 % confidence" in str(decision)
    both = {"subject_to": "recall[1] >= 0.9, precision[1] >= 0.95"}
    with pytest.raises(ValueError, match="of which the closest rule proves 0") as caught:
        ew.tune_decision(probabilities, targets, "f1", **both)
    assert "at best" not in str(caught.value), "either of them alone could be kept better"


@pytest.mark.parametrize(("bound", "words"), [(0.9, "≥ 0.90"), (0.999, "≥ 0.999"), (1, "≥ 1.00")])
def test_a_bound_is_printed_as_it_was_written(bound, words):
    (constraint,) = parse_constraints("f", f"recall[1] >= {bound}", 2)
    kept = constraint.judged(torch.tensor([[50.0, 0.0], [0.0, 50.0]]), 0.95)
    assert f"recall[1] {words} " in str(kept)


def test_weights_that_differ_prove_less():
    probabilities, targets = made_up(800, 2)
    weight = torch.where(torch.arange(800) % 2 == 0, 1.9, 0.1)
    rows = [
        ew.tune_decision(probabilities, targets, subject_to="recall[1] >= 0.6", sample_weight=w)
        .constraints[0]
        .rows
        for w in (None, weight)
    ]
    assert rows[1] < 0.7 * rows[0]


@pytest.mark.slow
@pytest.mark.parametrize("num_classes", [2, 3])
def test_a_bound_at_90_percent_holds_in_85_percent_of_the_runs(num_classes):
    # Many rows: an error common to all runs would move all of them to one side of the bound.
    new_rows, truth = made_up(1_000_000, num_classes, seed=999)
    last = num_classes - 1
    kept = []
    for seed in range(60):
        probabilities, targets = made_up(1200, num_classes, seed=seed)
        wish = f"recall[{last}] >= 0.8"
        decision = ew.tune_decision(probabilities, targets, subject_to=wish, confidence=0.9)
        kept.append(
            float((decision.decide(new_rows)[truth == last] == last).double().mean()) >= 0.8
        )
    assert np.mean(kept) >= 0.85


def test_shares_of_rows_are_those_of_the_table():
    table = torch.tensor([[50.0, 10.0, 5.0], [4.0, 20.0, 1.0]])  # the last column is undecided
    texts = "recall[1] >= 0.1, precision[1] >= 0.1, specificity[1] >= 0.1, coverage >= 0.1"
    found = [one.share(table) for one in parse_constraints("f", texts, 2)]
    assert [(share.successes, share.rows) for share in found] == [
        (20, 24),
        (20, 30),
        (50, 60),
        (84, 90),
    ]
