"""Offsets per class: exact where they claim to be, never worse than none, steady, honest about evidence."""

from __future__ import annotations

import itertools
import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import f1_score

from eastward import decisions, metrics, soft_confusion
from eastward.confusion import Counts
from eastward.decisions._inputs import class_sample
from eastward.decisions._search import Merit
from eastward.decisions.multilabel import _label_moves, _label_sample
from eastward.decisions.offsets import smoothed_rows, tuned

METRICS = sorted(set(metrics.names()) - {"expected_cost"})
BINARY_METRICS = ["f1", "f2", "precision", "recall", "jaccard", "specificity", "fowlkes_mallows"]
MULTICLASS_METRICS = [name for name in METRICS if name not in BINARY_METRICS]


def problem(num_samples: int, num_classes: int, seed: int = 0, tail: float = 1.0):
    """Log-probabilities of a fair model under a long-tailed prior, and labels drawn from it."""
    generator = torch.Generator().manual_seed(seed)
    prior = torch.softmax(-tail * torch.arange(num_classes, dtype=torch.float64), 0)
    targets = torch.multinomial(prior, num_samples, replacement=True, generator=generator)
    logits = torch.randn(num_samples, num_classes, generator=generator, dtype=torch.float64)
    logits[torch.arange(num_samples), targets] += 1.2
    return (logits + prior.log()).log_softmax(1), targets


def value(log_probabilities, targets, metric, offsets, weight=None) -> float:
    """The metric of the shifted argmax, by the soft confusion of one-hot rows: an independent path."""
    num_classes = log_probabilities.shape[1]
    chosen = (log_probabilities.double() + offsets.double()).argmax(1)
    rows = torch.nn.functional.one_hot(chosen, num_classes).double()
    return float(metrics.as_metric(metric)(soft_confusion(rows, targets, sample_weight=weight)))


def best_by_brute_force(log_probabilities, targets, metric, weight=None) -> float:
    """Two classes: try a threshold between every two log-odds, and outside all of them."""
    odds = (log_probabilities[:, 1] - log_probabilities[:, 0]).sort().values
    cuts = torch.cat([odds[:1] - 1, (odds[1:] + odds[:-1]) / 2, odds[-1:] + 1])
    shifts = torch.stack([cuts / 2, -cuts / 2], 1)
    return max(value(log_probabilities, targets, metric, b, weight) for b in shifts)


@pytest.mark.parametrize("metric", METRICS)
def test_two_classes_reach_the_global_optimum(metric):
    log_probabilities, targets = problem(60, 2)
    offsets = decisions.tune_offsets(log_probabilities, targets, metric, max_offset=50.0)
    best = best_by_brute_force(log_probabilities, targets, metric)
    assert value(log_probabilities, targets, metric, offsets) == pytest.approx(best, abs=1e-12)


@given(st.integers(0, 10_000), st.integers(2, 25), st.booleans())
def test_two_classes_are_exact_with_weights_and_ties(seed, num_samples, ties):
    log_probabilities, targets = problem(num_samples, 2, seed)
    if ties:
        log_probabilities = (log_probabilities.exp() * 5).round().clamp(1, 4).div(5).log()
    weight = torch.rand(num_samples, generator=torch.Generator().manual_seed(seed)) + 0.1
    offsets = decisions.tune_offsets(
        log_probabilities, targets, "f1_macro", sample_weight=weight, max_offset=50.0
    )
    odds = (log_probabilities[:, 1] - log_probabilities[:, 0]).unique()
    cuts = torch.cat([odds[:1] - 1, (odds[1:] + odds[:-1]) / 2, odds[-1:] + 1])
    best = max(
        value(log_probabilities, targets, "f1_macro", torch.stack([cut / 2, -cut / 2]), weight)
        for cut in cuts
    )
    plain = value(log_probabilities, targets, "f1_macro", torch.zeros(2), weight)
    assert value(log_probabilities, targets, "f1_macro", offsets, weight) == pytest.approx(
        max(best, plain), abs=1e-9
    )


