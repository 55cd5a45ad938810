"""The part of a report that says how decisions fare on held-out rows."""

from __future__ import annotations

import json
import time

import numpy as np
import pytest
import scipy.stats
import sklearn.metrics
import torch

import eastward as ew
from eastward.reporting import evaluation_summary
from eastward.reporting.bootstrap import bootstrap_confusions, metric_intervals

COSTLY = ew.metrics.get("expected_cost", cost=[[0, 1], [5, 0]])


def scored_rows(n: int, size: int, seed: int = 0, skew: float = 1.0):
    rng = np.random.default_rng(seed)
    share = float(skew) ** -np.arange(size)
    targets = rng.choice(size, n, p=share / share.sum())
    targets[:size] = np.arange(size)
    logits = rng.normal(size=(n, size)) + 1.5 * np.eye(size)[targets]
    return targets, logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))


def by_name(summary: dict) -> dict:
    return {row["name"]: row for row in summary["metrics"]}


def test_numbers_are_those_of_scikit_learn():
    targets, logs = scored_rows(400, 4, skew=2)
    offsets = np.array([0.0, 0.3, 0.5, 0.9])
    summary = evaluation_summary(targets, logs, list("abcd"), "f1_macro", offsets=offsets)
    decisions = (logs + offsets).argmax(axis=1)
    confusion = sklearn.metrics.confusion_matrix(targets, decisions)
    assert summary["confusion"] == confusion.tolist()
    assert summary["rows"] == 400
    precision, recall, f1, support = sklearn.metrics.precision_recall_fscore_support(
        targets, decisions, zero_division=0
    )
    for k, row in enumerate(summary["per_class"]):
        assert row["label"] == "abcd"[k]
        assert [row["precision"], row["recall"], row["f1"], row["support"]] == pytest.approx(
            [precision[k], recall[k], f1[k], support[k]]
        )
    values = by_name(summary)
    assert values["f1_macro"]["value"] == pytest.approx(f1.mean())
    mcc = sklearn.metrics.matthews_corrcoef(targets, decisions)
    assert values["matthews_corrcoef"]["value"] == pytest.approx(mcc)
    kappa = sklearn.metrics.cohen_kappa_score(targets, decisions, weights="quadratic")
    assert values["cohen_kappa_quadratic"]["value"] == pytest.approx(kappa)


@pytest.mark.parametrize("size", [2, 3])
def test_every_registered_metric_that_applies_is_there_and_the_target_comes_first(size):
    targets, logs = scored_rows(100, size)
    summary = evaluation_summary(targets, logs, range(size), "matthews_corrcoef", n_bootstrap=5)
    names = [row["name"] for row in summary["metrics"]]
    assert names[0] == "matthews_corrcoef"
    binary = {"f1", "precision", "recall", "specificity", "jaccard", "fowlkes_mallows"}
    left_out = {"expected_cost"} | (set() if size == 2 else binary)
    assert sorted(names) == sorted(set(ew.metrics.names()) - left_out)


def test_intervals_hold_the_value_and_shrink_with_more_rows():
    widths = []
    for n in (200, 5000):
        summary = evaluation_summary(*scored_rows(n, 3), list("abc"), "f1_macro")
        low, high = summary["metrics"][0]["interval"]
        assert low < summary["metrics"][0]["value"] < high
        widths.append(high - low)
    assert widths[1] < widths[0] / 3


def test_the_bootstrap_is_that_of_drawing_rows_within_each_class(rng):
    targets, logs = scored_rows(300, 3, skew=2)
    decisions, weight = logs.argmax(axis=1), rng.uniform(0.5, 2, 300)
    options = {"n_bootstrap": 3000, "random_state": 0}
    fast = np.concatenate(list(bootstrap_confusions(targets, decisions, weight, 3, **options)))
    slow = np.zeros((3000, 3, 3))
    for number in range(3000):
        for label in range(3):
            own = np.flatnonzero(targets == label)
            rows = rng.choice(own, len(own))
            slow[number, label] = np.bincount(decisions[rows], weights=weight[rows], minlength=3)
    assert fast.shape == slow.shape
    error = slow.std(axis=0) / np.sqrt(3000)
    assert np.all(np.abs(fast.mean(axis=0) - slow.mean(axis=0)) < 6 * error + 1e-9)
    assert fast.std(axis=0) == pytest.approx(slow.std(axis=0), rel=0.08)
    first = fast.reshape(3000, -1)
    second = slow.reshape(3000, -1)
    assert np.cov(first.T) == pytest.approx(np.cov(second.T), abs=0.12 * np.cov(second.T).max())


