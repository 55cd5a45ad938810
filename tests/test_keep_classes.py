"""A decision gives up no class that its metric counts."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from eastward import decisions, metrics
from eastward.decisions import estimating


def problem(counts, seed=0, signal=1.0):
    """Log-probabilities of a fair model, and labels with the given number of rows of each class."""
    rng = np.random.default_rng(seed)
    targets = np.repeat(np.arange(len(counts)), counts)
    prior = np.maximum(counts, 0.5) / np.sum(counts)
    scores = rng.normal(size=(len(targets), len(counts))) + np.log(prior)
    scores[np.arange(len(targets)), targets] += signal
    return torch.from_numpy(scores).log_softmax(1), torch.from_numpy(targets)


def given(scores, offsets):
    return np.bincount((scores + offsets).argmax(1), minlength=scores.shape[1])


def fewest(counts):
    """What the documentation asks for, by hand."""
    return np.array([min(n, max(3, -(-n // 2))) for n in counts])


COUNTS = [200, 60, 12, 5, 2]


@pytest.mark.parametrize("metric", ["f1_macro", "balanced_accuracy", "jaccard_macro", "f2"])
@pytest.mark.parametrize("seed", range(5))
def test_every_class_is_given_half_of_its_rows_or_three(metric, seed):
    metric = metrics.get("f_beta", beta=2) if metric == "f2" else metrics.get(metric)
    scores, targets = problem(COUNTS, seed)
    lowered = torch.tensor([0.0, 0.0, -2.0, -2.0, -2.0], dtype=torch.float64)
    assert (given(scores, lowered) < fewest(COUNTS)).any()
    kept = decisions.keep_classes(lowered, scores, targets, metric)
    assert (given(scores, kept) >= fewest(COUNTS)).all()
    assert kept.mean().item() == pytest.approx(0, abs=1e-9)


def test_no_more_is_done_than_is_necessary():
    scores, targets = problem(COUNTS)
    lowered = decisions.keep_classes(torch.zeros(5), scores, targets)
    lowered[2] -= 3.0
    before, after = (
        given(scores, offsets)
        for offsets in (lowered, decisions.keep_classes(lowered, scores, targets))
    )
    short = before < fewest(COUNTS)
    assert short.tolist() == [False, False, True, False, False]
    assert after[2] == fewest(COUNTS)[2]


def test_offsets_that_give_up_nothing_stay_as_they_are():
    scores, targets = problem(COUNTS, signal=3.0)
    offsets = decisions.bagged_offsets(scores, targets, "balanced_accuracy") + 0.25
    assert (given(scores, offsets) >= fewest(COUNTS)).all()
    assert torch.equal(decisions.keep_classes(offsets, scores, targets), offsets)


COST = (1 - np.eye(5)).tolist()


@pytest.mark.parametrize(
    "metric",
    [
        metrics.get("accuracy"),
        metrics.get("f1_micro"),
        metrics.get("f1_weighted"),
        metrics.get("matthews_corrcoef"),
        metrics.get("precision_macro"),
        metrics.get("expected_cost", cost=COST),
        lambda confusion: confusion.diagonal().sum() / confusion.sum(),
    ],
    ids=lambda metric: getattr(metric, "name", "callable"),
)
def test_a_metric_that_rare_classes_hardly_move_may_give_them_up(metric):
    scores, targets = problem(COUNTS)
    lowered = torch.tensor([0.5, 0.5, 0.0, 0.0, -1.0], dtype=torch.float64)
    assert torch.equal(decisions.keep_classes(lowered, scores, targets, metric), lowered)


def test_a_callable_counts_the_classes_that_it_counts():
    def recall_of_the_third(confusion):
        return confusion[2, 2] / confusion[2].sum().clamp_min(1e-30)

    scores, targets = problem(COUNTS)
    lowered = torch.tensor([1.0, 1.0, -4.0, -4.0, -4.0], dtype=torch.float64)
    after = given(scores, decisions.keep_classes(lowered, scores, targets, recall_of_the_third))
    assert after[2] == fewest(COUNTS)[2]
    assert after[3:].tolist() == [0, 0]


@pytest.mark.parametrize(
    ("metric", "kept"), [("f1", [1]), ("specificity", [0]), ("f1_macro", [0, 1])]
)
def test_of_two_classes_those_are_kept_that_the_metric_is_about(metric, kept):
    scores, targets = problem([40, 40], signal=0.5)
    for label in (0, 1):
        away = torch.zeros(2, dtype=torch.float64)
        away[label] = -9.0
        assert given(scores, away)[label] == 0
        after = given(scores, decisions.keep_classes(away, scores, targets, metric))
        assert after[label] == (20 if label in kept else 0)


def test_a_class_without_held_out_rows_is_not_lowered():
    scores, targets = problem([80, 40, 0, 0], signal=2.0)
    offsets = torch.tensor([0.5, 0.7, -2.0, 0.8], dtype=torch.float64)
    kept = decisions.keep_classes(offsets, scores, targets)
    # An offset is read against the mean of all; those of the other classes keep their distances.
    assert kept[2] - kept[0] == pytest.approx(0.0 - 0.5)
    assert kept[3] - kept[0] == pytest.approx(0.3)
    assert torch.equal(decisions.keep_classes(offsets, scores, targets, "accuracy"), offsets)


def test_rows_beyond_reach_are_left_alone():
    scores, targets = problem([30, 30, 4], signal=4.0)
    scores[:, 2] = -100.0
    offsets = torch.zeros(3, dtype=torch.float64)
    assert torch.equal(decisions.keep_classes(offsets, scores, targets), offsets)
    scores[:2, 2] = scores[:2, :2].max(1).values - 4.0
    kept = decisions.keep_classes(offsets, scores, targets)
    assert given(scores, kept)[2] == 2
    assert torch.equal(decisions.keep_classes(offsets, scores, targets, max_offset=3.0), offsets)


def test_rows_of_no_weight_do_not_exist():
    scores, targets = problem([50, 8], signal=0.3)
    weight = torch.ones(58)
    weight[-4:] = 0
    away = torch.tensor([4.0, -4.0], dtype=torch.float64)
    kept = decisions.keep_classes(away, scores, targets, sample_weight=weight)
    alone = decisions.keep_classes(away, scores[:-4], targets[:-4])
    assert torch.equal(kept, alone)


@pytest.mark.parametrize("scale", [1.0, 7.0])
def test_under_weights_the_weight_of_rows_counts_and_not_their_number(scale):
    scores, targets = problem([60, 20], signal=0.3)
    weight = scale * torch.where(targets == 1, 4.0, 1.0).double()
    away = torch.tensor([4.0, -4.0], dtype=torch.float64)
    kept = decisions.keep_classes(away, scores, targets, "f1", sample_weight=weight)
    decided = (scores + kept).argmax(1)
    assert weight[decided == 1].sum() >= scale * 10 * 4.0
    assert (decided == 1).sum() > 10, "rows of the other class weigh less"
    nothing = torch.where(targets == 1, 1e-6, 1e3).double()
    hardly = decisions.keep_classes(away, scores, targets, "f1", sample_weight=nothing)
    assert given(scores, hardly)[1] <= 10


def test_too_many_cells_are_not_searched(monkeypatch):
    scores, targets = problem([50, 8], signal=0.3)
    away = torch.tensor([4.0, -4.0], dtype=torch.float64)
    monkeypatch.setattr(estimating, "SCAN_BUDGET", 58 * 4 - 1)
    assert torch.equal(decisions.keep_classes(away, scores, targets), away)


def test_offsets_of_another_length_are_refused():
    scores, targets = problem([50, 8])
    with pytest.raises(ValueError, match=r"offsets of keep_classes must be of shape \(2,\)"):
        decisions.keep_classes([0.0, 1.0, 2.0], scores, targets)