def test_lower_is_better_metrics_are_minimised():
    log_probabilities, targets = problem(80, 2)
    cost = metrics.get("expected_cost", cost=[[0, 1], [8, 0]])
    offsets = decisions.tune_offsets(log_probabilities, targets, cost)
    odds = (log_probabilities[:, 1] - log_probabilities[:, 0]).sort().values
    cuts = torch.cat([odds[:1] - 1, (odds[1:] + odds[:-1]) / 2, odds[-1:] + 1])
    lowest = min(
        value(log_probabilities, targets, cost, torch.stack([c / 2, -c / 2])) for c in cuts
    )
    assert value(log_probabilities, targets, cost, offsets) == pytest.approx(lowest)
    assert lowest < value(log_probabilities, targets, cost, torch.zeros(2))


@pytest.mark.parametrize("metric", MULTICLASS_METRICS)
def test_more_classes_are_never_worse_than_the_plain_argmax(metric):
    log_probabilities, targets = problem(150, 4)
    plain = value(log_probabilities, targets, metric, torch.zeros(4))
    for offsets in (
        decisions.tune_offsets(log_probabilities, targets, metric),
        decisions.anneal_offsets(log_probabilities, targets, metric, steps=5),
    ):
        assert value(log_probabilities, targets, metric, offsets) >= plain
        assert float(offsets.mean()) == pytest.approx(0, abs=1e-9)


def test_coordinate_ascent_comes_near_the_best_point_of_a_fine_grid():
    log_probabilities, targets = problem(60, 3, seed=3)
    grid = torch.linspace(-3, 3, 41, dtype=torch.float64)
    best = max(
        value(log_probabilities, targets, "f1_macro", torch.stack([grid[0] * 0, first, second]))
        for first, second in itertools.product(grid, grid)
    )
    offsets = decisions.tune_offsets(log_probabilities, targets, "f1_macro")
    assert value(log_probabilities, targets, "f1_macro", offsets) > best - 0.02


def test_every_coordinate_is_optimal_given_the_others():
    log_probabilities, targets = problem(120, 3, seed=1)
    offsets = decisions.tune_offsets(log_probabilities, targets, "f1_macro", max_sweeps=20)
    reached = value(log_probabilities, targets, "f1_macro", offsets)
    for label, step in itertools.product(range(3), torch.linspace(-3, 3, 121)):
        other = offsets.clone()
        other[label] += step
        assert value(log_probabilities, targets, "f1_macro", other) <= reached + 1e-12


def test_matrix_and_count_metrics_agree():
    log_probabilities, targets = problem(200, 4)

    def macro_f1(confusion):
        return metrics.f1(confusion, "macro")

    by_matrix = decisions.tune_offsets(log_probabilities, targets, macro_f1)
    by_counts = decisions.tune_offsets(log_probabilities, targets, "f1_macro")
    torch.testing.assert_close(by_matrix, by_counts)


def test_a_metric_that_cannot_be_vectorised_is_looped_over():
    log_probabilities, targets = problem(300, 3)

    def branching(confusion):
        score = float(metrics.f1(confusion, "macro"))
        return score if score > 0 else 0.0

    assert not Merit(branching, 3).vectorised
    assert Merit("f1_macro", 3).vectorised

    plain = value(log_probabilities, targets, "f1_macro", torch.zeros(3))
    exact = decisions.tune_offsets(log_probabilities, targets, "f1_macro")
    looped = decisions.tune_offsets(log_probabilities, targets, branching)
    reached = value(log_probabilities, targets, "f1_macro", looped)
    gain = value(log_probabilities, targets, "f1_macro", exact) - plain
    assert reached - plain > 0.7 * gain > 0


@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize("exclusive", [True, False])
def test_few_tables_have_the_values_of_the_metric_itself(name, exclusive):
    try:
        merit = Merit(name, 3, exclusive=exclusive)
    except (TypeError, ValueError):
        pytest.skip("needs options, or is not for labels")
    generator = torch.Generator().manual_seed(0)
    truth = torch.randint(3, (20, 30), generator=generator)
    truth[:5] %= 2  # a class that is absent
    decisions = torch.randint(3, (20, 30), generator=generator)
    decisions[5:10] %= 2  # a class that is never predicted
    weight = torch.ones(30, 1, dtype=torch.float64)
    tables = torch.cat([merit.tables(*both, weight) for both in zip(truth, decisions, strict=True)])
    single = torch.stack([torch.as_tensor(merit._value(table)).double() for table in tables])
    sign = 1 if merit.metric.higher_is_better else -1
    expected = torch.nan_to_num(sign * single, nan=-torch.inf)
    torch.testing.assert_close(merit(tables).double(), expected)


