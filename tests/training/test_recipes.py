"""The recipes: what each stage says, and what the loop makes of it."""

from __future__ import annotations

import pytest
import torch
from small_runs import cpu, same_state, small_members, small_rows

from eastward.annealing import ALIGNED_LADDER as LADDER
from eastward.losses import metric_loss
from eastward.metrics import get
from eastward.training import Callback, recipe_stages, train_members
from eastward.training.loop import new_run
from eastward.training.stages import BTG_THRESHOLDS

OPTIONS = {
    "max_epochs": 200,
    "learning_rate": 1e-2,
    "batch_size": 32,
    "patience": 3,
    "aligned": True,
    "temperature": 0.2,
    "cooling_rate": 0.5,
    "max_cold_steps": 2,
}


class Recorder(Callback):
    """Keeps weights and validation loss of every epoch."""

    def __init__(self):
        self.states, self.losses = [], []

    def epoch_end(self, run):
        self.states.append(run.members.member_state(0))
        self.losses.append(run.valid_losses[0].item())


def train(recipe, counts=(60, 40, 20), folds=1, metric="f1_macro", **changes):
    rows = small_rows(folds=folds, counts=counts)
    members, recorder = small_members(rows), Recorder()
    result = train_members(
        members,
        rows,
        recipe_stages(recipe, **{**OPTIONS, **changes}),
        metric=get(metric),
        fabric=cpu(),
        generator=torch.Generator().manual_seed(0),
        callbacks=[recorder],
    )
    return members, result, recorder


def replayed_plateaus(losses, patience, max_cold_steps):
    """How often the papers' procedure had cooled before each epoch, and after how many epochs it ends."""
    coolings, counts, best, barren = 0, [], float("inf"), 0
    best_here, waited, improved = float("inf"), 0, False
    for loss in losses:
        counts.append(coolings)
        improved = improved or loss < best
        best = min(best, loss)
        waited = 0 if loss < best_here else waited + 1
        best_here = min(best_here, loss)
        if waited == patience:
            coolings, barren = coolings + 1, 0 if improved else barren + 1
            best_here, waited, improved = float("inf"), 0, False
            if barren == max_cold_steps:
                return counts
    return counts


@pytest.mark.slow
def test_the_paper_recipe_cools_on_plateaus_stops_and_keeps_the_lowest_loss():
    members, result, recorder = train("paper")
    losses = [record["valid_loss"] for record in result.history]
    coolings = replayed_plateaus(losses, patience=3, max_cold_steps=2)
    assert len(coolings) == len(result.history) < 200, "it stopped by itself"
    assert coolings[-1] >= 2
    expected = [0.2 * 0.5**k for k in coolings]
    assert [record["temperature"] for record in result.history] == pytest.approx(expected)
    best = losses.index(min(losses))
    assert same_state(members.member_state(0), recorder.states[best])


def test_the_paper_recipe_starts_from_scratch_with_shuffled_batches_and_the_dynamic_threshold():
    (stage,) = recipe_stages("paper", **OPTIONS)
    assert stage.threshold == "top2"
    assert not stage.stratified
    assert not stage.from_decision
    assert stage.guard == "warn", "the published procedure is left as it is"


def test_btg_has_one_temperature_and_a_grid_of_thresholds():
    _, result, _ = train("btg", counts=(60, 30), metric="f1", max_epochs=5)
    assert {record["temperature"] for record in result.history} == {0.2}
    (stage,) = recipe_stages("btg", **OPTIONS)
    assert stage.threshold == BTG_THRESHOLDS == tuple(k / 10 for k in range(1, 10))


def test_btg_minimises_the_mean_over_the_grid():
    rows = small_rows(folds=1, counts=(60, 30))
    (stage,) = recipe_stages("btg", **OPTIONS)
    run = new_run(stage, small_members(rows), rows, get("f1"), cpu(), torch.Generator())
    logits, targets = torch.randn(1, 40, 2), torch.randint(2, (1, 40))
    grid = [metric_loss(logits[0], targets[0], "f1", threshold=t) for t in BTG_THRESHOLDS]
    torch.testing.assert_close(run.objective(logits, targets, None)[0], torch.stack(grid).mean())


def test_cross_entropy_stops_by_patience_and_keeps_the_lowest_loss():
    members, result, recorder = train("cross_entropy", learning_rate=0.1)
    best = recorder.losses.index(min(recorder.losses))
    assert len(result.history) == best + 1 + 3
    assert same_state(members.member_state(0), recorder.states[best])
    assert {record["temperature"] for record in result.history} == {None}


def test_methods_differ_in_the_objective_alone():
    cross_entropy, btg, paper = (
        recipe_stages(name, **OPTIONS)[0] for name in ("cross_entropy", "btg", "paper")
    )
    for name in ("max_epochs", "learning_rate", "batch_size", "weight_decay", "stratified"):
        values = {getattr(stage, name) for stage in (cross_entropy, btg, paper)}
        assert len(values) == 1, name


def test_the_default_recipe_warms_up_and_then_follows_the_ladder():
    _, result, _ = train("auto", folds=2, learning_rate=0.1)
    warm = [record for record in result.history if record["stage"] == "cross-entropy"]
    cold = [record for record in result.history if record["stage"] == "aligned"]
    assert warm[0] is result.history[0]
    assert [record["temperature"] for record in cold] == list(LADDER)
    assert list(LADDER) == sorted(LADDER, reverse=True)


@pytest.mark.parametrize("epochs", [10, 24, 36])
def test_the_metric_is_trained_as_long_as_cross_entropy_was(epochs):
    # A network that learns slowly stops at the limit of epochs.
    _, result, _ = train("auto", folds=2, learning_rate=1e-5, max_epochs=epochs)
    cold = [r["temperature"] for r in result.history if r["stage"] == "aligned"]
    assert len(result.history) == 2 * epochs
    assert cold == [LADDER[k * 24 // max(epochs, 24)] for k in range(epochs)]


def test_a_quick_cross_entropy_does_not_shorten_the_metrics_stage():
    _, result, _ = train("auto", folds=2, learning_rate=0.1, patience=1)
    warm = sum(record["stage"] == "cross-entropy" for record in result.history)
    assert warm < len(LADDER) == len(result.history) - warm


@pytest.mark.parametrize("batch_size", [32, 1024])
def test_by_default_every_batch_of_the_metric_has_every_class(batch_size):
    """What the study of batch sizes recommends: stratified, corrected by the prior, 256 rows or more."""
    warm, aligned = recipe_stages("auto", **{**OPTIONS, "batch_size": batch_size})
    assert (warm.stratified, warm.batch_size) == (False, batch_size)
    assert (aligned.stratified, aligned.batch_size) == (True, max(256, batch_size))


def test_the_aligned_stage_can_be_switched_off():
    stages = recipe_stages("auto", **{**OPTIONS, "aligned": False})
    assert stages == recipe_stages("cross_entropy", **OPTIONS)


def test_an_unknown_recipe_is_refused_with_a_suggestion():
    with pytest.raises(
        ValueError, match=r"recipe of EASTClassifier must be one of .*'papers'.*'paper'"
    ):
        recipe_stages("papers", **OPTIONS)