def test_unweighted_resamples_keep_the_size_of_every_class():
    targets, logs = scored_rows(500, 4, skew=3)
    tables = bootstrap_confusions(
        targets, logs.argmax(axis=1), np.ones(500), 4, n_bootstrap=50, random_state=1
    )
    for table in np.concatenate(list(tables)):
        assert table.sum(axis=1).tolist() == np.bincount(targets).tolist()


def test_weight_two_is_repetition_and_weight_zero_is_absence():
    targets, logs = scored_rows(200, 3)
    weight = np.random.default_rng(1).integers(0, 3, 200)
    weighted = evaluation_summary(targets, logs, list("abc"), "f1_macro", sample_weight=weight)
    rows = np.repeat(np.arange(200), weight)
    repeated = evaluation_summary(targets[rows], logs[rows], list("abc"), "f1_macro")
    assert weighted["confusion"] == repeated["confusion"]
    assert weighted["calibration"]["ece"] == pytest.approx(repeated["calibration"]["ece"])
    assert weighted["rows"] == int((weight > 0).sum())
    for first, second in zip(weighted["metrics"], repeated["metrics"], strict=True):
        assert first["value"] == pytest.approx(second["value"])


def test_a_cost_table_reaches_the_report():
    targets, logs = scored_rows(100, 2)
    cost = [[0, 1], [5, 0]]
    metric = ew.metrics.get("expected_cost", cost=cost)
    summary = evaluation_summary(targets, logs, ["no", "yes"], metric)
    confusion = np.array(summary["confusion"])
    assert summary["metrics"][0]["name"] == "expected_cost"
    assert summary["metrics"][0]["value"] == pytest.approx((confusion * cost).sum() / 100)
    assert summary["cost"] == cost


def test_a_metric_of_ones_own_may_branch_on_values():
    def half_of_the_best(confusion):
        recalls = confusion.diagonal() / confusion.sum(1)
        return recalls.max() / 2 if recalls.min() > 0.2 else torch.tensor(0.0)

    summary = evaluation_summary(
        *scored_rows(300, 3), list("abc"), half_of_the_best, n_bootstrap=30
    )
    first = summary["metrics"][0]
    best = max(row["recall"] for row in summary["per_class"])
    assert first["name"] == "half_of_the_best"
    assert first["value"] == pytest.approx(best / 2)
    assert first["interval"][0] < first["value"] < first["interval"][1]


def test_calibration_is_about_probabilities_not_about_offsets():
    targets, logs = scored_rows(500, 3)
    plain = evaluation_summary(targets, logs, list("abc"), "accuracy", n_bootstrap=0)
    moved = evaluation_summary(
        targets, logs, list("abc"), "accuracy", n_bootstrap=0, offsets=[5, 0, 0]
    )
    assert plain["calibration"] == moved["calibration"]
    assert plain["confusion"] != moved["confusion"]
    bins = plain["calibration"]["bins"]
    assert sum(row["count"] for row in bins) == 500
    accuracy = sum(row["accuracy"] * row["count"] for row in bins) / 500
    assert accuracy == pytest.approx(float((logs.argmax(1) == targets).mean()))


@pytest.mark.parametrize(
    ("targets", "decisions"),
    [([0] * 30 + [1] * 10, [0] * 30 + [1] * 10), ([0] * 30 + [1] * 2, [0] * 32), ([0, 1], [1, 0])],
    ids=["no mistake", "one class only", "two rows"],
)
def test_an_interval_is_never_a_point(targets, decisions):
    logs = np.log(np.where(np.eye(2)[decisions] > 0, 0.9, 0.1))
    summary = evaluation_summary(targets, logs, ["no", "yes"], "f1_macro")
    for row in summary["metrics"]:
        low, high = row["interval"]
        assert low <= row["value"] <= high
        assert high - low > 0.001, row["name"]
    assert summary["only_class"] == ("no" if sum(decisions) == 0 else None)