def test_weight_two_equals_repetition_and_weight_zero_absence():
    log_probabilities, targets = problem(90, 3)
    weight = torch.randint(0, 3, (90,), generator=torch.Generator().manual_seed(0))
    repeated = torch.arange(90).repeat_interleave(weight)
    torch.testing.assert_close(
        decisions.tune_offsets(log_probabilities, targets, sample_weight=weight),
        decisions.tune_offsets(log_probabilities[repeated], targets[repeated]),
    )


def test_names_of_classes_do_not_matter():
    log_probabilities, targets = problem(200, 4)
    shuffle = torch.tensor([2, 0, 3, 1])
    inverse = shuffle.argsort()
    torch.testing.assert_close(
        decisions.tune_offsets(log_probabilities[:, shuffle], inverse[targets]),
        decisions.tune_offsets(log_probabilities, targets)[shuffle],
    )


def test_the_middle_of_the_best_interval_is_taken():
    odds = torch.tensor([-3.0, -2.0, 0.5, 1.0], dtype=torch.float64)
    log_probabilities = torch.stack([0 * odds, odds], 1)
    offsets = decisions.tune_offsets(log_probabilities, torch.tensor([0, 1, 1, 1]), "f1")
    # Any threshold between -3 and -2 is perfect.
    assert float(offsets[1] - offsets[0]) == pytest.approx(2.5)


def test_a_good_argmax_is_left_alone():
    log_probabilities = torch.tensor([[0.9, 0.1], [0.8, 0.2], [0.1, 0.9]]).log()
    offsets = decisions.tune_offsets(log_probabilities, torch.tensor([0, 0, 1]), "f1")
    assert torch.equal(offsets, torch.zeros(2))


