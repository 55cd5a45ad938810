"""Other class frequencies, known or estimated; and prediction sets that cover what they promise."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from made_up import assert_sentence, made_up, table_of
from sklearn.metrics import f1_score

import eastward as ew
from eastward import decisions

OLD, NEW = [0.75, 0.25], [30 / 31, 1 / 31]


@pytest.mark.parametrize(("old", "new"), [(OLD, NEW), (NEW, OLD)])
def test_a_decision_for_other_frequencies_is_nearly_that_of_labels(old, new):
    probabilities, targets = made_up(3000, 2, prior=old)
    shifted, truth = made_up(30_000, 2, seed=5, prior=new)
    # The model goes on believing in the old frequencies.
    stale = decisions.adjusted_probabilities(shifted, new, old)
    decision = ew.tune_decision(probabilities, targets, "f1")
    labelled = ew.tune_decision(stale, truth, "f1")
    plain, corrected, labelled_value = (
        f1_score(truth, rule.decide(stale))
        for rule in (decision, decision.with_prior(new), labelled)
    )
    assert corrected > plain + 0.02
    assert corrected == pytest.approx(labelled_value, abs=0.01)


@pytest.mark.slow
def test_several_classes_are_solved_again():
    old, new = [0.6, 0.3, 0.1], [0.1, 0.3, 0.6]
    probabilities, targets = made_up(2000, 3, prior=old)
    shifted, truth = made_up(20_000, 3, seed=5, prior=new)
    stale = decisions.adjusted_probabilities(shifted, new, old)
    decision = ew.tune_decision(probabilities, targets)
    values = [
        f1_score(truth, rule.decide(stale), average="macro")
        for rule in (decision, decision.with_prior(new), ew.tune_decision(stale, truth))
    ]
    assert values[1] > values[0] + 0.03
    assert values[1] == pytest.approx(values[2], abs=0.01)


def test_a_rule_of_costs_is_applied_to_the_changed_probabilities():
    cost = np.array([[0, 1.0], [5, 0]])
    decision = ew.Decision(-cost, prior=[0.5, 0.5]).with_prior([0.9, 0.1])
    probabilities, _ = made_up(200, 2)
    changed = decisions.adjusted_probabilities(probabilities, [0.5, 0.5], [0.9, 0.1])
    assert torch.equal(decision.decide(probabilities), decisions.cheapest(changed, cost))


@pytest.mark.slow
def test_constraints_under_other_frequencies_are_kept_in_expectation():
    probabilities, targets = made_up(2000, 3)
    decision = ew.tune_decision(probabilities, targets, subject_to="predicted_rate[0] <= 0.5")
    moved = decision.with_prior([0.5, 0.3, 0.2])
    assert moved.constraints[0].confidence is None
    assert moved.constraints[0].value <= 0.5
    assert "expected" in str(moved)


def test_the_decisions_own_frequencies_change_nothing():
    probabilities, targets = made_up(500, 3)
    decision = ew.tune_decision(probabilities, targets)
    assert decision.with_prior(decision.prior) is decision


def test_many_held_out_rows_are_represented_by_some():
    probabilities, targets = made_up(30_000, 3)
    decision = ew.tune_decision(probabilities, targets)
    assert decision.reference.probabilities.numel() <= 20_000
    shown = (decision.reference.probabilities * decision.reference.weight.unsqueeze(1)).sum(0)
    np.testing.assert_allclose(shown, probabilities.mean(0), atol=0.02)


@pytest.mark.parametrize("new", [[0.1, 0.3, 0.6], [0.3, 0.4, 0.3]])
def test_frequencies_are_estimated_without_labels(new):
    old = [0.6, 0.3, 0.1]
    shifted, _ = made_up(20_000, 3, seed=3, prior=new)
    stale = decisions.adjusted_probabilities(shifted, new, old)
    np.testing.assert_allclose(decisions.estimate_prior(stale, old), new, atol=0.02)


def test_the_estimate_is_the_fixed_point_of_expectation_and_maximisation():
    stale, _ = made_up(3000, 3)
    old = [0.6, 0.3, 0.1]
    found = decisions.estimate_prior(stale, old)
    again = decisions.adjusted_probabilities(stale, old, found).mean(0)
    np.testing.assert_allclose(found, again, atol=1e-5)


def test_too_few_rows_and_large_changes_get_a_warning():
    few, _ = made_up(20, 2)
    with pytest.warns(UserWarning, match="20 rows cannot tell"):
        decisions.estimate_prior(few, [0.7, 0.3])
    useless = torch.full((5000, 2), 0.5)
    with pytest.warns(UserWarning, match="cannot tell"):
        decisions.estimate_prior(useless, [0.5, 0.5])
    far, _ = made_up(5000, 2, prior=[0.5, 0.5])
    with pytest.warns(UserWarning, match="far from 0.01 in training"):
        decisions.estimate_prior(
            decisions.adjusted_probabilities(far, [0.5, 0.5], [0.99, 0.01]), [0.99, 0.01]
        )


BAD = {
    "of length 2": lambda rule: rule.with_prior([0.2, 0.3, 0.5]),
    "sums to 1": lambda rule: rule.with_prior([0.2, 0.3]),
    "numbers in": lambda rule: rule.with_prior([-0.2, 1.2]),
    "knows its own prior": lambda _: ew.Decision(np.eye(2)).with_prior([0.5, 0.5]),
    r"of shape \(N, 2\)": lambda rule: rule.decide(np.full((3, 3), 1 / 3)),
    "rows that sum to one": lambda rule: rule.decide(np.ones((3, 2))),
    "what to_dict returned": lambda _: ew.Decision.from_dict({}),
    r"\(C, C \+ 1\)": lambda _: ew.Decision(np.ones((2, 4))),
    "finite": lambda _: ew.Decision([[np.nan, 0], [0, 1]]),
    "of length 3": lambda _: decisions.estimate_prior(np.full((3, 3), 1 / 3), [0.5, 0.5]),
    "strictly between": lambda _: decisions.prediction_sets(np.eye(2), [0, 1], 1.0),
}


@pytest.mark.parametrize("message", BAD)
def test_bad_input_gets_one_clear_sentence(message):
    rule = ew.Decision(np.eye(2), prior=[0.5, 0.5])
    assert_sentence(lambda: BAD[message](rule), ValueError, message)


def test_functions_are_not_saved_and_the_error_says_so():
    probabilities, targets = made_up(500, 3)
    decision = ew.tune_decision(
        probabilities, targets, lambda table: ew.metrics.f1(table, "macro"), guard=None
    )
    decision.with_prior([0.2, 0.3, 0.5])
    saved = ew.Decision.from_dict(json.loads(json.dumps(decision.to_dict())))
    assert_sentence(lambda: saved.with_prior([0.2, 0.3, 0.5]), ValueError, "registered metric")


@pytest.mark.parametrize("coverage", [0.8, 0.95])
@pytest.mark.parametrize("by_class", [False, True])
def test_prediction_sets_reach_the_requested_coverage(coverage, by_class):
    covered, by_label = [], []
    for seed in range(20):
        rows, targets = made_up(1000, 3, seed=seed)
        sets = decisions.prediction_sets(rows, targets, coverage, by_class=by_class)
        new_rows, truth = made_up(4000, 3, seed=100 + seed)
        inside = sets.sets(new_rows)[np.arange(4000), truth.numpy()]
        covered.append(inside.mean())
        by_label.append([inside[(truth == label).numpy()].mean() for label in range(3)])
    lowest = np.mean(by_label, axis=0).min() if by_class else np.mean(covered)
    assert lowest >= coverage - 0.01
    if not by_class:
        assert lowest <= coverage + 0.035  # the most probable class is always there


def test_thresholds_are_the_conformal_quantile():
    generator = np.random.default_rng(0)
    rows = generator.dirichlet(np.ones(4), 99)
    targets = generator.integers(4, size=99)
    found = decisions.prediction_sets(rows, targets, 0.9).thresholds
    scores = 1 - rows[np.arange(99), targets]
    np.testing.assert_allclose(found, 1 - np.sort(scores)[90 - 1])  # the 90th of 99: 0.9 times 100


def test_weights_keep_the_coverage_where_frequencies_change():
    """The class that is hard to recognise becomes frequent: without weights, sets would miss it."""
    plain, weighed = [], []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        old, new = np.array([0.9, 0.1]), np.array([0.3, 0.7])

        def drawn(frequencies, count, rng=rng):
            codes = rng.choice(2, count, p=frequencies)
            x = rng.normal(1.2 * codes, 1.0)
            odds = np.exp(1.2 * x - 0.72) * frequencies[1] / frequencies[0]
            return np.stack([1 / (1 + odds), odds / (1 + odds)], 1), codes

        rows, codes = drawn(old, 1000)
        moved = decisions.adjusted_probabilities(rows, old, new).numpy()
        new_rows, truth = drawn(new, 4000)
        for kept, weight in ((plain, None), (weighed, (new / old)[codes])):
            sets = decisions.prediction_sets(moved, codes, 0.8, sample_weight=weight)
            kept.append(sets.sets(new_rows)[np.arange(4000), truth].mean())
    assert np.mean(weighed) == pytest.approx(0.8, abs=0.03)
    assert abs(np.mean(plain) - 0.8) > 2 * abs(np.mean(weighed) - 0.8)


def test_a_class_of_too_few_rows_is_in_every_set_and_no_set_is_empty():
    rows, targets = made_up(200, 3, tail=2.5)
    rare = decisions.prediction_sets(rows[:60], targets[:60].clamp_max(1), 0.9, by_class=True)
    assert rare.sets(rows)[:, 2].all()
    tight = decisions.prediction_sets(rows, targets, 0.05)
    assert tight.sets(rows).any(1).all()
    again = decisions.PredictionSets.from_dict(json.loads(json.dumps(tight.to_dict())))
    np.testing.assert_array_equal(again.sets(rows), tight.sets(rows))


def test_tables_count_rows_left_undecided_in_their_own_column():
    assert table_of(torch.tensor([0, 1]), torch.tensor([-1, 1]), 2, 3).tolist() == [
        [0, 0, 1],
        [0, 1, 0],
    ]


def test_a_model_trained_with_balanced_classes_is_corrected_by_the_labels():
    true, targets = made_up(3000, 3, seed=4)
    prior = torch.softmax(-torch.arange(3.0), 0)
    balanced = decisions.adjusted_probabilities(true, prior, [1 / 3] * 3)
    new_rows, truth = made_up(20_000, 3, seed=8)
    pairs = (
        (true, new_rows),
        (balanced, decisions.adjusted_probabilities(new_rows, prior, [1 / 3] * 3)),
    )
    values = [
        f1_score(truth, ew.tune_decision(held_out, targets).decide(new), average="macro")
        for held_out, new in pairs
    ]
    assert values[1] == pytest.approx(values[0], abs=0.003)