def test_without_a_mistake_an_interval_is_about_that_of_jeffreys():
    logs = np.log(np.where(np.eye(2)[[0] * 100 + [1] * 20] > 0, 0.9, 0.1))
    summary = evaluation_summary([0] * 100 + [1] * 20, logs, ["no", "yes"], "recall")
    low, high = by_name(summary)["recall"]["interval"]
    exact = scipy.stats.beta.ppf(0.025, 20.5, 0.5)
    assert high == 1
    assert 0 < low - exact < 0.06


def test_coverage_of_the_intervals_is_close_to_what_they_promise():
    rng = np.random.default_rng(0)
    sizes, rates = np.array([60, 25, 15]), np.array([0.97, 0.9, 0.8])
    chances = np.where(np.eye(3) > 0, rates[:, None], (1 - rates[:, None]) / 2)
    truth = float(ew.metrics.get("f1_macro")(torch.tensor(chances * sizes[:, None])))
    targets, covered = np.repeat([0, 1, 2], sizes), 0
    for seed in range(120):
        decisions = np.concatenate(
            [rng.choice(3, n, p=p) for n, p in zip(sizes, chances, strict=True)]
        )
        tables = bootstrap_confusions(
            targets, decisions, np.ones(100), 3, n_bootstrap=300, random_state=seed
        )
        low, high = metric_intervals([ew.metrics.get("f1_macro")], tables)[0]
        covered += low <= truth <= high
    assert covered >= 0.88 * 120


@pytest.mark.parametrize(
    ("metric", "expected"),
    [("f1_macro", ("no", 0.4)), ("recall", ("yes", 1.0)), (COSTLY, ("yes", 2 / 3))],
    ids=["f1_macro", "recall", "cost"],
)
def test_the_best_constant_answer_is_reported(metric, expected):
    logs = np.log([[0.9, 0.1], [0.8, 0.2], [0.3, 0.7]])
    constant = evaluation_summary([0, 0, 1], logs, ["no", "yes"], metric)["constant"]
    assert (constant["label"], constant["value"]) == (expected[0], pytest.approx(expected[1]))


@pytest.mark.parametrize("rows", [5, 70, 1000])
def test_bins_of_the_calibration_curve_have_rows_and_intervals(rows):
    targets, logs = scored_rows(rows, 3)
    calibration = evaluation_summary(targets, logs, list("abc"), "accuracy")["calibration"]
    counts = [row["count"] for row in calibration["bins"]]
    assert sum(counts) == rows
    assert min(counts) >= min(rows, 20)
    assert len(counts) <= 10
    for row in calibration["bins"]:
        low, high = row["interval"]
        assert 0 <= low <= row["accuracy"] <= high <= 1
        exact = scipy.stats.binomtest(round(row["accuracy"] * row["count"]), row["count"])
        assert [low, high] == pytest.approx(list(exact.proportion_ci(method="wilson")))
        assert row["low"] <= row["confidence"] <= row["high"]


def test_the_error_by_chance_is_that_of_labels_drawn_from_the_probabilities():
    rng = np.random.default_rng(0)
    p = rng.uniform(0.5, 1, 400)
    calibrated = (rng.random(400) > p).astype(int)
    logs = np.log(np.stack([p, 1 - p], axis=1))
    right = evaluation_summary(calibrated, logs, ["a", "b"], "accuracy")["calibration"]
    wrong = evaluation_summary(1 - calibrated, logs, ["a", "b"], "accuracy")["calibration"]
    assert right["ece"] == pytest.approx(right["chance"], abs=0.03)
    assert right["chance"] == wrong["chance"]
    assert wrong["ece"] > 5 * wrong["chance"]