def test_offsets_stay_within_reach():
    odds = torch.tensor([-9.0, -8.0, -7.0])
    log_probabilities = torch.stack([0 * odds, odds], 1)
    targets = torch.tensor([0, 1, 1])
    assert decisions.tune_offsets(log_probabilities, targets, "f1", max_offset=6.0)[1] > 3.5
    assert torch.equal(
        decisions.tune_offsets(log_probabilities, targets, "f1", max_offset=1.0), torch.zeros(2)
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_answer_has_the_dtype_of_the_scores_and_holds_in_it(dtype):
    log_probabilities, targets = problem(400, 3)
    scores = log_probabilities.to(dtype)
    offsets = decisions.tune_offsets(scores, targets)
    assert offsets.dtype == dtype
    in_dtype = f1_score(targets, decisions.decide(scores, offsets), average="macro")
    in_double = value(scores.double(), targets, "f1_macro", offsets)
    assert in_dtype == pytest.approx(in_double, abs=1e-12)


def test_arrays_and_tensors_give_the_same():
    log_probabilities, targets = problem(100, 3)
    from_arrays = decisions.tune_offsets(log_probabilities.numpy(), targets.numpy())
    assert torch.equal(from_arrays, decisions.tune_offsets(log_probabilities, targets))


def test_minus_infinity_is_a_class_out_of_reach():
    scores = torch.tensor([[0.0, -torch.inf], [-0.1, -2.0], [0.0, -3.0]])
    offsets = decisions.tune_offsets(scores, torch.tensor([0, 1, 0]), "f1")
    assert (scores + offsets).argmax(1).tolist() == [0, 1, 0]


def test_bounded_chunks_give_what_one_pass_gives(monkeypatch):
    log_probabilities, targets = problem(300, 3)
    whole = decisions.tune_offsets(log_probabilities, targets)
    monkeypatch.setattr("eastward.decisions._search.CELLS_AT_ONCE", 60)
    assert torch.equal(decisions.tune_offsets(log_probabilities, targets), whole)


def test_some_break_points_stand_for_all():
    log_probabilities, targets = problem(1000, 3, tail=1.5)
    sample, merit = class_sample("test", log_probabilities, targets, None), Merit("f1_macro", 3)
    plain = value(log_probabilities, targets, "f1_macro", torch.zeros(3))
    exact = tuned(sample, merit, 6.0, 3, "scan")
    thinned = tuned(sample, merit, 6.0, 3, "scan", max_candidates=60)
    gain = value(log_probabilities, targets, "f1_macro", exact) - plain
    assert not torch.equal(exact, thinned)
    assert value(log_probabilities, targets, "f1_macro", thinned) - plain > 0.7 * gain > 0


@pytest.mark.slow
def test_the_functions_need_no_scikit_learn():
    code = "import sys, eastward.decisions; sys.exit('sklearn' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_surrogate_comes_near_the_scan_and_is_chosen_by_method():
    log_probabilities, targets = problem(800, 5)
    plain = value(log_probabilities, targets, "f1_macro", torch.zeros(5))
    scan = decisions.tune_offsets(log_probabilities, targets, method="scan")
    surrogate = decisions.tune_offsets(log_probabilities, targets, method="surrogate")
    torch.testing.assert_close(surrogate, decisions.anneal_offsets(log_probabilities, targets))
    gain = value(log_probabilities, targets, "f1_macro", scan) - plain
    assert value(log_probabilities, targets, "f1_macro", surrogate) - plain > 0.5 * gain > 0


def test_bagging_is_repeatable_centred_and_generalises():
    log_probabilities, targets = problem(500, 4, tail=1.0)
    first = decisions.bagged_offsets(log_probabilities, targets, random_state=1)
    assert torch.equal(first, decisions.bagged_offsets(log_probabilities, targets, random_state=1))
    assert not torch.equal(first, decisions.bagged_offsets(log_probabilities, targets))
    assert float(first.mean()) == pytest.approx(0, abs=1e-9)
    fresh, truth = problem(20_000, 4, seed=9)
    assert (
        value(fresh, truth, "f1_macro", first) > value(fresh, truth, "f1_macro", 0 * first) + 0.02
    )


def test_bagged_offsets_vary_less_than_single_ones():
    samples = [problem(150, 2, seed=seed, tail=2.0) for seed in range(12)]
    single = torch.stack([decisions.tune_offsets(*sample, "f1") for sample in samples])
    bagged = torch.stack([decisions.bagged_offsets(*sample, "f1") for sample in samples])
    assert bagged[:, 1].std() < single[:, 1].std()


def labels_problem(num_samples: int, num_labels: int, seed: int = 0):
    generator = torch.Generator().manual_seed(seed)
    odds = torch.randn(num_samples, num_labels, generator=generator, dtype=torch.float64) * 2 - 1.5
    noise = torch.rand(num_samples, num_labels, generator=generator, dtype=torch.float64)
    return odds, (noise < odds.sigmoid()).long()


def label_value(odds, targets, metric, offsets) -> float:
    given = odds + offsets > 0
    on, off = targets == 1, targets == 0
    table = ((given & on), (given & off), (~given & on), (~given & off))
    counts = Counts(*(part.double().sum(0) for part in table), exclusive=False)
    return float(metrics.as_metric(metric)(counts))


def test_macro_thresholds_are_the_optimum_of_each_label():
    odds, targets = labels_problem(80, 3)
    offsets = decisions.multilabel_thresholds(odds, targets, "f1_macro", max_offset=50.0)
    for label in range(3):
        cuts = odds[:, label].sort().values
        cuts = torch.cat([cuts[:1] - 1, (cuts[1:] + cuts[:-1]) / 2, cuts[-1:] + 1])
        scores = [f1_score(targets[:, label], odds[:, label] > cut) for cut in cuts]
        reached = f1_score(targets[:, label], odds[:, label] + offsets[label] > 0)
        assert reached == pytest.approx(max(scores))


@pytest.mark.parametrize("metric", ["f1_micro", "f1_weighted", "accuracy", "matthews_corrcoef"])
def test_other_multilabel_metrics_are_never_worse_than_one_half(metric):
    odds, targets = labels_problem(150, 3)
    offsets = decisions.multilabel_thresholds(odds, targets, metric)
    plain = label_value(odds, targets, metric, torch.zeros(3))
    assert label_value(odds, targets, metric, offsets) >= plain


def test_micro_thresholds_beat_a_grid_of_common_ones():
    odds, targets = labels_problem(150, 2)
    offsets = decisions.multilabel_thresholds(odds, targets, "f1_micro")
    common = [
        label_value(odds, targets, "f1_micro", torch.full((2,), shift))
        for shift in np.linspace(-3, 3, 61)
    ]
    assert label_value(odds, targets, "f1_micro", offsets) >= max(common) - 1e-12


def test_each_label_is_searched_beside_the_others_as_they_are_decided_now():
    odds, targets = labels_problem(50, 2)
    offsets = torch.tensor([0.0, 1.5], dtype=torch.float64)
    sample = _label_sample("f", odds, targets, None)
    given = odds[:, 1] + 1.5 > 0
    # True positives and predictions of both labels before any sample gets the first one.
    expected = [0.0, float((given & (targets[:, 1] == 1)).sum()), 0.0, float(given.sum())]
    assert _label_moves(sample, offsets, 0).start.tolist() == expected


def test_a_label_without_positives_is_not_given():
    odds, targets = labels_problem(60, 2)
    targets[:, 1] = 0
    offsets = decisions.multilabel_thresholds(odds, targets, "f1_macro", max_offset=20.0)
    assert not bool((odds + offsets > 0)[:, 1].any())


def test_cheapest_decisions_are_those_of_the_formula():
    probabilities = torch.rand(50, 3, generator=torch.Generator().manual_seed(0))
    probabilities = probabilities / probabilities.sum(1, keepdim=True)
    cost = torch.tensor([[0.0, 1.0, 4.0], [2.0, 0.0, 1.0], [9.0, 3.0, 0.0]])
    by_hand = [
        min(range(3), key=lambda j: float(sum(p[i] * cost[i, j] for i in range(3))))
        for p in probabilities
    ]
    assert decisions.cheapest(probabilities, cost).tolist() == by_hand
    expected = (probabilities @ cost).min(1).values
    abstained = decisions.cheapest(probabilities, cost, abstain_cost=0.9) == decisions.ABSTAIN
    assert torch.equal(abstained, expected > 0.9)
    assert 0 < int(abstained.sum()) < 50


def test_decide_adds_the_offsets():
    scores = torch.tensor([[0.0, -0.5], [0.0, -1.5]])
    assert decisions.decide(scores).tolist() == [0, 0]
    assert decisions.decide(scores, [0.0, 1.0]).tolist() == [1, 0]


def test_smoothed_rows_are_the_labels_when_labels_have_it_all():
    logs = torch.full((4, 3), 1 / 3).log()
    rows, classes, weights = smoothed_rows(logs, torch.tensor([0, 2, 1, 2]), 1.0)
    assert (rows.tolist(), classes.tolist()) == ([0, 1, 2, 3], [0, 2, 1, 2])
    assert weights.tolist() == [1.0] * 4


def test_smoothed_rows_keep_the_weight_of_every_row():
    logs = torch.from_numpy(np.log(np.random.default_rng(0).dirichlet(np.ones(5), size=20)))
    rows, _, weights = smoothed_rows(logs, torch.arange(20) % 5, 0.25)
    assert np.bincount(rows, weights) == pytest.approx(np.ones(20))


def test_smoothed_offsets_with_labels_alone_are_bagged_offsets():
    scores, targets = problem(200, 3)
    ours = decisions.smoothed_offsets(scores, targets, "f1_macro", label_share=1.0, n_bags=4)
    assert torch.equal(ours, decisions.bagged_offsets(scores, targets, "f1_macro", n_bags=4))


def test_smoothed_offsets_follow_the_optimum_of_expected_f1():
    # Where labels have no say, the threshold must be that of the probabilities: half of the best expected F1.
    generator = torch.Generator().manual_seed(0)
    p = torch.rand(4000, generator=generator, dtype=torch.float64) ** 3
    scores = torch.stack([1 - p, p], 1).log()
    offsets = decisions.smoothed_offsets(scores, torch.zeros(4000).long(), "f1", label_share=0.0)
    threshold = float(torch.sigmoid(offsets[0] - offsets[1]))
    order = p.sort(descending=True).values
    expected = 2 * order.cumsum(0) / (torch.arange(1, 4001) + p.sum())
    assert threshold == pytest.approx(float(expected.max()) / 2, abs=0.02)


def test_smoothed_offsets_refuse_a_share_beyond_one():
    scores, targets = problem(20, 2)
    with pytest.raises(ValueError, match=r"label_share of smoothed_offsets must be in \[0, 1\]"):
        decisions.smoothed_offsets(scores, targets, label_share=1.5)


def test_folds_share_out_every_class():
    targets = torch.tensor([0] * 20 + [1] * 10 + [2] * 5)
    folds = decisions.stratified_folds(targets, 5, seed=3)
    for label, share in ((0, 4), (1, 2), (2, 1)):
        assert torch.bincount(folds[targets == label], minlength=5).tolist() == [share] * 5


def test_gain_of_decisions_is_paired_and_covers_the_truth():
    generator = np.random.default_rng(0)
    truth = generator.integers(2, size=400)
    before = np.where(generator.random(400) < 0.7, truth, 1 - truth)
    after = np.where(generator.random(400) < 0.2, truth, before)
    found = decisions.decision_gain(before, after, truth, "accuracy", num_classes=2)
    assert found.before == pytest.approx((before == truth).mean())
    assert found.gain == pytest.approx(found.after - found.before)
    assert found.low < found.gain < found.high
    assert found.low > 0
    same = decisions.decision_gain(before, before, truth, "f1", num_classes=2)
    assert (same.gain, same.low, same.high) == (0, 0, 0)


GOOD = torch.tensor([[0.5, 0.5], [0.2, 0.8]]).log(), torch.tensor([0, 1])


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: decisions.tune_offsets([[1, 2]], [0]), TypeError, "must be floating point"),
        (lambda: decisions.tune_offsets(torch.zeros(3), [0]), ValueError, r"shape \(N, C\)"),
        (lambda: decisions.tune_offsets(torch.zeros(3, 1), [0] * 3), ValueError, "C >= 2"),
        (lambda: decisions.tune_offsets(GOOD[0], [0]), ValueError, r"shape \(2,\)"),
        (lambda: decisions.tune_offsets(GOOD[0], [0, 2]), ValueError, r"in \[0, 2\)"),
        (lambda: decisions.tune_offsets(GOOD[0] * torch.nan, [0, 1]), ValueError, "free of NaN"),
        (lambda: decisions.tune_offsets(*GOOD, max_offset=0), ValueError, "max_offset .* > 0"),
        (lambda: decisions.tune_offsets(*GOOD, max_sweeps=0), ValueError, "max_sweeps .* >= 1"),
        (lambda: decisions.tune_offsets(*GOOD, method="grid"), ValueError, "'scan'"),
        (lambda: decisions.tune_offsets(*GOOD, sample_weight=[-1, 1]), ValueError, ">= 0"),
        (lambda: decisions.tune_offsets(*GOOD, sample_weight=[0, 0]), ValueError, "zeros only"),
        (lambda: decisions.tune_offsets(*GOOD, sample_weight=[1]), ValueError, r"shape \(2,\)"),
        (lambda: decisions.bagged_offsets(*GOOD, n_bags=1.5), TypeError, "n_bags .* an integer"),
        (lambda: decisions.anneal_offsets(*GOOD, steps=0), ValueError, "steps .* >= 1"),
        (lambda: decisions.anneal_offsets(*GOOD, temperatures=[1.0]), ValueError, r"\(0, 0.4\]"),
        (lambda: decisions.multilabel_thresholds(GOOD[0], [0, 1]), ValueError, "per label"),
        (lambda: decisions.multilabel_thresholds(GOOD[0], [[0, 2]] * 2), ValueError, "0 or 1"),
        (lambda: decisions.decide(GOOD[0], [1.0]), ValueError, "one per class"),
        (lambda: decisions.cheapest(GOOD[0], [[0, 1], [1, 0]]), ValueError, "not logits"),
        (lambda: decisions.cheapest(GOOD[0].exp(), [[0, 1]]), ValueError, r"shape \(2, 2\)"),
    ],
)
def test_bad_input_is_named(call, error, message):
    with pytest.raises(error, match=message) as caught:
        call()
    assert "must be" in str(caught.value)
