"""A decision is a matrix: what it decides, how it is found, how it reads, and how it is stored."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from made_up import made_up, table_of
from sklearn.metrics import cohen_kappa_score, confusion_matrix, f1_score, matthews_corrcoef

import eastward as ew
from eastward import metrics
from eastward.decisions import cheapest, solving
from eastward.decisions.solving import Beliefs, Objective, scales_and_shifts, solve, start_rules
from eastward.decisions.tuning import DecisionOptions, HeldOut, decision_table, fit_decision
from eastward.metrics import Metric

LINEAR = ["accuracy", "f1_micro"]
CURVED = ["f1_macro", "matthews_corrcoef", "geometric_mean", "cohen_kappa_quadratic"]


def worst_recall(confusion):
    return (confusion.diagonal() / confusion.sum(1).clamp_min(1e-12)).min()


def numpy_f1(confusion):
    """A metric that autograd cannot follow."""
    counts = confusion.detach().numpy()
    both = counts.sum(0) + counts.sum(1)
    return float(np.mean(2 * counts.diagonal() / np.maximum(both, 1e-12)))


@pytest.mark.parametrize("metric", LINEAR)
@pytest.mark.parametrize("num_classes", [2, 4])
def test_metrics_that_are_sums_over_rows_want_the_most_probable_class(metric, num_classes):
    probabilities, targets = made_up(300, num_classes)
    decision = ew.tune_decision(probabilities, targets, metric)
    assert torch.equal(decision.decide(probabilities), probabilities.argmax(1))


@pytest.mark.parametrize("num_classes", [2, 3])
@pytest.mark.parametrize("abstain_cost", [None, 0.3])
def test_a_table_of_costs_gives_elkans_rule(num_classes, abstain_cost):
    probabilities, targets = made_up(300, num_classes)
    cost = np.random.default_rng(0).uniform(0.5, 5, (num_classes, num_classes))
    metric = metrics.get("expected_cost", cost=cost)
    decision = ew.tune_decision(probabilities, targets, metric, abstain_cost=abstain_cost)
    assert torch.equal(decision.decide(probabilities), cheapest(probabilities, cost, abstain_cost))


def test_not_deciding_follows_chows_rule():
    probabilities, targets = made_up(500, 3)
    decision = ew.tune_decision(probabilities, targets, "accuracy", abstain_cost=0.3)
    unclear = probabilities.max(1).values < 0.7
    assert torch.equal(decision.decide(probabilities) == -1, unclear)
    assert decision.matrix.shape == (3, 4)


def test_the_threshold_of_binary_f1_is_half_the_best_f1():
    probabilities, targets = made_up(20_000, 2, tail=2.0)
    decision = ew.tune_decision(probabilities, targets, "f1")
    reached = f1_score(targets, decision.decide(probabilities))
    threshold = 1 / (1 + np.exp(decision.offsets_[1] - decision.offsets_[0]))
    assert threshold == pytest.approx(reached / 2, abs=0.03)


def best_by_grid(probabilities, targets, metric, steps=9):
    """The best rule of the form scale times probability plus shift, on a grid: three classes."""
    best = -np.inf
    scales = np.geomspace(0.1, 10, steps)
    shifts = np.linspace(-0.5, 0.5, 5)
    one_hot = torch.nn.functional.one_hot(targets, 3).double().numpy()
    rows = probabilities.numpy()
    for a, b, s, t in itertools.product(scales, scales, shifts, shifts):
        chosen = (rows * [1, a, b] + [0, s, t]).argmax(1)
        table = torch.from_numpy(one_hot.T @ np.eye(3)[chosen])
        best = max(best, float(metrics.get(metric)(table)))
    return best


@pytest.mark.parametrize("metric", CURVED)
def test_the_solver_comes_near_the_best_rule_of_a_grid(metric):
    probabilities, targets = made_up(400, 3)
    sample = Beliefs(probabilities, torch.nn.functional.one_hot(targets, 3).double() / len(targets))
    rules = solve(
        sample, Objective(metrics.get(metric)), start_rules(sample.prior, abstaining=False)
    )
    # The grid is searched on the labels themselves; the solver's family is larger but it is no exhaustive search.
    assert rules[0].value >= best_by_grid(probabilities, targets, metric) - 0.02


@pytest.mark.parametrize("metric", [*CURVED, worst_recall, numpy_f1])
@pytest.mark.parametrize("num_classes", [2, 4])
def test_new_rows_are_decided_better_than_by_the_most_probable_class(metric, num_classes):
    probabilities, targets = made_up(2000, num_classes, seed=1)
    new_rows, truth = made_up(20_000, num_classes, seed=2)
    decision = ew.tune_decision(probabilities, targets, metric)
    judge = metrics.as_metric(metric)
    tuned = float(judge(table_of(truth, decision.decide(new_rows), num_classes)))
    plain = float(judge(table_of(truth, new_rows.argmax(1), num_classes)))
    assert tuned >= plain - 0.005
    if metric in ("geometric_mean", worst_recall) or (metric == "f1_macro" and num_classes == 4):
        assert tuned > plain + 0.01


def test_values_are_scikit_learns():
    probabilities, targets = made_up(1000, 3)
    decisions = ew.tune_decision(probabilities, targets, "f1_macro").decide(probabilities)
    table = table_of(targets, decisions, 3)
    pairs = {
        "f1_macro": f1_score(targets, decisions, average="macro"),
        "matthews_corrcoef": matthews_corrcoef(targets, decisions),
        "cohen_kappa": cohen_kappa_score(targets, decisions),
    }
    for name, expected in pairs.items():
        assert float(Objective(metrics.get(name)).value(table)) == pytest.approx(expected)


def test_no_class_is_given_up_that_the_metric_counts():
    probabilities, targets = made_up(300, 4, tail=1.5)
    decisions = ew.tune_decision(probabilities, targets, "f1_macro").decide(probabilities)
    assert set(decisions.tolist()) == set(targets.tolist())


def test_without_evidence_the_most_probable_class_stays():
    generator = torch.Generator().manual_seed(0)
    targets = torch.randint(3, (60,), generator=generator)
    probabilities = torch.rand(60, 3, generator=generator, dtype=torch.float64)
    probabilities /= probabilities.sum(1, keepdim=True)
    decision = ew.tune_decision(probabilities, targets, "f1_macro", guard=3.0)
    assert torch.equal(decision.decide(probabilities), probabilities.argmax(1))
    assert "the most probable class" in str(decision)
    few = ew.tune_decision(probabilities[:10], targets[:10], "f1_macro")
    assert torch.equal(few.decide(probabilities), probabilities.argmax(1))


@pytest.mark.parametrize(
    ("rows_of_rarest", "expected"), [(40, "the most probable class"), (6, "the largest of")]
)
def test_a_decision_that_many_held_out_rows_find_worse_is_not_used(rows_of_rarest, expected):
    # The third class looks likely in rows that are never its own, so the most probable class is always right.
    groups = [(0.97, 0.02, 0.01)] * 8 + [(0.1, 0.85, 0.05)] * 4 + [(0.2, 0.1, 0.7)]
    groups += [(0.55, 1e-6, 0.45)] * 2
    scores = np.log(np.tile(groups, (rows_of_rarest, 1)))
    held = HeldOut(scores, np.tile([0] * 8 + [1] * 4 + [2] + [0] * 2, rows_of_rarest))
    options = DecisionOptions(metrics.get("f1_macro"), calibrate="none")
    found = fit_decision("f", held, [0, 1, 2], options)
    assert str(found.decision).startswith(expected)
    assert ("estimate is noisy" in found.report["sentences"][1]) == (rows_of_rarest == 6)


def test_folds_that_cannot_tell_do_not_reject_a_decision():
    """If every fold misses a rare class, the geometric mean is zero before and after: that is no evidence."""
    rng, centres = np.random.default_rng(30), np.array([[0.0, 0.0], [1.5, 0.0], [0.7, 0.7]])
    codes = np.repeat([0, 1, 2], [80, 30, 6])
    points = rng.normal(size=(len(codes), 2)) + centres[codes]
    scores = -0.5 * ((points[:, None] - centres) ** 2).sum(-1) + np.log([80, 30, 6])
    held = HeldOut(scores, codes)
    options = DecisionOptions(metrics.get("geometric_mean"), calibrate="none")
    found = fit_decision("test", held, [0, 1, 2], options)
    assert found.report["baseline"] == found.report["tuned"] == 0
    asked = ew.tune_decision(held.probabilities, codes, "geometric_mean")
    torch.testing.assert_close(
        torch.tensor(found.decision.matrix), torch.tensor(asked.matrix), check_dtype=False
    )


def test_equal_weights_change_nothing_and_repeated_rows_are_weights():
    probabilities, targets = made_up(300, 3)
    plain = ew.tune_decision(probabilities, targets, guard=None)
    weighted = ew.tune_decision(
        probabilities, targets, guard=None, sample_weight=torch.full((300,), 2.0)
    )
    np.testing.assert_allclose(plain.matrix, weighted.matrix, atol=1e-9)


def test_decisions_have_the_type_of_the_input():
    probabilities, targets = made_up(100, 3)
    decision = ew.tune_decision(probabilities.numpy(), targets.numpy())
    from_array, from_tensor = decision.decide(probabilities.numpy()), decision.decide(probabilities)
    assert isinstance(from_array, np.ndarray)
    assert isinstance(from_tensor, torch.Tensor)
    assert from_array.tolist() == from_tensor.tolist()


def test_targets_may_be_the_words_that_classes_names():
    probabilities, targets = made_up(200, 3)
    words = np.array(["late", "early", "never"])[targets]
    named = ew.tune_decision(probabilities, words, classes=["late", "early", "never"])
    np.testing.assert_array_equal(named.matrix, ew.tune_decision(probabilities, targets).matrix)


@pytest.mark.parametrize("num_classes", [3, 20])
def test_rows_are_decided_block_by_block_as_all_at_once(num_classes, monkeypatch):
    probabilities, _ = made_up(500, num_classes)
    matrix = torch.rand(
        num_classes, num_classes, generator=torch.Generator().manual_seed(0)
    ).double()
    monkeypatch.setattr(solving, "SCORES_AT_ONCE", 7 * num_classes)
    assert torch.equal(solving.decided(probabilities, matrix), (probabilities @ matrix).argmax(1))


def test_the_answer_is_the_same_every_time():
    probabilities, targets = made_up(200, 3)
    first, second = (ew.tune_decision(probabilities, targets) for _ in range(2))
    np.testing.assert_array_equal(first.matrix, second.matrix)


@pytest.mark.parametrize(
    "subject_to", [None, pytest.param("recall[b] >= 0.3, coverage >= 0.5", marks=pytest.mark.slow)]
)
def test_a_decision_survives_json(subject_to):
    probabilities, targets = made_up(500, 3)
    decision = ew.tune_decision(
        probabilities, targets, subject_to=subject_to, classes=["a", "b", "c"]
    )
    again = ew.Decision.from_dict(json.loads(json.dumps(decision.to_dict())))
    assert torch.equal(again.decide(probabilities), decision.decide(probabilities))
    assert str(again) == str(decision)
    prior = [0.2, 0.3, 0.5]
    rules = [one.with_prior(prior).decide(probabilities) for one in (decision, again)]
    assert float((rules[0] == rules[1]).double().mean()) > 0.99


@given(st.lists(st.floats(0.01, 100), min_size=3, max_size=6), st.integers(0, 1000))
def test_offsets_are_readable_where_a_decision_is_one(scales, seed):
    generator = torch.Generator().manual_seed(seed)
    size = len(scales)
    rows = torch.rand(50, size, generator=generator, dtype=torch.float64) + 1e-6
    rows /= rows.sum(1, keepdim=True)
    constants = torch.rand(size, 1, generator=generator, dtype=torch.float64)
    decision = ew.Decision((torch.diag(torch.tensor(scales).double()) + constants).numpy())
    offsets = torch.from_numpy(decision.offsets_)
    assert torch.equal((rows.log() + offsets).argmax(1), decision.decide(rows))
    assert decision.offsets_.mean() == pytest.approx(0, abs=1e-12)


def test_decisions_that_are_more_than_offsets_have_none():
    assert ew.Decision([[1, 0, 0.2], [0, 1, 0], [0, 0, 1]]).offsets_ is None
    assert ew.Decision(np.eye(3) + np.array([0, 0.1, 0])).offsets_ is None
    assert ew.Decision([[1, 0, 0.5], [0, 1, 0.5]]).offsets_ is None


def test_scales_and_shifts_are_found_whatever_is_added_to_rows():
    generator = torch.Generator().manual_seed(0)
    scales, shifts, rows = torch.rand(3, 7, generator=generator, dtype=torch.float64)
    found = scales_and_shifts(torch.diag(scales) + shifts + rows.unsqueeze(1))
    torch.testing.assert_close(found[0], scales)
    torch.testing.assert_close(found[1], shifts - shifts[0])
    assert scales_and_shifts(torch.rand(5, 5, generator=generator)) is None


def test_many_classes_are_decided_by_scales_and_shifts_as_by_the_product():
    probabilities, _ = made_up(200, 20, tail=0.1)
    generator = torch.Generator().manual_seed(0)
    scales, shifts = torch.rand(2, 20, generator=generator, dtype=torch.float64)
    matrix = torch.diag(scales) + 0.1 * shifts
    expected = (probabilities @ matrix).argmax(1)
    assert torch.equal(ew.Decision(matrix.numpy()).decide(probabilities), expected)


WORDS = {
    "fraud from a probability of 0.18 on; legal below.": np.diag([0.18, 0.82]),
    "always legal.": [[1, 0], [1, 0]],
    "fraud from a probability of 0.60 on; no decision from 0.10; legal below.": [
        [0, -1, -0.4],
        [-4, 0, -0.4],
    ],
}


@pytest.mark.parametrize("words", WORDS)
def test_two_classes_in_words(words):
    assert str(ew.Decision(WORDS[words], classes=["legal", "fraud"])) == words


def test_a_decision_may_be_tuned_for_one_class():
    probabilities, targets = made_up(2000, 2)
    named = ew.tune_decision(probabilities, targets, "f1[rare]", classes=["rare", "usual"])
    turned = ew.tune_decision(probabilities.flip(1), 1 - targets, "f1")
    # Bootstraps are drawn class by class, so the two thresholds differ in their last digits.
    same = named.decide(probabilities) == 1 - turned.decide(probabilities.flip(1))
    assert same.double().mean() > 0.98
    assert str(named).startswith("rare from a probability of")
    again = ew.Decision.from_dict(json.loads(json.dumps(named.to_dict())))
    assert (again.metric.name, again.metric.options["average"]) == ("f1[rare]", 0)


def test_more_classes_in_words():
    assert str(ew.Decision(np.eye(3))) == "the most probable class."
    text = str(
        ew.Decision(np.diag([0.5, 1.0, 1.5]) + np.array([0, 0.2, 0]), classes=["a", "b", "c"])
    )
    assert text.splitlines() == [
        "the largest of",
        "  a: 0.5 × its probability",
        "  b: 1 × its probability + 0.2",
        "  c: 1.5 × its probability.",
    ]


def test_decisions_need_torch_and_numpy_alone():
    code = (
        "import sys; sys.modules.update(dict.fromkeys(['sklearn', 'scipy', 'pandas', 'numba']))\n"
        "import torch, eastward as ew\n"
        "p = torch.tensor([[0.6, 0.4], [0.9, 0.1]]).repeat(20, 1)\n"
        "ew.tune_decision(p, torch.tensor([1, 0]).repeat(20), 'f1', subject_to='recall[1] >= 0.5')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_metric_where_lower_is_better_is_minimised():
    probabilities, targets = made_up(1000, 3)
    error = Metric("error", lambda table: 1 - metrics.f1(table), higher_is_better=False)
    same = ew.tune_decision(probabilities, targets, error).matrix
    np.testing.assert_allclose(same, ew.tune_decision(probabilities, targets).matrix, atol=1e-9)


def test_reversed_arrays_are_accepted(rng):
    """A view with a negative stride is an array like any other, though torch takes none."""
    arrays = [rng.dirichlet(np.ones(3), 60), rng.integers(0, 3, 60), rng.random(60)]
    views = [array[::-1] for array in arrays]
    copies = [view.copy() for view in views]
    found, expected = (
        ew.tune_decision(probabilities, targets, "f1_macro", sample_weight=weights)
        for probabilities, targets, weights in (views, copies)
    )
    assert np.array_equal(found.matrix, expected.matrix)
    assert np.array_equal(found.decide(views[0]), expected.decide(copies[0]))


@pytest.mark.parametrize("weight", [None, np.array([1.0, 2.0, 1.0, 1.0, 3.0])])
@pytest.mark.parametrize("undecided", [False, True])
def test_the_table_of_decisions_is_scikit_learns(undecided, weight):
    codes, decisions = np.array([0, 1, 2, 2, 1]), np.array([0, 2, 2, 1, 1])
    if undecided:
        decisions[3] = -1
    found = decision_table(codes, decisions, weight, 3).numpy()
    columns = [0, 1, 2, -1] if undecided else [0, 1, 2]
    expected = confusion_matrix(codes, decisions, labels=columns, sample_weight=weight)
    assert found == pytest.approx(expected[:3] / expected.sum())