def test_a_sample_of_scores_keeps_rare_classes_and_stands_for_all_rows():
    rng = np.random.default_rng(0)
    targets = (rng.random(20_000) < 0.01).astype(int)
    logits = rng.normal(size=(20_000, 2)) + 2 * np.eye(2)[targets]
    logs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    summary = evaluation_summary(targets, logs, ["no", "yes"], "f1", max_scores=1000)
    scores = summary["scores"]
    kept, weights = np.array(scores["targets"]), np.array(scores["weights"])
    assert len(kept) == len(scores["log_probabilities"]) == 1000
    assert kept.sum() == targets.sum()
    assert scores["sampled_from"] == 20_000
    for label in (0, 1):
        assert weights[kept == label].sum() == pytest.approx(np.sum(targets == label))
    decisions = np.array(scores["log_probabilities"]).argmax(axis=1)
    found = np.bincount(kept * 2 + decisions, weights=weights).reshape(2, 2)
    assert found == pytest.approx(np.array(summary["confusion"]), rel=0.1, abs=1)


def test_few_rows_are_all_kept_with_four_digits():
    targets, logs = scored_rows(50, 3)
    scores = evaluation_summary(targets, logs, list("abc"), "accuracy", n_bootstrap=0)["scores"]
    assert scores["weights"] is None
    assert scores["targets"] == targets.tolist()
    assert np.array(scores["log_probabilities"]) == pytest.approx(logs, abs=5e-5)


def test_more_classes_than_a_page_can_explore_carry_no_scores():
    targets, logs = scored_rows(600, 120)
    assert (
        evaluation_summary(targets, logs, range(120), "accuracy", n_bootstrap=2)["scores"] is None
    )


def test_impossible_classes_and_tensors_are_welcome_and_the_result_is_json():
    logs = torch.tensor([[0.0, -torch.inf], [-0.1053605, -2.3025851]])
    summary = evaluation_summary(torch.tensor([0, 1]), logs, [False, True], "f1")
    text = json.dumps(summary, allow_nan=False)
    assert json.loads(text) == summary
    assert summary["classes"] == ["False", "True"]


def test_the_same_seed_gives_the_same_summary_and_another_one_does_not():
    rows = scored_rows(3000, 3)
    first, again, other = (
        evaluation_summary(*rows, list("abc"), "f1_macro", random_state=seed) for seed in (0, 0, 1)
    )
    assert first == again
    assert first["metrics"][0]["interval"] != other["metrics"][0]["interval"]
    assert first["scores"]["targets"] != other["scores"]["targets"]


def test_five_hundred_bootstraps_of_two_thousand_rows_take_less_than_three_seconds():
    rows = scored_rows(2000, 10)
    evaluation_summary(*rows, range(10), "f1_macro", n_bootstrap=2)  # torch warms up once
    start = time.process_time()
    evaluation_summary(*rows, range(10), "f1_macro")
    assert time.process_time() - start < 3


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"log_probabilities": np.zeros((3, 2))}, "log_softmax"),
        ({"log_probabilities": np.full((3, 2), np.nan)}, "exponentials sum to 1"),
        ({"log_probabilities": np.log(np.full((3, 3), 1 / 3))}, r"shape \(N, 2\)"),
        ({"targets": [0, 1, 2]}, r"targets of evaluation_summary must be in \[0, 2\)"),
        ({"targets": [0, 1]}, r"targets of evaluation_summary must be of shape \(3,\)"),
        ({"offsets": [0.0]}, r"offsets of evaluation_summary must be of shape \(2,\)"),
        ({"offsets": [0.0, np.inf]}, "offsets of evaluation_summary must be finite"),
        (
            {"sample_weight": [1, -1, 1]},
            "sample_weight of evaluation_summary must be finite and >= 0",
        ),
        ({"sample_weight": [0, 0, 0]}, "positive for some row"),
        ({"n_bootstrap": -1}, "n_bootstrap of evaluation_summary must be >= 0"),
        ({"max_scores": 1}, "max_scores of evaluation_summary must be at least the 2 classes"),
    ],
)
def test_mistakes_are_named(change, sentence):
    arguments = {
        "targets": [0, 1, 1],
        "log_probabilities": np.log(np.full((3, 2), 0.5)),
        "classes": ["no", "yes"],
        "metric": "f1",
    }
    with pytest.raises(ValueError, match=sentence):
        evaluation_summary(**{**arguments, **change})
